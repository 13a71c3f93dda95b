"""Output files, which appear under their name only when they are complete."""

import gzip
import os
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from gateway.migration.data.input import GZIP_SUFFIX, ZSTD_SUFFIX

_GZIP_LEVEL = 6


@contextmanager
def open_output(path: Path) -> Generator[BinaryIO]:
    """Write a temporary file beside `path`, which replaces it if no exception is raised.

    The suffix .gz or .zst of `path` compresses the file.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with ExitStack() as stack:
            file = stack.enter_context(os.fdopen(descriptor, "wb"))
            with _compressed(file, path.suffix) as output:
                yield output
            file.flush()
            os.fsync(file.fileno())
        # The mode of a new file, as the umask allows it; temporary files are private.
        temporary.chmod(path.stat().st_mode if path.exists() else 0o666 & ~_umask())
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
