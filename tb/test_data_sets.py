"""From the files inside packages to streams: builders against plain loops, and real sets."""

import datetime as dt
import gzip
import json
import struct
import zipfile
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joinery_gen.data import builders, get_set, prepare
from joinery_gen.data.bind import bind
from joinery_gen.data.catalog import SETS
from joinery_gen.parse import parse_file
from joinery_gen.tables import arrow_schema

QUERIES = Path(__file__).parent.parent / "gen" / "queries"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


POSITIONS = st.lists(
    st.tuples(st.sampled_from(["22", "100", "9"]), st.integers(0, 5), st.sampled_from("01")),
    min_size=1,
)


@given(POSITIONS)
def test_taxi_orders_are_turns_from_free_to_taken(tmp_path_factory, positions):
    rows = [
        [vehicle, f"00:00:0{second}", str(number), "0", status, "0"]
        for number, (vehicle, second, status) in enumerate(positions)
    ]
    text = "".join(",".join(row) + "\n" for row in rows)
    file = write(tmp_path_factory.mktemp("taxi"), "taxi.csv", text)
    streams = builders.build_taxi([file])
    orders = []
    for vehicle in {row[0] for row in rows}:
        own = sorted((row for row in rows if row[0] == vehicle), key=lambda row: row[1])
        orders += [b for a, b in pairwise(own) if a[4] == "0" and b[4] == "1"]
    expected = {
        "positions": rows,
        "orders": sorted(orders, key=lambda row: int(row[2])),  # the order of the file
        "taxis": [row for row in rows if row[4] == "0"],
    }
    for name, wanted in expected.items():
        wanted = sorted(wanted, key=lambda row: row[1])
        assert streams[name]["longitude"].to_pylist() == [row[2] for row in wanted]
        assert streams[name]["time"].to_pylist() == [f"1970-01-01 {row[1]}" for row in wanted]


def test_buses_stay_in_the_order_of_the_file(tmp_path):
    rows = (
        '2019-01-17 00:00:05,7100,71,2,1,"121.3,31.1",1,X,Z5,1\n'
        '2019-01-17 00:00:02,7100,71,3,2,"121.4,31.2",0,Y,Z6,1\n'
    )
    bus = builders.build_bus([write(tmp_path, "bus.csv", rows)])["bus"]
    assert bus["time"].to_pylist() == ["2019-01-17 00:00:05", "2019-01-17 00:00:02"]
    assert bus["longitude"].to_pylist() == ["121.3", "121.4"]
    assert bus["latitude"].to_pylist() == ["31.1", "31.2"]
    assert set(SETS["bus"].streams[0].schema.names) <= set(bus.column_names)


@given(st.lists(st.sampled_from(["1.25", "1.50", "2.00"]), min_size=1))
def test_ticks_follow_the_tick_rule(tmp_path_factory, prices):
    lines = [f"2013-09-01 17:00:00.000,{price},{n}\n" for n, price in enumerate(prices)]
    text = "DateTime,Price,Volume\n" + "".join(lines)
    streams = builders.build_ticks([write(tmp_path_factory.mktemp("t"), "t.csv", text)])
    expected: dict[str, list[str]] = {"trades": [], "up": [], "down": []}
    last, direction = prices[0], None
    for number, price in enumerate(prices):
        if Decimal(price) != Decimal(last):
            direction = "up" if Decimal(price) > Decimal(last) else "down"
        last = price
        for name in ("trades", direction):
            if name:
                expected[name].append(str(number))
    shares = streams.pop("shares")
    assert {name: table["volume"].to_pylist() for name, table in streams.items()} == expected
    assert shares["volume"].to_pylist() == expected["trades"]
    risen = [row["volume"] for row in shares.to_pylist() if row["symbol"] == "UBSN"]
    assert risen == expected["up"]


