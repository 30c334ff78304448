"""A serial port, or whatever behaves as one, such as a pseudo-terminal.

The standard library's ``termios`` is enough for what is needed here: raw bytes, a speed, and that
nobody else has the port.
"""

import contextlib
import errno
import fcntl
import os
import select
import termios

from .channel import LinkError

__all__ = ["SerialPort"]

CHUNK = 1 << 16

GONE = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.EBADF)
"""What the system says of a port that was unplugged."""


class SerialPort:
    """Raw bytes to and from the serial port at ``path``.

    ``read`` and ``write`` do what can be done at once. ``OSError`` means that the port is gone.
    """

    def __init__(self, path: str, baud: int) -> None:
        speed = getattr(termios, f"B{baud}", None)
        if speed is None:
            raise LinkError(f"Serial ports here have no speed of {baud} baud")
        self.path = path
        self._unsent = b""
        self._fd = _open(path)
        try:
            _lock(self._fd, path)
            _make_raw(self._fd, speed, path)
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = -1

    @property
    def is_clear(self) -> bool:
        """Whether all that was written has gone to the system."""
        return not self._unsent

    def write(self, text: bytes) -> None:
        """Send ``text`` after all that was written before."""
        self._unsent += text
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                self._unsent = self._unsent[os.write(self._fd, self._unsent) :]

    def read(self, timeout: float) -> bytes:
        """Return what has come, waiting for it no longer than ``timeout`` seconds."""
        writers = [self._fd] if self._unsent else []
        readable, writable, _ = select.select([self._fd], writers, [], timeout)
        if writable:
            self.write(b"")
        if not readable:
            return b""
        try:
            text = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return b""
        if not text:
            raise OSError(errno.EIO, "the port was closed at its other end", self.path)
        return text


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise LinkError(f"There is no port {path}; is the board plugged in?") from None
    except PermissionError:
        raise LinkError(
            f"{path} can't be opened: permission denied; on Debian, the group dialout may open it"
        ) from None
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise _busy(path) from None
        raise LinkError(f"{path} can't be opened: {error.strerror}") from None


def _lock(fd: int, path: str) -> None:
    """Keep others away: those that lock ports, and all others too where the system can do that."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise _busy(path) from None
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCEXCL)


def _busy(path: str) -> LinkError:
    return LinkError(f"{path} is in use by another program")


def _make_raw(fd: int, speed: int, path: str) -> None:
    try:
        settings = termios.tcgetattr(fd)
    except termios.error:
        raise LinkError(f"{path} is not a serial port") from None
    control = settings[6]
    control[termios.VMIN], control[termios.VTIME] = 1, 0
    flags = termios.CS8 | termios.CREAD | termios.CLOCAL
    try:
        termios.tcsetattr(fd, termios.TCSANOW, [0, 0, flags, 0, speed, speed, control])
        termios.tcflush(fd, termios.TCIOFLUSH)
    except termios.error as error:
        raise LinkError(f"{path} can't be set up: {error.args[-1]}") from None
