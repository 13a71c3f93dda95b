"""What the migration of code finds in a source."""

from msgspec import Struct


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
    """The findings in one source, and its two possible changes."""

    findings: tuple[Finding, ...]
    # The source without legacy code; None if a person must decide.
    rewritten: str | None
    # The source with comments where a person must decide; else the source as it is.
    commented: str
