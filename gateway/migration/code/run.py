"""The migration of many sources."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

import libcst as cst
from msgspec import Struct

from adapters import DragomanError
from gateway.migration.code.files import (
    JAVASCRIPT_SUFFIXES,
    NOTEBOOK_SUFFIX,
    SourceFile,
    read_source,
)
from gateway.migration.code.findings import Finding
from gateway.migration.code.groups import find_groups, is_legacy
from gateway.migration.code.javascript import find_in_javascript
from gateway.migration.code.notebooks import Notebook
from gateway.migration.code.python.migrate import migrate_modules
from gateway.migration.code.rules import RULES
from gateway.migration.code.stack import with_deep_stack


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


class _Source(Struct, frozen=True):
    """A Python source, also the code cells of a notebook."""

    file: SourceFile
    code: str
    notebook: Notebook | None = None

    def written(self, code: str) -> str:
        """Return the text of the file with other code."""
        if code == self.code:
            return self.file.text
        return code if self.notebook is None else self.notebook.with_code(code)

    def placed(self, finding: Finding) -> Finding:
        """Return a finding with its place in the file."""
        return finding if self.notebook is None else self.notebook.placed(finding)


def migrate_files(
    paths: Sequence[Path],
    progress: Callable[[int], None],
    to: str = "chat",
    rules: Collection[str] = RULES,
) -> Results:
    """Migrate sources; those that import each other are rewritten together or not at all."""
    results = Results()
    sources: dict[Path, _Source] = {}
    for path in paths:
        with _Errors(results, path):
            file = read_source(path)
            if path.suffix in JAVASCRIPT_SUFFIXES:
                findings = find_in_javascript(file.text)
                results.files.append(FileResult(file, findings, file.text, is_javascript=True))
            else:
                sources[path] = _source(file)
        if path not in sources or not is_legacy(sources[path].code):
            progress(1)
    for group in find_groups({path: source.code for path, source in sources.items()}):
        members = [sources[path] for path in group]
        with_deep_stack(partial(_migrate, results, members, to, rules))
        progress(sum(is_legacy(sources[path].code) for path in group))
    results.files.sort(key=lambda result: result.file.path)
    results.errors.sort(key=lambda error: error.path)
    return results


def _source(file: SourceFile) -> _Source:
    if file.path.suffix == NOTEBOOK_SUFFIX:
        notebook = Notebook(file.text)
        return _Source(file, notebook.code, notebook)
    return _Source(file, file.text)


def _migrate(results: Results, sources: Sequence[_Source], to: str, rules: Collection[str]) -> None:
    modules: dict[Path, cst.Module] = {}
    known = {source.file.path: source for source in sources}
    for source in sources:
        with _Errors(results, source.file.path):
            modules[source.file.path] = cst.parse_module(source.code)
    # An error here is not one of a single file.
    for path, result in migrate_modules(modules, to, rules).items():
        source = known[path]
        findings = tuple(sorted(map(source.placed, result.findings)))
        results.files.append(FileResult(source.file, findings, source.written(result.text)))


class _Errors:
    """Adds errors of one file to the results."""

    def __init__(self, results: Results, path: Path) -> None:
        self._results = results
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, cst.ParserSyntaxError):
            message = f"line {error.editor_line}: the source cannot be parsed: {error.message}"
        elif isinstance(error, SyntaxError | UnicodeDecodeError | DragomanError | OSError):
            message = f"the source cannot be read: {error}"
        else:
            return False
        self._results.errors.append(FileError(self._path, message))
        return True
