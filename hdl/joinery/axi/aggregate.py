"""The shell of an engine for window aggregates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Shape, Signal, Value, ValueLike
from amaranth.lib import data, stream
from amaranth.lib.wiring import Member

from ..aggregate import AggregateEngine, Setting
from ..registers import Row
from ..tuples import ColumnType, IntType
from .memory import MemoryPins
from .shell import Identity, describe_fields
from .stream import StreamShell

__all__ = ["AggregateShell", "Report", "ReportColumn"]

WORD = 32


@dataclass(frozen=True)
class ReportColumn:
    """A column of a result, and what of the engine's row it is made of.

    ``path`` leads to its value within the row. What is made of that is told by ``rule``:

    - none: the value itself
    - ``end``: the value, which is the end of a window, and may lie past the range of ``type``
    - ``quotient``: ``sum`` and ``count`` lie below ``path``; the column is their quotient, rounded
      half away from zero to ``digits`` more digits than the sum has
    - ``mean``: half of the value, with one digit more
    """

    name: str
    type: ColumnType
    path: tuple[str, ...]
    rule: str | None = None
    digits: int = 0


@dataclass(frozen=True)
class Report:
    """What a query reports: its name and columns, in order."""

    name: str
    columns: tuple[ReportColumn, ...]


class AggregateShell(StreamShell):
    """An engine for window aggregates as an AXI core.

    An input beat carries a tuple or a punctuation per lane. An output beat has a place for a row of
    each query; where there are several, a row begins with its query's number. Where keys can lose
    their place, a row begins with a bit that tells whether it reports that. Channels of memory that
    the engine leaves outside are ports of the core. A setting that can be changed at run time is
    one register, or two where it is wider than 32 bits; a write to ``apply`` asks for all of them
    at once.

    Parameters
    ----------
    engine : AggregateEngine
    identity : Identity
    reports : sequence of Report
        One for each query of the engine.
    """

    COUNTERS = {  # noqa: RUF012 - read only
        "cycles": StreamShell.SHARED["cycles"],
        "accepted": "Tuples taken in",
        "punctuations": "Punctuations taken in",
        "late": "Tuples that passed WHERE and were too late, counted once for each query",
        "results": StreamShell.SHARED["results"],
        "stall_input": StreamShell.SHARED["stall_input"],
        "stall_output": StreamShell.SHARED["stall_output"],
        "stall_engine": StreamShell.SHARED["stall_engine"],
    }

    ADDED = ("latency", "drain")

    engine: AggregateEngine

    def __init__(
        self, engine: AggregateEngine, identity: Identity, reports: Sequence[Report]
    ) -> None:
        self.reports = tuple(reports)
        queries = len(engine.queries)
        if len(self.reports) != queries:
            raise ValueError(f"There are {queries} queries, and {len(self.reports)} reports")
        tag = {"query": (queries - 1).bit_length()} if queries > 1 else {}
        if engine.eviction is not None:
            tag["evicted"] = 1
            self.COUNTERS = {**self.COUNTERS, "evicted": "Keys that lost their place to another"}
        row = engine.result["rows"].shape.elem_shape["row"].shape
        lane = data.StructLayout(
            {"valid": 1, "punctuation": 1, "tuple": engine.source.schema.layout}
        )
        self.memories = [MemoryPins(each) for each in engine.channels]
        late = {f"late_{k}": f"Late tuples of query {k}" for k in range(queries)}
        if queries > 1:
            self.COUNTERS = {**self.COUNTERS, **late}
        per_beat = engine.lanes.bit_length()
        super().__init__(
            engine,
            identity,
            input=data.StructLayout({"lanes": data.ArrayLayout(lane, engine.lanes)}),
            output=data.StructLayout({**tag, "row": row}),
            lanes=queries,
            widths={
                "accepted": per_beat,
                "punctuations": per_beat,
                "late": (engine.lanes * queries).bit_length(),
                **dict.fromkeys(late, per_beat),
            },
            settings=[row for setting in engine.settings for row in _setting_rows(setting)]
            + (APPLY if engine.settings else []),
            live={"refused": 1, "applied": WORD} if engine.settings else None,
        )

    def _stream_ports(self) -> dict[str, Member]:
        ports = super()._stream_ports()
        for each in self.memories:
            ports |= each.members()
        return ports

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        for each in self.memories:
            ports = getattr(self.engine, f"ports_{each.channel.level}")
            each.connect(m, self, ports[each.channel.number])
        return m

    def feed(self, m: Module, beat: Any, present: Value) -> None:
        for lane, tuples in zip(self.engine.i.payload.lanes, beat.lanes, strict=True):
            m.d.comb += [
                lane.valid.eq(tuples.valid & present),
                lane.punctuation.eq(tuples.punctuation & present),
                lane.tuple.eq(tuples.tuple),
            ]

    def results(self, m: Module) -> stream.Interface:
        """The engine's rows, each with the number of its query."""
        lane = data.StructLayout({"valid": 1, "row": self.output_layout})
        layout = data.StructLayout({"end": 1, "lanes": data.ArrayLayout(lane, self.lanes)})
        rows = stream.Signature(layout).create(path=("rows",))
        given = self.engine.o
        m.d.comb += [
            rows.valid.eq(given.valid),
            given.ready.eq(rows.ready),
            rows.payload.end.eq(given.payload.end),
        ]
        for number in range(self.lanes):
            place, row = given.payload.rows[number], rows.payload.lanes[number].row
            m.d.comb += [
                rows.payload.lanes[number].valid.eq(place.valid),
                Value.cast(row.row).eq(Value.cast(place.row)),
            ]
            if self.lanes > 1:
                m.d.comb += row.query.eq(number)
            if self.engine.eviction is not None:
                m.d.comb += row.evicted.eq(place.evicted)
        return rows

    def decisions(self, m: Module, entering: Value) -> tuple[Value, Value]:
        """Every transfer is accepted when it is taken."""
        return entering, Signal(name="never")

    def counted(self, m: Module, entering: Value) -> dict[str, ValueLike]:
        lanes = list(self.engine.i.payload.lanes)
        late = list(self.engine.late)
        found: dict[str, ValueLike] = {
            "accepted": sum(each.valid & ~each.punctuation & entering for each in lanes),
            "punctuations": sum(each.valid & each.punctuation & entering for each in lanes),
            "late": sum(late),
        }
        if self.lanes > 1:
            found |= {f"late_{k}": each for k, each in enumerate(late)}
        if self.engine.eviction is not None:
            given = self.m_axis_tvalid & self.m_axis_tready & self.m_axis_tkeep[0]
            gone = self.m_axis_tdata[self.output_layout["evicted"].offset]
            found |= {"evicted": given & gone, "results": given & ~gone}
        if self.engine.settings:
            self._settings(m)
        return found

    def _settings(self, m: Module) -> None:
        """Hand the registers to the engine, and remember what became of the last request."""
        engine: Any = self.engine
        bank: Any = self.bank
        for setting in engine.settings:
            words = [getattr(bank, f"set_{row[0]}") for row in _setting_rows(setting)]
            m.d.comb += getattr(engine, f"set_{setting.name}").eq(Cat(*words))
        refused = Signal()
        applied = Signal(WORD)
        m.d.comb += [
            engine.apply.eq(bank.pulse_apply[0]),
            bank.live_refused.eq(refused),
            bank.live_applied.eq(applied),
        ]
        with m.If(engine.apply):
            m.d.sync += refused.eq(0)
        with m.If(engine.applied):
            m.d.sync += applied.eq(applied + 1)
        with m.If(engine.refused):
            m.d.sync += refused.eq(1)

    def describe_input(self) -> dict[str, Any]:
        """One lane; lane ``k`` lies ``k * lane_width`` bits further up."""
        source = self.engine.source
        lanes = self.input_layout["lanes"].shape
        lane = lanes.elem_shape
        flags = {f"has_{source.name}": "valid", "punctuation": "punctuation"}
        return {
            "lanes": self.engine.lanes,
            "lane_width": lane.size,
            "flags": [
                {"name": name, "source": source.name, "offset": lane[member].offset, "width": 1}
                for name, member in flags.items()
            ],
            "fields": describe_fields(
                source.schema.layout,
                source.schema,
                base=lane["tuple"].offset,
                source=source.name,
            ),
        }

    def describe(self) -> dict[str, Any]:
        found = super().describe()
        if self.engine.settings:
            found["settings"] = [
                {
                    "name": each.name,
                    "low": each.low,
                    "high": each.high,
                    "initial": each.initial,
                    "registers": [row[0] for row in _setting_rows(each)],
                }
                for each in self.engine.settings
            ]
        if self.memories:
            found["memories"] = [each.describe() for each in self.memories]
        return found

    def describe_output(self) -> dict[str, Any]:
        base = self.output_layout["row"].offset
        layouts = self.engine.row_layouts
        columns = [
            [_describe(column, layout, base) for column in report.columns]
            for report, layout in zip(self.reports, layouts, strict=True)
        ]
        if self.lanes == 1:
            return {"fields": columns[0], **self._describe_eviction(base)}
        tag = self.output_layout["query"]
        return {
            "query": {"offset": tag.offset, "width": tag.width, "signed": False},
            "queries": [
                {"name": report.name, "fields": fields}
                for report, fields in zip(self.reports, columns, strict=True)
            ],
        }

    def _describe_eviction(self, base: int) -> dict[str, Any]:
        """Where an eviction is told, by the names that it has for a host."""
        layout = self.engine.eviction
        if layout is None:
            return {}
        source, tag = self.engine.source, self.output_layout["evicted"]
        kinds = {"count": IntType(64), "at": IntType(64)}
        columns = [
            *(ReportColumn(name, source.schema[name], ("key", name)) for name in source.keys),
            *(ReportColumn(f"_{name}", kind, (name,)) for name, kind in kinds.items()),
            *(ReportColumn(f"_by_{name}", source.schema[name], ("by", name))
              for name in source.keys),
        ]  # fmt: skip
        return {
            "evicted": {
                "offset": tag.offset,
                "width": 1,
                "signed": False,
                "fields": [_describe(column, layout, base) for column in columns],
            }
        }


