"""Bulk simulation: a stimulus file through a compiled design into a results file.

The harness (``replay_main.cpp`` in Verilator, ``replay_tb.v`` in Icarus) drives every cycle by
itself; this process only starts it and reads what it prints.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rich.console
import rich.progress

from joinery_gen.data.prepare import MANIFEST
from joinery_gen.manifest import data_hash
from joinery_gen.query import JoineryError

from . import toolchain
from .accepted import write_accepted
from .build import build_replay, last_lines, tool_versions
from .design import Design, DesignError
from .records import record_words
from .stalls import Stall, stall_numbers
from .words import decode, decode_evictions, encode, result_files

__all__ = ["PATIENCE", "ReplayReport", "SimReport", "replay", "simulate"]

PATIENCE = 1_000_000
"""Cycles without a transfer after which a design counts as stuck: far more than a scan of any
window takes, and a few seconds of simulation."""

FAULTS = {
    "extra": "The design sent something after the end of its output",
    "keep": "The design sent a transfer that holds neither whole rows nor an end "
    "(tkeep must be all ones or all zeros in each lane, and all zeros only with tlast)",
    "register": "A register did not answer",
    "setting": "A register did not take what was written to it",
    "unknown": "The design put unknown bits (x) on its interface",
}
"""What a design can do wrong, by the word that the harnesses print."""

TROUBLES = {
    "file": "The simulator could not open its files",
    "option": "The simulator did not understand its options",
    "write": "The results could not be written; is the disk full?",
}
"""What can go wrong around it."""

COUNTS = ("cycles", "beats", "refused", "results", "stalls_in", "stalls_out")
"""What the harnesses count for the report."""


@dataclass(frozen=True)
class ReplayReport:
    """What happened in one replay.

    ``cycles`` runs from the first cycle in which input is offered to the one in which the end
    leaves, both included. ``beats`` counts input transfers, the end too, ``refused`` those whose
    tuples the design refused, and ``results`` the rows that came out. A stall is a cycle in which
    one side offers and the other does not take. ``registers`` holds every register after the run,
    with the halves of 64-bit counters put together.
    """

    simulator: str
    version: str
    cycles: int
    beats: int
    refused: int
    results: int
    stalls_in: int
    stalls_out: int
    seconds: float
    registers: dict[str, int]

    @property
    def cycles_per_second(self) -> float:
        return self.cycles / self.seconds

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class SimReport:
    """A whole simulation: tuples offered and refused by source, rows out, and the replay between.

    ``evicted`` counts keys that lost their place. The replay counts refused transfers; ``as_dict``
    tells them as ``refused_transfers``.
    """

    path: Path
    tuples: dict[str, int]
    refused: dict[str, int]
    rows: int
    replay: ReplayReport
    evicted: int = field(default=0, kw_only=True)

    @property
    def tuples_in(self) -> int:
        return sum(self.tuples.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.replay.as_dict(),
            "tuples": self.tuples,
            "tuples_in": self.tuples_in,
            "refused": self.refused,
            "refused_transfers": self.replay.refused,
            "rows": self.rows,
            "evicted": self.evicted,
        }


def replay(
    design: Design | str | Path,
    stimulus: str | Path,
    results: str | Path,
    *,
    log: str | Path | None = None,
    times: str | Path | None = None,
    writes: Sequence[tuple[str, int]] = (),
    sim: str = "verilator",
    stall_in: Stall = 0.0,
    stall_out: Stall = 0.0,
    merge_rate: tuple[int, int] = (1, 1),
    seed: int = 1,
    patience: int = PATIENCE,
) -> ReplayReport:
    """Run ``stimulus`` through ``design`` and write what comes out to ``results``.

    ``log`` keeps the acceptance log: for each input transfer with data, whether it was refused.
    ``times`` is a folder for ``arrived`` and ``left``, with the cycle of each input transfer and of
    each result as 32-bit words; the first cycle is 1. ``writes`` are registers by name, written one
    after the other ahead of the first transfer.
    ``stall_in`` keeps the input from offering, ``stall_out`` the output from being taken. The same
    stalls and seed give the same cycles in both simulators. ``merge_rate`` gives the second clock
    of a design that has one, as edges per cycles of the first. Files appear when they are whole.
    """
    if not isinstance(design, Design):
        design = Design(design)
    total = _count_records(design, Path(stimulus))
    if log is not None:
        _check_parent(Path(log))
    binary = build_replay(design, sim)
    with _scratch_beside(Path(results)) as folder:
        addresses = folder / "registers"
        addresses.write_text("".join(f"{a:x}\n" for a in design.registers.values()))
        options = {
            "stimulus": Path(stimulus).resolve(),
            "results": folder / "results",
            "log": folder / "log",
            "arrived": folder / "arrived",
            "left": folder / "left",
            "registers": addresses,
            "writes": _write_list(design, writes, folder / "writes"),
            "patience": patience,
            "seed": seed & 0xFFFFFFFF,
            **_stall_options("in", stall_in),
            **_stall_options("out", stall_out),
            "merge_up": merge_rate[0],
            "merge_down": merge_rate[1],
        }
        command = [str(binary)] if sim == "verilator" else [toolchain.require("vvp"), str(binary)]
        command += [f"+{name}={value}" for name, value in options.items()]
        started = time.perf_counter()
        with _progress(design.top["name"], total) as advance:
            messages = run_harness(command, sim, advance)
        seconds = time.perf_counter() - started
        _check_log(messages.numbers)
        (folder / "results").replace(results)
        if log is not None:
            shutil.move(folder / "log", log)
        if times is not None:
            for name in ("arrived", "left"):
                shutil.move(folder / name, Path(times) / name)
    return ReplayReport(
        simulator=sim,
        version=toolchain.version(sim),
        **{name: messages.numbers[name] for name in COUNTS},
        seconds=seconds,
        registers=join_halves({n: messages.registers[a] for n, a in design.registers.items()}),
    )


def simulate(
    directory: str | Path,
    prepared: str | Path,
    out: str | Path,
    *,
    accepted: str | Path | None = None,
    evicted: str | Path | None = None,
    times: str | Path | None = None,
    writes: Sequence[tuple[str, int]] = (),
    sim: str = "verilator",
    pair: bool = True,
    stall_in: Stall = 0.0,
    stall_out: Stall = 0.0,
    merge_rate: tuple[int, int] = (1, 1),
    seed: int = 1,
    patience: int = PATIENCE,
) -> SimReport:
    """Run prepared tuples through the design in ``directory`` and write its rows to ``out``.

    ``out`` is a Parquet file: the columns of the query, and ``_row``, the position in the output;
    of a design that serves several queries it is a folder with such a file for each.
    Its ``joinery`` metadata names the query, the engine, the simulator and the cycles. Where the
    design refused tuples, the rows are those of the accepted ones, and these go to the folder
    ``accepted`` as a prepared input; where it refused none, nothing is written there. In the same
    way ``evicted`` gets a Parquet file with the keys that lost their place, if any did. ``times``
    and ``writes`` are as for ``replay``.
    """
    design = Design(directory)
    toolchain.check_simulator(sim)
    with _scratch_beside(Path(out)) as folder:
        stimulus = encode(design.top, prepared, folder / "stimulus", pair=pair)
        report = replay(
            design,
            stimulus.path,
            folder / "results",
            log=folder / "log",
            times=times,
            writes=writes,
            sim=sim,
            stall_in=stall_in,
            stall_out=stall_out,
            merge_rate=merge_rate,
            seed=seed,
            patience=patience,
        )
        log = np.fromfile(folder / "log", dtype=bool)
        refused = {source: log[places] for source, places in stimulus.places.items()}
        if report.refused and accepted is not None:
            write_accepted(Path(prepared), refused, Path(accepted))
        counts = {source: int(which.sum()) for source, which in refused.items()}
        gone = decode_evictions(design.top, folder / "results")
        if len(gone) and evicted is not None:
            pq.write_table(gone, folder / "evicted")
            (folder / "evicted").replace(evicted)
        rows = report.results - len(gone)
        result = SimReport(Path(out), stimulus.tuples, counts, rows, report, evicted=len(gone))
        used = Path(accepted) if report.refused and accepted is not None else Path(prepared)
        for number, file in enumerate(result_files(design.top, out)):
            table = decode(design.top, folder / "results", number)
            pq.write_table(_with_metadata(table, design, result, used), folder / "out")
            file.parent.mkdir(exist_ok=True)
            (folder / "out").replace(file)
    return result


def join_halves(registers: dict[str, int]) -> dict[str, int]:
    """Put every ``name_lo`` and ``name_hi`` together as ``name``."""
    joined: dict[str, int] = {}
    for name, value in registers.items():
        stem, _, half = name.rpartition("_")
        if half == "lo" and f"{stem}_hi" in registers:
            joined[stem] = registers[f"{stem}_hi"] << 32 | value
        elif not (half == "hi" and f"{stem}_lo" in registers):
            joined[name] = value
    return joined


def _with_metadata(table: pa.Table, design: Design, report: SimReport, used: Path) -> pa.Table:
    row = pa.array(range(len(table)), pa.int64())
    manifest = used / MANIFEST
    facts = {
        "query": design.top["query"]["hash"],
        "data": data_hash(json.loads(manifest.read_text())) if manifest.is_file() else None,
        "engine": design.top["engine"],
        "parameters": design.top["parameters"],
        "versions": {**design.top["versions"], **tool_versions(report.replay.simulator)},
        "simulation": report.as_dict(),
    }
    table = table.append_column("_row", row)
    return table.replace_schema_metadata({"joinery": json.dumps(facts)})


def _write_list(design: Design, writes: Sequence[tuple[str, int]], path: Path) -> Path:
    """Write the addresses and values of register writes for the harness."""
    words = [f"{design.registers[name]:x} {value & 0xFFFFFFFF:x}\n" for name, value in writes]
    path.write_text("".join(words))
    return path


def _count_records(design: Design, stimulus: Path) -> int:
    size = 4 * (1 + record_words(design.top["input"]))
    if not stimulus.is_file():
        raise JoineryError(f"There is no stimulus file {stimulus}")
    count, rest = divmod(stimulus.stat().st_size, size)
    if rest or not count:
        raise JoineryError(
            f"{stimulus} is not a stimulus for this design: its size is "
            f"{stimulus.stat().st_size} bytes, and records have {size}"
        )
    return count


def _stall_options(side: str, stall: Stall) -> dict[str, object]:
    chance, mask, period = stall_numbers(stall)
    return {f"chance_{side}": chance, f"mask_{side}": f"{mask:x}", f"period_{side}": period}


def _check_log(numbers: dict[str, int]) -> None:
    if numbers["decided"] != numbers["sent"]:
        raise DesignError(
            f"The design decided on {numbers['decided']} input transfers, "
            f"and {numbers['sent']} were sent"
        )


@dataclass
class Messages:
    """What a harness reported: numbers by name, and registers by address."""

    numbers: dict[str, int]
    registers: dict[int, int]


def run_harness(command: list[str], sim: str, advance: Callable[[int], None]) -> Messages:
    """Run the harness to its end and return what it reported."""
    messages = Messages({}, {})
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,  # vvp would wait for a person at a prompt
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=toolchain.environment(sim),
        )
        try:
            assert process.stdout is not None
            with process.stdout:
                for line in process.stdout:
                    _read_message(line.split(), messages, advance)
            status = process.wait()
        finally:
            # Whatever ends this process early, an interrupt too, ends the simulator with it.
            process.kill()
            process.wait()
        if status or "cycles" not in messages.numbers:
            errors.seek(0)
            raise JoineryError(
                f"{sim} stopped before the end of the run (exit status {status})\n"
                f"{last_lines(errors.read())}".rstrip()
            )
    return messages


def _read_message(words: list[str], messages: Messages, advance: Callable[[int], None]) -> None:
    match words:
        case ["progress", beats]:
            advance(int(beats))
        case ["register", address, value, _response]:
            messages.registers[int(address)] = int(value)
        case ["error", reason, *_]:
            raise (
                DesignError(FAULTS[reason]) if reason in FAULTS else JoineryError(TROUBLES[reason])
            )
        case ["stuck", cycles, beats, rows, ready, valid]:
            raise DesignError(
                f"The design is stuck: in cycle {cycles}, after {beats} input transfers and "
                f"{rows} results, nothing has moved for too long (input ready: {ready}, "
                f"output valid: {valid})"
            )
        case [name, value]:
            messages.numbers[name] = int(value)


@contextlib.contextmanager
def _progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error when a person is looking at it."""
    console = rich.console.Console(file=sys.stderr)
    with rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TextColumn("transfers"),
        rich.progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(f"simulating {name}", total=total)
        yield lambda beats: bar.update(task, completed=beats)


def _check_parent(path: Path) -> Path:
    """Return the folder of ``path``, to which one must be able to write."""
    parent = path.resolve().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise JoineryError(f"{path} can't be written: {parent} is not a folder one can write to")
    return parent


@contextlib.contextmanager
def _scratch_beside(path: Path) -> Iterator[Path]:
    """A folder on the file system of ``path``, so that a finished file moves into place at once."""
    with tempfile.TemporaryDirectory(dir=_check_parent(path), prefix=".joinery-") as folder:
        yield Path(folder)
