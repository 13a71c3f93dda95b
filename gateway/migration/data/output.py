"""Output files, which appear under their name only when they are complete."""

import gzip
import os
import secrets
import shutil
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from gateway.migration.data.input import GZIP_SUFFIX, ZSTD_SUFFIX

_GZIP_LEVEL = 6


@contextmanager
def open_output(path: Path) -> Generator[BinaryIO]:
    """Write a file that replaces `path` if no exception is raised.

    The suffix .gz or .zst of `path` compresses the file. A device or a pipe is written to directly.
    """
    # A symbolic link stays one.
    target = path.resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as device, _compressed(device, path.suffix) as output:
            yield output
        return
    with _new_file(target) as file:
        with _compressed(file, path.suffix) as output:
            yield output
        file.flush()
        # The mode of a new file, as the umask allows it; temporary files are private.
        os.fchmod(file.fileno(), target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        os.fsync(file.fileno())


def back_up(file: Path, backup: Path) -> None:
    """Link a file that will be replaced to a second name, or copy it if that is not possible."""
    try:
        os.link(file.resolve(), backup)
    except OSError:
        with _new_file(backup.resolve()) as copy, file.open("rb") as source:
            shutil.copyfileobj(source, copy)


def _new_file(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open a file that replaces `path` at the end."""
    try:
        descriptor = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except (AttributeError, OSError):
        # Only Linux has files without a name, and not in all file systems.
        return _named_file(path)
    return _unnamed_file(descriptor, path)


@contextmanager
def _unnamed_file(descriptor: int, path: Path) -> Generator[BinaryIO]:
    """Write a file without a name, of which nothing is left if the process is killed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            # Without the descriptor of a folder, Python would link the symbolic link itself.
            os.link(f"/proc/self/fd/{file.fileno()}", temporary, src_dir_fd=folder)
        finally:
            os.close(folder)
    temporary.replace(path)


@contextmanager
def _named_file(path: Path) -> Generator[BinaryIO]:
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _compressed(file: BinaryIO, suffix: str) -> Generator[BinaryIO]:
    if suffix == GZIP_SUFFIX:
        # Without a time and a name, the same input makes the same file.
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as output:
            yield cast("BinaryIO", output)
    elif suffix == ZSTD_SUFFIX:
        with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as output:
            yield cast("BinaryIO", output)
    else:
        yield file
