"""Handshake join: two windows flowing past each other through a chain of cores.

Left rows enter at core 0 and move up, right rows enter at the last core and move down (Teubner
2011, section 4; Oge 2012, chapter 4). Whenever a row enters a core it is compared with the rows of
the other stream in that core. Two rows that are in their windows together start on opposite sides
or in the same core, move one place at a time, and so share a core exactly once.
"""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from ..join import JoinEngine, JoinPair, split_rows
from ..stream import MergeTree
from ..units import place
from .core import STORAGE, JoinCore, Prober
from .sequencer import Sequencer

__all__ = ["HandshakeJoin", "core_of_left", "core_of_right", "drain_steps"]


def core_of_left(position: int, rows: int, cores: int) -> int:
    """The core of the left row at ``position`` (0 is the newest); ``cores`` once it has expired."""
    share, larger = divmod(rows, cores)
    if position >= rows:
        return cores
    if position < larger * (share + 1):
        return position // (share + 1)
    return larger + (position - larger * (share + 1)) // share


def core_of_right(position: int, rows: int, cores: int) -> int:
    """The core of the right row at ``position`` (0 is the newest); -1 once it has expired."""
    share, larger = divmod(rows, cores)
    if position >= rows:
        return -1
    from_end = rows - 1 - position  # counted from core 0, which has the oldest rows
    return core_of_left(from_end, rows, cores)


def drain_steps(rows_left: int, rows_right: int, cores: int) -> int:
    """Return how many empty steps bring the newest left row and the newest right row together."""
    steps = 0
    while core_of_left(steps, rows_left, cores) < core_of_right(steps, rows_right, cores):
        steps += 1
    return steps


class HandshakeJoin(JoinEngine):
    """Join two streams over row windows, on a chain of cores.

    Throughput: a left tuple every ``left_cycles``, a right tuple every ``right_cycles``, one of
    each every ``max`` of the two (``ceil`` of the other window's rows over ``cores``); one result
    per cycle. Where results come faster than they leave, the input waits (policy ``block``).

    A pair is found when its rows share a core, which may be after later tuples have moved them
    there; at the end of the input, ``drain_steps`` empty steps bring the rest together.

    Critical path: the predicate's longest stage, or the row multiplexer in front of it.

    Parameters
    ----------
    pair : JoinPair
    rows_left, rows_right : int
        Window sizes.
    cores : int
        At most the smaller window's rows: every core holds a row of each stream at least.
    storage : "registers" or "memory"
        Where the windows are.
    ops_per_stage : int
        Bounds the operators between two registers of the predicate.
    queue_depth : int or None
        Matches that a core holds per direction. None takes twice what is needed to be safe.
    fan_in : int
        Inputs per merger of the tree that collects the matches.
    merge_depth : int
        Places in the queue of each merger.
    """

    stalled: Signal

    def __init__(
        self,
        pair: JoinPair,
        *,
        rows_left: int,
        rows_right: int,
        cores: int,
        storage: str = "registers",
        ops_per_stage: int = 2,
        queue_depth: int | None = None,
        fan_in: int = 4,
        merge_depth: int = 2,
    ) -> None:
        for name, value in (("left", rows_left), ("right", rows_right)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"The {name} window must have a positive number of rows, not {value!r}"
                )
        if not isinstance(cores, int) or not 1 <= cores <= min(rows_left, rows_right):
            raise ValueError(
                f"Cores must be 1 to {min(rows_left, rows_right)}, the smaller window's rows, "
                f"not {cores!r}"
            )
        if storage not in STORAGE:
            raise ValueError(f"Storage must be {' or '.join(STORAGE)}, not {storage!r}")
        super().__init__(pair)
        self.rows_left = rows_left
        self.rows_right = rows_right
        self.cores = cores
        self.storage = storage
        self.ops_per_stage = ops_per_stage
        self.left_cycles = -(-rows_right // cores)
        self.right_cycles = -(-rows_left // cores)
        self.drain_steps = drain_steps(rows_left, rows_right, cores)
        # Matches on the way to the queues' levels, with one register for the cores' `room`.
        self.notice = Sequencer.NOTICE + 1
        reserve = Prober.reserve_for(pair, ops_per_stage=ops_per_stage, notice=self.notice + 1)
        self.queue_depth = 2 * (reserve + 1) if queue_depth is None else queue_depth
        if self.queue_depth <= reserve:
            raise ValueError(
                f"Result queues of {queue_depth} can overflow: {reserve} matches may be on their "
                f"way when a core asks to wait, so the depth must be at least {reserve + 1}"
            )
        self.fan_in = fan_in
        self.merge_depth = merge_depth
        # A match needs at most so long from its decision to the output, if nothing is in its way.
        self.quiet_cycles = reserve + 2 * (1 + MergeTree.count_levels(2 * cores, fan_in))

    def _chain(self) -> list[JoinCore]:
        shares = zip(
            split_rows(self.rows_left, self.cores),
            split_rows(self.rows_right, self.cores),
            strict=True,
        )
        return [
            JoinCore(
                self.pair,
                rows_left=rows_left,
                rows_right=rows_right,
                span=max(self.left_cycles, self.right_cycles),
                storage=self.storage,
                ops_per_stage=self.ops_per_stage,
                queue_depth=self.queue_depth,
                notice=self.notice,
            )
            for rows_left, rows_right in shares
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sequencer = sequencer = Sequencer(
            self.pair,
            left_cycles=self.left_cycles,
            right_cycles=self.right_cycles,
            drain_steps=self.drain_steps,
            quiet_cycles=self.quiet_cycles,
        )
        m.submodules.tree = tree = MergeTree(
            self.pair.match, inputs=2 * self.cores, fan_in=self.fan_in, depth=self.merge_depth
        )
        chain = self._chain()
        for k, core in enumerate(chain):
            m.submodules[f"core_{k}"] = place(core, platform, *core.key)
            for member in sequencer.command.signature.members:
                m.d.comb += getattr(core.command, member).eq(getattr(sequencer.command, member))
            m.d.comb += [
                core.i_left.eq(chain[k - 1].o_left if k else sequencer.left),
                core.i_right.eq(chain[k + 1].o_right if k + 1 < self.cores else sequencer.right),
            ]
            wiring.connect(m, core.o_met_left, tree.i[2 * k])
            wiring.connect(m, core.o_met_right, tree.i[2 * k + 1])

        m.d.sync += sequencer.room.eq(Cat(core.room for core in chain).all())
        m.d.comb += [
            sequencer.leaving.eq(tree.o.valid),
            self.stalled.eq(sequencer.stalled),
            self.o.valid.eq(tree.o.valid | sequencer.o_end.valid),
            self.o.payload.end.eq(sequencer.o_end.valid),
            self.o.payload.match.eq(tree.o.payload),
            tree.o.ready.eq(self.o.ready),
            sequencer.o_end.ready.eq(self.o.ready),
        ]
        wiring.connect(m, wiring.flipped(self.i), sequencer.i)
        return m
