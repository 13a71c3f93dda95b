"""The migration of many sources."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import libcst as cst
from msgspec import Struct

from adapters import DragomanError
from gateway.migration.code.files import (
    JAVASCRIPT_SUFFIXES,
    NOTEBOOK_SUFFIX,
    PYTHON_SUFFIXES,
    SourceFile,
    read_source,
)
from gateway.migration.code.findings import Finding, SourceResult
from gateway.migration.code.javascript import find_in_javascript
from gateway.migration.code.notebooks import migrate_notebook
from gateway.migration.code.python.migrate import migrate_python


class FileResult(Struct, frozen=True):
    """The result of one file."""

    file: SourceFile
    findings: tuple[Finding, ...]
    # The text to write.
    text: str
    is_javascript: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether the file would be written."""
        return self.text != self.file.text


class FileError(Struct, frozen=True):
    """A file that cannot be read."""

    path: Path
    message: str


class Results(Struct):
    """The results of a run."""

    files: list[FileResult] = []
    errors: list[FileError] = []


def migrate_files(paths: Sequence[Path], progress: Callable[[], None]) -> Results:
    """Migrate sources; those that import each other are rewritten together or not at all."""
    results = Results()
    python: list[tuple[SourceFile, SourceResult]] = []
    for path in paths:
        progress()
        try:
            file = read_source(path)
            if path.suffix in JAVASCRIPT_SUFFIXES:
                findings = find_in_javascript(file.text)
                results.files.append(FileResult(file, findings, file.text, is_javascript=True))
            else:
                python.append((file, _migrate(file)))
        except (SyntaxError, UnicodeDecodeError, cst.ParserSyntaxError, DragomanError) as error:
            results.errors.append(FileError(path, _describe(error)))
    results.files += _decide(python)
    results.files.sort(key=lambda result: result.file.path)
    return results


def _migrate(file: SourceFile) -> SourceResult:
    if file.path.suffix == NOTEBOOK_SUFFIX:
        return migrate_notebook(file.text, migrate_python)
    return migrate_python(file.text)


def _describe(error: Exception) -> str:
    if isinstance(error, cst.ParserSyntaxError):
        return f"line {error.editor_line}: the source cannot be parsed: {error.message}"
    return f"the source cannot be read: {error}"


def _decide(python: Iterable[tuple[SourceFile, SourceResult]]) -> Iterable[FileResult]:
    """Yield the results of Python sources; a group with an open question is not rewritten."""
    legacy = [one for one in python if one[1].findings]
    groups = _groups([file for file, _ in legacy])
    is_open = {id(groups[file.path]) for file, result in legacy if result.rewritten is None}
    for file, result in legacy:
        rewrites = id(groups[file.path]) not in is_open
        text = result.rewritten if rewrites and result.rewritten is not None else result.commented
        findings = result.findings
        if not rewrites and result.rewritten is not None:
            reason = "a file that imports this one, or is imported by it, needs a decision first"
            findings = tuple(
                Finding(one.line, one.column, one.rule, one.message, reason) for one in findings
            )
        yield FileResult(file, findings, text)


_IMPORT = re.compile(
    r"^\s*(?:from\s+([\w.]+)\s+import\s+([\w, ]+)|import\s+([\w., ]+))", re.MULTILINE
)


def _groups(files: Sequence[SourceFile]) -> dict[Path, list[Path]]:
    """Return the group of each file: those files that import each other, also by others."""
    groups = {file.path: [file.path] for file in files}
    modules = {file.path.stem: file.path for file in files if file.path.suffix in PYTHON_SUFFIXES}
    for file in files:
        for name in _imported(file.text):
            other = modules.get(name)
            if other is None or groups[other] is groups[file.path]:
                continue
            groups[file.path] += groups[other]
            for path in groups[other]:
                groups[path] = groups[file.path]
    return groups


def _imported(text: str) -> set[str]:
    words = (word for match in _IMPORT.findall(text) for part in match for word in part.split(","))
    return {name for word in words for name in word.strip().split(" as ")[0].split(".")}
