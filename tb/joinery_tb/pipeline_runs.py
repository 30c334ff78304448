"""Join pipelines as generated Verilog in Verilator: built once, then fed from files."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.lib import data

from joinery.fjoin import PipelineShape
from joinery_gen.verilog import component_verilog

from .build import VERILATOR_OPTIONS, build_tools, cached_build, run_tool

__all__ = ["PipelineRun", "build_pipeline", "pack_transfers", "run_pipeline"]

Words = npt.NDArray[np.uint32]
Columns = dict[str, npt.NDArray[Any]]

BATCH_END = 0xFFFFFFFF


@dataclass(frozen=True)
class PipelineRun:
    """What came of a run: the pairs of ids of each batch, and what was counted."""

    pairs: list[npt.NDArray[np.uint32]]
    cycles: int
    window: int
    wrong_order: int
    out_of_range: int


def build_pipeline(pipeline: Any) -> Path:
    """Return an executable that runs ``pipeline``, an ``FJoinPipeline`` or one like it."""
    shape: PipelineShape = pipeline.shape
    verilog = component_verilog(pipeline)
    harness = resources.files(__package__) / "pipeline_main.cpp"
    assert isinstance(harness, Path)
    sizes = {
        "STREAM_WORDS": _words(shape.transfer("stream")),
        "WINDOW_WORDS": _words(shape.transfer("window")),
        "LANES": shape.lanes,
        "ID_BITS": shape.id_bits,
    }
    command = [
        *("verilator", "--cc", "--exe", "--build", "-j", "0", "-Wno-fatal", *VERILATOR_OPTIONS),
        *("-CFLAGS", " ".join(f"-D{name}={value}" for name, value in sizes.items())),
        *("--top-module", "top", "--prefix", "Vtop", "-Mdir", ".", "-o", "top"),
        *("top.v", harness.name),
    ]
    depends = {
        "verilog": verilog,
        "harness": harness.read_text(),
        "tools": build_tools("verilator"),
        "command": command,
    }

    def make(folder: Path) -> Path:
        (folder / "top.v").write_text(verilog)
        shutil.copy(harness, folder)
        run_tool(command, "verilator", folder)
        return folder / "top"

    name = f"a pipeline of {shape.units} units"
    return cached_build(name, depends, make, "top") / "top"


def _words(layout: data.StructLayout) -> int:
    return -(-layout.size // 32)


def pack_transfers(shape: PipelineShape, role: str, tuples: Columns | None) -> Words:
    """Return the transfers of tuples, given by column, or that of an end (None)."""
    layout = shape.transfer(role)
    if tuples is None:
        words = np.zeros((1, _words(layout)), np.uint32)
        words[0, 0] = 1
        return words
    count = len(tuples["id"])
    record, base = shape.record(role), layout["tuple"].offset
    columns = record["columns"].offset + base
    words = np.zeros((count, _words(layout)), np.uint32)
    places = {
        "id": (base, record["id"].width),
        "time": (base + record["time"].offset, record["time"].width),
    }
    places |= {
        name: (columns + field.offset, field.width) for name, field in record["columns"].shape
    }
    for name, (offset, width) in places.items():
        assert width <= 64
        _insert(words, tuples[name].astype(np.uint64), offset, width)
    return words


def _insert(words: Words, raw: npt.NDArray[np.uint64], offset: int, width: int) -> None:
    raw = raw & np.uint64((1 << width) - 1)
    first, shift = divmod(offset, 32)
    for number in range(-(-(shift + width) // 32)):
        move = 32 * number - shift
        part = raw >> np.uint64(move) if move >= 0 else raw << np.uint64(-move)
        words[:, first + number] |= (part & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def run_pipeline(
    pipeline: Any,
    batches: Sequence[Columns],
    window: Columns,
    *,
    time_range: int,
    stalls: tuple[float, float, float] = (0.0, 0.0, 0.0),
    seed: int = 1,
    timeout: float = 7200.0,
) -> PipelineRun:
    """Send batches, each with the same window; ``stalls`` are of both inputs and the output."""
    binary = build_pipeline(pipeline)
    shape = pipeline.shape
    with tempfile.TemporaryDirectory(prefix="joinery-pipeline-") as name:
        folder = Path(name)
        transfers = []
        for batch in batches:
            transfers += [
                pack_transfers(shape, "stream", batch),
                pack_transfers(shape, "stream", None),
            ]
        np.concatenate(transfers).tofile(folder / "stream")
        both = [pack_transfers(shape, "window", window), pack_transfers(shape, "window", None)]
        np.concatenate(both).tofile(folder / "window")
        options = {
            **{each: folder / each for each in ("stream", "window", "results")},
            "batches": len(batches),
            "time_range": time_range,
            "seed": seed,
            "patience": 10_000,
        }
        options |= {
            f"chance_{side}": min(round(256 * stall), 255)
            for side, stall in zip(("stream", "window", "out"), stalls, strict=True)
        }
        done = subprocess.run(
            [binary, *(f"+{key}={value}" for key, value in options.items())],
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        found = dict(line.split() for line in done.stdout.splitlines())
        rows = np.fromfile(folder / "results", np.uint32).reshape(-1, 2)
    ends = np.flatnonzero((rows == BATCH_END).all(axis=1))
    pairs = [part[1:] if k else part for k, part in enumerate(np.split(rows, ends))][:-1]
    return PipelineRun(
        pairs,
        *(int(found[name]) for name in ("cycles", "window", "wrong_order", "out_of_range")),
    )
