"""Files as the Spark driver sees them: local paths and any other file system that Hadoop knows."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from ..query import JoineryError

MARK = "_joinery.json"  # written last: a result without it is not one


class Store:
    """Small files and whole result folders, through Hadoop's file systems."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()

    def read_text(self, path: str) -> str | None:
        """Return the text of a file, or None where there is none."""
        fs, place = self._open(path)
        if not fs.exists(place):
            return None
        stream = fs.open(place)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        fs, place = self._open(path)
        stream = fs.create(place, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()

    @contextmanager
    def new_result(self, path: str) -> Iterator[str]:
        """Lend a folder beside ``path`` that takes its place at the end, or leaves no trace."""
        fs, place = self._open(path)
        if fs.exists(place) and not fs.exists(self._path(f"{path}/{MARK}")):
            raise JoineryError(
                f"{path} exists and is not a golden result; it is left alone, name another place"
            )
        parent, name = place.getParent(), place.getName()
        draft = self._jvm.org.apache.hadoop.fs.Path(parent, f".{name}.{uuid.uuid4().hex[:8]}")
        try:
            yield draft.toString()
            fs.delete(place, True)
            if not fs.rename(draft, place):
                raise JoineryError(f"The result could not be moved to {path}")
        finally:
            fs.delete(draft, True)

    def _open(self, path: str) -> tuple[Any, Any]:
        place = self._path(path)
        fs = place.getFileSystem(self._conf)
        fs.setWriteChecksum(False)  # no .crc file beside each of ours
        return fs, fs.makeQualified(place)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)
