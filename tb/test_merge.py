# amaranth: UnusedElaboratable=no
"""The merging networks: tried under stalls on all sides, and timed to the cycle."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from joinery.merge import NETWORKS, TABLE_5_1, FsmTreeNetwork, RingNetwork, TreeNetwork
from joinery.stream import MergeTree
from joinery.units import UnitLibrary
from joinery_tb.simulate import STALLS, Run, run_stream


def moved(ctx: Any, streams: Any) -> int:
    return sum(ctx.get(each.valid) & ctx.get(each.ready) for each in streams)


def sources(network: Any, sent: dict[int, list[int]]) -> dict[str, list[int]]:
    """Name the inputs, those without results too."""
    return {f"i[{k}]": sent.get(k, []) for k in range(network.inputs)}


def numbered(inputs: Any, each: int) -> dict[int, list[int]]:
    return {k: [k * 64 + number for number in range(each)] for k in inputs}


# ---------------------------------------------------------------------------------------------
# Every network, under stalls on all sides
# ---------------------------------------------------------------------------------------------


def watched(network: Any, sent: dict[int, list[int]], **stalls: Any) -> Run:
    """Run ``network``; ``busy`` must say in every cycle whether anything is inside."""
    inside, busy = 0, []

    def watch(ctx: Any) -> None:
        nonlocal inside
        busy.append(ctx.get(network.busy))
        assert busy[-1] == (inside > 0)
        assert inside <= network.rows
        inside += moved(ctx, network.i) - moved(ctx, network.o)

    run = run_stream(network, sources(network, sent), watch=watch, **stalls)
    assert inside == 0
    assert busy[-1] == 0
    assert (1 in busy) == any(sent.values())
    return run


patterns = st.lists(st.booleans(), max_size=6).map(lambda pauses: (*pauses, False))
stalls = st.one_of(st.sampled_from(sorted(STALLS)).map(STALLS.__getitem__), patterns)


@st.composite
def networks(draw: Any) -> Any:
    name = draw(st.sampled_from(sorted(NETWORKS)))
    inputs = draw(st.integers(1, 9))
    if name == "fsm_tree":
        levels = len(MergeTree.count_mergers(inputs, 2))
        depths = st.integers(4, 6)
        depth = draw(depths | st.lists(depths, min_size=levels, max_size=levels))
        return FsmTreeNetwork(10, inputs=inputs, depth=depth)
    lanes = draw(st.sampled_from([lanes for lanes in (1, 2, 4) if lanes <= inputs]))
    fan_in = draw(st.integers(2, 8))
    options = {"inputs": inputs, "lanes": lanes, "fan_in": fan_in}
    if name == "ring":
        return RingNetwork(10, depth=draw(st.integers(2, 5)), **options)
    levels = len(MergeTree.count_mergers(-(-inputs // lanes), fan_in))
    depths = st.integers(1, 4)
    depth = draw(depths | st.lists(depths, min_size=levels, max_size=levels))
    return TreeNetwork(10, depth=depth, **options)


@settings(max_examples=40)
@given(
    network=networks(),
    each=st.lists(st.integers(0, 12), min_size=9, max_size=9),
    stall=st.tuples(stalls, stalls),
    seed=st.integers(0, 2**32 - 1),
)
def test_nothing_is_lost_repeated_or_invented(
    network: Any, each: list[int], stall: Any, seed: int
) -> None:
    sent = {k: [k * 64 + n for n in range(each[k])] for k in range(network.inputs)}
    run = watched(network, sent, stall_in=stall[0], stall_out=stall[1], seed=seed)
    received = [result for lane in run.outputs.values() for result in lane]
    assert sorted(received) == [result for k in sorted(sent) for result in sent[k]]
    if not isinstance(network, RingNetwork):  # a ring lets results overtake each other
        for k, results in sent.items():
            lane = run.outputs[f"o[{k % network.lanes}]"]
            assert [result for result in lane if result // 64 == k] == results


def test_ring_may_change_the_order_of_one_input() -> None:
    network = RingNetwork(10, inputs=4, depth=4)
    run = run_stream(
        network, sources(network, numbered([1], 20)), stall_out=(True,) * 20 + (False,) * 20
    )
    assert sorted(run.outputs["o[0]"]) == list(range(64, 84))
    assert run.outputs["o[0]"] != list(range(64, 84))


# ---------------------------------------------------------------------------------------------
# Cycle counts
# ---------------------------------------------------------------------------------------------

LENGTH = 40


def steady(network: Any, inputs: Any, cycles: int) -> tuple[list[list[int]], Counter[int]]:
    """Let ``inputs`` never run dry; return each cycle's lanes with a result, and who was taken."""
    lanes: list[list[int]] = []
    taken: Counter[int] = Counter()

    async def bench(ctx: Any) -> None:
        for k in inputs:
            ctx.set(network.i[k].valid, 1)
        for o in network.o:
            ctx.set(o.ready, 1)
        for _ in range(cycles):
            lanes.append([ctx.get(o.valid) for o in network.o])
            taken.update(k for k in inputs if ctx.get(network.i[k].ready))
            await ctx.tick()

    simulator = Simulator(network)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return lanes, taken


