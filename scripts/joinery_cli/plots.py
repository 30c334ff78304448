"""Plots of benchmark rows: one curve for each design, as the papers draw them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["draw"]

AXES = ("buffers", "match_rate", "cores", "comparators")
LABELS = ("engine", "merge", "lanes", "input", "buffers")


def draw(title: str, rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw cycles over the first column of ``AXES`` that varies, and the papers' own figures."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = title  # the same rows give the same file
    from matplotlib import pyplot

    axis = next((name for name in AXES if len({row[name] for row in rows}) > 2), AXES[0])
    curves: dict[str, list[Mapping[str, Any]]] = {}
    varying = [name for name in LABELS if name != axis and len({row[name] for row in rows}) > 1]
    for row in rows:
        label = ", ".join(f"{name} {row[name]}" for name in varying) or row["engine"]
        curves.setdefault(label, []).append(row)
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for label, points in curves.items():
        axes.plot([p[axis] for p in points], [p["cycles"] for p in points], marker=".", label=label)
    known = [row for row in rows if row.get("paper_cycles")]
    if known:
        values = [row["paper_cycles"] for row in known]
        axes.plot([row[axis] for row in known], values, "kx", label="the paper")
    axes.set(title=title, xlabel=axis.replace("_", " "), ylabel="cycles", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
