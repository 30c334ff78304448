"""Fetch a set: download its package, check it, convert it to Parquet, keep it in the cache.

The cache is ``joinery`` in the person's cache folder, or ``$JOINERY_CACHE``. A set is one folder
with a Parquet file per stream and ``set.json``; it appears there whole or not at all, and however
a fetch ends, the next one starts clean.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from ..parse_text import did_you_mean
from ..tables import arrow_schema
from .catalog import SETS, DataSet, Package, StreamInfo
from .readers import DataError
from .values import convert

CONVERSION = 2  # raise it when builders or types change, so that old caches are not read


@dataclass(frozen=True)
class SetInfo:
    """A set as ``joinery data`` lists it. ``rows`` is by stream; ``size`` is the download's."""

    name: str
    description: str
    package: str
    licence: str
    size: int
    rows: dict[str, int]
    optional: bool
    cached: bool


def list_sets() -> list[SetInfo]:
    """Return what the catalogue offers, and whether it is in the cache."""
    return [
        SetInfo(
            name=entry.name,
            description=entry.description,
            package=str(entry.package),
            licence=entry.package.licence,
            size=entry.package.size,
            rows={stream.name: stream.rows for stream in entry.streams},
            optional=entry.optional,
            cached=set_folder(entry).exists(),
        )
        for entry in SETS.values()
    ]


def get_set(name: str, *, progress: Console | None = None) -> Path:
    """Return the folder of a set in the cache, one Parquet file per stream; fetch it if need be.

    Sets of the same package come together. Any number of processes may ask at once.
    """
    entry = find_set(name)
    folder = set_folder(entry)
    if folder.exists():
        return folder
    try:
        with _locked(entry.package):
            if not folder.exists():  # another process may have been faster
                _fetch(entry.package, progress or Console(quiet=True))
    except OSError as error:
        raise DataError(
            f"Cannot write to the cache {cache_folder()}: {error.strerror or error}; "
            "set JOINERY_CACHE to a folder that can be written"
        ) from error
    return folder


def find_set(name: str) -> DataSet:
    """Return the catalogue's entry, or raise an error that lists the sets."""
    if name in SETS:
        return SETS[name]
    raise DataError(
        f"There is no data set named {name}{did_you_mean(name, SETS)}; "
        f"the sets are: {', '.join(SETS)}"
    )


def cache_folder() -> Path:
    given = os.environ.get("JOINERY_CACHE")
    return Path(given) if given else Path(platformdirs.user_cache_dir("joinery"))


def set_folder(entry: DataSet) -> Path:
    return cache_folder() / "sets" / f"{entry.name}-v{CONVERSION}"


