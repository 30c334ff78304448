"""Readers: every format, whole and broken, against bytes written by hand."""

import datetime as dt
import gzip
import re
import struct
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joinery_gen.data.readers import PACKETS, DataError, read


def write(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def columns(path: Path, *names: str, drop: bool = False) -> dict[str, list[object]]:
    return read(path, names, drop=drop).table.to_pydict()


# CSV


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2\n3,4\n", [("1", "2"), ("3", "4")]),
        ("b,x,a\n2,?,1\n", [("1", "2")]),
        ("a,b\r\n1,2\r\n3,4", [("1", "2"), ("3", "4")]),
        ("\ufeffa,b\n1,2\n", [("1", "2")]),
        ('a,b\n"1,5","x\ny"\n', [("1,5", "x\ny")]),
        ('a,b\n" 1",""""\n', [(" 1", '"')]),
        ("a,b\n,NA\nnull,NaN\n", [("", "NA"), ("null", "NaN")]),
        ("a,b\n1,2\n\n3,4\n", [("1", "2"), ("3", "4")]),
        ("a,b\n", []),
        ("a,b", []),
    ],
)
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "X.CSV.GZ"])
def test_csv_values_are_texts_as_written(name, text, rows, tmp_path):
    raw = text.encode()
    path = write(tmp_path, name, gzip.compress(raw) if name.lower().endswith("gz") else raw)
    assert columns(path, "a", "b") == {"a": [r[0] for r in rows], "b": [r[1] for r in rows]}


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)))
def test_csv_keeps_any_quoted_text(tmp_path_factory, texts):
    quoted = "".join('"' + text.replace('"', '""') + '",1\n' for text in texts)
    path = write(tmp_path_factory.mktemp("csv"), "x.csv", "a,b\n" + quoted)
    assert columns(path, "a") == {"a": texts}


def test_csv_rows_may_span_lines_wherever_they_are(tmp_path):
    texts = [f"{number}\n" * 40 for number in range(10_000)]  # more than any reader's block
    path = write(tmp_path, "x.csv", "a,b\n" + "".join(f'"{text}",1\n' for text in texts))
    assert columns(path, "a") == {"a": texts}


def test_csv_rows_of_the_wrong_form_are_dropped_and_counted(tmp_path):
    path = write(tmp_path, "x.csv", "a,b\n1,2\n3\n4,5,6\n7,8\n")
    loaded = read(path, ["b"], drop=True)
    assert loaded.table.to_pydict() == {"b": ["2", "8"]}
    assert loaded.dropped == 2


# JSON lines


def test_json_lines_keep_every_digit(tmp_path):
    lines = (
        '{"a": 12345678901234567890123, "b": 0.10000000000000000000001, "c": "x"}\n'
        "\n"
        '{"c": true, "a": -1.50e400, "b": null, "d": {"other": [1]}}\n'
        '{"a": "1", "b": NaN, "c": false}\n'
    )
    assert columns(write(tmp_path, "x.jsonl", lines), "a", "b", "c") == {
        "a": ["12345678901234567890123", "-1.50e400", "1"],
        "b": ["0.10000000000000000000001", None, "NaN"],
        "c": ["x", "true", "false"],
    }


def test_json_lines_without_rows(tmp_path):
    assert columns(write(tmp_path, "x.ndjson", "\n"), "a") == {"a": []}


def test_json_lines_of_the_wrong_form_are_dropped_and_counted(tmp_path):
    path = write(tmp_path, "x.jsonl", '{"a": 1}\n7\n{"a": [1]}\n{"a": 2\n{"a": 3}\n')
    loaded = read(path, ["a"], drop=True)
    assert loaded.table.to_pydict() == {"a": ["1", "3"]}
    assert loaded.dropped == 3


# Parquet


def test_parquet_keeps_its_types(tmp_path):
    table = pa.table({"a": pa.array([1, None], pa.int16()), "b": ["x", "y"], "c": [0.5, 1.5]})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet", ["c", "a"]).table == table.select(["c", "a"])


def test_parquet_folders_are_read_whole(tmp_path):
    folder = tmp_path / "x.parquet"
    folder.mkdir()
    for number in range(2):
        pq.write_table(pa.table({"a": [number]}), folder / f"part-{number}.parquet")
    assert columns(folder, "a") == {"a": [0, 1]}


