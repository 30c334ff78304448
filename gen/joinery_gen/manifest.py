"""What a prepared input says of itself."""

import hashlib
from collections.abc import Mapping
from typing import Any

__all__ = ["PUNCTUATION", "data_hash"]

PUNCTUATION = "_punctuation"
"""The column of a prepared input that marks punctuations, where there are any."""


def data_hash(manifest: Mapping[str, Any]) -> str:
    """Identify the data of a prepared input: SHA-256 over the hashes of its files, by alias."""
    sources = manifest["sources"]
    lines = "".join(f"{alias} {sources[alias]['sha256']}\n" for alias in sorted(sources))
    return hashlib.sha256(lines.encode()).hexdigest()
