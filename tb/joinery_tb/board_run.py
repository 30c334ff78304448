"""Prepared tuples through a board, real or simulated, into Parquet files."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from joinery_gen.data.prepare import MANIFEST
from joinery_gen.fjoin_host import CardLayout, FeedSettings, HostSettings, run_prepared
from joinery_gen.fjoin_host import Progress as CardProgress
from joinery_gen.link import Board, BoardCard, StreamRun
from joinery_gen.link.board import Progress
from joinery_gen.manifest import data_hash
from joinery_gen.query import Query

from .accepted import write_accepted
from .records import DATA, read_records, record_words
from .replay import join_halves
from .words import decode, decode_evictions, encode, result_files

__all__ = ["BoardReport", "run_board", "run_board_card"]


@dataclass(frozen=True)
class BoardReport:
    """A whole run: tuples sent and refused by source, the line, and the registers afterwards.

    The halves of 64-bit counters are put together.
    """

    tuples: dict[str, int]
    refused: dict[str, int]
    stream: StreamRun
    registers: dict[str, int]
    evicted: int = 0

    @property
    def tuples_in(self) -> int:
        return sum(self.tuples.values())

    @property
    def tuples_per_second(self) -> float:
        return self.tuples_in / self.stream.seconds

    def as_dict(self) -> dict[str, Any]:
        told = asdict(self)
        stream = told.pop("stream")
        refused_beats = len(stream.pop("refused"))
        return {
            **told,
            **stream,
            "refused_beats": refused_beats,
            "tuples_per_second": round(self.tuples_per_second),
        }


def run_board(
    board: Board,
    prepared: str | Path,
    out: str | Path,
    *,
    accepted: str | Path | None = None,
    evicted: str | Path | None = None,
    writes: Sequence[tuple[str, int]] = (),
    progress: Progress | None = None,
) -> BoardReport:
    """Send prepared tuples through ``board`` and write its rows to ``out``.

    ``out``, ``accepted`` and ``evicted`` are as for ``replay.simulate``. ``writes`` are registers
    by name, written one after the other ahead of the first beat.
    """
    top = board.top
    with tempfile.TemporaryDirectory(prefix="joinery-board-") as name:
        folder = Path(name)
        stimulus = encode(top, prepared, folder / "stimulus")
        for register, value in writes:
            board.write(register, value)
        padding = bytes(4 * record_words(top["output"]) - int(top["output"]["bytes"]))
        with (folder / "results").open("wb") as results:
            stream = board.run(
                _beats(top, stimulus.path), lambda row: results.write(row + padding), progress
            )
        registers = join_halves(board.registers())
        log = np.zeros(stimulus.transfers, dtype=bool)
        log[stream.refused] = True
        refused = {source: log[places] for source, places in stimulus.places.items()}
        if stream.refused and accepted is not None:
            write_accepted(Path(prepared), refused, Path(accepted))
        gone = decode_evictions(top, folder / "results")
        if len(gone) and evicted is not None:
            pq.write_table(gone, evicted)
        report = BoardReport(stimulus.tuples, _counts(refused), stream, registers, len(gone))
        used = Path(accepted) if stream.refused and accepted is not None else Path(prepared)
        for number, file in enumerate(result_files(top, out)):
            table = decode(top, folder / "results", number)
            file.parent.mkdir(exist_ok=True)
            pq.write_table(_with_metadata(table, board, used), file)
    return report


def run_board_card(
    query: Query,
    board: Board,
    prepared: str | Path,
    out: str | Path,
    *,
    feed: FeedSettings | None = None,
    host: HostSettings | None = None,
    watch: Callable[[CardProgress], None] = lambda progress: None,
) -> BoardReport:
    """Join prepared tuples on the card that ``board`` holds, and write the rows to ``out``.

    ``feed``, ``host`` and ``watch`` are as for `joinery_gen.fjoin_host.run_prepared`.
    """
    started, before = time.monotonic(), board.counts()
    run = run_prepared(
        query,
        Path(prepared),
        Path(out),
        BoardCard(board),
        CardLayout.from_dict(board.top["records"]),
        feed=feed,
        settings=host,
        facts=_facts(board),
        watch=watch,
    )
    registers = {**join_halves(board.registers()), "late": sum(run.late.values())}
    numbers = {name: count - before[name] for name, count in board.counts().items()}
    line = StreamRun(run.tuples_in, run.rows, [], time.monotonic() - started, **numbers)
    return BoardReport(run.tuples, dict.fromkeys(run.tuples, 0), line, registers)


def _facts(board: Board) -> dict[str, Any]:
    """What made the rows."""
    named = {name: board.top[name] for name in ("engine", "parameters", "versions")}
    return {**named, "port": board.path}


def _beats(top: Mapping[str, Any], stimulus: Path) -> Iterator[bytes]:
    """The ``tdata`` of every beat with data of a stimulus file; the end is the board's affair."""
    size = int(top["input"]["bytes"])
    for control, tdata in read_records(top, stimulus):
        if control & DATA:
            yield tdata.to_bytes(size, "little")


def _counts(which: dict[str, npt.NDArray[np.bool_]]) -> dict[str, int]:
    return {source: int(each.sum()) for source, each in which.items()}


def _with_metadata(table: pa.Table, board: Board, used: Path) -> pa.Table:
    manifest = used / MANIFEST
    facts = {
        "query": board.top["query"]["hash"],
        "data": data_hash(json.loads(manifest.read_text())) if manifest.is_file() else None,
        **_facts(board),
    }
    table = table.append_column("_row", pa.array(range(len(table)), pa.int64()))
    return table.replace_schema_metadata({"joinery": json.dumps(facts)})
