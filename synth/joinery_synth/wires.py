"""Which blocks of a module feed which: read from its RTLIL."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from .netlist import CELL, MODULE, Netlist

__all__ = ["Edges", "connections", "group_of", "layers"]

Edges = Mapping[tuple[str, str], int]
"""Bits from one block to another."""

WIRE = re.compile(r"^  wire (?:width (\d+) )?(?:(input|output) \d+ )?.*\\(\S+)$")
PORT = re.compile(r"^    connect \\(\S+) (.+)$")
ALIAS = re.compile(r"^  (?:connect|  assign) (.+)$")
NAME = re.compile(r"\\(\S+)")
OUTSIDE = {"input": "<", "output": ">"}
"""What stands for the ports of the module itself."""
DULL = ("clk", "rst")


def group_of(instance: str) -> str:
    """The name of a kind of blocks: without its number, and what Amaranth adds to one in use."""
    return re.sub(r"_\d+$", "_*", re.sub(r"\$\d+$", "", instance))


def connections(netlist: Netlist, module: str) -> Edges:
    """How many bits lead from each kind of block in ``module`` to each other, without logic."""
    lines = _bodies(netlist)
    outputs = {name: _ports(body, "output") for name, body in lines.items()}
    same = _Same()
    drives: defaultdict[str, set[str]] = defaultdict(set)
    reads: defaultdict[str, set[str]] = defaultdict(set)
    widths: dict[str, int] = {}
    here: tuple[str, str] | None = None
    for line in lines[module]:
        if wire := WIRE.match(line):
            widths[wire[3]] = int(wire[1] or 1)
            if wire[2] and wire[3] not in DULL:
                (drives if wire[2] == "input" else reads)[wire[3]].add(OUTSIDE[wire[2]])
        elif cell := CELL.match(line):
            here = (cell[2], cell[1]) if cell[1] in lines else None
        elif line == "  end":
            here = None
        elif here and (port := PORT.match(line)):
            into = drives if port[1] in outputs[here[1]] else reads
            for name in NAME.findall(port[2]):
                if port[1] not in DULL:
                    into[name].add(group_of(here[0]))
        elif alias := ALIAS.match(line):
            same.join(NAME.findall(alias[1]))
    return _edges(drives, reads, widths, same)


def _bodies(netlist: Netlist) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    body: list[str] = []
    for line in netlist.text.splitlines():
        if module := MODULE.match(line):
            body = found.setdefault(module[1], [])
        else:
            body.append(line)
    return found


def _ports(body: Iterable[str], direction: str) -> set[str]:
    return {wire[3] for line in body if (wire := WIRE.match(line)) and wire[2] == direction}


class _Same:
    """Wires that are one and the same."""

    def __init__(self) -> None:
        self._next: dict[str, str] = {}

    def root(self, name: str) -> str:
        while name in self._next:
            name = self._next[name]
        return name

    def join(self, names: Sequence[str]) -> None:
        roots = {self.root(name) for name in names}
        if len(roots) == 2:
            first, second = roots
            self._next[first] = second


def _edges(
    drives: Mapping[str, set[str]],
    reads: Mapping[str, set[str]],
    widths: Mapping[str, int],
    same: _Same,
) -> Edges:
    found: Counter[tuple[str, str]] = Counter()
    sources: defaultdict[str, set[str]] = defaultdict(set)
    sinks: defaultdict[str, set[str]] = defaultdict(set)
    bits: defaultdict[str, int] = defaultdict(int)
    for into, names in ((sources, drives), (sinks, reads)):
        for name, blocks in names.items():
            root = same.root(name)
            into[root] |= blocks
            bits[root] = max(bits[root], widths.get(name, 1))
    for root, givers in sources.items():
        for giver in givers:
            for taker in sinks[root] - {giver}:
                found[giver, taker] += bits[root]
    return dict(sorted(found.items()))


def layers(blocks: Sequence[str], edges: Edges) -> dict[str, int]:
    """Give each block a column, so that what carries most bits goes from left to right."""
    kept: set[tuple[str, str]] = set()

    def reaches(start: str, goal: str) -> bool:
        return start == goal or any(reaches(b, goal) for a, b in kept if a == start)

    for (giver, taker), _ in sorted(edges.items(), key=lambda item: (-item[1], item[0])):
        if giver in blocks and taker in blocks and not reaches(taker, giver):
            kept.add((giver, taker))

    def depth(block: str) -> int:
        return max((depth(a) + 1 for a, b in kept if b == block), default=0)

    return {block: depth(block) for block in blocks}