# pcap

SECOND, MICRO = 1_700_000_000, 999_999


def ip(payload: bytes, proto: int, *, fragment: int = 0) -> bytes:
    return (
        struct.pack(
            ">BBHHHBBH4s4s",
            *(0x45, 0, 20 + len(payload), 7, fragment, 63, proto, 0),
            *(bytes([10, 0, 0, 1]), bytes([192, 168, 1, 2])),
        )
        + payload
    )


TCP = struct.pack(">HHIIBBHHH", 443, 50_000, 0, 0, 0x50, 0x10, 0, 0, 0)
UDP = struct.pack(">HHHH", 53, 5353, 8, 0)
ETHERNET, ARP, IPV6 = bytes(12) + b"\x08\x00", bytes(12) + b"\x08\x06", bytes(12) + b"\x86\xdd"
VLAN = bytes(12) + b"\x81\x00\x00\x05\x08\x00"
ADDRESSES = (0x0A000001, 0xC0A80102)


def pcap(
    frames: list[bytes],
    *,
    link: int = 1,
    order: str = "<",
    nano: bool = False,
    micros: Sequence[int] = (MICRO,),
) -> bytes:
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    data = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65_535, link)
    for frame, micro in zip(frames, cycle(micros), strict=False):
        part = micro * 1000 + 400 if nano else micro
        data += struct.pack(f"{order}IIII", SECOND, part, len(frame), len(frame)) + frame
    return data


def pcapng(frames: list[bytes]) -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    data = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    data += block(1, struct.pack("<HHI", 1, 0, 65_535))
    stamp = SECOND * 1_000_000 + MICRO
    for frame in frames:
        head = struct.pack("<5I", 0, stamp >> 32, stamp & 0xFFFFFFFF, len(frame), len(frame))
        data += block(6, head + frame)
    return data


FRAMES = [
    ETHERNET + ip(TCP, 6),
    ARP + bytes(28),
    ETHERNET + ip(UDP, 17),
    IPV6 + bytes([0x60]) + bytes(39),
    VLAN + ip(b"\x08\x00\x00\x00", 1),
    ETHERNET + ip(bytes(8), 17, fragment=100),
    ETHERNET + ip(TCP, 6)[:10],
]
ROWS = [  # proto, sport, dport, length
    (6, 443, 50_000, 40),
    (17, 53, 5353, 28),
    (1, 0, 0, 24),
    (17, 0, 0, 28),
]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("little.pcap", pcap(FRAMES)),
        ("big.pcap", pcap(FRAMES, order=">")),
        ("nano.pcap", pcap(FRAMES, nano=True)),
        ("new.pcapng", pcapng(FRAMES)),
        ("new.pcap", pcapng(FRAMES)),
    ],
)
def test_pcap_gives_ipv4_packets(name, content, tmp_path):
    path = write(tmp_path, name, content)
    loaded = read(path, PACKETS.names)
    time = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=SECOND, microseconds=MICRO)
    assert [tuple(row.values()) for row in loaded.table.to_pylist()] == [
        (time, *ADDRESSES, proto, sport, dport, length, 63) for proto, sport, dport, length in ROWS
    ]
    assert loaded.notes == (f"{path}: 3 packets that are not IPv4 were passed over",)


@pytest.mark.parametrize("link", [12, 101])
def test_pcap_of_raw_ip(link, tmp_path):
    path = write(tmp_path, "x.pcap", pcap([ip(UDP, 17), bytes([0x60]) + bytes(39)], link=link))
    loaded = read(path, ["dport", "src"])
    assert loaded.table.to_pydict() == {"dport": [5353], "src": [ADDRESSES[0]]}
    assert loaded.notes == (f"{path}: 1 packets that are not IPv4 were passed over",)


def test_pcap_stamps_are_exact_to_the_microsecond(tmp_path):
    micros = range(0, 1_000_000, 997)
    frames = [ETHERNET + ip(UDP, 17)] * len(micros)
    path = write(tmp_path, "x.pcap", pcap(frames, micros=micros))
    times = read(path, ["time"]).table["time"].cast(pa.int64()).to_pylist()
    assert times == [SECOND * 1_000_000 + micro for micro in micros]


