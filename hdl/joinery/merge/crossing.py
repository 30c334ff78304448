"""A merging network on a clock of its own (Teubner 2011, appendix A.4)."""

from amaranth.hdl import DomainRenamer, Module, Signal, Value
from amaranth.lib import fifo, stream

from .network import MergingNetwork

__all__ = ["MERGE_DOMAIN", "CrossedNetwork"]

MERGE_DOMAIN = "merge"


class CrossedNetwork(MergingNetwork):
    """Run ``network`` in the clock domain ``merge``; both of its sides stay in ``sync``.

    Throughput: one transfer per cycle of the slower clock, in each lane and from any input; latency
    grows by the crossings, a few cycles of either clock on each side. Each crossing is a FIFO with
    Gray-coded pointers, so the clocks may have any frequencies and phases.

    Parameters
    ----------
    network : MergingNetwork
    """

    DEPTH = 16
    """Places in a crossing: enough for a transfer per cycle while pointers take four cycles."""

    def __init__(self, network: MergingNetwork) -> None:
        self.network = network
        rows = (network.inputs + network.lanes) * self.DEPTH
        super().__init__(network.shape, inputs=network.inputs, lanes=network.lanes)
        self.rows = network.rows + rows

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.network = DomainRenamer({"sync": MERGE_DOMAIN})(self.network)
        for k, (outer, inner) in enumerate(zip(self.i, self.network.i, strict=True)):
            self._cross(m, f"input_{k}", outer, inner, "sync", MERGE_DOMAIN)
        for k, (inner, outer) in enumerate(zip(self.network.o, self.o, strict=True)):
            self._cross(m, f"output_{k}", inner, outer, MERGE_DOMAIN, "sync")

        # What has entered and not left, counted on this side of the crossings.
        inside = Signal(range(self.rows + 2))
        entered = sum(i.valid & i.ready for i in self.i)
        left = sum(o.valid & o.ready for o in self.o)
        m.d.sync += inside.eq(inside + entered - left)
        m.d.comb += self.busy.eq(inside != 0)
        return m

    def _cross(
        self,
        m: Module,
        name: str,
        source: stream.Interface,
        sink: stream.Interface,
        from_domain: str,
        to_domain: str,
    ) -> None:
        """Carry transfers from ``source``, which this side takes, to ``sink``."""
        width = Value.cast(source.payload).shape().width
        m.submodules[name] = crossing = fifo.AsyncFIFO(
            width=width, depth=self.DEPTH, w_domain=from_domain, r_domain=to_domain
        )
        m.d.comb += [
            crossing.w_data.eq(source.payload),
            crossing.w_en.eq(source.valid),
            source.ready.eq(crossing.w_rdy),
            Value.cast(sink.payload).eq(crossing.r_data),
            sink.valid.eq(crossing.r_rdy),
            crossing.r_en.eq(sink.ready),
        ]
