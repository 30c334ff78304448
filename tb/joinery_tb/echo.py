"""A tiny design with the ports of a generated top, to test the benches themselves."""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from joinery.tuples import (
    BoolType,
    DecimalType,
    Field,
    IntType,
    Schema,
    StringType,
    TimestampType,
)

__all__ = ["SOURCES", "write_echo"]

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
    directory: Path, *, change: tuple[str, str] | None = None, sources: dict[str, Schema] = SOURCES
) -> Path:
    """Write ``top.v`` and ``top.json`` of the echo into ``directory`` and return it.

    ``change`` is a fault: a text of the Verilog, found once, and what to put in its place.
    """
    fields: list[dict[str, Any]] = []
    offset = 0
    for source, schema in sources.items():
        for name, kind in ((field.name, field.type) for field in schema):
            place = {"offset": offset, "width": kind.width, "signed": kind.shape.signed}
            fields.append({"source": source, "column": name, "type": kind.sql, **place})
            offset += kind.width
    in_bytes, out_bytes = -(-(offset + 2) // 8), -(-offset // 8)
    sizes = f"`define ECHO_IN {in_bytes}\n`define ECHO_OUT {out_bytes}\n"
    text = sizes + (resources.files(__package__) / "echo.v").read_text()
    if change is not None:
        assert text.count(change[0]) == 1, f"{change[0]!r} must be in the echo once"
        text = text.replace(*change)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "top.v").write_text(text)
    top = _describe(text, list(sources), fields, in_bytes, out_bytes)
    (directory / "top.json").write_text(json.dumps(top))
    return directory


def _describe(
    text: str, sources: list[str], fields: list[dict[str, Any]], in_bytes: int, out_bytes: int
) -> dict[str, Any]:
    widths = {f"8*`ECHO_{side}-1": 8 * n for side, n in (("IN", in_bytes), ("OUT", out_bytes))}
    widths |= {"`ECHO_IN-1": in_bytes, "`ECHO_OUT-1": out_bytes, "": 1}
    ports = re.findall(r"^    (input|output) (?:\[(\S+):0\] )?(\w+)", text, re.MULTILINE)
    registers = {"identity": 0x4F484345, "results_lo": 0, "results_hi": 0}
    return {
        "name": "echo",
        "engine": "echo",
        "query": {"text": "", "hash": "0" * 16},
        "parameters": {},
        "versions": {},
        "ports": [
            {"name": name, "direction": way, "width": widths.get(high) or int(high) + 1}
            for way, high, name in ports
        ],
        "input": {
            "bytes": in_bytes,
            "flags": [
                {"name": f"has_{source}", "source": source, "offset": number, "width": 1}
                for number, source in enumerate(sources)
            ],
            "fields": [{**field, "offset": field["offset"] + 2} for field in fields],
        },
        "output": {"bytes": out_bytes, "fields": fields},
        "registers": [
            {"name": name, "address": 4 * number, "access": "ro", "reset": reset}
            for number, (name, reset) in enumerate(registers.items())
        ],
    }
