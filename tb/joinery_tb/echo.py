"""A tiny design with the ports of a generated top, and input for it, to test the benches."""

import hashlib
import itertools
import json
import math
import random
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from joinery.tuples import (
    BoolType,
    ColumnType,
    DecimalType,
    Field,
    IntType,
    Schema,
    StringType,
    TimestampType,
)
from joinery_gen.tables import arrow_type

__all__ = ["SOURCES", "echo_arrivals", "echo_rows", "random_value", "write_echo", "write_prepared"]

Row = dict[str, Any]

SOURCES = {
    "r": Schema((Field("k", IntType(9)), Field("price", DecimalType(10, 2)))),
    "s": Schema(
        (
            Field("v", IntType(12, signed=False)),
            Field("name", StringType(9)),
            Field("t", TimestampType("s")),
            Field("b", BoolType()),
        )
    ),
}


def write_echo(
    directory: Path,
    *,
    lanes: int = 1,
    changes: Mapping[str, str] | None = None,
    sources: dict[str, Schema] = SOURCES,
) -> Path:
    """Write ``top.v`` and ``top.json`` of the echo into ``directory`` and return it.

    ``changes`` put in faults: texts of the Verilog, each found once, and what takes their place.
    """
    fields: list[dict[str, Any]] = []
    offset = 0
    for source, schema in sources.items():
        for name, kind in ((field.name, field.type) for field in schema):
            place = {"offset": offset, "width": kind.width, "signed": kind.shape.signed}
            fields.append({"source": source, "column": name, "type": kind.sql, **place})
            offset += kind.width
    in_bytes, out_bytes = -(-(offset + 2) // 8), -(-offset // 8)
    text = (resources.files(__package__) / "echo.v").read_text()
    for before, after in (changes or {}).items():
        assert text.count(before) == 1, f"{before!r} must be in the echo once"
        text = text.replace(before, after)
    sizes = {"ECHO_IN": in_bytes, "ECHO_OUT": out_bytes, "ECHO_LANES": lanes}
    defines = "".join(f"`define {name} {size}\n" for name, size in sizes.items())
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "top.v").write_text(defines + text)
    top = _describe(_ports(text, sizes), list(sources), fields, sizes)
    (directory / "top.json").write_text(json.dumps(top))
    return directory


def _ports(text: str, sizes: dict[str, int]) -> list[dict[str, Any]]:
    """Read the ports out of the Verilog; the highest bit of a vector is ``a*b-1`` or a number."""
    ports = []
    pattern = r"^    (input|output) (?:\[(?:(\S+)-1|(\d+)):0\] )?(\w+)"
    for way, product, high, name in re.findall(pattern, text, re.MULTILINE):
        factors = (sizes.get(factor.lstrip("`")) or int(factor) for factor in product.split("*"))
        width = math.prod(factors) if product else int(high or 0) + 1
        ports.append({"name": name, "direction": way, "width": width})
    return ports


def _describe(
    ports: list[dict[str, Any]],
    sources: list[str],
    fields: list[dict[str, Any]],
    sizes: dict[str, int],
) -> dict[str, Any]:
    registers = {"identity": 0x4F484345, "results_lo": 0, "results_hi": 0}
    return {
        "name": "echo",
        "engine": "echo",
        "query": {"text": "", "hash": "0" * 16},
        "parameters": {},
        "versions": {},
        "ports": ports,
        "input": {
            "bytes": sizes["ECHO_IN"],
            "flags": [
                {"name": f"has_{source}", "source": source, "offset": number, "width": 1}
                for number, source in enumerate(sources)
            ],
            "fields": [{**field, "offset": field["offset"] + 2} for field in fields],
        },
        "output": {"bytes": sizes["ECHO_OUT"], "fields": fields, "lanes": sizes["ECHO_LANES"]},
        "registers": [
            {"name": name, "address": 4 * number, "access": "ro", "reset": reset}
            for number, (name, reset) in enumerate(registers.items())
        ],
    }


def random_value(kind: ColumnType, rng: random.Random) -> Any:
    """Return a value of ``kind``, often one at the end of its range."""
    if isinstance(kind, StringType):
        return "".join(rng.choices("abé", k=rng.randint(0, kind.length // 2)))
    return kind.decode(rng.choice([kind.low, kind.high, 0, rng.randint(kind.low, kind.high)]))


def echo_arrivals(count: int, seed: int = 1) -> list[tuple[str, Row]]:
    """Return random tuples for the echo, each with its source, in arrival order."""
    rng = random.Random(seed)
    sources = [rng.choice("rs") for _ in range(count)]
    return [(s, {f.name: random_value(f.type, rng) for f in SOURCES[s]}) for s in sources]


def echo_rows(arrivals: list[tuple[str, Row]]) -> list[Row]:
    """Return what the echo gives: the tuples of each R with an S right after it."""
    neighbours = itertools.pairwise(arrivals)
    return [{**r, **s} for (first, r), (second, s) in neighbours if first + second == "rs"]


def write_prepared(
    folder: Path, sources: dict[str, Schema], arrivals: list[tuple[str, Row]]
) -> Path:
    """Write ``arrivals`` as a prepared input into ``folder`` and return it."""
    folder.mkdir(exist_ok=True)
    about: dict[str, Any] = {}
    for source, schema in sources.items():
        rows = [{**row, "_arrival": n} for n, (of, row) in enumerate(arrivals) if of == source]
        types = [pa.field(field.name, arrow_type(field.type)) for field in schema]
        arrow = pa.schema([*types, pa.field("_arrival", pa.int64())])
        path = folder / f"{source}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, arrow), path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        about[source] = {"rows": len(rows), "dropped": 0, "sha256": sha256, "from": "random"}
    manifest = {"query": "0" * 16, "arrivals": len(arrivals), "sources": about}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
