"""Registers in a row, and memory that looks like a register for each key."""

from amaranth.hdl import Module, ShapeLike, Signal, Value, ValueLike
from amaranth.lib.memory import Memory

__all__ = ["KeyedRegister", "delayed"]


def delayed(m: Module, value: ValueLike, cycles: int, enable: ValueLike, name: str) -> Value:
    """Return ``value`` as it was ``cycles`` enabled cycles ago; zero before that."""
    found = Value.cast(value)
    for k in range(cycles):
        held = Signal(found.shape(), name=f"{name}_{k + 1}")
        with m.If(enable):
            m.d.sync += held.eq(found)
        found = held
    return found


class KeyedRegister:
    """A register for each of ``keys`` keys, visited in turn, one per step.

    ``value`` is the register of the key whose turn it is; `write` replaces it and moves to the
    next key. One key is a plain register; more are a memory, read one step ahead.
    """

    def __init__(self, m: Module, shape: ShapeLike, *, keys: int, name: str) -> None:
        self._m = m
        self._keys = keys
        if keys == 1:
            self._register = Signal(shape, name=name)
            self.value = Value.cast(self._register)
            return
        memory: Memory = Memory(shape=shape, depth=keys, init=[])
        m.submodules[name] = memory
        self._write, self._read = memory.write_port(), memory.read_port()
        self.value = Value.cast(self._read.data)

    def write(self, new: ValueLike, step: Value, key: Value) -> None:
        """On ``step``, store ``new`` for ``key``, which counts up from 0 to ``keys`` - 1."""
        m = self._m
        if self._keys == 1:
            with m.If(step):
                m.d.sync += Value.cast(self._register).eq(new)
            return
        m.d.comb += [
            self._write.addr.eq(key),
            self._write.data.eq(new),
            self._write.en.eq(step),
            self._read.addr.eq(key + 1),
            self._read.en.eq(step),
        ]
