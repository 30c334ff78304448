"""The stream law as hardware: a watcher that asserts it, or assumes it of a free input.

Two sentences make the law: ``valid`` does not fall before the transfer, and the payload holds until
it is taken. That ``valid`` does not wait for ``ready`` cannot be seen in a single run; proofs check
it by keeping ``ready`` low and asking for ``valid`` all the same.
"""

from typing import Any

from amaranth.hdl import Assert, Assume, Module, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

__all__ = ["StreamLaw", "attach_law"]


class StreamLaw(wiring.Component):
    """Watch one stream and hold it to the law.

    Adds no latency and drives nothing: it is for proofs and simulations.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    assume : bool
        State the law as an assumption about a free input, not as an assertion. For proofs only.
    domain : str
        ``sync`` asserts at clock edges, as a simulation needs, where values pass through others
        before they settle; ``comb`` asserts at all times, as a proof needs.

    Members
    -------
    valid : In(1)
    ready : In(1)
    payload : In(shape)
    """

    valid: Signal
    ready: Signal
    payload: Signal

    def __init__(self, shape: ShapeLike, *, assume: bool = False, domain: str = "sync") -> None:
        if domain not in ("sync", "comb"):
            raise ValueError(f"StreamLaw domain must be sync or comb, not {domain!r}")
        if assume and domain != "comb":
            raise ValueError("StreamLaw assumes in the comb domain only")
        self.assume = assume
        self.domain = domain
        super().__init__({"valid": In(1), "ready": In(1), "payload": In(shape)})

    def elaborate(self, platform: object) -> Module:
        m = Module()

        payload = Value.cast(self.payload)
        waiting = Signal()
        offered = Signal(payload.shape())

        m.d.sync += waiting.eq(self.valid & ~self.ready)
        m.d.sync += offered.eq(payload)
        state: Any = Assume if self.assume else Assert
        m.d[self.domain] += state(~waiting | self.valid)
        m.d[self.domain] += state(~waiting | ~self.valid | (payload == offered))

        return m


def attach_law(
    m: Module,
    watched: stream.Interface,
    *,
    name: str,
    assume: bool = False,
    domain: str = "sync",
) -> None:
    """Add a ``StreamLaw`` for ``watched`` to ``m``, as the submodule ``name``."""
    shape = watched.signature.members["payload"].shape
    law = StreamLaw(shape, assume=assume, domain=domain)
    m.submodules[name] = law
    m.d.comb += law.valid.eq(watched.valid)
    m.d.comb += law.ready.eq(watched.ready)
    m.d.comb += law.payload.eq(watched.payload)
