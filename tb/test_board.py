"""A simulated board behind a pseudo-terminal, and all that can be wrong with a port."""

import os
import re
import subprocess
import threading
import time
import tty
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from joinery.link import LinkShape
from joinery.link.protocol import ADDRESS_BYTES, Op
from joinery_gen.engines import plan
from joinery_gen.generate import describe, generate_board
from joinery_gen.link import Board, LinkError
from joinery_gen.parse import parse
from joinery_gen.query import JoineryError
from joinery_tb.board_model import BoardModel
from joinery_tb.simulated_board import SimulatedBoard
from joinery_tb.toolchain import environment

ROWS = 4
QUERY = parse(
    f"""
CREATE STREAM r (k INT(8), v INT(16));
CREATE STREAM s (k INT(8), w INT(16));
SELECT r.v, s.w FROM r [ROWS {ROWS}], s [ROWS {ROWS}] WHERE r.k = s.k
""",
    "board",
)
SHAPE = LinkShape(8, 32)


def pack(fields: Sequence[dict[str, Any]], size: int, values: dict[str, int]) -> bytes:
    word = 0
    for field in fields:
        word |= (values[field["column"]] & ((1 << field["width"]) - 1)) << field["offset"]
    return word.to_bytes(size, "little")


def beats(top: dict[str, Any], tuples: Sequence[tuple[int, int]]) -> list[bytes]:
    """Beats with a tuple of each stream, both with the same key and value."""
    side = top["input"]
    flags = [{**flag, "column": flag["name"]} for flag in side["flags"]]
    fields = [*flags, *side["fields"]]
    both = {flag["name"]: 1 for flag in flags}
    return [pack(fields, side["bytes"], {**both, "k": k, "v": v, "w": v}) for k, v in tuples]


def unpack(top: dict[str, Any], row: bytes) -> tuple[int, ...]:
    word = int.from_bytes(row, "little")
    return tuple(
        word >> field["offset"] & ((1 << field["width"]) - 1) for field in top["output"]["fields"]
    )


def joined(tuples: Sequence[tuple[int, int]]) -> Counter[tuple[int, ...]]:
    """The definition: each finds the others among the last of their stream; R counts as first."""
    found: Counter[tuple[int, ...]] = Counter()
    for n, (key, value) in enumerate(tuples):
        found.update((value, w) for k, w in tuples[max(0, n - ROWS) : n] if k == key)
        found.update((v, value) for k, v in tuples[max(0, n - ROWS + 1) : n + 1] if k == key)
    return found


TUPLES = [(n * n % 3, n) for n in range(500)]


def start(tmp_path: Path, damage: float = 0.0, **settings: Any) -> SimulatedBoard:
    chosen = plan(QUERY, None, {"cores": 2, **settings})
    return SimulatedBoard(chosen, tmp_path, damage=damage, seed=3, shape=SHAPE)


def test_results_over_a_bad_line_are_exact(tmp_path: Path) -> None:
    with start(tmp_path, damage=0.02) as simulated:
        top = simulated.top
        with Board(simulated.path, top) as board:
            for _ in range(2):  # the core starts anew after an end
                rows: list[bytes] = []
                run = board.run(beats(top, TUPLES), rows.append)
                assert Counter(unpack(top, row) for row in rows) == joined(TUPLES)
                assert (run.beats, run.rows, run.refused) == (len(TUPLES), len(rows), [])
                assert run.repeated
                assert run.damaged
            registers = board.registers()
            assert (
                registers["accepted_left_lo"] == registers["accepted_right_lo"] == 2 * len(TUPLES)
            )
            assert registers["results_lo"] == 2 * len(rows)
            board.write("control", 1)
            assert board.read("results_lo") == 0
            with pytest.raises(LinkError, match=r"^The core did not let register version be writ"):
                board.write("version", 1)
    assert simulated.report["damaged_in"] > 100
    assert simulated.report["damaged_out"] > 100


class EnoughError(Exception):
    """The host has had enough."""


