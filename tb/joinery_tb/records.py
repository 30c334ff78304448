"""The files that the replay harnesses read and write.

Stimulus and results are sequences of records of 32-bit little-endian words. A stimulus record is a
control word (``DATA``: tdata holds tuples, ``LAST``: the input ends with this transfer) and tdata;
a result record is one lane of tdata, which holds one row. The log has one byte for each input
transfer with data, in order: 1 where the design refused its tuples, 0 where it accepted them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["DATA", "LAST", "read_records", "record_words"]

DATA, LAST = 1, 2


def record_words(side: Mapping[str, Any]) -> int:
    """Return the 32-bit words of ``input`` or of one lane of ``output`` of ``top.json``."""
    return -(-int(side["bytes"]) // 4)


def read_records(top: Mapping[str, Any], path: str | Path) -> Iterator[tuple[int, int]]:
    """Yield control word and tdata of every record of a stimulus file."""
    content = Path(path).read_bytes()
    size = 4 * (1 + record_words(top["input"]))
    for at in range(0, len(content), size):
        record = content[at : at + size]
        yield int.from_bytes(record[:4], "little"), int.from_bytes(record[4:], "little")
