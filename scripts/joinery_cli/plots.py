"""Plots of benchmark rows: one curve for each design, as the papers draw them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["draw"]

DESIGN = ("engine", "wlq", "aggregate", "merge", "flow", "comparators", "lanes", "buffers")
"""Columns that tell designs from each other: each design has a colour."""
STYLES = ("-", "--", ":", "-.")


def draw(title: str, rows: Sequence[Mapping[str, Any]], path: Path, *, x: str, y: str) -> None:
    """Draw the column ``y`` over ``x``, a curve for each design and input, and the papers' own."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = title  # the same rows give the same file
    from matplotlib import pyplot

    designs = [name for name in DESIGN if name != x and len({row.get(name) for row in rows}) > 1]
    inputs = list(dict.fromkeys(row["input"] for row in rows))
    curves: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        label = ", ".join(_say(name, row[name]) for name in designs) or str(row["engine"])
        curves.setdefault((label, row["input"]), []).append(row)
    colours = {label: f"C{k}" for k, label in enumerate(dict.fromkeys(key[0] for key in curves))}
    figure, axes = pyplot.subplots(figsize=(8, 6), layout="constrained")
    for (label, kind), points in curves.items():
        axes.plot(
            [point[x] for point in points],
            [point[y] for point in points],
            STYLES[inputs.index(kind) % len(STYLES)],
            color=colours[label],
            marker=".",
            label=f"{label}, {kind}" if len(inputs) > 1 else label,
        )
    known = [row for row in rows if y == "cycles" and row.get("paper_cycles")]
    if known:
        values = [row["paper_cycles"] for row in known]
        axes.plot([row[x] for row in known], values, "kx", label="the paper")
    axes.set_xlabel(x.replace("_", " "))
    axes.set_ylabel(y.replace("_", " "))
    axes.set_yscale("log")
    axes.set_title(title, fontsize="medium", wrap=True)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _say(name: str, value: Any) -> str:
    """A column's value as a legend tells it: words speak for themselves, numbers need a name."""
    return str(value) if isinstance(value, str) and name != "buffers" else f"{name} {value}"
