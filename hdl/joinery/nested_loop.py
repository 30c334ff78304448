"""The papers' baseline: two units, each scanning the whole window of the other stream.

That is a chain of one core, with its windows in memory: nothing has to move for two rows to meet,
so there is nothing to drain.
"""

from .handshake import HandshakeJoin
from .join import JoinPair, TimeBound

__all__ = ["NestedLoopJoin"]


class NestedLoopJoin(HandshakeJoin):
    """Join two streams over row windows with one comparator per direction.

    Throughput: a left tuple every ``rows_right`` cycles and a right tuple every ``rows_left``; one
    result per cycle. Parameters as for ``HandshakeJoin``.
    """

    def __init__(
        self,
        pair: JoinPair,
        *,
        rows_left: int,
        rows_right: int,
        ops_per_stage: int = 2,
        queue_depth: int | None = None,
        bound: TimeBound | None = None,
    ) -> None:
        super().__init__(
            pair,
            rows_left=rows_left,
            rows_right=rows_right,
            cores=1,
            storage="memory",
            ops_per_stage=ops_per_stage,
            queue_depth=queue_depth,
            bound=bound,
        )
