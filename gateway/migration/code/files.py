"""The sources below some paths, and their changes on the disk."""

import os
import subprocess
import tokenize
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

from msgspec import Struct

PYTHON_SUFFIXES: Final = frozenset((".py", ".pyi"))
NOTEBOOK_SUFFIX: Final = ".ipynb"
JAVASCRIPT_SUFFIXES: Final = frozenset(
    (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
)
_SUFFIXES: Final = PYTHON_SUFFIXES | JAVASCRIPT_SUFFIXES | {NOTEBOOK_SUFFIX}
# Folders of other people's code, of caches and of version control.
_SKIPPED: Final = frozenset(("node_modules", "__pycache__", "site-packages", "build", "dist"))


class SourceFile(Struct, frozen=True):
    """A file that was read, with what is needed to write it in the same form."""

    path: Path
    text: str
    encoding: str

    def write(self, text: str) -> None:
        """Replace the content of the file; it is never half-written."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            temporary.write_bytes(text.encode(self.encoding))
            temporary.chmod(self.path.stat().st_mode)
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)


def read_source(path: Path) -> SourceFile:
    """Read a source; raises `SyntaxError` or `UnicodeDecodeError` if its encoding is not known."""
    data = path.read_bytes()
    encoding = "utf-8"
    if path.suffix in PYTHON_SUFFIXES:
        encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
    return SourceFile(path, data.decode(encoding), encoding)


def find_sources(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the sources below some paths, without those in hidden folders; each file once."""
    seen: set[Path] = set()
    for path in paths:
        for file in [path] if path.is_file() else sorted(_files(path)):
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [
            name for name in folders if name not in _SKIPPED and not _is_hidden(Path(parent, name))
        ]
        yield from (Path(parent, name) for name in names if Path(name).suffix in _SUFFIXES)


def _is_hidden(folder: Path) -> bool:
    """Whether a folder is hidden, or a virtual environment."""
    return folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()


def uncommitted_files(paths: Iterable[Path]) -> list[Path]:
    """Return those files that Git would lose a version of if they were changed."""
    changed: list[Path] = []
    for path in paths:
        command = ["git", "status", "--porcelain", "--", path.name]
        try:
            ran = subprocess.run(  # noqa: S603 - the arguments are a file that exists
                command, cwd=path.parent, capture_output=True, check=False
            )
        except FileNotFoundError:
            # Without Git, there is no work tree to protect.
            return []
        if ran.returncode == 0 and ran.stdout.strip():
            changed.append(path)
    return changed
