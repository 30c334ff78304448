"""From the files inside packages to streams in arrival order.

A builder takes the files that a set needs and returns its streams by name, with values still as
the files have them; ``fetch`` brings them to the types that the catalogue declares. Where a file
is grouped by key, its stream is sorted by time; rows of the same time keep the order of the file.
"""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from .readers import PACKETS, read

Streams = dict[str, pa.Table]


def _read_text_table(file: Path | io.BytesIO, names: Sequence[str] | None = None) -> pa.Table:
    """Read a CSV file with every value as text; without ``names`` its first line has them."""
    source = file if isinstance(file, io.BytesIO) else io.BytesIO(file.read_bytes())
    if names is None:
        header = source.readline().decode().strip()
        names = [name.strip('"') for name in header.split(",")]
    return pyarrow.csv.read_csv(
        source,
        read_options=pyarrow.csv.ReadOptions(column_names=names),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=["NA", ""],
            strings_can_be_null=True,
        ),
    )


def _order_of(table: pa.Table, *keys: str) -> pa.Array:
    # Arrow's sort is stable: ties keep their order.
    return pc.sort_indices(table, sort_keys=[(key, "ascending") for key in keys])


def _sorted(table: pa.Table, key: str) -> pa.Table:
    return table.take(_order_of(table, key))


def build_taxi(files: Sequence[Path]) -> Streams:
    """All positions; the free taxis; and the orders, where a taxi turns from free to taken."""
    names = ["vehicle", "time", "longitude", "latitude", "open", "speed"]
    rows = _read_text_table(files[0], names)
    day_time = pc.binary_join_element_wise("1970-01-01", rows["time"], " ")
    rows = rows.set_column(1, "time", day_time)
    taken = pc.equal(rows["open"], "1").to_numpy()
    by_vehicle = _order_of(rows, "vehicle", "time").to_numpy()
    vehicle, status = rows["vehicle"].to_numpy()[by_vehicle], taken[by_vehicle]
    turned = status[1:] & ~status[:-1] & (vehicle[1:] == vehicle[:-1])
    order = np.zeros(len(taken), dtype=bool)
    order[by_vehicle[1:]] = turned
    return {
        "positions": _sorted(rows, "time"),
        "orders": _sorted(rows.filter(pa.array(order)), "time"),
        "taxis": _sorted(rows.filter(pa.array(~taken)), "time"),
    }


def build_bus(files: Sequence[Path]) -> Streams:
    """The positions in the order in which they came, disorder and all."""
    names = ["time", "line", "line_name", "next_stop", "last_stop", "place", "direction"]
    rows = _read_text_table(files[0], [*names, "vehicle", "number", "unknown"])
    place = pc.split_pattern(rows["place"], ",")
    rows = rows.append_column("longitude", pc.list_element(place, 0))
    rows = rows.append_column("latitude", pc.list_element(place, 1))
    return {"bus": rows}


def build_ticks(files: Sequence[Path]) -> Streams:
    """All trades, and those after the price last rose (``up``) or fell (``down``).

    This is the tick rule: a trade at the price of the one before goes where that one went. The
    trades before the first change of price are in neither. The file has one instrument; for queries
    over several, ``shares`` has all trades under two symbols, one for those in ``up``.
    """
    trades = _read_text_table(files[0]).rename_columns(["time", "price", "volume"])
    price = trades["price"].cast(pa.float64()).to_numpy()
    direction = _last_nonzero(np.sign(np.diff(price, prepend=price[:1])))
    return {
        "trades": trades,
        "shares": trades.append_column(
            "symbol", pa.array(np.where(direction > 0, "UBSN", "CSGN"), pa.string())
        ),
        "up": trades.filter(pa.array(direction > 0)),
        "down": trades.filter(pa.array(direction < 0)),
    }


def _last_nonzero(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Replace each zero by the last value before it that is not."""
    place = np.where(values != 0, np.arange(len(values)), 0)
    filled: npt.NDArray[np.float64] = values[np.maximum.accumulate(place)]
    return filled


def build_aircraft(files: Sequence[Path]) -> Streams:
    """Readings of all aircraft around Paris (``aircraft``) and over Switzerland (``swiss``)."""
    return {
        name: _sorted(_aircraft(file), "time")
        for name, file in zip(("aircraft", "swiss"), files, strict=True)
    }


def _aircraft(file: Path) -> pa.Table:
    with pa.input_stream(file, compression="gzip") as stream:
        text = stream.read()
    # One array of flat objects, where Arrow wants one object per line.
    lines = text.strip()[1:-1].replace(b"},{", b"}\n{")
    rows = pyarrow.json.read_json(io.BytesIO(lines))
    time = pc.cast(rows["timestamp"], pa.timestamp("ms"))
    return rows.append_column("time", time)


def build_flights(files: Sequence[Path]) -> Streams:
    """The flights in the order of their scheduled hour."""
    with zipfile.ZipFile(files[0]) as archive:
        text = archive.read("flights.csv")
    return {"flights": _sorted(_read_text_table(io.BytesIO(text)), "time_hour")}


def build_weather(files: Sequence[Path]) -> Streams:
    """The weather of three airports, hour by hour."""
    return {"weather": _sorted(_read_text_table(files[0]), "time_hour")}


def build_packets(files: Sequence[Path]) -> Streams:
    """Packets that the busiest host sent and all others, in the order of the capture."""
    streams: Streams = {}
    for file, (sent, rest) in zip(
        files, (("outgoing", "incoming"), ("probes", "replies")), strict=True
    ):
        rows = read(file, PACKETS.names).table
        ends = pc.value_counts(pa.chunked_array([*rows["src"].chunks, *rows["dst"].chunks]))
        busiest = ends[pc.index(ends.field("counts"), pc.max(ends.field("counts"))).as_py()]
        from_host = pc.equal(rows["src"], busiest["values"])
        streams[sent] = rows.filter(from_host)
        streams[rest] = rows.filter(pc.invert(from_host))
    return streams


def build_many_flights(files: Sequence[Path]) -> Streams:
    """Three million flights; the file is in the order of time."""
    rows = pq.read_table(files[0])
    return {"many_flights": rows.rename_columns(["time", *rows.column_names[1:]])}
