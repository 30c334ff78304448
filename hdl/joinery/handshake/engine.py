"""Handshake join: two windows cut into segments, one for each of many cores.

In a *chain*, the windows flow past each other (Teubner 2011, section 4; Oge 2012, chapter 4): left
rows enter at core 0 and move up, right rows enter at the last core and move down. Whenever a row
enters a core it is compared with the rows of the other stream in that core. Two rows that are in
their windows together start on opposite sides or in the same core, move one place at a time, and so
share a core exactly once.

In a *broadcast*, rows stay where they are written, in turn over the cores, and a new tuple is
compared with the segments of all cores at once. The comparisons are the same, and so is their rate;
no pair waits for later tuples, but the new tuple is wired to every core.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring

from ..expr import pipeline_latency
from ..join import JoinEngine, JoinPair, TimeBound, split_rows
from ..merge import MERGE_DOMAIN, NETWORKS, CrossedNetwork, MergingNetwork
from ..units import place
from .core import FLOWS, STORAGE, JoinCore
from .guard import WindowGuard
from .sequencer import Sequencer

__all__ = ["POLICIES", "HandshakeJoin", "core_of_left", "core_of_right", "drain_steps"]

POLICIES = ("block", "shed", "drop_results")


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
    if position >= rows:
        return -1
    # Counted from core 0, which has the oldest rows.
    return core_of_left(rows - 1 - position, rows, cores)


def drain_steps(rows_left: int, rows_right: int, cores: int) -> int:
    """Return how many empty steps bring the newest left row and the newest right row together."""
    steps = 0
    while core_of_left(steps, rows_left, cores) < core_of_right(steps, rows_right, cores):
        steps += 1
    return steps


class HandshakeJoin(JoinEngine):
    """Join two streams over row windows, on many cores.

    Throughput: a left tuple every ``left_cycles``, a right tuple every ``right_cycles``, one of
    each every ``max`` of the two, which are ``ceil(rows / (cores * comparators))`` of the other
    window's rows; ``lanes`` results per cycle.

    In a chain a pair is found when its rows share a core, which may be after later tuples have
    moved them there; at the end of the input, ``drain_steps`` empty steps bring the rest together.
    In a broadcast it is found at once.

    Critical path: from the index in a core through the choice of a row to the register behind it,
    125 MHz with 4 cores of 8 rows in registers, 122 MHz with 8 and 93 MHz with 16, whose cells lie
    far apart, on an ECP5 of speed grade 6.

    Parameters
    ----------
    pair : JoinPair
    rows_left, rows_right : int
        Window sizes.
    cores : int
        At most the smaller window's rows: every core holds a row of each stream at least.
    comparators : int
        Comparators per core and direction; at most the rows of a core.
    storage : "registers" or "memory"
        Where the windows are.
    flow : "chain" or "broadcast"
    policy : "block", "shed" or "drop_results"
        What gives way when results come faster than they leave: the input waits, or tuples are
        refused and logged, or results are lost and counted.
    merge : "tree", "ring" or "fsm_tree"
        The network that collects the matches.
    lanes : 1, 2 or 4
        Results that can leave in a cycle.
    fan_in : int
        Inputs per merger of the network.
    merge_depth : int or sequence of int
        Places in each buffer of the network, or for each level of a tree.
    merge_clock : "same" or "own"
        Whether the network runs on the cores' clock or in the domain ``merge``.
    queue_depth : int or None
        Rounds of matches that a core holds per direction. None takes twice what is safe.
    ops_per_stage : int
        Bounds the operators between two registers of the predicate.
    bound : TimeBound or None
        For time windows: the row windows are then a capacity, and ``errors`` tells when it was not
        enough.
    """

    def __init__(
        self,
        pair: JoinPair,
        *,
        rows_left: int,
        rows_right: int,
        cores: int,
        comparators: int = 1,
        storage: str = "registers",
        flow: str = "chain",
        policy: str = "block",
        merge: str = "tree",
        lanes: int = 1,
        fan_in: int | None = None,
        merge_depth: int | list[int] | None = None,
        merge_clock: str = "same",
        queue_depth: int | None = None,
        ops_per_stage: int = 2,
        bound: TimeBound | None = None,
    ) -> None:
        for side, rows in (("left", rows_left), ("right", rows_right)):
            if not isinstance(rows, int) or rows < 1:
                raise ValueError(
                    f"The {side} window must have a positive number of rows, not {rows!r}"
                )
        if not isinstance(cores, int) or not 1 <= cores <= min(rows_left, rows_right):
            raise ValueError(
                f"Cores must be 1 to {min(rows_left, rows_right)}, the smaller window's rows, "
                f"not {cores!r}"
            )
        share = -(-max(rows_left, rows_right) // cores)
        if not isinstance(comparators, int) or not 1 <= comparators <= share:
            raise ValueError(
                f"Comparators must be 1 to {share}, the most rows of a core, not {comparators!r}"
            )
        for name, value, known in (
            ("Storage", storage, tuple(STORAGE)),
            ("Flow", flow, FLOWS),
            ("Policy", policy, POLICIES),
            ("Merge", merge, tuple(NETWORKS)),
            ("Merge clock", merge_clock, ("same", "own")),
        ):
            if value not in known:
                raise ValueError(f"{name} must be {' or '.join(known)}, not {value!r}")
        super().__init__(pair, lanes=lanes)
        self.rows_left = rows_left
        self.rows_right = rows_right
        self.cores = cores
        self.comparators = comparators
        self.storage = storage
        self.flow = flow
        self.policy = policy
        self.merge = merge
        self.fan_in = fan_in
        self.merge_depth = merge_depth
        self.merge_clock = merge_clock
        self.domains = ("sync",) if merge_clock == "same" else ("sync", MERGE_DOMAIN)
        self.ops_per_stage = ops_per_stage
        self.bound = bound
        self.left_cycles = -(-rows_right // (cores * comparators))
        self.right_cycles = -(-rows_left // (cores * comparators))
        self.drain_steps = drain_steps(rows_left, rows_right, cores) if flow == "chain" else 0
        latency = pipeline_latency(pair.predicate, ops_per_stage)
        # On their way to a queue when it asks to wait: one register for the cores' `room`, the
        # sequencer's, one in the core, one for reading the segment, and the predicate's.
        reserve = 1 + Sequencer.NOTICE + 2 + latency
        least = 1 if policy == "drop_results" else reserve + 1
        self.queue_depth = 2 * (reserve + 1) if queue_depth is None else queue_depth
        if not isinstance(self.queue_depth, int) or self.queue_depth < least:
            raise ValueError(
                f"Result queues of {queue_depth!r} can overflow: {reserve} rounds of matches may "
                f"be on their way when a core asks to wait, so the depth must be at least {least}"
            )
        self.backlog = self.queue_depth - (0 if policy == "drop_results" else reserve)
        # From the decision to scan until a match shows in a queue and in the register behind it.
        self.flight_cycles = Sequencer.NOTICE + 2 + latency + 1 + 1
        # The end is taken, the drain found done, the flight over and nothing busy, the end sent.
        self.end_cycles = self.flight_cycles + 4 + (lanes > 1)

    def network(self) -> MergingNetwork:
        """Return the network that collects the matches."""
        options: dict[str, Any] = {"fan_in": self.fan_in, "depth": self.merge_depth}
        given = {name: value for name, value in options.items() if value is not None}
        network: MergingNetwork = NETWORKS[self.merge](
            self.pair.match, inputs=self.cores, lanes=self.lanes, **given
        )
        return network if self.merge_clock == "same" else CrossedNetwork(network)

    @property
    def predicted(self) -> dict[str, Any]:
        """What is known before anything runs, for ``top.json``."""
        network = self.network()
        plan = network.network if isinstance(network, CrossedNetwork) else network
        for each in (network, plan):
            each._MustUse__used = True  # type: ignore[attr-defined] # only asked, never built
        return {
            "cycles": {
                "per_left": self.left_cycles,
                "per_right": self.right_cycles,
                "rows_left": self.rows_left,
                "rows_right": self.rows_right,
                # A broadcast is as if all rows shared one core.
                "cores": self.cores if self.flow == "chain" else 1,
                "drain_steps": self.drain_steps,
                "results_per_cycle": self.lanes,
                "all_cores": self.cores,
                "flow": self.flow,
                "storage": self.storage,
                "comparators": self.comparators,
                "latency": self.flight_cycles - 2,  # from the decision to scan to a result queue
                "fan_in": plan.fan_in,
                "merge_depths": list(plan.depths),
                "backlog": self.backlog,  # results that may wait while the cores go on
                "end": self.end_cycles,
            },
            "resources": {
                "comparators": 2 * self.cores * self.comparators,
                "window_bits": self.rows_left * self.pair.left.layout.size
                + self.rows_right * self.pair.right.layout.size,
                "result_queue_rows": 2 * self.cores * self.queue_depth * self.comparators,
                "network_rows": network.rows,
            },
        }

    def _make_cores(self) -> list[JoinCore]:
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
                ways=self.comparators,
                span=max(self.left_cycles, self.right_cycles),
                storage=self.storage,
                flow=self.flow,
                ops_per_stage=self.ops_per_stage,
                queue_depth=self.queue_depth,
                notice=None if self.policy == "drop_results" else Sequencer.NOTICE + 1,
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
            flight_cycles=self.flight_cycles,
            sheds=self.policy == "shed",
        )
        m.submodules.network = network = self.network()
        cores = self._make_cores()
        for k, core in enumerate(cores):
            m.submodules[f"core_{k}"] = place(core, platform, *core.key)
            for member in sequencer.command.signature.members:
                m.d.comb += getattr(core.command, member).eq(getattr(sequencer.command, member))
            wiring.connect(m, core.o, network.i[k])
        if self.flow == "chain":
            self._connect_chain(m, sequencer, cores)
        else:
            self._connect_broadcast(m, sequencer, cores)

        busy, room = Signal(), Signal(init=1)
        m.d.comb += sequencer.room.eq(room)
        m.d.sync += [
            room.eq(Cat(core.room for core in cores).all()),
            busy.eq(Cat(core.busy for core in cores).any() | network.busy),
            self.dropped.eq(sum(core.dropped for core in cores)),
        ]
        m.d.comb += [
            self.stalled.eq(sequencer.stalled),
            self.decided.eq(sequencer.decided),
            self.refused.eq(sequencer.refused),
        ]
        if self.bound is not None:
            self._connect_guard(m, sequencer, self.bound)
        self._connect_output(m, sequencer, network, busy)
        wiring.connect(m, wiring.flipped(self.i), sequencer.i)
        return m

    def _connect_chain(self, m: Module, sequencer: Sequencer, cores: list[JoinCore]) -> None:
        for k, core in enumerate(cores):
            m.d.comb += [
                core.shift_left.eq(sequencer.shift_left),
                core.shift_right.eq(sequencer.shift_right),
                core.i_left.eq(cores[k - 1].o_left if k else sequencer.left),
                core.i_right.eq(cores[k + 1].o_right if k + 1 < self.cores else sequencer.right),
            ]

    def _connect_broadcast(self, m: Module, sequencer: Sequencer, cores: list[JoinCore]) -> None:
        for side, rows in (("left", self.rows_left), ("right", self.rows_right)):
            shift, row = getattr(sequencer, f"shift_{side}"), getattr(sequencer, side)
            probe = getattr(sequencer, f"probe_{side}")
            # The place of the window that the next row takes, and the core that has this place.
            turn = Signal(range(rows), name=f"turn_{side}")
            core_in_turn = Signal(range(self.cores), name=f"core_in_turn_{side}")
            last = turn == rows - 1
            with m.If(shift):
                m.d.sync += [
                    turn.eq(Mux(last, 0, turn + 1)),
                    core_in_turn.eq(
                        Mux(last | (core_in_turn == self.cores - 1), 0, core_in_turn + 1)
                    ),
                ]
            with m.If(sequencer.command.clear):
                m.d.sync += [turn.eq(0), core_in_turn.eq(0)]
            for k, core in enumerate(cores):
                m.d.comb += [
                    getattr(core, f"shift_{side}").eq(shift & (core_in_turn == k)),
                    getattr(core, f"i_{side}").eq(row),
                    getattr(core, f"probe_{side}").eq(probe),
                ]

    def _connect_guard(self, m: Module, sequencer: Sequencer, bound: TimeBound) -> None:
        m.submodules.guard = guard = WindowGuard(
            bound,
            self.pair.left,
            self.pair.right,
            rows_left=self.rows_left,
            rows_right=self.rows_right,
        )
        m.d.comb += [
            guard.clear.eq(sequencer.command.clear),
            guard.enter_left.eq(sequencer.shift_left),
            guard.enter_right.eq(sequencer.shift_right),
            guard.left.eq(sequencer.left),
            guard.right.eq(sequencer.right),
            self.errors.eq(Cat(guard.o_gone, guard.o_late)),
        ]

    def _connect_output(
        self, m: Module, sequencer: Sequencer, network: MergingNetwork, busy: Signal
    ) -> None:
        """Put what is on the lanes into one transfer, and the end after all of them."""
        out = self.o.payload
        if self.lanes == 1:
            m.d.comb += [
                sequencer.busy.eq(busy),
                self.o.valid.eq(network.o[0].valid | sequencer.o_end.valid),
                out.end.eq(sequencer.o_end.valid),
                out.lanes[0].valid.eq(~sequencer.o_end.valid),
                out.lanes[0].match.eq(network.o[0].payload),
                network.o[0].ready.eq(self.o.ready),
                sequencer.o_end.ready.eq(self.o.ready),
            ]
            return
        # A lane may get a match while others wait to leave; a register keeps the transfer as it is.
        free = Signal()
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            sequencer.busy.eq(busy | (self.o.valid & ~out.end)),
            sequencer.o_end.ready.eq(free),
            *(lane.ready.eq(free) for lane in network.o),
        ]
        with m.If(free):
            found = Cat(lane.valid for lane in network.o).any()
            m.d.sync += [
                self.o.valid.eq(found | sequencer.o_end.valid),
                out.end.eq(sequencer.o_end.valid),
            ]
            for lane, o in zip(network.o, out.lanes, strict=True):
                m.d.sync += [o.valid.eq(lane.valid), o.match.eq(lane.payload)]