def test_aircraft_are_sorted_by_time(tmp_path):
    readings = [
        {"icao24": "b", "timestamp": 3000, "track": 1.5, "callsign": "B"},
        {"icao24": "a", "timestamp": 1000, "track": None, "callsign": "A"},
        {"icao24": "c", "timestamp": 1000, "track": 2.5, "callsign": "C"},
    ]
    packed = gzip.compress(json.dumps(readings, separators=(",", ":")).encode())
    files = [write(tmp_path, name, packed) for name in ("one.json.gz", "two.json.gz")]
    streams = builders.build_aircraft(files)
    assert list(streams) == ["aircraft", "swiss"]
    assert streams["swiss"]["icao24"].to_pylist() == ["a", "c", "b"]
    assert streams["swiss"]["track"].to_pylist() == [None, 2.5, 1.5]
    assert streams["swiss"]["time"].to_pylist()[2] == dt.datetime(1970, 1, 1, 0, 0, 3)


def test_flights_and_weather_are_sorted_by_hour(tmp_path):
    hour = "2013-01-01T05:00:00Z"
    text = f'"n",time_hour\n1,2013-01-02T00:00:00Z\nNA,{hour}\n3,{hour}\n'
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as archive:
        archive.writestr("flights.csv", text)
    flights = builders.build_flights([tmp_path / "f.zip"])["flights"]
    weather = builders.build_weather([write(tmp_path, "w.csv", text)])["weather"]
    assert flights["n"].to_pylist() == weather["n"].to_pylist() == [None, "3", "1"]


def test_packets_are_split_by_the_busiest_host(tmp_path):
    def frame(source: int, destination: int) -> bytes:
        head = struct.pack(">BBHHHBBHII", 0x45, 0, 20, 0, 0, 64, 253, 0, source, destination)
        return bytes(12) + b"\x08\x00" + head

    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    for second, (source, destination) in enumerate([(1, 7), (7, 2), (3, 7), (3, 2), (3, 7)]):
        packet = frame(source, destination)
        data += struct.pack("<IIII", second, 0, len(packet), len(packet)) + packet
    files = [write(tmp_path, name, data) for name in ("real.pcap", "icmp.pcap")]
    streams = builders.build_packets(files)
    assert list(streams) == ["outgoing", "incoming", "probes", "replies"]
    for sent, rest in (("outgoing", "incoming"), ("probes", "replies")):
        assert streams[sent]["dst"].to_pylist() == [2]
        assert streams[rest]["src"].to_pylist() == [1, 3, 3, 3]


def test_many_flights_call_their_time_time(tmp_path):
    pq.write_table(pa.table({"date": [1], "delay": [2]}), tmp_path / "x.parquet")
    made = builders.build_many_flights([tmp_path / "x.parquet"])["many_flights"]
    assert made.to_pydict() == {"time": [1], "delay": [2]}


# The queries of the repository

