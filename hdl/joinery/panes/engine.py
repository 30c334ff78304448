"""Pane-based sliding-window aggregation (Oge et al., CANDAR 2013).

    i -> front -> store (one per lane) -> union -> windows (one per query) -> o
           \\-> closed, gaps -> walker --/

The front numbers panes and drops late tuples; the store keeps the state of open panes; the walker
takes a closed pane per cycle; the windows turn panes into rows.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring

from ..aggregate import PaneEngine, PaneQuery, PaneStream
from ..number import chunk_products
from ..pipe import delayed
from ..stream import Queue
from .extreme import ExtremeWindow
from .front import PaneFront
from .keys import KeyTable
from .places import PanePlaces
from .plan import TAG_BITS, PanePlan, slots_for
from .planner import PanePlanner
from .sequential import SequentialWindow
from .settings import PaneSettings
from .store import PaneStore
from .terms import PaneTerms, Term
from .walker import PaneWalker
from .window import AdditiveWindow

__all__ = ["PaneAggregation"]


class PaneAggregation(PaneEngine):
    """Aggregate sliding time windows by panes.

    Latency: ``predicted["cycles"]["latency"]``: with one lane and no keys 7 for count, sum and avg,
    16 with min or max, where no more than four operators follow each other in WHERE and ten in an
    argument. Throughput: one transfer per cycle, a pane per cycle, a row of each query per cycle.

    Critical path: from the argument of a tuple through its sum to the memory of panes, 115 MHz with
    one lane and the terms of count, sum, avg, min and max on an ECP5 of speed grade 6, where block
    RAMs use their output registers.

    Parameters
    ----------
    pane_stream, queries, lanes, sum_rows
        As for `PaneEngine`.
    slots : int
        Panes that may be open or wait at a time; a power of two. By default what SLACK needs, and
        room for a backlog (`slots_for`).
    keys : int
        Most keys of GROUP BY in a stream. A pane takes as many cycles as there may be keys, rounded
        up to a power of two. Tuples of more keys are dropped, and an error is raised for each.
    wlq : str
        ``parallel`` takes a pane per cycle; ``sequential`` is the paper's, which walks over all
        panes of each window.
    runtime : bool
        Whether RANGE and SLIDE (``range`` and ``slide``, with ``_<query>`` if there are several
        queries), SLACK (``slack``) and the constants of WHERE (``where_<query>_<k>``, in order, but
        that which is compared comes after those that it is compared with) can be changed. The built
        values are the initial ones, also after a reset, and the limits: no window may have more
        panes than its built one, where a pane is the greatest common divisor of the new values;
        none may slide by more panes than any is built to have or to slide by; SLACK must leave two
        of ``slots`` free (of half of them, with several lanes); `PaneSettings` has the limits of
        the values themselves. Where WHERE has constants, queries do not share it. Latency and
        throughput are the same; multipliers are wider than those of constants, in as many cycles.

    A request (``apply``) is planned first, which takes hundreds of cycles, some thousands at most.
    A request out of limits changes nothing. Any other takes effect in between two transfers: rows
    and late tuples are those of an input that ends there and of a new one that begins there, but
    for the ``end``, which does not leave. Before the first tuple of an input, transfers wait for
    the plan, so that the request holds for all of it; later ones are taken as ever while it is
    made, then wait until all windows have left, which is when the request takes effect.
    """

    def __init__(
        self,
        pane_stream: PaneStream,
        queries: Sequence[PaneQuery],
        *,
        lanes: int = 1,
        sum_rows: int = 1 << 32,
        slots: int | None = None,
        keys: int = 64,
        wlq: str = "parallel",
        runtime: bool = False,
        tag_bits: int = TAG_BITS,
    ) -> None:
        if runtime not in (False, True):
            raise ValueError(f"Runtime must be true or false, not {runtime!r}")
        changes = PaneSettings(pane_stream, tuple(queries)) if runtime else None
        super().__init__(
            pane_stream,
            queries,
            lanes=lanes,
            sum_rows=sum_rows,
            settings=changes.all if changes and queries else (),
        )
        if pane_stream.keys and lanes != 1:
            raise ValueError(f"GROUP BY takes one tuple per transfer, not {lanes!r}; use one lane")
        if not isinstance(keys, int) or keys < 1:
            raise ValueError(f"The most keys must be a positive integer, not {keys!r}")
        if wlq not in ("parallel", "sequential"):
            raise ValueError(f"WLQ must be parallel or sequential, not {wlq!r}")
        self.computed = changes.queries if changes else self.queries
        panes = max(query.range for query in self.queries) // self.pane
        self.slots = slots_for(pane_stream, self.pane, panes, lanes) if slots is None else slots
        # Least and largest values need more cycles in any case, so that some more are spent.
        functions = {each.function for query in queries for each in query.aggregates}
        relaxed = bool(functions & {"min", "max"})
        self.plan = PanePlan(
            pane_stream, self.computed, self.slots, lanes, tag_bits, changes, relaxed
        )
        self.wlq = wlq
        self.most_keys = keys
        self.keys = 1 << max(1, (keys - 1).bit_length()) if pane_stream.keys else 1
        self.terms = PaneTerms(self.computed, sum_rows)
        self.front = PaneFront(pane_stream, self.plan, self.terms, lanes=lanes)
        self.front._MustUse__used = True  # type: ignore[attr-defined] # may only be asked

    @property
    def window_latency(self) -> int:
        """Cycles from a pane to its row."""
        if self.wlq == "sequential":
            return SequentialWindow.latency
        return ExtremeWindow.latency if self.plan.relaxed else 1

    @property
    def close_delay(self) -> int:
        """Cycles by which panes are closed later than the tuples before are on their way."""
        by_key = KeyTable.LATENCY + PaneStore.FETCH if self.source.keys else 0
        return int(self.lanes > 1) + self.plan.settle + by_key

    @property
    def predicted(self) -> dict[str, Any]:
        walk = self.plan.most_panes + 1 if self.wlq == "sequential" else 0
        read = 1 + self.plan.read_latency
        places = self.front.latency + self.plan.place_latency
        latency = walk + places + self.close_delay + read + self.window_latency
        # Between panes that wait, each gap is walked as far as windows reach.
        walked = (self.slots + (self.slots + 2) * self.plan.most_panes) * self.keys
        return {
            "cycles": {
                "latency": latency,
                "per_transfer": 1,
                "close_delay": self.close_delay - self.plan.settle,
                "drain": latency + walked * (1 + walk) + 4,
                "panes": self.plan.most_panes,
                "pane": self.pane,
                "slack": self.source.slack,
                "leap": self.plan.leap,
                "cycles_per_pane": self.keys,
                "walk": min(window.step for window in self.plan.windows) if walk else 0,
            },
            "resources": {
                "slots": self.slots,
                "ring_rows": sum(window.panes for window in self.plan.windows) * self.keys,
            },
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.front = front = self.front
        m.submodules.places = places = PanePlaces(self.plan)
        m.submodules.walker = walker = PaneWalker(self.plan, keys=self.keys)
        # There is one gap at most in front of each place. The walker must see it as soon as the
        # place is closed, so the queue must not take longer than the way of `closed`.
        style = "prompt" if self.slots > Queue.BLOCK_DEPTH else "distributed"
        style = "behind" if self.plan.relaxed else style
        m.submodules.gaps = gaps = Queue(self.plan.gap, depth=self.slots, style=style)
        self._gaps = gaps
        wiring.connect(m, places.gap, gaps.i)
        wiring.connect(m, gaps.o, walker.gap)

        room = Signal()
        put, place, waits = self._puts(m, places, walker, room)
        closed = self._closed(m, places, room)
        self._enter(m, walker)
        m.d.comb += [
            room.eq(~waits),
            front.en.eq(room),
            places.en.eq(room),
            places.i.eq(front.o),
            walker.closed.eq(closed),
            walker.restart.eq(places.restart),
            self.late.eq(front.late),
        ]

        self._busy: list[Signal] = []
        go = Signal()
        stores = self._store(m, walker, go)
        if self.source.keys:
            self._put_by_key(m, front, put[0] & room, place[0], stores[0])
        else:
            soon = places.soon if self.plan.relaxed else front.ahead
            for k, store in enumerate(stores):
                m.d.comb += [
                    store.en.eq(room),
                    store.look.eq(soon[k] - places.offset),
                    store.put.eq(put[k] & room),
                    store.row.eq(place[k]),
                    store.place.eq(place[k]),
                    store.passes.eq(front.passes[k]),
                    store.arguments.eq(front.arguments[k]),
                ]
        # The steps of the walker, as they pass the registers up to that of their pane.
        steps = [walker.step]
        for k in range(self.plan.read_latency):
            steps.append(Signal(walker.step.shape(), name=f"step_{k}"))
            with m.If(go):
                m.d.sync += steps[-1].eq(steps[-2])
        value = self._unite(m, stores, steps[-2].empty, go)
        self._connect_windows(m, value, steps, go, self._end_time(m, walker, go))
        m.d.comb += [walker.go.eq(go), go.eq(~Cat(self._busy).any() & self._gives)]
        return m

    def _puts(
        self, m: Module, places: PanePlaces, walker: PaneWalker, room: Signal
    ) -> tuple[Sequence[Value], Sequence[Value], Value]:
        """The tuples that are put into the store: which there are, their places, and ``waits``.

        A tuple waits while the row of its pane still belongs to another one, and wherever there is
        no room for a gap.
        """

        def waiting(put: Sequence[Value], place: Sequence[Value]) -> Value:
            behind = [(each - walker.place)[: self.plan.near] >= self.slots for each in place]
            return (Cat(put) & Cat(behind)).any()

        now = list(places.put), list(places.places)
        if not self.plan.relaxed:
            full = self._gaps.i.valid & ~self._gaps.i.ready
            return *now, waiting(*now) | full
        later: Any = tuple(
            [delayed(m, each, 1, room, f"{name}_later_{k}") for k, each in enumerate(values)]
            for name, values in zip(("put", "place"), now, strict=True)
        )
        # Wherever the queue of gaps may be full, tuples wait as well, so that this is all.
        moves, full = Signal(init=1, name="moves"), self._gaps.level >= self._gaps.depth - 2
        m.d.sync += moves.eq(~(full | Mux(room, waiting(*now), waiting(*later))))
        return *later, ~moves

    def _enter(self, m: Module, walker: PaneWalker) -> None:
        """Let transfers in; after an end nothing, until it has left."""
        front, ending = self.front, Signal(name="ending")
        self._finished = Signal(name="finished")
        m.d.comb += [
            front.i.payload.eq(self.i.payload),
            front.i.valid.eq(self.i.valid & ~ending),
            self.i.ready.eq(front.i.ready & ~ending),
            self.stalled.eq(self.i.valid & ~front.i.ready & ~ending),
        ]
        with m.If(self.i.valid & self.i.ready & self.i.payload.end):
            m.d.sync += ending.eq(1)
        with m.If(self._finished):
            m.d.sync += ending.eq(0)
        self._setting: Any = self.plan
        self._cut: Value = Const(0)
        if self.plan.settings:
            self._change(m, walker, ending)

    def _change(self, m: Module, walker: PaneWalker, ending: Signal) -> None:
        """Plan a request, end the input for it (``cut``), and let the new setting take effect."""
        port: Any = self
        front, finished = self.front, self._finished
        m.submodules.planner = planner = PanePlanner(self.plan)
        self._setting = setting = Signal(
            self.plan.setting,
            init=self.plan.initial(),  # type: ignore[arg-type] # the stubs know no struct
        )
        self._cut = cut = Signal(name="cut")
        self._restart = restart = Signal(name="restart")
        used, cuts = Signal(name="used"), Signal(name="cuts")
        m.d.comb += [
            planner.asked[each.name].eq(getattr(self, f"set_{each.name}")) for each in self.settings
        ]
        m.d.comb += [
            planner.apply.eq(port.apply),
            planner.hold.eq(cut),
            planner.taken.eq(restart),
            cuts.eq(planner.ready & used & ~ending),
            restart.eq((planner.ready & ~used) | (cut & finished)),
            port.applied.eq(restart),
            port.refused.eq(planner.refused),
            self.errors[self.SETTING].eq(planner.refused),
            front.setting.eq(setting),
            walker.setting.eq(setting),
        ]
        with m.If(planner.ready | (planner.busy & ~used)):
            m.d.comb += [
                front.i.valid.eq(cuts),
                front.i.payload.end.eq(1),
                self.i.ready.eq(0),
                self.stalled.eq(0),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += used.eq(1)
        with m.If(cuts & front.i.ready):
            m.d.sync += [ending.eq(1), cut.eq(1)]
        with m.If(finished):
            m.d.sync += [used.eq(0), cut.eq(0)]
        with m.If(restart):
            m.d.sync += setting.eq(planner.planned)

    def _closed(self, m: Module, places: PanePlaces, room: Signal) -> Value:
        """The panes that are closed, once the tuples that came before are in the store.

        Where these wait, so does what is closed after them; in a transfer of several lanes, a tuple
        may be in a pane that the next one closes.
        """
        closed: Value = places.closed
        held_up = int(self.plan.relaxed) + int(self.lanes > 1)
        awake = Signal()  # low in the cycle after a reset
        m.d.sync += awake.eq(1)
        for k in range(self.close_delay - int(self.plan.relaxed)):  # the walker has the last one
            held = Signal(self.plan.place, init=self.slots, reset_less=True, name=f"closed_{k}")
            with m.If(~awake):
                m.d.sync += held.eq(places.restart)
            with m.Elif(room if k < held_up else 1):
                m.d.sync += held.eq(closed)
            closed = held
        return closed

    def _store(self, m: Module, walker: PaneWalker, go: Signal) -> list[PaneStore]:
        """The pane memory of each lane."""
        stores = []
        for k in range(self.lanes):
            store = PaneStore(self.plan, self.terms, keys=self.keys)
            m.submodules[f"store_{k}"] = store
            stores.append(store)
            m.d.comb += [
                store.read.eq(go),
                store.next_row.eq(walker.next_row),
                store.read_row.eq(walker.row),
                store.read_place.eq(walker.place),
            ]
        return stores

    def _put_by_key(
        self, m: Module, front: PaneFront, put: Value, to: Value, store: PaneStore
    ) -> None:
        """Find the key's number first, and then put the tuple."""
        table = KeyTable(self.source.key, keys=self.most_keys, places=self.keys)
        m.submodules.keys = self._table = table
        place = delayed(m, to, table.LATENCY, 1, "place")
        row = Cat(table.number, place[: self.plan.slot_bits])
        late = store.FETCH
        since = table.LATENCY + late
        arguments = delayed(m, front.arguments[0], since, 1, "arguments")
        m.d.comb += [
            table.put.eq(put),
            table.key.eq(front.keys[0]),
            table.clear.eq(self._finished),
            self.errors[self.KEYS].eq(table.full),
            store.en.eq(1),
            store.look.eq(row),
            store.put.eq(delayed(m, table.found, late, 1, "found")),
            store.row.eq(delayed(m, row, late, 1, "row")),
            store.place.eq(delayed(m, place, late, 1, "place_later")),
            store.passes.eq(delayed(m, front.passes[0], since, 1, "passes")),
            Value.cast(store.arguments).eq(arguments),
        ]

    def _unite(self, m: Module, stores: list[PaneStore], empty: Value, go: Signal) -> list[Signal]:
        """The terms of a pane over all lanes, one cycle later than the store gives them."""
        found = []
        for k, term in enumerate(self.terms.all):
            values: list[Value] = [store.value[f"term_{k}"] for store in stores]
            while len(values) > 1:
                pairs = zip(values[::2], values[1::2], strict=True)
                values = [term.merge(a, b, self.sum_rows) for a, b in pairs]
            held = Signal(self.terms.shape(term), name=f"pane_term_{k}")
            with m.If(go):
                m.d.sync += held.eq(Mux(empty, self.terms.identity(term), values[0]))
            found.append(held)
        return found

    def _end_time(self, m: Module, walker: PaneWalker, go: Signal) -> Value:
        """The end of the pane of a step, when its windows take it."""
        number = Signal(signed(self.plan.number.width + 1))
        m.d.comb += number.eq(walker.number)
        parts = [
            delayed(m, product, 1, go, f"end_time_{k}")
            for k, product in enumerate(chunk_products(number, self._setting.pane))
        ]
        total = Signal(self.end_time)
        m.d.comb += total.eq(sum(parts, start=Value.cast(self._setting.pane)))
        since = self.plan.read_latency - 2 + self.window_latency
        return delayed(m, total, since, go, "end_time")

    def _connect_windows(
        self, m: Module, value: list[Signal], steps: list[Any], go: Signal, end_time: Value
    ) -> None:
        """One window for each query; rows where one ends that is not empty."""
        made = stream.Signature(self.result).create(path=("made",))
        self._give(m, made)
        out, united = made.payload, steps[-1]
        # What is known of a row before its last values are is decided in the cycle before.
        spare = int(self.plan.relaxed and self.wlq == "parallel")
        step = {
            name: delayed(m, united[name], self.window_latency - late, go, f"{name}_done")
            for name, late in (("valid", spare), ("end", 0), ("ends", spare))
        }
        if self.source.keys:
            m.d.comb += self._table.read.eq(
                delayed(m, united.key, self.window_latency, go, "key_done")
            )
        rows, too_many = [], []
        for k, query in enumerate(self.computed):
            results, counted = self._window(m, k, query, value, steps, go, spare)
            ends = step["valid"] & step["ends"][k]
            fits = counted <= self.sum_rows
            count = results[self.terms.of(query)[0]]
            row = out.rows[k].row[f"query_{k}"]
            rows.append(delayed(m, ends & (counted != 0) & fits, spare, go, f"row_{k}"))
            too_many.append(delayed(m, ends & ~fits, spare, go, f"too_many_{k}"))
            m.d.comb += [out.rows[k].valid.eq(rows[-1]), row.end_time.eq(end_time)]
            if self.source.keys:
                m.d.comb += row.key.eq(self._table.value)
            for each in query.aggregates:
                if each.function == "avg":
                    total = results[Term(query.where, "sum", each.argument)]
                    place = row.value[each.name]
                    m.d.comb += [place.sum.eq(total), place.count.eq(count)]
                else:
                    term = Term(query.where, each.function, each.argument)
                    found = count if each.function == "count" else results[term]
                    m.d.comb += row.value[each.name].eq(found)
        idle, leaves = ~Cat(self._busy).any(), step["end"] & ~self._cut
        m.d.comb += [
            out.end.eq(step["end"]),
            made.valid.eq((leaves | Cat(rows).any()) & idle),
            self._finished.eq(
                Mux(
                    self._cut,
                    step["end"] & idle & self._gives,
                    self.o.valid & self.o.ready & self.o.payload.end,
                )
            ),
            self.errors[self.ROWS].eq(go & Cat(too_many).any()),
        ]

    def _give(self, m: Module, made: stream.Interface) -> None:
        """Give the rows that were made; and say whether there is room for more."""
        self._gives: Value = ~made.valid | self.o.ready
        if not self.plan.relaxed:
            wiring.connect(m, made, wiring.flipped(self.o))
            return
        # All registers move or none, so what says that begins at a register: it is found out a
        # cycle late that a row was not taken, and the row is kept aside.
        kept = Signal(self.result, name="kept", reset_less=True)
        self._gives = free = Signal(init=1, name="free")
        m.d.comb += [
            made.ready.eq(free),
            self.o.valid.eq(made.valid | ~free),
            self.o.payload.eq(Mux(free, made.payload, kept)),
        ]
        with m.If(self.o.ready):
            m.d.sync += free.eq(1)
        with m.Elif(made.valid):
            m.d.sync += free.eq(0)
        with m.If(free):
            m.d.sync += kept.eq(made.payload)

    def _window(
        self,
        m: Module,
        number: int,
        query: PaneQuery,
        value: list[Signal],
        steps: list[Any],
        go: Signal,
        spare: int,
    ) -> tuple[dict[Term, Value], Value]:
        """The terms of one query over its windows, all with the same latency; and its count by so
        many ``spare`` cycles earlier."""
        united = steps[-1]
        panes, settable = self.plan.windows[number].panes, self.plan.settings is not None
        own = self.terms.of(query)
        added = [term for term in own if term.kind in ("count", "sum")]
        units: list[tuple[Any, list[Term]]] = []
        if self.wlq == "parallel":
            unit = AdditiveWindow(
                self.terms, added, panes=panes, keys=self.keys, settable=settable,
                register=self.plan.relaxed,
            )  # fmt: skip
            units.append((unit, added))
        if self.wlq == "sequential":
            walks = SequentialWindow(
                self.terms, own, panes=panes, keys=self.keys, settable=settable
            )
            m.d.comb += walks.ends.eq(united.ends[number])
            self._busy.append(walks.busy)
            units, added = [(walks, own)], own
        for term in own:
            if term not in added:
                extreme = ExtremeWindow(
                    self.terms, term, panes=panes, keys=self.keys, settable=settable
                )
                units.append((extreme, [term]))
        found, counted = {}, Value.cast(0)
        for n, (each, terms) in enumerate(units):
            m.submodules[f"window_{number}_{n}"] = each
            step = steps[-1 - each.READ] if isinstance(each, ExtremeWindow) else united
            m.d.comb += [
                each.step.eq(step.valid & go),
                each.fresh.eq(step.fresh),
                each.key.eq(step.key),
                each.en.eq(go),
            ]
            if settable:
                length = self._setting.windows[number].panes
                m.d.comb += [each.length.eq(length), each.restart.eq(self._restart)]
            name = f"window_{number}_{n}_term"
            for k, term in enumerate(terms):
                m.d.comb += each.value[f"term_{k}"].eq(value[self.terms.all.index(term)])
                since = self.window_latency - each.latency
                early = delayed(m, each.o[f"term_{k}"], max(0, since - spare), go, f"{name}_{k}")
                found[term] = delayed(m, early, min(since, spare), go, f"{name}_{k}_still")
                if term == own[0]:
                    counted = early
        return found, counted