def test_pcap_without_packets(tmp_path):
    loaded = read(write(tmp_path, "x.pcap", pcap([])), PACKETS.names)
    assert loaded.table.num_rows == 0
    assert loaded.notes == ()


# Everything that can be wrong with a file

# Without a time in it: test ids must be the same in every process.
LONG = gzip.compress(b"a\n" + bytes(range(48, 58)) * 20_000, mtime=0)
WRONG = [
    ("x.csv", "", "is empty; a CSV file starts with a line of column names"),
    ("x.csv", b"a\n\xff\n", "is not UTF-8 text"),
    ("x.csv", b"b,c\n1,2\n", "has no column a; its columns are: b, c"),
    ("x.csv", b"A,c\n1,2\n", "has no column a (did you mean A?); its columns are: A, c"),
    ("x.csv", b"a,a\n1,2\n", "has 2 columns named a"),
    ("x.csv", b"a,b\n1,2\n3\n", "row 2 does not have the 2 fields of the header but 1"),
    ("x.csv", b"a,b\n\n1,2,3\n", "row 1 does not have the 2 fields of the header but 3"),
    ("x.csv", b"a\n" + b"1\n" * 10_000 + b"\xff\n", "is not UTF-8 text"),
    ("x.csv", b'a\n"' + b"1" * 3_000_000, "has an endless row; is a quote left open?"),
    ("x.csv.gz", b"a\n1\n", "cannot be read: Not a gzipped file (b'a\\n')"),
    ("x.csv.gz", LONG[:100], "cannot be read: Truncated compressed stream"),
    ("x.parquet", b"a\n1\n", "is not a Parquet file"),
    ("x.parquet", b"", "is not a Parquet file"),
    ("x.jsonl", b'{"b": 1}\n{"c": 1}', "has no column a; its columns are: b, c"),
    ("x.jsonl", b'{"a": 1}\n[1]\n', "row 2 is not a JSON object: [1]"),
    ("x.jsonl", b'{"a": 1}\n\n{"a"', 'row 2 is not a JSON object: {"a"'),
    ("x.jsonl", b"[" * 100_000, "row 1 is not a JSON object: " + "[" * 60),
    ("x.jsonl", b'{"a": {"b": 1}}', "row 1, a: a list or an object is not one value"),
    ("x.jsonl", b'{"a": "\xff"}', "is not UTF-8 text"),
    ("x.txt", b"a", "cannot tell the format; the name must end in one of "
     ".csv, .csv.gz, .parquet, .jsonl, .ndjson, .pcap, .pcapng"),
]  # fmt: skip
WRONG_PCAPS = [
    (b"", "is not a pcap file"),
    (b"a" * 30, "is not a pcap file"),
    (pcap(FRAMES)[:10], "ends in the middle of a packet or a header"),
    (pcap(FRAMES)[:-1], "ends in the middle of a packet or a header"),
    (pcap(FRAMES[:1])[:40], "ends in the middle of a packet or a header"),
    (pcapng(FRAMES)[:-5], "ends in the middle of a packet or a header"),
    (
        pcap(FRAMES, link=113),
        "has link type 113, and only Ethernet and raw IP are supported",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), WRONG)
def test_wrong_files(name, content, message, tmp_path):
    path = write(tmp_path, name, content)
    with pytest.raises(DataError, match=f"^{re.escape(f'{path}: {message}')}$"):
        read(path, ["a"])


@pytest.mark.parametrize(("content", "message"), WRONG_PCAPS)
def test_wrong_pcaps(content, message, tmp_path):
    path = write(tmp_path, "x.pcap", content)
    with pytest.raises(DataError, match=f"^{re.escape(f'{path}: {message}')}$"):
        read(path, ["src"])


def test_a_pcap_has_its_own_columns(tmp_path):
    path = write(tmp_path, "x.pcap", pcap([]))
    message = (
        f"{path}: has no column port (did you mean sport?); "
        "its columns are: time, src, dst, proto, sport, dport, length, ttl"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        read(path, ["port"])


def test_missing_files_and_folders(tmp_path):
    path = tmp_path / "x.csv"
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}: there is no such file$"):
        read(path, ["a"])
    path.mkdir()
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}: is a folder, not a file$"):
        read(path, ["a"])