def levels_of(network: Any) -> int:
    return len(MergeTree.count_mergers(-(-network.inputs // network.lanes), network.fan_in))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(("inputs", "fan_in"), [(1, 2), (2, 2), (8, 2), (9, 3), (16, 4), (8, 8)])
def test_tree_takes_one_result_per_cycle_from_one_input(
    inputs: int, fan_in: int, depth: int
) -> None:
    for leaf in {0, inputs // 2, inputs - 1}:
        network = TreeNetwork(12, inputs=inputs, fan_in=fan_in, depth=depth)
        run = run_stream(network, sources(network, {leaf: list(range(LENGTH))}))
        assert run.cycles == LENGTH + levels_of(network)


@pytest.mark.parametrize("depth", [2, 3, 8])
@pytest.mark.parametrize(("inputs", "fan_in"), [(1, 2), (2, 2), (3, 4), (8, 4), (9, 8)])
def test_ring_takes_one_result_per_cycle_from_one_input(
    inputs: int, fan_in: int, depth: int
) -> None:
    for node in {0, inputs // 2, inputs - 1}:
        network = RingNetwork(12, inputs=inputs, fan_in=fan_in, depth=depth)
        run = run_stream(network, sources(network, {node: list(range(LENGTH))}))
        assert run.cycles == LENGTH + 1 + levels_of(network)


@pytest.mark.parametrize("name", ["tree", "ring"])
@pytest.mark.parametrize(("inputs", "lanes"), [(1, 1), (2, 2), (5, 1), (8, 1), (8, 2), (8, 4)])
def test_all_inputs_fill_every_lane_in_every_cycle(name: str, inputs: int, lanes: int) -> None:
    network = NETWORKS[name](8, inputs=inputs, lanes=lanes, depth=3)  # type: ignore[call-arg]
    fill = levels_of(network) + (name == "ring")
    seen, taken = steady(network, range(inputs), fill + 60)
    assert seen == [[0] * lanes] * fill + [[1] * lanes] * 60
    assert min(taken.values()) >= 60 * lanes // inputs - 5  # nobody is left out


@pytest.mark.parametrize(("name", "lanes_used"), [("tree", 1), ("ring", 2)])
def test_ring_brings_the_results_of_any_inputs_to_all_lanes(name: str, lanes_used: int) -> None:
    network = NETWORKS[name](8, inputs=8, lanes=2, depth=4)  # type: ignore[call-arg]
    seen, _ = steady(network, [0, 2, 4, 6], 60)  # all of them the first lane's
    assert [sum(lanes) for lanes in seen[20:]] == [lanes_used] * 40


@pytest.mark.parametrize(
    ("depth", "one_input", "all_inputs"), [(4, (8, -3), (6, -3)), (5, (4, 1), (4, 1))]
)
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_fsm_tree_takes_four_cycles_per_result_and_more_with_small_buffers(
    depth: int, one_input: tuple[int, int], all_inputs: tuple[int, int], levels: int
) -> None:
    inputs = 2**levels
    for leaves, (each, rest) in ((range(1), one_input), (range(inputs), all_inputs)):
        network = FsmTreeNetwork(12, inputs=inputs, depth=depth)
        sent = numbered(leaves, LENGTH)
        run = run_stream(network, sources(network, sent))
        assert run.cycles == each * LENGTH * len(leaves) + rest + 4 * (levels - 1)


@pytest.mark.parametrize(
    "network",
    [TreeNetwork(12, inputs=4, fan_in=2, depth=[2, 65]), RingNetwork(12, inputs=4, depth=65)],
    ids=["tree", "ring"],
)
def test_block_ram_takes_a_cycle_more(network: Any) -> None:
    assert run_stream(network, sources(network, {3: list(range(LENGTH))})).cycles == LENGTH + 3


# ---------------------------------------------------------------------------------------------
# Buffers
# ---------------------------------------------------------------------------------------------


def taken_from_one(network: Any, k: int) -> int:
    """Return how many results one input gives before it is first refused, with no output ready."""
    taken = 0

    async def bench(ctx: Any) -> None:
        nonlocal taken
        ctx.set(network.i[k].valid, 1)
        while ctx.get(network.i[k].ready):
            taken += 1
            await ctx.tick()

    simulator = Simulator(network)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return taken


@pytest.mark.parametrize(
    ("inputs", "ring", "tree"), [(8, (4, 51), (17, 34)), (16, (4, 101), (21, 42))]
)
def test_one_hot_input_has_all_of_a_rings_buffers_and_a_path_of_a_trees(
    inputs: int, ring: tuple[int, int], tree: tuple[int, int]
) -> None:
    adaptive = RingNetwork(8, inputs=inputs, depth=ring[0])
    plain = TreeNetwork(8, inputs=inputs, depth=tree[0])
    assert adaptive.rows <= plain.rows
    for k in (0, 3):
        assert taken_from_one(adaptive, k) == ring[1] == adaptive.rows
        assert taken_from_one(plain, k) == tree[1]


def test_rows() -> None:
    assert TreeNetwork(1, inputs=9, fan_in=2, depth=[1, 2, 3, 4]).rows == 4 * 1 + 2 * 2 + 3 + 4
    assert TreeNetwork(1, inputs=9, lanes=2, fan_in=2, depth=[1, 2, 4]).rows == 2 + 2 + 4 + 4 + 4
    assert TreeNetwork(1, inputs=1).rows == 2
    assert RingNetwork(1, inputs=8, lanes=2, depth=4, fan_in=2).rows == 8 * (4 + 2) + 2 * 3
    assert RingNetwork(1, inputs=1, depth=4).rows == 5
    assert FsmTreeNetwork(1, inputs=5, depth=6).rows == 4 * (6 + 2)
    assert FsmTreeNetwork(1, inputs=1).rows == 5


def test_buffers_of_table_5_1() -> None:
    assert {name: plan.rows for name, plan in TABLE_5_1.items()} == {
        "uniform": 2032,
        "config1": 1884,
        "config2": 1920,
        "config3": 1792,
    }
    for plan in TABLE_5_1.values():
        tree = TreeNetwork(1, inputs=64, fan_in=2, depth=plan.mergers)
        assert tree.rows + 64 * plan.cores == plan.rows
        assert FsmTreeNetwork(1, inputs=64, depth=plan.mergers).depths == plan.mergers


# ---------------------------------------------------------------------------------------------
# Verilog, and parameters
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_repeated_units_are_written_once(name: str) -> None:
    def modules(inputs: int) -> int:
        network = NETWORKS[name](8, inputs=inputs)
        return len(re.findall("^module", UnitLibrary().rtlil(network), re.MULTILINE))

    assert modules(16) == modules(64)


TAKES_ONE = "ring takes one depth, as it has one layer of FIFOs, not [2, 2]"
RING_DEPTH = (
    "ring depth must be at least 2, not {}: a FIFO of one place takes a transfer only when it "
    "gives one, and the ring cannot wait for the output"
)
FSM_DEPTH = (
    "fsm_tree depth must be at least 4, not {}: a merger counts as full with 3 places left and "
    "would take nothing"
)
TREE_DEPTH = "tree depth must be at least 1, not {}: a merger holds what it has taken"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            case
            for network in (TreeNetwork, RingNetwork, FsmTreeNetwork)
            for case in (
                (
                    lambda network=network: network(1, inputs=0),
                    "Merging network inputs must be a positive integer, not 0",
                ),
                (
                    lambda network=network: network(1, inputs="4"),
                    "Merging network inputs must be a positive integer, not '4'",
                ),
            )
        ),
        *(
            case
            for network in (TreeNetwork, RingNetwork)
            for case in (
                (
                    lambda network=network: network(1, inputs=8, lanes=3),
                    "Lanes must be 1, 2 or 4, not 3",
                ),
                (
                    lambda network=network: network(1, inputs=8, lanes=True),
                    "Lanes must be 1, 2 or 4, not True",
                ),
                (
                    lambda network=network: network(1, inputs=3, lanes=4),
                    "A merging network has at most as many lanes as inputs, 3, not 4",
                ),
                (
                    lambda network=network: network(1, inputs=3, fan_in=1),
                    "Fan-in must be 2 to 8, not 1",
                ),
                (
                    lambda network=network: network(1, inputs=3, fan_in=9),
                    "Fan-in must be 2 to 8, not 9",
                ),
                (
                    lambda network=network: network(1, inputs=3, fan_in=2.0),
                    "Fan-in must be 2 to 8, not 2.0",
                ),
            )
        ),
        (lambda: TreeNetwork(1, inputs=4, depth=0), TREE_DEPTH.format(0)),
        (lambda: TreeNetwork(1, inputs=4, depth="2"), TREE_DEPTH.format("'2'")),
        (lambda: TreeNetwork(1, inputs=4, depth=[2, False], fan_in=2), TREE_DEPTH.format(False)),
        (
            lambda: TreeNetwork(1, inputs=9, lanes=2, depth=[2], fan_in=3),
            "tree takes 2 depths here, one per level from the leaves to the root, not 1",
        ),
        (lambda: RingNetwork(1, inputs=4, depth=[2, 2]), TAKES_ONE),
        (lambda: RingNetwork(1, inputs=4, depth=1), RING_DEPTH.format(1)),
        (lambda: RingNetwork(1, inputs=4, depth="8"), RING_DEPTH.format("'8'")),
        (lambda: FsmTreeNetwork(1, inputs=4, depth=3), FSM_DEPTH.format(3)),
        (lambda: FsmTreeNetwork(1, inputs=4, depth=[4, 2]), FSM_DEPTH.format(2)),
        (
            lambda: FsmTreeNetwork(1, inputs=4, depth=[4]),
            "fsm_tree takes 2 depths here, one per level from the leaves to the root, not 1",
        ),
        (lambda: FsmTreeNetwork(1, inputs=4, lanes=2), "fsm_tree has one lane, not 2"),
        (
            lambda: FsmTreeNetwork(1, inputs=4, fan_in=2),
            "fsm_tree takes no fan_in, not 2: it is a binary tree",
        ),
    ],
)
def test_options_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
