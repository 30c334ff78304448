"""Rows held against Spark's: what was found, and how a person or a script is told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from .common import cell, make_table, print_json, print_table, say
from .results import print_differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.table import Table

    from joinery_gen.compare import Comparison
    from joinery_gen.query import Query

__all__ = ["Golden", "Judged", "report", "verdict_table"]


@dataclass(kw_only=True)
class Judged:
    """What a run showed of one SELECT, beside how it was run.

    ``verdict`` is ``equal`` or ``different`` (rows or late tuples), or ``failed`` where the design
    misbehaved, as ``error`` tells; then nothing may be known about rows.
    """

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"query", "error", "comparison"})
    """What a table for people leaves out."""

    query: str
    hardware_rows: int | None = None
    golden_rows: int | None = None
    missing: int | None = None
    extra: int | None = None
    duplicated: int | None = None
    late_hardware: int | None = None
    late_golden: int | None = None
    evicted: int | None = None
    verdict: str = "failed"
    error: str | None = None
    comparison: "Comparison | None" = None

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON, with the first different rows as ``differences``."""
        told = {each.name: getattr(self, each.name) for each in _in_order(type(self))}
        comparison = told.pop("comparison")
        return told | {"differences": comparison.as_dict()["differences"] if comparison else []}


@dataclass(frozen=True)
class Golden:
    """Where the results of a run are, and how Spark is asked.

    ``folder`` holds ``out.parquet`` and ``evicted.parquet``; ``inputs`` are the prepared tuples, or
    those that were accepted. ``top`` is the content of ``top.json``.
    """

    top: Mapping[str, Any]
    folder: Path
    inputs: Path
    master: str | None
    spark: "SparkSession | None"
    show: int

    def path(self, number: int) -> Path:
        """The golden result of the SELECT with this number."""
        return self.folder / f"golden{number + 1 if self._several else ''}.parquet"

    @property
    def _several(self) -> bool:
        return len(self._files) > 1

    @property
    def _files(self) -> list[Path]:
        from joinery_tb.words import result_files

        return result_files(self.top, self.folder / "out.parquet")

    def judge(
        self,
        number: int,
        query: "Query",
        found: Judged,
        registers: Mapping[str, int],
        evicted: int,
    ) -> None:
        """Hold the rows of the SELECT with this number against Spark's, with late tuples, and the
        errors that the design has to tell."""
        from joinery_gen.compare import compare
        from joinery_gen.golden import run_golden

        truth = run_golden(
            query,
            self.inputs,
            self.path(number),
            master=self.master,
            spark=self.spark,
            evictions=self.folder / "evicted.parquet" if evicted else None,
        )
        compared = compare(self._files[number], self.path(number), show=self.show)
        found.comparison = compared
        found.hardware_rows, found.golden_rows = compared.hardware_rows, compared.golden_rows
        found.missing, found.extra = compared.missing, compared.extra
        found.duplicated = compared.duplicated
        found.late_hardware = registers.get(f"late_{number}" if self._several else "late", 0)
        found.late_golden = truth.late
        if "evicted" in registers:
            found.evicted = evicted
        same_late = found.late_hardware == found.late_golden
        found.verdict = compared.verdict if same_late else "different"
        told = self._complaints(registers)
        if truth.misreported or evicted != registers.get("evicted", evicted):
            told.append(f"{truth.misreported} of {evicted} evictions were told wrongly")
        if told:
            found.verdict, found.error = "failed", "; ".join(told)

    def _complaints(self, registers: Mapping[str, int]) -> list[str]:
        """What the design says may have cost results, and what to do."""
        from joinery_gen.engines import ENGINES

        advice = ENGINES[self.top["engine"]].advice
        told = [
            f"{text}; {advice[bit]}" if bit in advice else text
            for bit, text in enumerate(self.top.get("errors", ()))
            if registers["errors"] >> bit & 1
        ]
        if dropped := registers.get("dropped_results"):
            told.append(f"{dropped:,} results were dropped, as the policy allows")
        return told


def _in_order(kind: type[Judged]) -> list[Any]:
    """The query and how it was run come first, then what was found."""
    found = {each.name for each in fields(Judged)} - {"query"}
    return sorted(fields(kind), key=lambda each: each.name in found)


def verdict_table(found: Sequence[Judged]) -> "Table":
    """Lay out runs side by side, under the names of their queries."""
    table = make_table(None, [])
    for name in ("", *(one.query for one in found)):
        table.add_column(name)
    for each in _in_order(type(found[0])):
        if each.name not in found[0].HIDDEN:
            table.add_row(each.name, *(_lines(getattr(one, each.name)) for one in found))
    return table


def _lines(value: Any) -> str:
    """Spell a value, a mapping with one entry per line, so that the table stays narrow."""
    return cell(value).replace(", ", "\n") if isinstance(value, Mapping) else cell(value)


def report(ctx: click.Context, found: Sequence[Judged], as_json: bool) -> None:
    """Print what was found, as JSON or as a table, and end with the exit code it calls for."""
    if as_json:
        told = [one.as_dict() for one in found]
        print_json(told[0] if len(told) == 1 else told)
    else:
        for one in found:
            print_differences(one.comparison.differences if one.comparison else ())
        print_table(verdict_table(found))
    for one in found:
        if one.error:
            say(f"joinery: {one.query}: {one.error}")
    ctx.exit(0 if all(one.verdict == "equal" for one in found) else 1)