BY_NAME = {
    "order_taxi": (["taxi"], {"o": "taxi.orders", "t": "taxi.taxis"}),
    "order_taxi_300": (["taxi"], {"o": "taxi.orders", "t": "taxi.taxis"}),
    "vehicle_stats": (["taxi"], {"positions": "taxi.positions"}),
    "tick_band": (["ticks"], {"u": "ticks.up", "d": "ticks.down"}),
    "tick_pairs": (["ticks"], {"u": "ticks.up", "d": "ticks.down"}),
    "tick_near": (["ticks"], {"u": "ticks.up", "d": "ticks.down"}),
    "tick_return": (["ticks"], {"u": "ticks.up", "d": "ticks.down"}),
    "bus_meet": (["bus"], {"a": "bus.bus", "b": "bus.bus"}),
    "ip_prefix": (["packets"], {"o": "packets.outgoing", "i": "packets.incoming"}),
    "ip_prefix_30": (["packets"], {"o": "packets.outgoing", "i": "packets.incoming"}),
    "flights_weather": (["flights", "weather"], {"f": "flights.flights", "w": "weather.weather"}),
    "auction_max": (["bids=ticks.trades"], {"bids": "ticks.trades"}),
    "ubsn_count": (["trades=ticks.shares"], {"trades": "ticks.shares"}),
    "bus_positions": (["bus"], {"bus": "bus.bus"}),
    "aircraft_stats": (["aircraft"], {"aircraft": "aircraft.aircraft"}),
    "swiss_stats": (["aircraft"], {"swiss": "aircraft.swiss"}),
    "airport_delays": (["flights"], {"flights": "flights.flights"}),
    "vehicle_median": (["taxi"], {"positions": "taxi.positions"}),
    "flight_delays": (["flights"], {"flights": "flights.flights"}),
    "tick_dashboard": (["ticks"], {"trades": "ticks.trades"}),
    "tick_stats": (["ticks"], {"trades": "ticks.trades"}),
    "tick_stats_1s": (["ticks"], {"trades": "ticks.trades"}),
}
GAPS = {
    "aircraft_stats": {"altitude", "groundspeed"},
    "airport_delays": {"dep_delay"},
    "flight_delays": {"dep_delay"},
}
"""Columns with gaps that a query reads all the same: its head says to drop the rows with one."""


@pytest.mark.parametrize("path", sorted(QUERIES.glob("*.cql")), ids=lambda path: path.stem)
def test_every_query_finds_its_streams_and_columns(path):
    query = parse_file(path)
    data, labels = BY_NAME[query.name]
    origins = bind(query, data)
    assert {alias: origin.label for alias, origin in origins.items()} == labels
    for source in query.sources:
        stream = getattr(origins[source.alias], "stream", None)
        if stream is not None:
            whole = set(stream.schema.names) - stream.nullable
            assert set(source.schema.names) - whole == GAPS.get(query.name, set())


# Real sets, as the registry has them


def read_real(set_name: str, stream: str) -> pa.Table:
    table = pq.read_table(get_set(set_name) / f"{stream}.parquet")
    assert table.schema == arrow_schema(SETS[set_name].stream(stream).schema)
    return table


def test_real_ticks():
    trades = read_real("ticks", "trades")
    assert trades.num_rows == 500_000
    assert trades.slice(0, 1).to_pylist() == [
        {
            "time": dt.datetime(2013, 9, 1, 17, 0, 0, 83_000),
            "price": Decimal("1640.25"),
            "volume": 8,
        }
    ]
    raw = pc.multiply(trades["price"].cast(pa.float64()), 4)
    assert pc.all(pc.equal(raw, pc.floor(raw))).as_py()  # prices in quarters
    times = trades["time"].cast(pa.int64()).to_pylist()
    assert all(a <= b for a, b in pairwise(times))
    sides = read_real("ticks", "up").num_rows, read_real("ticks", "down").num_rows
    assert sides == (248_432, 251_310)


def test_real_flights_and_weather(tmp_path):
    flights, weather = read_real("flights", "flights"), read_real("weather", "weather")
    assert (flights.num_rows, weather.num_rows) == (336_776, 26_115)
    assert flights["dep_delay"].null_count == 8_255  # cancelled
    query = parse_file(QUERIES / "flights_weather.cql")
    made = prepare(query, ["flights", "weather"], tmp_path / "in")
    assert made.rows == {"f": 336_776, "w": 26_115}
    assert made.dropped == {"f": 0, "w": 0}
    assert made.notes == ()
    left, right = (pq.read_table(tmp_path / "in" / f"{alias}.parquet") for alias in "fw")
    assert left.drop_columns("_arrival") == flights.select(query.sources[0].schema.names)
    hours = pa.concat_tables([t.select(["time_hour", "_arrival"]) for t in (left, right)])
    order = hours.sort_by("_arrival")
    assert order["_arrival"].to_pylist() == list(range(336_776 + 26_115))
    times = order["time_hour"].cast(pa.int64()).to_pylist()
    assert all(a <= b for a, b in pairwise(times))