def test_a_host_that_stalls_or_goes_loses_nothing(tmp_path: Path) -> None:
    with start(tmp_path) as simulated:
        top = simulated.top

        def leave(row: bytes) -> None:
            raise EnoughError

        with pytest.raises(EnoughError), Board(simulated.path, top) as board:
            board.run(beats(top, TUPLES), leave)
        rows: list[bytes] = []

        def stall(row: bytes) -> None:
            rows.append(row)
            if len(rows) in (1, 100, 300):
                time.sleep(0.2)

        with Board(simulated.path, top) as board:
            board.run(beats(top, TUPLES), stall)
            assert board.read("accepted_left_lo") == len(TUPLES)  # of this session alone
        assert Counter(unpack(top, row) for row in rows) == joined(TUPLES)


def test_refused_tuples_are_named(tmp_path: Path) -> None:
    tuples = [(1, n) for n in range(200)]
    with start(tmp_path, damage=0.01, policy="shed") as simulated:
        top, rows = simulated.top, []
        with Board(simulated.path, top) as board:
            run = board.run(beats(top, tuples), rows.append)
            assert board.read("refused_lo") == len(run.refused)
    accepted = [each for n, each in enumerate(tuples) if n not in run.refused]
    assert 0 < len(accepted) < len(tuples)
    assert Counter(unpack(top, row) for row in rows) == joined(accepted)


# ---------------------------------------------------------------------------------------------
# Ports, with a model of a board behind them
# ---------------------------------------------------------------------------------------------

TOP = describe(plan(QUERY, None, {"cores": 2}))
RESETS = {each["address"]: each["reset"] for each in TOP["registers"]}


class Served:
    """A board model behind a pseudo-terminal that can be unplugged; ``path`` stays the same."""

    def __init__(self, folder: Path, model: BoardModel, registers: dict[int, int]) -> None:
        self.model, self.registers = model, registers
        self.path = folder / "port"
        self.noise = b""
        self.silent = False
        self._stop = threading.Event()
        self.plug()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def plug(self) -> None:
        self.master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.path.unlink(missing_ok=True)
        self.path.symlink_to(os.ttyname(self._slave))
        os.set_blocking(self.master, False)

    def unplug(self) -> None:
        self.path.unlink()
        os.close(self._slave)
        os.close(self.master)
        self.master = -1

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._stop.wait(0.001):
            try:
                self.model.feed(os.read(self.master, 4096))
            except OSError:
                continue
            self._answer()
            out = b"".join(iter(self.model.take, b""))
            if not self.silent:
                os.write(self.master, self.noise or out)

    def _answer(self) -> None:
        """Answer reads; all else is taken in without an answer."""
        heard = self.model.heard
        size = 1 + ADDRESS_BYTES
        while len(heard) >= size and heard[0] == Op.READ:
            value = self.registers[int.from_bytes(heard[1:size], "little")]
            del heard[:size]
            self.model.say(bytes([Op.READ, 0]) + value.to_bytes(4, "little"))


@contextmanager
def served(folder: Path, **registers: int) -> Iterator[Served]:
    addresses = {each["name"]: each["address"] for each in TOP["registers"]}
    values = {**RESETS, **{addresses[name]: value for name, value in registers.items()}}
    sizes = {"beat_bytes": TOP["input"]["bytes"], "row_bytes": TOP["output"]["bytes"]}
    port = Served(folder, BoardModel(SHAPE, **sizes), values)
    try:
        yield port
    finally:
        port.end()


def refuses(message: str) -> Any:
    return pytest.raises(LinkError, match=f"^{re.escape(message)}$")


def test_a_board_that_is_unplugged_for_a_moment_goes_on(tmp_path: Path) -> None:
    with served(tmp_path) as port, Board(str(port.path), TOP) as board:
        port.unplug()
        port.plug()
        assert board.read("identity") == RESETS[0]
        assert board.reconnected == 1


def test_a_board_that_is_unplugged_for_good(tmp_path: Path) -> None:
    with served(tmp_path) as port, Board(str(port.path), TOP, patience=0.3) as board:
        port.unplug()
        with refuses(
            f"The port {port.path} is gone: There is no port {port.path}; is the board plugged in?"
        ):
            board.read("identity")


def test_a_port_in_use(tmp_path: Path) -> None:
    with (
        served(tmp_path) as port,
        Board(str(port.path), TOP),
        refuses(f"{port.path} is in use by another program"),
    ):
        Board(str(port.path), TOP)


def test_a_board_that_is_reset_in_use(tmp_path: Path) -> None:
    with served(tmp_path) as port, Board(str(port.path), TOP) as board:
        port.model.session = False
        with refuses("The board was reset while it was in use; start again"):
            board.read("identity")


