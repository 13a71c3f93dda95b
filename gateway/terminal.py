"""Files, the standard streams and the error message of a failed command."""

import errno
import io
import os
import re
import sys
import traceback
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, NoReturn, TextIO, cast

from click import echo

from adapters import DragomanError, Loss, TransformError

STANDARD_INPUT = "-"
CHUNK_BYTES = 64 * 1024
# The exit code that shells report after Ctrl-C.
EXIT_INTERRUPTED = 130

_STANDARD_OUTPUT = "standard output"
# Escaped, because messages contain names from the input: a line break must not look like the start
# of another message, and an escape sequence must not reach the terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def open_input(name: str) -> AbstractContextManager[io.BufferedReader]:
    """Open a file, or standard input for `-`."""
    if name == STANDARD_INPUT:
        # Typed as BinaryIO, which has no `read1`; standard input always has it.
        return nullcontext(cast("io.BufferedReader", _binary(sys.stdin, "standard input")))
    return Path(name).open("rb")


def read_chunks(source: io.BufferedReader) -> Iterator[bytes]:
    """Yield the input as it arrives."""
    while chunk := source.read1(CHUNK_BYTES):
        yield chunk


def write_output(data: bytes) -> None:
    """Write to standard output without buffering."""
    output = _binary(sys.stdout, _STANDARD_OUTPUT)
    output.write(data)
    output.flush()


def _binary(stream: TextIO | None, name: str) -> BinaryIO:
    # Python sets a standard stream to None if it was closed before the start.
    if stream is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), name)
    return stream.buffer


def print_message(message: str) -> None:
    """Write one line to standard error."""
    echo(escape_controls(message), err=True)


def escape_controls(text: str) -> str:
    """Return a text with its control characters as escapes."""
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def print_losses(losses: Iterable[Loss], prefix: str = "") -> None:
    """Write each loss on a separate line."""
    for loss in losses:
        print_message(f"{prefix}{loss}")


def print_error(message: str) -> None:
    """Write an error message."""
    print_message(f"dragoman: {message}")


def fail(message: str, exit_code: int = 1) -> NoReturn:
    """Write an error message and exit."""
    print_error(message)
    raise SystemExit(exit_code)


@contextmanager
def exit_on_error(exit_code: int = 1) -> Generator[None]:
    """Convert errors that an input can cause to a message and an exit code."""
    try:
        yield
    except DragomanError as error:
        if isinstance(error, TransformError) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        fail(str(error), exit_code)
    except BrokenPipeError:
        # The process that receives the output has ended; click exits without a message.
        raise
    except OSError as error:
        fail(f"{error.filename or _STANDARD_OUTPUT}: {error.strerror or error}", exit_code)
    except MemoryError:
        fail("the input does not fit into memory", exit_code)
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