@contextlib.contextmanager
def _locked(package: Package) -> Iterator[None]:
    """Hold the lock of a package; it is released however the process ends."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{package.name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(package: Package, console: Console) -> None:
    """Bring every set of ``package`` that is missing."""
    missing = [
        entry
        for entry in SETS.values()
        if entry.package == package and not set_folder(entry).exists()
    ]
    drafts = f"fetch-{package.name}-"
    for left in cache_folder().glob(f"{drafts}*"):  # by a process that was killed
        shutil.rmtree(left)
    # Inside the cache, so that the last step is a rename within one file system.
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=drafts) as temporary:
        work = Path(temporary)
        with console.status(f"Downloading {package}, {package.size / 1e6:.1f} MB"):
            archive = _download(package, work)
        _check_package(package, archive)
        for entry in missing:
            with console.status(f"Converting {entry.name} to Parquet"):
                made = _convert_set(entry, archive, work)
            target = set_folder(entry)
            target.parent.mkdir(exist_ok=True)
            made.rename(target)
            _tell(entry, target, console)


def _download(package: Package, work: Path) -> Path:
    """Have the registry's own tool put the package into ``work``."""
    if package.registry == "pypi":
        # With the hash, pip takes that file and no other, and runs nothing of it before it fits.
        pinned = f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n"
        (work / "requirements.txt").write_text(pinned)
    commands = {
        "pypi": [
            *(sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--no-input"),
            *("--disable-pip-version-check", "--require-hashes", "-r", "requirements.txt"),
        ],
        "debian": ["apt-get", "download", "--quiet", package.name],
        "npm": ["npm", "pack", "--loglevel=error", f"{package.name}@{package.version}"],
    }
    command = commands[package.registry]
    tool = "pip" if package.registry == "pypi" else command[0]
    if shutil.which(command[0]) is None:
        raise DataError(f"Cannot fetch {package}: this machine has no {tool}; install it")
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    archives = [path for path in work.iterdir() if path.suffix in (".gz", ".tgz", ".whl", ".deb")]
    if done.returncode or len(archives) != 1:
        raise DataError(
            f"Cannot fetch {package}: {tool} said: {_complaint(done.stderr)}; "
            f"check the network and the settings of {tool}, then try again"
        )
    return archives[0]


def _complaint(said: str) -> str:
    """Return the first line of a tool's messages that tells of an error, or else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["nothing"]
    return next((line for line in lines if re.match("ERROR:|E:|npm err", line, re.I)), lines[-1])


def _check_package(package: Package, archive: Path) -> None:
    # Debian builds a package once per architecture and release: then only its files can be known.
    if package.registry == "debian" and archive.name != package.filename:
        return
    _check_sha256(f"{package}, {archive.name}", archive.read_bytes(), package.sha256)


def _check_sha256(what: str, data: bytes, expected: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise DataError(
            f"{what} is not the file that is expected: its SHA-256 is {found}, not {expected}; "
            "nothing of it was used"
        )


def _convert_set(entry: DataSet, archive: Path, work: Path) -> Path:
    """Write the streams of a set and ``set.json`` into a folder below ``work``."""
    files = list(_extract(entry, archive, work))
    made = work / "sets" / entry.name
    made.mkdir(parents=True)
    tables = entry.build(files)
    rounded = {}
    for stream in entry.streams:
        table, rounded[stream.name] = _typed(stream, tables[stream.name])
        pq.write_table(table, made / f"{stream.name}.parquet", compression="zstd")
    about = {"package": str(entry.package), "sha256": entry.package.sha256, "rounded": rounded}
    (made / "set.json").write_text(json.dumps(about, indent=2) + "\n")
    return made


def _extract(entry: DataSet, archive: Path, work: Path) -> Iterator[Path]:
    for number, inner in enumerate(entry.files):
        data = _member(archive, inner.path)
        _check_sha256(f"{inner.path} in {entry.package}", data, inner.sha256)
        path = work / f"{entry.name}-{number}-{Path(inner.path).name}"
        path.write_bytes(data)
        yield path


def _member(archive: Path, name: str) -> bytes:
    """Return one file of a wheel, a tar archive or a Debian package."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(name)
        with _tar(archive) as tar:
            member = tar.extractfile(name)
            if member is None:
                raise KeyError(name)
            return member.read()
    except KeyError:
        raise DataError(f"{archive.name} holds no file {name}") from None
    except (tarfile.TarError, zipfile.BadZipFile) as error:
        raise DataError(f"{archive.name} cannot be unpacked: {error}") from error


def _tar(archive: Path) -> tarfile.TarFile:
    if archive.suffix != ".deb":
        return tarfile.open(archive)
    if shutil.which("dpkg-deb") is None:
        raise DataError(f"Cannot unpack {archive.name}: this machine has no dpkg-deb; install it")
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    done = subprocess.run(command, capture_output=True, check=False)
    return tarfile.open(fileobj=io.BytesIO(done.stdout))


def _typed(stream: StreamInfo, table: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
    """Bring a stream to its declared types; say what was rounded, by column."""
    columns: list[pa.Array] = []
    rounded: dict[str, Any] = {}
    for field in stream.schema:
        found = convert(table[field.name], field.type)
        nulls = table[field.name].null_count
        if found.bad.sum() != (nulls if field.name in stream.nullable else 0):
            row = int(found.bad.argmax())
            raise DataError(f"{stream.name}: row {row + 1}, {field.name}: {found.problem(row)}")
        columns.append(found.values)
        if found.rounding.values:
            rounded[field.name] = asdict(found.rounding) | {"largest": str(found.rounding.largest)}
    if table.num_rows != stream.rows:
        raise DataError(f"{stream.name}: {stream.rows} rows were expected, not {table.num_rows}")
    return pa.table(columns, schema=arrow_schema(stream.schema)), rounded


def set_notes(folder: Path, stream: str, columns: Collection[str]) -> list[str]:
    """Say what was rounded when a stream was converted, one line for each of ``columns``."""
    about = json.loads((folder / "set.json").read_text())
    return [
        rounding_note(f"{stream}.{column}", note["values"], note["largest"])
        for column, note in about["rounded"][stream].items()
        if column in columns
    ]


def rounding_note(column: str, values: int, largest: object) -> str:
    return f"{column}: {values:,} values rounded, by {largest} at most"


def _tell(entry: DataSet, folder: Path, console: Console) -> None:
    rows = ", ".join(f"{stream.name} {stream.rows:,}" for stream in entry.streams)
    console.print(f"{entry.name}: {rows} rows; licence {entry.package.licence}")
    for stream in entry.streams:
        for note in set_notes(folder, stream.name, stream.schema.names):
            console.print(f"  {note}")
