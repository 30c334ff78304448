"""The model of multi-level queues: the paper's figures, the heuristic, and what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joinery_gen.mlq import (
    HIERARCHIES,
    MemorySpec,
    Pointers,
    Problem,
    choose_values,
    predict,
    search_values,
    worst_case,
)
from joinery_gen.query import JoineryError

KEYS = 1 << 17

FIGURE_4 = [
    (0, 1, 0, 0, 0, 0),
    (0, 2, 0, 0, 0, 0),
    (0, 1, 0, 2, 0, 0),
    (0, 2, 0, 2, 0, 0),
    (0, 1, 0, 4, 0, 0),
    (0, 2, 0, 0, 0, 4),
    (0, 1, 0, 2, 0, 4),
    (0, 2, 0, 2, 2, 4),
    (0, 1, 0, 4, 2, 4),
    (0, 2, 0, 0, 4, 0),
    (0, 1, 0, 2, 4, 0),
    (0, 2, 0, 2, 6, 0),
    (0, 1, 0, 4, 6, 0),
    (0, 2, 0, 0, 0, 4),
    (0, 1, 0, 2, 0, 4),
]
"""r1, w1, r2, w2, r3, w3 after each tuple, as the paper prints them."""


def test_pointers_are_those_of_figure_4() -> None:
    pointers = Pointers(8, 2, (2, 4, 8), (1, 1, 1), (1, 1, 1))
    for expected in FIGURE_4:
        pointers.take()
        found = [each for pair in zip(pointers.read, pointers.write, strict=True) for each in pair]
        assert tuple(found) == expected


@given(st.data())
def test_pointers_keep_account_of_every_value(data: st.DataObject) -> None:
    values = [1 << data.draw(st.integers(0, 3))]
    for _ in range(data.draw(st.integers(0, 2))):
        values.append(values[-1] << data.draw(st.integers(0, 2)))
    rows = data.draw(st.integers(1, 40))
    values.append(-(-rows // values[-1]) * values[-1])
    slide = data.draw(st.integers(1, rows))
    pointers = Pointers(rows, slide, values, [1] * len(values), [1] * len(values))
    expected = 0
    for _ in range(200):
        move = pointers.take()
        expected += 1
        assert move.aggregate == (expected == rows)
        expected -= slide * move.aggregate
        assert sum(pointers.held(level) for level in range(len(values))) == expected
        assert all(r <= w for r, w in zip(pointers.read[:-1], pointers.write[:-1], strict=True))
        assert all(w <= v for w, v in zip(pointers.write, values, strict=True))


@pytest.mark.parametrize(
    ("levels", "rate"), [("dram", 1 / 7), ("bram+dram", 2 / 7), ("bram+qdr+dram", 1.0)]
)
def test_the_line_rates_of_the_paper(levels: str, rate: float) -> None:
    problem = Problem(KEYS, 4096, 4096, 2)
    values = choose_values(problem, HIERARCHIES[levels])
    assert worst_case(problem, HIERARCHIES[levels], values).throughput == pytest.approx(rate, 0.01)
    assert predict(problem, HIERARCHIES[levels], values).throughput == pytest.approx(rate, 0.01)


def test_the_worst_case_is_the_formulas_by_hand() -> None:
    problem = Problem(KEYS, 64, 4, 2)
    bram, qdr, dram = worst_case(problem, HIERARCHIES["bram+qdr+dram"], (2, 32, 64)).levels
    assert bram.cycles == pytest.approx(max(1, 1 / 2 + 1 / 4))
    assert qdr.cycles == pytest.approx(1.2 * max(1 / 2, 4 / 32 + 4 / 4))
    assert dram.cycles == pytest.approx(7 * (1 / 32 + 2 / 4) / 2)
    (alone,) = worst_case(problem, HIERARCHIES["dram"], (64,)).levels
    assert alone.cycles == pytest.approx(7 * (1 + 1 + 2 / 4) / 2)


def test_a_run_falls_to_channels_unevenly() -> None:
    """Seven words on two channels: four in a long burst, three that are too few for one."""
    dram = HIERARCHIES["dram"][0]
    assert [dram.run_cycles(words) for words in (1, 6, 7, 8)] == [7, 42, 4 * 2 + 3 * 7, 16]


def test_words_pending_cover_the_latency() -> None:
    assert [each.pending for each in HIERARCHIES["bram+qdr+dram"]] == [8, 8, 4]


def memories(data: st.DataObject) -> list[MemorySpec]:
    found: list[MemorySpec] = []
    for number in range(data.draw(st.integers(1, 3))):
        word = (found[-1].word if found else 2) << data.draw(st.integers(0, 2))
        time = data.draw(st.sampled_from([(1, 1), (6, 5), (2, 1), (5, 1)]))
        found.append(
            MemorySpec(
                f"m{number}",
                capacity=1 << data.draw(st.integers(4, 12)),
                word=word,
                granule=data.draw(st.sampled_from([1, word])),
                short=time,
                long=time,
                channels=data.draw(st.integers(1, 2)),
                duplex=data.draw(st.booleans()),
            )
        )
    return found


@given(st.data())
def test_the_heuristic_is_as_good_as_trying_everything(data: st.DataObject) -> None:
    levels = memories(data)
    rows = data.draw(st.integers(1, 64))
    problem = Problem(data.draw(st.integers(1, 64)), rows, data.draw(st.integers(1, rows)), 2)
    try:
        best = search_values(problem, levels)
    except JoineryError as error:
        with pytest.raises(JoineryError, match=f"^{re.escape(str(error))}$"):
            choose_values(problem, levels)
        return
    chosen = choose_values(problem, levels)
    reached = worst_case(problem, levels, chosen).throughput
    assert reached == pytest.approx(worst_case(problem, levels, best).throughput)


@pytest.mark.parametrize("rows", [64, 256, 1024, 4096])
@pytest.mark.parametrize("levels", HIERARCHIES)
def test_the_heuristic_on_the_memories_of_the_paper(rows: int, levels: str) -> None:
    for slide in (1, 2, 8, 32, rows):
        problem = Problem(KEYS, rows, slide, 2)
        chosen, best = (
            worst_case(problem, HIERARCHIES[levels], find(problem, HIERARCHIES[levels]))
            for find in (choose_values, search_values)
        )
        assert chosen.throughput == pytest.approx(best.throughput)


@pytest.mark.parametrize(
    ("keys", "rows", "levels", "message"),
    [
        (
            1 << 20,
            64,
            "bram+dram",
            "Level bram has 524288 bytes, and one value for each of 1048576 keys takes 2097152; "
            "nearest that would fit: keys=262144, or levels=dram",
        ),
        (
            KEYS,
            1 << 20,
            "dram",
            "Level dram has 25769803776 bytes, and windows of 1048576 rows for 131072 keys take "
            "274877906944; nearest that would fit: keys=8192 or rows=98304",
        ),
        (
            KEYS,
            1,
            "bram+dram",
            "A window of 1 row takes one level; nearest that would fit: levels=dram",
        ),
    ],
)
def test_what_cannot_fit_is_refused_with_the_nearest(
    keys: int, rows: int, levels: str, message: str
) -> None:
    problem = Problem(keys, rows, 1, 2)
    with pytest.raises(JoineryError, match=f"^{re.escape(message)}$"):
        choose_values(problem, HIERARCHIES[levels])


@pytest.mark.parametrize(("keys", "rows"), [(12288, 1 << 20), (KEYS, 98304), (262144, 64)])
def test_the_nearest_does_fit(keys: int, rows: int) -> None:
    levels = HIERARCHIES["bram+dram" if keys == 262144 else "dram"]
    assert choose_values(Problem(keys, rows, 1, 2), levels)


def test_levels_must_not_become_narrower() -> None:
    levels = HIERARCHIES["bram+dram"][::-1]
    message = (
        r"^Level bram reads 4 bytes at once and dram, before it, 64: "
        r"levels must not become narrower$"
    )
    with pytest.raises(JoineryError, match=message):
        choose_values(Problem(4, 8, 2, 2), levels)


def test_a_value_must_fit_a_word() -> None:
    message = r"^A value of 8 bytes does not fit a word of bram, which has 4$"
    with pytest.raises(JoineryError, match=message):
        choose_values(Problem(4, 8, 2, 8), HIERARCHIES["bram+dram"])


def test_a_hierarchy_has_a_level() -> None:
    with pytest.raises(JoineryError, match=r"^A hierarchy has at least one level$"):
        choose_values(Problem(4, 8, 2, 8), [])


def test_a_window_advances_by_no_more_than_itself() -> None:
    with pytest.raises(ValueError, match=r"^A window of 4 rows cannot advance by 5$"):
        Problem(1, 4, 5, 2)
    with pytest.raises(ValueError, match=r"^Problem keys must be a positive integer, not 0$"):
        Problem(0, 4, 4, 2)


def test_a_memory_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ValueError, match=r"^Memory word must be a positive integer, not 0$"):
        MemorySpec("m", 4, 0, 1)
    message = r"^Memory short access time must be a fraction of at least one cycle, not 1/2$"
    with pytest.raises(ValueError, match=message):
        MemorySpec("m", 4, 2, 1, short=(1, 2))


def test_the_bottleneck_is_named() -> None:
    problem = Problem(KEYS, 64, 1, 2)
    prediction = predict(problem, HIERARCHIES["dram"], (64,))
    assert prediction.bottleneck == "dram"
    assert prediction.throughput == prediction.levels[0].throughput
    easy = replace_slide(problem)
    assert predict(easy, HIERARCHIES["bram+qdr+dram"], (2, 32, 64)).bottleneck == "input"


def replace_slide(problem: Problem) -> Problem:
    return Problem(problem.keys, problem.rows, problem.rows, problem.value_bytes)
