# amaranth: UnusedElaboratable=no
# (a card is described without being built, or refused when half made)
"""A card: join pipelines that work on memory behind AXI4, told what to do through AXI4-Lite.

Each pipeline has an AXI4 master of its own, as cards with several banks of memory want it: none
waits for another, and nothing has to be fair.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Out

from ..axi.shell import Identity, Shell, connect_registers, register_ports
from ..join import JoinPair
from ..registers import AxiLiteRegisters, counter_rows, lay_out
from ..stream._check import require_positive
from .bus import axi4_members, connect_master
from .control import STATES, connect_pipeline, live_registers, pipeline_rows
from .deliver import RESULT_BYTES
from .fetch import PAGE
from .paper import FJoinPaper
from .pipeline import FJoinPipeline
from .shape import ROLES, PipelineShape
from .task import CardPipeline

__all__ = ["FJoinCard"]

CLOCK = "clock"
UNNAMED = Identity(version=0, query_hash=0)


class FJoinCard(Shell):
    """Join pipelines behind AXI4-Lite registers, each with an AXI4 master.

    Throughput: that of the pipelines.

    Parameters
    ----------
    pair : JoinPair
        The streams and the predicate, without the test of times.
    pipelines : sequence of (side, units)
        ``"left"`` where stream tuples are left ones, and how many a batch has.
    paper : bool
        Pipelines as the paper has them, of one lane and without clusters.
    lanes, cluster, id_bits, time_bits, ops_per_stage
        As for ``PipelineShape``, for all pipelines; ids have 32 bits at most.
    word_bytes, address_bits, burst : int
        Width of the memory's bus in bytes; bits of an address in bytes; words in a burst, at most.
    identity : Identity
        Who this is.

    Members
    -------
    s_axil_* : AXI4-Lite
    m_axi_<k>_* : AXI4
        The master of pipeline k.
    running : Out(len(pipelines))
        Which pipelines are neither idle nor done nor in want of a buffer: an interrupt when low.
    """

    running: Signal

    def __init__(
        self,
        pair: JoinPair,
        *,
        pipelines: Sequence[tuple[str, int]],
        paper: bool = False,
        lanes: int = 1,
        cluster: int = 16,
        id_bits: int = 32,
        time_bits: int = 32,
        ops_per_stage: int = 2,
        word_bytes: int = 64,
        address_bits: int = 40,
        burst: int = 64,
        identity: Identity = UNNAMED,
    ) -> None:
        require_positive("Pipelines of a card", len(pipelines))
        if not isinstance(id_bits, int) or not 2 <= id_bits <= 32:
            raise ValueError(f"Ids on a card have 2 to 32 bits, not {id_bits!r}")
        if not isinstance(word_bytes, int) or word_bytes not in (8, 16, 32, 64, 128):
            raise ValueError(f"A bus word has 8, 16, 32, 64 or 128 bytes, not {word_bytes!r}")
        if not isinstance(address_bits, int) or not 16 <= address_bits <= 64:
            raise ValueError(f"Addresses have 16 to 64 bits, not {address_bits!r}")
        most = min(256, PAGE // word_bytes)
        if not isinstance(burst, int) or not 1 <= burst <= most:
            raise ValueError(f"A burst of this bus has 1 to {most} words, not {burst!r}")
        self.pair = pair
        self.word_bytes = word_bytes
        self.address_bits = address_bits
        common = {"id_bits": id_bits, "time_bits": time_bits, "ops_per_stage": ops_per_stage}
        bus = {"word_bytes": word_bytes, "address_bits": address_bits, "burst": burst}
        self.pipelines = []
        for side, units in pipelines:
            pipeline: Any
            if paper:
                pipeline = FJoinPaper(pair, side=side, units=units, **common)
            else:
                pipeline = FJoinPipeline(
                    pair, side=side, units=units, lanes=lanes, cluster=cluster, **common
                )
            _check_tuples(pipeline.shape, word_bytes)
            self.pipelines.append(CardPipeline(pipeline, **bus))
        numbers = range(len(pipelines))
        self.errors = tuple(f"memory answered pipeline {k} with an error" for k in numbers)
        rows = identity.rows(self.errors)
        rows += counter_rows({CLOCK: "Cycles since reset, or since control was written"})
        live: dict[str, int] = {}
        ports: dict[str, Any] = {}
        for k in numbers:
            rows += pipeline_rows(k)
            live |= live_registers(k)
            master = axi4_members(address_bits, word_bytes)
            ports |= {f"m_axi_{k}_{name}": member for name, member in master.items()}
        self.registers = lay_out(rows)
        self.bank = AxiLiteRegisters(self.registers, {CLOCK: 1}, errors=len(pipelines), live=live)
        super().__init__({**register_ports(self.bank), **ports, "running": Out(len(pipelines))})

    @property
    def predicted(self) -> dict[str, Any]:
        """Cycles of the slowest pipeline, and what all of them have together."""
        pipelines: list[Any] = [each.pipeline for each in self.pipelines]
        shapes = [each.shape for each in pipelines]
        cycles = [each.predicted for each in pipelines]
        left, right = (shapes[0].stride(role) for role in _roles(shapes[0]))
        return {
            "cycles": {name: max(each[name] for each in cycles) for name in cycles[0]},
            "resources": {
                "units": sum(shape.units for shape in shapes),
                "bytes_left": left,
                "bytes_right": right,
            },
        }

    def describe(self) -> dict[str, Any]:
        """Say which pipelines there are, and how tuples and results lie in memory."""
        first = self.pipelines[0].pipeline.shape
        left, right = (self._tuples(first, role) for role in _roles(first))
        half = 4 * RESULT_BYTES
        ids = [
            {"name": f"#{role}", "offset": half * k, "width": first.id_bits, "signed": False}
            for k, role in enumerate(ROLES)
        ]
        shapes = [each.pipeline.shape for each in self.pipelines]
        result = self._record(RESULT_BYTES, ids)
        return {
            "pipelines": [{"side": shape.side, "units": shape.units} for shape in shapes],
            "records": {"left": left, "right": right, "result": result},
        }

    def _tuples(self, shape: PipelineShape, role: str) -> dict[str, Any]:
        record = shape.record(role)
        fields = [
            {"name": f"#{name}", "offset": record[name].offset, "width": record[name].width,
             "signed": False}
            for name in ("id", "time")
        ]  # fmt: skip
        base, inner = record["columns"].offset, shape.columns(role)
        fields += [
            {"name": each.name, "width": each.type.width,
             "offset": base + inner.layout[each.name].offset, "signed": each.type.shape.signed}
            for each in inner
        ]  # fmt: skip
        return self._record(shape.stride(role), fields)

    def _record(self, stride: int, fields: list[dict[str, Any]]) -> dict[str, Any]:
        per_word = self.word_bytes // stride
        return {
            "word_bytes": self.word_bytes, "stride": stride, "per_word": per_word, "fields": fields
        }  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = bank = self.bank
        connect_registers(m, self, bank)
        m.d.comb += getattr(bank, f"count_{CLOCK}").eq(1)
        for number, unit in enumerate(self.pipelines):
            m.submodules[f"card_pipeline_{number}"] = unit
            connect_pipeline(m, bank, number, unit)
            connect_master(m, self, f"m_axi_{number}_", unit)
            m.d.comb += [
                self.running[number].eq(unit.state == STATES.index("running")),
                bank.count_errors[number].eq(unit.error),
            ]
        return m


def _roles(shape: PipelineShape) -> Sequence[str]:
    """The roles of left and of right tuples in a pipeline."""
    return ROLES if shape.side == "left" else ROLES[::-1]


def _check_tuples(shape: PipelineShape, word_bytes: int) -> None:
    for role in ROLES:
        if shape.stride(role) > word_bytes:
            raise ValueError(
                f"A tuple takes {shape.stride(role)} bytes in memory, and a bus word has "
                f"{word_bytes}"
            )
