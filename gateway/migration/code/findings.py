"""What the migration of code finds in a source."""

from typing import Final

from msgspec import Struct

# The comment between the code cells of a notebook, which are migrated as one source.
CELL_MARK: Final = "#dragoman-cell#"


class Finding(Struct, frozen=True, order=True):
    """One place with legacy code."""

    # From 1; the column counts characters.
    line: int
    column: int
    # The name of the rule in `rules.py`.
    rule: str
    message: str
    # Why a person must decide; None if the place can be rewritten.
    reason: str | None = None


class SourceResult(Struct, frozen=True):
    """The findings in one source, and its text with all changes and comments."""

    findings: tuple[Finding, ...]
    text: str
