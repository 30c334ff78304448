"""A block diagram of a design, with what each block costs, as SVG."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from .netlist import Netlist
from .resources import Block, Resources
from .wires import OUTSIDE, connections, group_of, layers

__all__ = ["draw"]

WIDTH, HEIGHT, GAP_X, GAP_Y, EDGE, HEAD = 196, 76, 64, 26, 18, 70
BAR = 92
FEW = 8
NEXT = 14
COLOURS = {"lut": "#2f6f9f", "ff": "#c77d2b", "bram": "#5b8f4e"}
STYLE = (
    "text{font-family:Helvetica,Arial,sans-serif;font-size:12px;fill:#222}"
    ".name{font-weight:bold}.small{font-size:10px;fill:#444}.title{font-size:15px;font-weight:bold}"
)


@dataclass
class Box:
    """A block on the page: its corner within what it is in, its size, and what is in it."""

    name: str
    path: str
    count: int
    x: float = 0
    y: float = 0
    width: float = WIDTH
    height: float = HEIGHT
    inside: "list[Box]" = field(default_factory=list)
    edges: Mapping[tuple[str, str], int] = field(default_factory=dict)


def draw(title: str, netlist: Netlist, found: Resources) -> str:
    """Draw the shell, the engine in it, and the blocks of both, with their share of the cells."""
    top = _lay_out(netlist, "top", "", "shell", 1, {block.name for block in found.blocks})
    costs = {block.name: block for block in found.blocks}
    width, height = top.width + 2 * EDGE, top.height + 2 * EDGE + 64
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker>'
        "</defs>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        f'<text class="title" x="{EDGE}" y="28">{escape(title)}</text>',
        f'<text class="small" x="{EDGE}" y="46">{escape(_summary(found))}</text>',
        *_box(top, EDGE, 58, costs, found.used),
        "</svg>",
    ]
    return "\n".join(body) + "\n"


def _summary(found: Resources) -> str:
    used = ", ".join(f"{n:,} {name}" for name, n in found.used.items() if n)
    return f"{found.target}: {used}. Bars: the block's part of the whole; lines: bits."


def _lay_out(
    netlist: Netlist, module: str, path: str, name: str, count: int, known: set[str]
) -> Box:
    box = Box(name, path or "shell", count)
    kinds: dict[str, list[str]] = defaultdict(list)
    for instance, kind in netlist.modules[module].items():
        group = group_of(instance)
        if f"{path}.{group}".strip(".") in known:
            kinds[group].append(kind)
    if not kinds:
        return box
    box.edges = connections(netlist, module)
    for group, modules in kinds.items():
        inner = f"{path}.{group}".strip(".")
        box.inside.append(_lay_out(netlist, modules[0], inner, group, len(modules), known))
    _place(box)
    return box


def _place(box: Box) -> None:
    """Put the blocks into columns, in the order in which data passes them."""
    columns: dict[int, list[Box]] = defaultdict(list)
    order = layers([inner.name for inner in box.inside], box.edges)
    for inner in box.inside:
        columns[order[inner.name]].append(inner)
    x: float = EDGE + 10
    for number in sorted(columns):
        y: float = HEAD
        for inner in columns[number]:
            inner.x, inner.y = x, y
            y += inner.height + GAP_Y
        box.height = max(box.height, y - GAP_Y + EDGE)
        x += max(inner.width for inner in columns[number]) + GAP_X
    box.width = x - GAP_X + EDGE + 10


def _box(
    box: Box, x: float, y: float, costs: Mapping[str, Block], total: Mapping[str, float]
) -> list[str]:
    fill = "#f5f7fa" if box.inside else "#ffffff"
    rectangle = 'rx="5" stroke="#555" stroke-width="1.2"'
    stack = [
        f'<rect x="{x + shift}" y="{y - shift}" width="{box.width}" height="{box.height}" '
        f'fill="{fill}" {rectangle}/>'
        for shift in ((8, 4, 0) if box.count > 1 else (0,))
    ]
    label = box.name.removesuffix("_*") + (f" × {box.count}" if box.count > 1 else "")
    found = [*stack, f'<text class="name" x="{x + 10}" y="{y + 18}">{escape(label)}</text>']
    if box.path in costs:
        found += _bars(costs[box.path], x + 10, y + 26, total)
    for inner in box.inside:
        found += _box(inner, x + inner.x, y + inner.y, costs, total)
    return found + _lines(box, x, y)


def _bars(block: Block, x: float, y: float, total: Mapping[str, float]) -> list[str]:
    found = []
    for row, (name, colour) in enumerate(COLOURS.items()):
        used, whole = block.used[name], total[name]
        if name == "bram" and not whole:
            continue
        top = y + 12 * row
        length = BAR * used / whole if whole else 0
        found += [
            f'<rect x="{x + 32}" y="{top}" width="{BAR}" height="8" fill="#e8e8e8"/>',
            f'<rect x="{x + 32}" y="{top}" width="{length:.1f}" height="8" fill="{colour}"/>',
            f'<text class="small" x="{x}" y="{top + 8}">{name}</text>',
            f'<text class="small" x="{x + 36 + BAR}" y="{top + 8}">{used:,}</text>',
        ]
    return found


def _lines(box: Box, x: float, y: float) -> list[str]:
    """An arrow for what goes to a later column; the rest would only tangle."""
    places = {inner.name: inner for inner in box.inside}
    found = []
    for (giver, taker), bits in box.edges.items():
        start = places.get(giver)
        end = places.get(taker)
        if start is None and giver == OUTSIDE["input"] and end is not None and end.x <= EDGE + 10:
            found += _arrow(x, y + end.y + 46, x + end.x, y + end.y + 46, bits)
        elif start is not None and end is not None and _goes(start, end, bits):
            where = (x + start.x + start.width, y + start.y + _port(start))
            goal = (x + end.x, y + end.y + _port(end))
            over = None if _near(start, end) else y + HEAD - 10
            found += _arrow(*where, *goal, bits, over)
    return found


def _goes(start: Box, end: Box, bits: int) -> bool:
    """Whether to draw a line: forward, and past other columns only for what matters."""
    return end.x > start.x and (_near(start, end) or bits >= FEW)


def _near(start: Box, end: Box) -> bool:
    return start.x + start.width + GAP_X >= end.x


def _port(inner: Box) -> float:
    """Where lines leave or enter a box: above what is in it."""
    return 46 if inner.height > HEIGHT else 52


def _arrow(
    x0: float, y0: float, x1: float, y1: float, bits: int, over: float | None = None
) -> list[str]:
    """A line from one box to the next, or, ``over`` those between, to one further on."""
    middle = max(x1 - GAP_X / 2, x0)
    thick = 1 + min(bits, 400) / 150
    path = f"M{x0:.1f} {y0:.1f}H{middle:.1f}V{y1:.1f}H{x1 - 1:.1f}"
    if over is not None:
        y1 += NEXT
        path = f"M{x0:.1f} {y0 - NEXT:.1f}h{NEXT}V{over:.1f}H{x1 - NEXT:.1f}V{y1:.1f}H{x1 - 1:.1f}"
    return [
        f'<path d="{path}" fill="none" stroke="#555" stroke-width="{thick:.1f}" '
        'marker-end="url(#a)"/>',
        f'<text class="small" x="{middle + 3:.1f}" y="{y1 - 4:.1f}">{bits}</text>',
    ]
