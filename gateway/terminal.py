"""Files, the standard streams and the one message that a failed command leaves."""

import errno
import io
import os
import re
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, NoReturn, TextIO, cast

from click import echo

from adapters import DragomanError, Loss

STANDARD_INPUT = "-"
STANDARD_OUTPUT = "standard output"
PIECE_SIZE = 64 * 1024

_FAILED = 1
# What a shell reports of a command that Ctrl-C ended.
INTERRUPTED = 130
# Names from the input stand in messages: a line end in one must not look like another message, nor
# an escape sequence reach the terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def open_input(name: str) -> AbstractContextManager[io.BufferedReader]:
    """Open a file, or take standard input for `-`."""
    if name == STANDARD_INPUT:
        # Typed as a plain BinaryIO, which knows no `read1`; every standard input has it.
        return nullcontext(cast("io.BufferedReader", _bytes_of(sys.stdin, "standard input")))
    return Path(name).open("rb")


def read_pieces(source: io.BufferedReader) -> Iterator[bytes]:
    """Give what there is as soon as it is there."""
    while piece := source.read1(PIECE_SIZE):
        yield piece


def write(data: bytes) -> None:
    """Write to standard output, now."""
    output = _bytes_of(sys.stdout, STANDARD_OUTPUT)
    output.write(data)
    output.flush()


def _bytes_of(stream: TextIO | None, name: str) -> BinaryIO:
    # Python has None for a stream that was closed before it started.
    if stream is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), name)
    return stream.buffer


def say(message: str) -> None:
    """Write one line to standard error."""
    echo(_CONTROL.sub(_escape, message), err=True)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def say_losses(losses: Iterable[Loss], where: str = "") -> None:
    """Write each loss on a line of its own."""
    for loss in losses:
        say(f"{where}{loss}")


def print_error(why: str) -> None:
    """Say what is wrong."""
    say(f"dragoman: {why}")


def fail(why: str) -> NoReturn:
    """Say what is wrong, and end."""
    print_error(why)
    raise SystemExit(_FAILED)


@contextmanager
def exit_on_error() -> Generator[None]:
    """Turn what can go wrong with any input into one message and an exit code."""
    try:
        yield
    except DragomanError as problem:
        fail(str(problem))
    except BrokenPipeError:
        # Nobody reads on. Click ends quietly on this.
        raise
    except OSError as problem:
        fail(f"{problem.filename or STANDARD_OUTPUT}: {problem.strerror or problem}")
    except MemoryError:
        fail("the input does not fit into memory")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
