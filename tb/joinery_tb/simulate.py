"""Run a component with streams in Amaranth's simulator: feed its inputs, collect its outputs.

``run_stream`` plays every source and every sink of one component, each with its own stalls, keeps
the stream law at the inputs and checks it at the outputs, in every cycle.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from amaranth.lib import data, stream
from amaranth.sim import Simulator

__all__ = ["STALLS", "Run", "Stall", "run_stream", "streams_of"]

Stall = float | Sequence[bool]
"""When one side of a stream pauses: a probability per cycle, or a pattern of pauses to repeat."""

STALLS: dict[str, Stall] = {"none": 0.0, "periodic": (False, False, True), "random": 0.5}
"""The stalls that every stream is tested under, on both sides."""


class Run(NamedTuple):
    """What came out of each output, and the cycles from the first to the last transfer."""

    outputs: dict[str, list[Any]]
    cycles: int


def streams_of(dut: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the input and the output streams of ``dut`` by name, such as ``i`` or ``i[0]``."""
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    for name, member in dut.signature.members.items():
        if member.is_signature and isinstance(member.signature, stream.Signature):
            side = outputs if member.flow.name == "Out" else inputs
            if member.dimensions:
                for k, each in enumerate(getattr(dut, name)):
                    side[f"{name}[{k}]"] = each
            else:
                side[name] = getattr(dut, name)
    return inputs, outputs


def run_stream(
    dut: Any,
    inputs: Mapping[str, Sequence[Any]],
    *,
    stall_in: Stall | Mapping[str, Stall] = 0.0,
    stall_out: Stall | Mapping[str, Stall] = 0.0,
    seed: int = 0,
    idle: int = 32,
    watch: Callable[[Any], None] | None = None,
    clocks: Mapping[str, float] | None = None,
) -> Run:
    """Send ``inputs`` into ``dut`` and return all that comes out.

    The run ends when nothing has been transferred for ``idle`` cycles in which no pause kept
    anything back; if something is then left to send, the component is stuck and ``AssertionError``
    is raised.

    Parameters
    ----------
    dut : wiring.Component
        The component, in the ``sync`` domain; its other inputs stay at their initial values.
    inputs : mapping
        Payloads for each input stream, by name: integers, or dicts and lists for structures.
    stall_in, stall_out : Stall or mapping of name to Stall
        Pauses of the sources and of the sinks.
    seed : int
        Seed of the random pauses.
    idle : int
        Cycles without a transfer after which the run is over.
    watch : callable
        Called with the simulator's context in every cycle, before the clock edge.
    clocks : mapping of str to float
        Other clock domains, and how many times as fast as ``sync`` they are.
    """
    sources, sinks = streams_of(dut)
    if set(inputs) != set(sources):
        raise ValueError(f"The inputs are {sorted(sources)}, not {sorted(inputs)}")
    random_source = random.Random(seed)
    stalls_in = {name: _pauses(stall_in, name, random_source) for name in sources}
    stalls_out = {name: _pauses(stall_out, name, random_source) for name in sinks}
    left = {name: list(reversed(inputs[name])) for name in sources}
    standing: set[str] = set()  # inputs with an offer made and not yet taken
    offered: dict[str, Any] = {}  # outputs that wait to be taken, and what they show
    outputs: dict[str, list[Any]] = {name: [] for name in sinks}
    transfers: list[int] = []

    async def bench(ctx: Any) -> None:
        quiet = 0
        for cycle in itertools.count():
            held_back = False
            for name, source in sources.items():
                pause = next(stalls_in[name])
                if left[name] and not pause:
                    standing.add(name)
                held_back |= bool(left[name]) and name not in standing
                ctx.set(source.valid, name in standing)
                if name in standing:
                    ctx.set(source.payload, left[name][-1])
            for name, sink in sinks.items():
                ctx.set(sink.ready, not next(stalls_out[name]))
            if watch is not None:
                watch(ctx)

            # All sides are set; what they see of each other now is what the clock edge sees.
            moved = False
            for name, source in sources.items():
                if name in standing and ctx.get(source.ready):
                    left[name].pop()
                    standing.remove(name)
                    moved = True
            for name, sink in sinks.items():
                payload = _plain(ctx.get(sink.payload)) if ctx.get(sink.valid) else None
                if name in offered:
                    assert payload == offered.pop(name), (
                        f"{name} broke the stream law in cycle {cycle}"
                    )
                if payload is not None and ctx.get(sink.ready):
                    outputs[name].append(payload)
                    moved = True
                elif payload is not None:
                    offered[name] = payload
                    held_back = True
            if moved:
                transfers.append(cycle)
            quiet = 0 if moved or held_back else quiet + 1
            if quiet > idle:
                break
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for domain, rate in (clocks or {}).items():
        simulator.add_clock(1e-6 / rate, domain=domain)
    simulator.add_testbench(bench)
    simulator.run()
    stuck = {name: len(rest) for name, rest in left.items() if rest}
    assert not stuck, f"Stuck, with transfers left to send: {stuck}"
    return Run(outputs, transfers[-1] - transfers[0] + 1 if transfers else 0)


def _pauses(
    stall: Stall | Mapping[str, Stall], name: str, random_source: random.Random
) -> Iterator[bool]:
    if isinstance(stall, Mapping):
        stall = stall.get(name, 0.0)
    if all(stall) if isinstance(stall, Sequence) else stall >= 1:
        raise ValueError(f"Stall of {name} never ends: {stall!r}")
    if isinstance(stall, Sequence):
        return itertools.cycle(bool(pause) for pause in stall)
    if stall == 0:
        return itertools.repeat(False)
    return iter(lambda: random_source.random() < stall, None)


def _plain(payload: Any) -> Any:
    """Turn a structure into dicts and lists, so that payloads compare as written."""
    if isinstance(payload, data.Const):
        layout: Any = payload.shape()
        if isinstance(layout, data.ArrayLayout):
            return [_plain(payload[k]) for k in range(layout.length)]
        return {name: _plain(payload[name]) for name, _ in layout}
    return payload
