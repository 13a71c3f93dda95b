"""Jupyter notebooks, whose code cells are migrated together as one source."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from adapters import InvalidRequestError
from gateway.migration.code.findings import SourceResult

# A line with a magic or a command of the shell is no Python; a comment stands for it.
_MAGIC = re.compile(r"^(\s*)([%!?].*|\w[\w., ]*=\s*[%!].*|\w[\w.]*\?{1,2})$")
_MARK = "#dragoman-magic#"
_SEPARATOR = "\n#dragoman-cell#\n"


def migrate_notebook(text: str, migrate: Callable[[str], SourceResult]) -> SourceResult:
    """Migrate the code cells of a notebook; lines count from the first line of all cells."""
    try:
        notebook = json.loads(text)
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        python = [cell for cell in cells if not _source(cell).startswith("%%")]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRequestError(None, f"the notebook cannot be read: {error}") from None
    joined = _SEPARATOR.join(_hide_magics(_source(cell)) for cell in python)
    result = migrate(joined)

    def written(source: str) -> str:
        return text if source == joined else _with_sources(text, notebook, python, source)

    return SourceResult(
        result.findings,
        None if result.rewritten is None else written(result.rewritten),
        written(result.commented),
    )


def _with_sources(text: str, notebook: object, cells: Sequence[dict[str, Any]], joined: str) -> str:
    """Return the notebook with other sources of these cells, in the form of its text."""
    for cell, source in zip(cells, joined.split(_SEPARATOR), strict=True):
        _set_source(cell, _show_magics(source))
    written = json.dumps(notebook, indent=_indent(text), ensure_ascii=False)
    return written + ("\n" if text.endswith("\n") else "")


def _source(cell: dict[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(cast("Sequence[str]", source))


def _set_source(cell: dict[str, Any], source: str) -> None:
    """Set the source of a cell in the form in which it was."""
    if isinstance(cell["source"], str):
        cell["source"] = source
    elif source != _source(cell):
        cell["source"] = source.splitlines(keepends=True)


def _hide_magics(source: str) -> str:
    return "\n".join(
        f"{match[1]}pass  {_MARK}{match[2]}" if (match := _MAGIC.match(line)) else line
        for line in source.split("\n")
    )


def _show_magics(source: str) -> str:
    return source.replace(f"pass  {_MARK}", "")


def _indent(text: str) -> int:
    """Return the indentation of a notebook, which is 1 by default."""
    match = re.match(r"\{\s*\n( +)", text)
    return len(match[1]) if match else 1
