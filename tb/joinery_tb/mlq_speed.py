"""Multi-level queues at full size in Verilator: how fast they are, with every aggregate checked.

The design, its memories with the time they take, and a driver in C++ that makes the tuples and
holds every row against the definition (``mlq_main.cpp``). One build serves all windows that fit it.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from amaranth.back import rtlil, verilog  # type: ignore[attr-defined] # not in the stubs
from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from joinery.mlq import KeyedAggregate, Queues, TimedMemory, WindowAggregator
from joinery_gen.mlq import MemorySpec
from joinery_gen.mlq.levels import levels_of, timing_of
from joinery_gen.query import JoineryError

from . import toolchain
from .build import VERILATOR_OPTIONS, build_tools, cached_build, run_tool
from .mlq import attach_memories

__all__ = ["SpeedRun", "SpeedTop", "build_speed", "run_speed"]

KEY_WIDTH = 24
VALUE_WIDTH = 16
"""The paper's tuple: a vehicle of 24 bits and a speed of 16."""

DEPTH = 64
"""Operations that may wait at a level: windows of many keys become complete at random."""

RESULTS = ("sum", "count", "low", "high", "twice")


class SpeedTop(wiring.Component):
    """The paper's query: average, minimum, maximum and median speed of each vehicle.

    Parameters
    ----------
    memories : sequence of MemorySpec
    values : sequence of int
        Values per key in each level.
    slots : int
        Keys that have room.
    median : bool
        Compute the median too. Without, ``o_twice`` is 0: the kernel takes a part per cycle as the
        others do, so that the cycles are the same, but its counters take longest to simulate.

    Members
    -------
    valid, ready, end, key, value
        The input.
    rows, slide : In
        WS and WA.
    o_valid, o_end, o_key, o_<result> : Out
        A row; it is always taken.
    evicted : Out(1)
    """

    def __init__(
        self,
        memories: Sequence[MemorySpec],
        values: Sequence[int],
        *,
        slots: int,
        median: bool = True,
    ) -> None:
        self.memories = tuple(memories)
        self.median = median
        queues = Queues(
            levels_of(memories, values, VALUE_WIDTH // 8),
            rows=values[-1],
            slots=slots,
            width=VALUE_WIDTH,
        )
        self.aggregator = WindowAggregator(
            queues,
            data.StructLayout({"speed": VALUE_WIDTH}),
            [
                KeyedAggregate("average", "avg", "speed"),
                KeyedAggregate("low", "min", "speed"),
                KeyedAggregate("high", "max", "speed"),
                *([KeyedAggregate("median", "median", "speed")] if median else []),
            ],
            key_width=KEY_WIDTH,
            depth=DEPTH,
        )
        super().__init__(
            {
                "valid": In(1),
                "ready": Out(1),
                "end": In(1),
                "key": In(KEY_WIDTH),
                "value": In(VALUE_WIDTH),
                "rows": In(16),
                "slide": In(16),
                "o_valid": Out(1),
                "o_end": Out(1),
                "o_key": Out(KEY_WIDTH),
                **{f"o_{name}": Out(32) for name in RESULTS},
                "evicted": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        me: Any = self
        m.submodules.aggregator = inner = self.aggregator
        queues = inner.queues
        memories = [
            [
                TimedMemory(
                    lines=queues.slots * level.stride,
                    word=level.word,
                    width=queues.width,
                    burst=level.burst,
                    **timing_of(memory),
                )
                for _ in range(level.channels)
            ]
            for memory, level in zip(self.memories, queues.levels, strict=True)
        ]
        attach_memories(m, inner, memories)
        row = inner.o.p.value
        m.d.comb += [
            inner.rows.eq(me.rows),
            inner.slide.eq(me.slide),
            inner.i.valid.eq(me.valid),
            inner.i.p.end.eq(me.end),
            inner.i.p.key.eq(me.key),
            inner.i.p.value.speed.eq(me.value),
            me.ready.eq(inner.i.ready),
            inner.o.ready.eq(1),
            inner.o_evicted.ready.eq(1),
            me.evicted.eq(inner.o_evicted.valid),
            me.o_valid.eq(inner.o.valid),
            me.o_end.eq(inner.o.p.end),
            me.o_key.eq(inner.o.p.key),
            me.o_sum.eq(row.average_sum),
            me.o_count.eq(row.average_count),
            me.o_low.eq(row.low),
            me.o_high.eq(row.high),
        ]
        if self.median:
            m.d.comb += me.o_twice.eq(row.median_twice)
        return m


@dataclass(frozen=True)
class SpeedRun:
    """What came of a run. ``cycles`` and ``tuples`` are those after the warm-up.

    ``latency`` is the mean from the tuple that completes a window to its row, in cycles.
    """

    tuples: int
    cycles: int
    windows: int
    wrong: int
    missing: int
    evicted: int
    latency: float
    all_tuples: int
    all_cycles: int

    @property
    def throughput(self) -> float:
        return self.tuples / self.cycles


def build_speed(
    memories: Sequence[MemorySpec], values: Sequence[int], *, slots: int, median: bool = True
) -> Path:
    """Return the simulator for these levels, built once."""
    toolchain.check_simulator("verilator")
    text = _to_verilog(SpeedTop(memories, values, slots=slots, median=median))
    source = resources.files(__package__) / "mlq_main.cpp"
    command = [
        *("verilator", "--cc", "--exe", "--build", "-j", "2", "-Wno-fatal", *VERILATOR_OPTIONS),
        *("--top-module", "top", "--prefix", "Vtop", "-Mdir", ".", "-o", "top"),
        *(["-CFLAGS", "-DMEDIAN"] if median else []),
        *("top.v", "mlq_main.cpp"),
    ]
    depends = {
        "verilog": text,
        "harness": source.read_text(),
        "tools": build_tools("verilator"),
        "command": command,
    }

    def make(folder: Path) -> Path:
        (folder / "top.v").write_text(text)
        (folder / "mlq_main.cpp").write_text(source.read_text())
        run_tool(command, "verilator", folder)
        return folder / "top"

    name = "mlq " + " ".join(f"{m.name}={v}" for m, v in zip(memories, values, strict=True))
    return cached_build(name, depends, make, "top") / "top"


def _to_verilog(top: SpeedTop) -> str:
    """Write the top without initial contents: they are zero, and the key table clears itself."""
    os.environ["AMARANTH_USE_YOSYS"] = "builtin"
    text = rtlil.convert(top, name="top", emit_src=False)
    text = re.sub(r"  cell \$meminit_v2 [\s\S]*?\n  end\n", "", text)
    yosys = verilog.find_yosys(lambda version: version >= (0, 40))
    script = f"read_rtlil <<rtlil\n{text}\nrtlil\nproc -norom\nopt_expr\nclean -purge\n"
    written: str = yosys.run(["-q", "-"], script + "memory_collect\nwrite_verilog -noattr\n")
    words = resources.files("joinery.mlq") / "words.v"
    return written + words.read_text()


def run_speed(
    binary: Path,
    *,
    rows: int,
    slide: int,
    keys: int,
    tuples: int,
    warm: bool = True,
    skew: str = "uniform",
    seed: int = 1,
) -> SpeedRun:
    """Run so many tuples, after the windows are full if ``warm``; every row is checked.

    ``skew`` is ``uniform``, ``single`` (all tuples of one key), ``zipf`` or ``turn`` (each key in
    turn).
    """
    options = {
        "rows": rows,
        "slide": slide,
        "keys": keys,
        "tuples": tuples,
        "warm": int(warm),
        "skew": skew,
        "seed": seed,
    }
    done = subprocess.run(
        [str(binary), *(f"{name}={value}" for name, value in options.items())],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise JoineryError(f"The simulation of multi-level queues failed: {done.stdout[-500:]}")
    numbers = dict(line.split() for line in done.stdout.splitlines())
    latency = float(numbers.pop("latency"))
    return SpeedRun(latency=latency, **{name: int(value) for name, value in numbers.items()})
