"""What a host tells the pipelines of a card and what it is told: their registers."""

from typing import Any

from amaranth.hdl import Cat, Const, Module

from ..registers import AxiLiteRegisters, Row
from .shape import ROLES

__all__ = [
    "COMMAND",
    "COUNTERS",
    "COUNTER_BITS",
    "NARROW",
    "STATES",
    "WIDE",
    "connect_pipeline",
    "live_registers",
    "pipeline_rows",
]

STATES = ("idle", "running", "overflow", "done")
"""What the register ``state`` of a pipeline says; aborting, it is still running."""

COUNTERS = {
    "cycles": "Cycles of the task until it was done",
    "batches": "Batches that were joined",
    "window_tuples": "Window tuples that flowed past a batch",
    "matches": "Results of the task",
    "rejected_order": "Pairs left out as the window tuple came later",
    "rejected_time": "Pairs left out as their times are too far apart",
}
COUNTER_BITS = 64

COMMAND = {"start": 0, "resume": 1, "abort": 2}
"""The bits of a pipeline's register ``command``."""

WIDE = (
    "stream_address",
    "window_address",
    "window_base",
    "window_end",
    "result_address",
    "time_range",
)
"""What a task has two registers for, the low half first."""

NARROW = {
    "stream_count": "Stream tuples, one at least",
    "stream_words": "Bus words that hold them",
    "window_count": "Window tuples",
    "window_words": "Bus words that hold them",
    "result_capacity": "Results that the buffer holds",
}
WIDE_TEXT = {
    "stream_address": "Where the stream tuples lie; a multiple of the bus word, as all addresses",
    "window_address": "Where the window begins",
    "window_base": "Where the ring of the window begins",
    "window_end": "Where it ends",
    "result_address": "Where results go",
    "time_range": "The most that the times of a pair may differ",
}


def pipeline_rows(number: int) -> list[Row]:
    """Return the registers of a pipeline."""
    stem = f"p{number}_"
    acts = ", ".join(f"bit {bit}: {name}" for name, bit in COMMAND.items())
    rows: list[Row] = [(f"{stem}command", "pulse", f"What the pipeline shall do: {acts}", 0)]
    rows.append((f"{stem}state", "ro", f"{', '.join(STATES)}, from 0 on", 0))
    rows.append((f"{stem}results", "ro", "Results in the present buffer", 0))
    for name in WIDE:
        rows.append((f"{stem}{name}_lo", "rw", WIDE_TEXT[name], 0))
        rows.append((f"{stem}{name}_hi", "rw", "High half", 0))
    rows += [(f"{stem}{name}", "rw", text, 0) for name, text in NARROW.items()]
    for name, text in COUNTERS.items():
        rows.append((f"{stem}{name}_lo", "ro", text, 0))
        rows.append((f"{stem}{name}_hi", "ro", "High half", 0))
    return rows


def live_registers(number: int) -> dict[str, int]:
    """Return the registers that show what a pipeline does, and their bits."""
    halves = (f"{name}_{half}" for name in COUNTERS for half in ("lo", "hi"))
    bits = {"state": 2, "results": 32, **dict.fromkeys(halves, 32)}
    return {f"p{number}_{name}": width for name, width in bits.items()}


def connect_pipeline(m: Module, registers: AxiLiteRegisters, number: int, unit: Any) -> None:
    """Connect a ``CardPipeline`` with its registers."""
    bank: Any = registers
    stem, shift = f"p{number}_", unit.word_shift

    def told(name: str) -> Any:
        return getattr(bank, f"set_{stem}{name}")

    def wide(name: str) -> Any:
        return Cat(told(f"{name}_lo"), told(f"{name}_hi"))

    def words(name: str) -> Any:
        return wide(name)[shift : shift + unit.word_address]

    for name, bit in COMMAND.items():
        m.d.comb += getattr(unit, name).eq(getattr(bank, f"pulse_{stem}command")[bit])
    m.d.comb += [
        unit.stream.address.eq(words("stream_address")),
        unit.stream.base.eq(0),
        unit.stream.end.eq(Const(-1, unit.word_address)),
        unit.window.address.eq(words("window_address")),
        unit.window.base.eq(words("window_base")),
        unit.window.end.eq(words("window_end")),
        unit.result_address.eq(words("result_address")),
        unit.result_capacity.eq(told("result_capacity")),
        unit.time_range.eq(wide("time_range")),
        getattr(bank, f"live_{stem}state").eq(unit.state),
        getattr(bank, f"live_{stem}results").eq(unit.results),
    ]
    for role in ROLES:
        stretch = getattr(unit, role)
        m.d.comb += [
            stretch.words.eq(told(f"{role}_words")),
            stretch.count.eq(told(f"{role}_count")),
        ]
    for name in COUNTERS:
        count = getattr(unit, f"count_{name}")
        m.d.comb += [
            getattr(bank, f"live_{stem}{name}_lo").eq(count[:32]),
            getattr(bank, f"live_{stem}{name}_hi").eq(count[32:]),
        ]
