"""Results of long runs of tools, kept until anything that they depend on changes."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import platformdirs

__all__ = ["cached", "result_folder"]


def result_folder() -> Path:
    """Return the folder of all results; ``JOINERY_CACHE`` moves the cache as a whole."""
    base = os.environ.get("JOINERY_CACHE") or platformdirs.user_cache_dir("joinery")
    return Path(base) / "synth"


def cached(depends: Mapping[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what ``make`` returned when ``depends`` was first seen, a JSON object.

    A result is put in place by one rename, so that one that is there is whole; a lock lets only one
    process make it.
    """
    key = hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:32]
    place = result_folder() / f"{key}.json"
    if not place.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_file():
                partial = place.with_suffix(".partial")
                partial.write_text(json.dumps(make()))
                partial.replace(place)
    result: dict[str, Any] = json.loads(place.read_text())
    return result