APPLY: list[Row] = [
    ("apply", "pulse", "Write 1 to ask for the settings above; reads as 0", 0),
    ("applied", "ro", "How many requests have taken effect", 0),
    ("refused", "ro", "1 where the last request was refused", 0),
]


def _setting_rows(setting: Setting) -> list[Row]:
    """The registers of a setting: 32 bits each, the low ones first."""
    parts = -(-setting.shape.width // WORD)
    ends = {1: [""], 2: ["_lo", "_hi"]}.get(parts, [f"_{part}" for part in range(parts)])
    about = f"{setting.description}, {setting.low} to {setting.high}"
    return [
        (setting.name + end, "rw", about, setting.initial >> WORD * part & (1 << WORD) - 1)
        for part, end in enumerate(ends)
    ]


def _describe(column: ReportColumn, layout: Any, base: int) -> dict[str, Any]:
    """Say where a column, or each part of it, lies in a row that begins at bit ``base``."""
    about: dict[str, Any] = {"column": column.name, "type": column.type.sql}
    if column.rule:
        about["rule"] = column.rule
    if column.rule != "quotient":
        return about | _place(column.path, layout, base)
    parts = {part: _place((*column.path, part), layout, base) for part in ("sum", "count")}
    return about | {"digits": column.digits, "parts": parts}


def _place(path: Sequence[str], layout: Any, base: int) -> dict[str, Any]:
    for name in path:
        base += layout[name].offset
        layout = layout[name].shape
    shape = Shape.cast(layout)
    return {"offset": base, "width": shape.width, "signed": shape.signed}
