"""A card on a board: its registers and its memory, over the link."""

from collections.abc import Mapping, Sequence

from ..fjoin_host.registers import RegisterCard
from .board import WORD, Board

__all__ = ["BoardCard"]


class BoardCard(RegisterCard):
    """The card on a board, for as long as the session lasts; `Device` says what it does.

    Parameters
    ----------
    board : Board
        Its ``top`` has an entry ``memory``: the card's memory is on the chip.
    """

    def __init__(self, board: Board) -> None:
        memory = board.top["memory"]
        super().__init__(board.top, int(memory["bytes"]))
        self._board = board
        self._base = int(memory["address"])

    @property
    def cycles(self) -> int:
        found = self.read_registers(["clock_lo", "clock_hi"])
        return found["clock_hi"] << 32 | found["clock_lo"]

    def wait(self) -> None:
        """Whatever is asked next lets the card work for thousands of cycles."""

    def read_registers(self, names: Sequence[str]) -> dict[str, int]:
        return self._board.read_all(names)

    def write_registers(self, values: Mapping[str, int]) -> None:
        self._board.write_all(values)

    def load(self, address: int, count: int) -> bytes:
        skip = address % WORD
        return self._board.load(self._base + address - skip, skip + count)[skip:]

    def store(self, address: int, data: bytes) -> None:
        self._board.store(self._base + address, data)
