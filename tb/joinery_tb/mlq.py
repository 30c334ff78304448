"""Multi-level queues under test: with memories attached, and the definition of their windows."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring

from joinery.mlq import BlockMemory, Level, MultiLevelQueue, TimedMemory

from .simulate import Run, Stall, run_stream

__all__ = ["QueueBench", "attach_memories", "keyed_windows", "make_memories", "run_queue"]

Tuple = tuple[int, int]
"""A key and a value."""

Eviction = tuple[int, int, int]
"""A key that lost its place, how many values it had, and the key that took the place."""


def keyed_windows(
    tuples: Iterable[Tuple], rows: int, slide: int, evictions: Iterable[Eviction] = ()
) -> Iterator[tuple[int, list[int]]]:
    """Yield each complete window with its key, by definition.

    A key that was evicted starts anew. It was evicted when the key that took its place came and was
    not there; no other reading of the reports is possible, and one that fits nowhere is an error.
    """
    seen: dict[int, list[int]] = {}
    reports = deque(evictions)
    for key, value in tuples:
        if key not in seen and reports and reports[0][2] == key:
            gone, count, _ = reports.popleft()
            values = seen.pop(gone)
            extra = max(0, len(values) - rows)
            assert count == len(values) - (extra // slide + 1) * slide * (len(values) >= rows)
        values = seen.setdefault(key, [])
        values.append(value)
        more = len(values) - rows
        if more >= 0 and more % slide == 0:
            yield key, values[-rows:]
            if rows == slide:
                del seen[key]  # nothing is kept, so that its place is free
    assert not reports, f"evictions that cannot have been: {list(reports)}"


def make_memories(
    levels: Sequence[Level],
    *,
    slots: int,
    width: int,
    timing: Sequence[Mapping[str, Any] | None] | None = None,
) -> list[list[Any]]:
    """Return a memory for each channel of each level: block RAM where no timing is given."""
    found: list[list[Any]] = []
    for k, level in enumerate(levels):
        size: dict[str, Any] = {"lines": slots * level.stride, "word": level.word, "width": width}
        time = timing[k] if timing else None
        if time is None:
            found.append([BlockMemory(**size) for _ in range(level.channels)])
        else:
            more = {"burst": level.burst, "duplex": level.duplex, **time}
            found.append([TimedMemory(**size, **more) for _ in range(level.channels)])
    return found


def attach_memories(m: Module, dut: Any, memories: Sequence[Sequence[Any]]) -> None:
    """Connect the memories to the ports of ``dut``."""
    for k, level in enumerate(memories):
        for c, each in enumerate(level):
            m.submodules[f"memory_{k}_{c}"] = each
            wiring.connect(m, getattr(dut, f"ports_{k}")[c], each.port)


def _silence(rows: int, timing: Sequence[Mapping[str, Any] | None] | None) -> int:
    """Return for how many cycles nothing may be seen: all values of a window are written before it
    leaves, each perhaps into a word that is read first, with nothing else under way."""
    access = 0
    for each in timing or []:
        if each is not None:
            cycles, accesses = each["short"]
            access = max(access, 2 * -(-cycles // accesses) + each["latency"])
    return 2 * rows * access


class QueueBench(wiring.Component):
    """A design with its memories inside: the members are those of the design but for the ports."""

    def __init__(self, dut: Any, memories: Sequence[Sequence[Any]]) -> None:
        self.dut = dut
        self.memories = memories
        members = dut.signature.members.items()
        super().__init__({name: each for name, each in members if not name.startswith("ports_")})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.dut = self.dut
        for name, member in self.signature.members.items():
            inner, outer = getattr(self.dut, name), getattr(self, name)
            if member.is_signature and member.flow is wiring.In:
                wiring.connect(m, wiring.flipped(outer), inner)
            elif member.is_signature:
                wiring.connect(m, inner, wiring.flipped(outer))
            elif member.flow is wiring.In:
                m.d.comb += inner.eq(outer)
            else:
                m.d.comb += outer.eq(inner)
        attach_memories(m, self.dut, self.memories)
        return m


def run_queue(
    dut: MultiLevelQueue,
    tuples: Sequence[Tuple],
    *,
    rows: int,
    slide: int,
    timing: Sequence[Mapping[str, Any] | None] | None = None,
    stall_in: Stall = 0.0,
    stall_out: Stall | Mapping[str, Stall] = 0.0,
    seed: int = 0,
    runs: int = 1,
) -> tuple[list[list[tuple[int, list[int]]]], list[Eviction], Run]:
    """Send ``tuples`` and an end, ``runs`` times over; return the windows of each, by key."""
    queues = dut.queues
    memories = make_memories(queues.levels, slots=queues.slots, width=queues.width, timing=timing)
    bench: Any = QueueBench(dut, memories)
    end = {"end": 1, "key": 0, "value": 0}
    sent = [*({"end": 0, "key": key, "value": value} for key, value in tuples), end]

    def settings(ctx: Any) -> None:
        ctx.set(bench.rows, rows)
        ctx.set(bench.slide, slide)

    run = run_stream(
        bench,
        {"i": sent * runs},
        stall_in=stall_in,
        stall_out=stall_out,
        seed=seed,
        idle=300 + queues.slots + _silence(rows, timing),
        watch=settings,
    )
    windows: list[list[int]] = [[]]
    for part in run.outputs["o"]:
        assert part["count"] == rows
        windows[-1] += [
            value for lane, value in enumerate(part["values"]) if part["mask"] >> lane & 1
        ]
        if part["last"]:
            windows.append([])
    assert not windows.pop(), "part of a window is missing"
    found: list[list[tuple[int, list[int]]]] = [[]]
    for tag in run.outputs["o_tag"]:
        if tag["end"]:
            found.append([])
        else:
            found[-1].append((tag["key"], windows.pop(0)))
    assert not windows, "windows without a key"
    assert not found.pop(), "windows after the last end"
    evicted = [(e["key"], e["count"], e["by"]) for e in run.outputs["o_evicted"]]
    return found, evicted, run
