"""What a design accepted of a prepared input, as a prepared input of its own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from joinery_gen.data.prepare import MANIFEST, draft, write_manifest, write_tuples
from joinery_gen.query import JoineryError

from .words import read_source

__all__ = ["write_accepted"]


def write_accepted(prepared: Path, refused: Mapping[str, npt.NDArray[np.bool_]], out: Path) -> None:
    """Write ``prepared`` without its refused tuples to the folder ``out``.

    ``refused`` says of each tuple of each source, in the order of its file, whether it goes. The
    others keep their order and get arrival positions without gaps.
    """
    manifest = _read_manifest(prepared)
    tables = {
        source: read_source(prepared, source).filter(pa.array(~which))
        for source, which in refused.items()
    }
    arrivals = {source: table["_arrival"].to_numpy() for source, table in tables.items()}
    order = np.sort(np.concatenate(list(arrivals.values())))
    with draft(out) as folder:
        sources = {}
        for source, table in tables.items():
            arrival = pa.array(np.searchsorted(order, arrivals[source]))
            renumbered = table.drop_columns("_arrival").append_column("_arrival", arrival)
            sha256 = write_tuples(renumbered, source, folder)
            about = manifest["sources"].get(source, {})
            sources[source] = {**about, "rows": len(table), "sha256": sha256}
        write_manifest({**manifest, "arrivals": len(order), "sources": sources}, folder)


def _read_manifest(prepared: Path) -> dict[str, Any]:
    path = prepared / MANIFEST
    if not path.is_file():
        raise JoineryError(f"There is no {MANIFEST} in {prepared}; prepare the input first")
    manifest: dict[str, Any] = json.loads(path.read_text())
    return manifest
