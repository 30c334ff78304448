"""Which data feeds which source of a query: the meaning of ``--data``."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.markup import escape

from ..query import Query, Source
from .catalog import SETS, DataSet, StreamInfo
from .fetch import find_set, get_set, set_notes
from .readers import READERS, DataError, Loaded, known_columns, read

__all__ = ["Origin", "bind"]


@dataclass(frozen=True)
class FileOrigin:
    """A file of the person's own."""

    path: Path

    @property
    def label(self) -> str:
        return str(self.path)

    def load(self, names: Collection[str], *, drop: bool, console: Console) -> Loaded:
        with console.status(f"Reading {escape(self.label)}"):
            return read(self.path, names, drop=drop)


@dataclass(frozen=True)
class SetOrigin:
    """A stream of a set in the catalogue."""

    entry: DataSet
    stream: StreamInfo

    @property
    def label(self) -> str:
        return f"{self.entry.name}.{self.stream.name}"

    def load(self, names: Collection[str], *, drop: bool, console: Console) -> Loaded:
        wanted = known_columns(self.label, names, self.stream.schema.names)
        folder = get_set(self.entry.name, progress=console)
        table = pq.read_table(folder / f"{self.stream.name}.parquet", columns=wanted)
        notes = set_notes(folder, self.stream.name, wanted)
        return Loaded(table, notes=tuple(f"{self.entry.name}.{note}" for note in notes))


Origin = FileOrigin | SetOrigin


def bind(query: Query, data: Sequence[str]) -> dict[str, Origin]:
    """Return where the data of each source comes from, by alias.

    ``NAME=PATH``, ``NAME=SET`` and ``NAME=SET.STREAM`` feed the source with that alias, or else
    every source of that stream. A set alone feeds the sources of all streams that it offers under
    their names. Every source must be fed, and only once.
    """
    bound: dict[str, Origin] = {}
    for spec in data:
        for alias, origin in _origins(query, spec).items():
            if alias in bound:
                raise DataError(
                    f"--data {spec}: {alias} has its data already, from {bound[alias].label}"
                )
            bound[alias] = origin
    for source in query.sources:
        if source.alias not in bound:
            raise DataError(_no_data(source))
    return bound


def _origins(query: Query, spec: str) -> dict[str, Origin]:
    name, equals, value = spec.partition("=")
    if equals:
        sources = _named(query, spec, name)
        return {source.alias: _origin(spec, source.stream.name, value) for source in sources}
    if _is_path(spec):
        example = query.sources[0].stream.name
        raise DataError(
            f"--data {spec}: say which stream the file holds, such as --data {example}={spec}"
        )
    return _of_set(query, find_set(spec))


def _is_path(text: str) -> bool:
    return "/" in text or text.lower().endswith(tuple(READERS))


def _reads(query: Query) -> str:
    return ", ".join(dict.fromkeys(source.stream.name for source in query.sources))


def _offers(entry: DataSet) -> str:
    return ", ".join(stream.name for stream in entry.streams)


def _named(query: Query, spec: str, name: str) -> list[Source]:
    found = [source for source in query.sources if source.alias == name]
    found = found or [source for source in query.sources if source.stream.name == name]
    if not found:
        raise DataError(
            f"--data {spec}: the query reads no stream {name}; it reads {_reads(query)}"
        )
    return found


def _origin(spec: str, name: str, value: str) -> Origin:
    """Return the file or the stream that ``value`` names, for the stream ``name`` of the query."""
    if not value:
        raise DataError(f"--data {spec}: a file or a set must stand after the =")
    head, _, stream_name = value.partition(".")
    if _is_path(value) or (stream_name and head not in SETS):
        return FileOrigin(Path(value).expanduser())
    entry = find_set(head)
    stream = entry.stream(stream_name or name)
    if stream is None and not stream_name and len(entry.streams) == 1:
        stream = entry.streams[0]
    if stream is None:
        raise DataError(
            f"--data {spec}: the set {head} has no stream {stream_name or name}; it offers "
            f"{_offers(entry)}, as in --data {name}={head}.{entry.streams[0].name}"
        )
    return SetOrigin(entry, stream)


def _of_set(query: Query, entry: DataSet) -> dict[str, Origin]:
    found: dict[str, Origin] = {}
    for source in query.sources:
        stream = entry.stream(source.stream.name)
        if stream is not None:
            found[source.alias] = SetOrigin(entry, stream)
    if not found:
        example = f"{query.sources[0].stream.name}={entry.name}.{entry.streams[0].name}"
        raise DataError(
            f"--data {entry.name}: the set offers {_offers(entry)}, and the query reads "
            f"{_reads(query)}; to use one under another name: --data {example}"
        )
    return found


def _no_data(source: Source) -> str:
    name = source.stream.name
    alias = f" (as {source.alias})" if source.alias != name else ""
    offered = next((entry.name for entry in SETS.values() if entry.stream(name)), None)
    hint = f", or --data {offered} for the set that offers it" if offered else ""
    return f"There is no data for {name}{alias}: give --data {name}=PATH{hint}"