def silence(port: Served) -> None:
    port.silent = True


def make_noise(port: Served) -> None:
    port.noise = b"\x55\x55\x55\x7e" * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (silence, "The board on {} stopped answering"),
        (
            make_noise,
            "Nothing but damaged frames comes from {}; check the cable, and that the board's speed "
            "is 3000000 baud",
        ),
    ],
)
def test_a_line_that_breaks(tmp_path: Path, change: Callable[[Served], None], message: str) -> None:
    with served(tmp_path) as port, Board(str(port.path), TOP, patience=0.3) as board:
        change(port)
        with refuses(message.format(port.path)):
            board.read("identity")


def test_a_port_without_a_board(tmp_path: Path) -> None:
    with served(tmp_path) as port:
        port.silent = True
        with (
            refuses(
                f"No board answers on {port.path} at 3000000 baud; is it a board with a Joinery "
                "core, and is it loaded?"
            ),
            Board(str(port.path), TOP, patience=0.3),
        ):
            pass


def test_a_core_that_is_stuck(tmp_path: Path) -> None:
    with (
        served(tmp_path) as port,
        Board(str(port.path), TOP, core_patience=0.3) as board,
        refuses(
            "The board answers, but its core is stuck: nothing has moved for 0.3 s, after 2 beats "
            "and 0 rows"
        ),
    ):
        board.run(beats(TOP, TUPLES[:2]), lambda row: None)


HASH = int(TOP["query"]["hash"], 16)


@pytest.mark.parametrize(
    ("registers", "message"),
    [
        ({"identity": 1}, "The board on {} holds something else than a Joinery core"),
        (
            {"query_hash_lo": 1},
            f"The board on {{}} holds the core of another query: its hash is "
            f"{HASH >> 32:08x}00000001, and that of board is {HASH:016x}",
        ),
        ({"cores": 4}, "The core on {} was built with cores 4, not 2"),
    ],
)
def test_another_core(tmp_path: Path, registers: dict[str, int], message: str) -> None:
    with (
        served(tmp_path, **registers) as port,
        refuses(message.format(port.path)),
        Board(str(port.path), TOP),
    ):
        pass


def test_another_size_of_beats(tmp_path: Path) -> None:
    with served(tmp_path) as port:
        port.model.beat_bytes = 99
        size = TOP["input"]["bytes"]
        with (
            refuses(f"The input of the core on {port.path} has 99 bytes, not {size}"),
            Board(str(port.path), TOP),
        ):
            pass


def test_ports_that_are_none(tmp_path: Path) -> None:
    with refuses("There is no port /dev/none; is the board plugged in?"):
        Board("/dev/none", TOP)
    file = tmp_path / "file"
    file.touch()
    with refuses(f"{file} is not a serial port"):
        Board(str(file), TOP)
    with refuses("Serial ports here have no speed of 12345 baud"):
        Board(str(file), TOP, baud=12345)


def test_a_board_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    chosen = plan(QUERY, None, {"cores": 2})
    for name in "ab":
        top = generate_board(chosen, tmp_path / name, cycles_per_bit=8, shape=SHAPE)
    for file in ("board.v", "top.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert top["link"] == {"cycles_per_bit": 8, "slots": 8, "frame_bytes": 32}
    assert {**TOP, "link": top["link"]} == top


@pytest.mark.parametrize("clock", ["same", "own"])
def test_a_board_is_clean_verilog(tmp_path: Path, clock: str) -> None:
    generate_board(
        plan(QUERY, None, {"cores": 2, "merge_clock": clock}), tmp_path, cycles_per_bit=4
    )
    lint = ["verilator", "--lint-only", "-Wall", "--top-module", "board", "board.v"]
    result = subprocess.run(
        lint, cwd=tmp_path, env=environment("verilator"), capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_board_that_can_not_be(tmp_path: Path) -> None:
    chosen = plan(QUERY, None, {"cores": 2})
    with pytest.raises(
        JoineryError,
        match=r"^board has no board: A UART needs at least 4 clock cycles per bit, not 3$",
    ):
        generate_board(chosen, tmp_path, cycles_per_bit=3)
    with pytest.raises(JoineryError, match=r"^The damage is a probability below 1, not 1\.0$"):
        SimulatedBoard(chosen, tmp_path, damage=1.0)
