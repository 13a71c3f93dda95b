"""Legacy code in JavaScript and TypeScript, which is found by patterns and not rewritten."""

import re
from collections.abc import Iterator

from gateway.migration.code.findings import Finding

_REASON = "JavaScript is not rewritten; change it by hand"
_PATTERNS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (
        "read-function-call",
        "uses function_call",
        re.compile(r"""[.\[?]\s*['"]?function_call\b|\bfunctionCall\b"""),
    ),
    (
        "request-functions",
        "sends functions",
        re.compile(
            r"(?<![\w.])functions\s*:\s*(?=[\[\w])|(?<![\w.])functions\s*,\s*$", re.MULTILINE
        ),
    ),
    (
        "request-function-call",
        "sends function_call",
        re.compile(r"""(?<![\w.])['"]?function_call['"]?\s*:"""),
    ),
    (
        "function-message",
        'sends a message with the role "function"',
        re.compile(r"""\brole['"]?\s*:\s*['"`]function['"`]"""),
    ),
    (
        "finish-reason",
        'compares finish_reason with "function_call"',
        re.compile(r"""finish_reason['"\]]*\s*[!=]==?\s*['"`]function_call['"`]"""),
    ),
)
# A file without any of these words does not use the API.
_WORDS = re.compile(r"openai|chat/completions|ChatCompletion|role", re.IGNORECASE)


def find_in_javascript(text: str) -> tuple[Finding, ...]:
    """Return the places of a source that look like legacy code."""
    return tuple(sorted(set(_find(text)))) if _WORDS.search(text) else ()


def _find(text: str) -> Iterator[Finding]:
    searched = _without_comments(text)
    for rule, message, pattern in _PATTERNS:
        for match in pattern.finditer(searched):
            line = searched.count("\n", 0, match.start()) + 1
            column = match.start() - (searched.rfind("\n", 0, match.start()) + 1) + 1
            yield Finding(line, column, rule, message, _REASON)


_COMMENT = re.compile(
    r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|//[^\n]*|/\*.*?\*/""", re.DOTALL
)


def _without_comments(text: str) -> str:
    """Replace comments by spaces, so that the places of all other text stay."""

    def blank(match: re.Match[str]) -> str:
        return match[1] or re.sub(r"[^\n]", " ", match[0])

    return _COMMENT.sub(blank, text)
