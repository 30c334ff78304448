"""Hardware that is broken on purpose, to see a test or a proof of it fail."""

import inspect
import textwrap
from typing import Any

__all__ = ["broken"]


def broken(thing: Any, old: str, new: str) -> Any:
    """Return a class or function with one expression of its source replaced by a wrong one."""
    source = textwrap.dedent(inspect.getsource(thing))
    assert source.count(old) == 1, f"{thing.__name__} has {source.count(old)} of {old!r}"
    namespace = dict(vars(inspect.getmodule(thing)))  # type: ignore[arg-type]
    exec(source.replace(old, new), namespace)
    return namespace[thing.__name__]
