"""The aggregate functions that there are, and the kernels that compute them.

This is the one place where a function is added: write a ``Kernel``, most easily a ``Fold``, and
enter it here under the name that a query uses.
"""

from collections.abc import Mapping

from .kernels import Count, Kernel, Maximum, Minimum, Sum
from .median import Median

__all__ = ["FUNCTIONS"]

FUNCTIONS: Mapping[str, Mapping[str, type[Kernel]]] = {
    "count": {"": Count},
    "sum": {"": Sum},
    "min": {"": Minimum},
    "max": {"": Maximum},
    "avg": {"sum": Sum, "count": Count},
    "median": {"twice": Median},
}
"""The results that leave the hardware for each function, by their names.

The name is empty where the result is the aggregate itself; whoever reads the others forms it: an
average is ``sum`` by ``count``, a median half of ``twice``.
"""
