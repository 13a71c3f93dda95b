"""The formats by which API keys, tokens and other credentials are recognized in any text."""

import re
from collections.abc import Iterator
from typing import Final


def _word(prefix: str) -> str:
    """Return the pattern of a prefix that is not the end of a longer word.

    The look behind is after the first character, because a search is ten times as fast if each
    alternative begins with a character.
    """
    return f"{prefix[0]}(?<![A-Za-z0-9]{prefix[0]}){prefix[1:]}"


_HYPHENATED = ("sk-", "dk-", "pk-", "rk-", "xox[a-z]-")
_SEPARATED = ("gsk", "hf", "ghp", "gho", "ghs", "ghu", "github_pat", "glpat")
_PRIVATE_KEY = r"(?:[A-Z]{1,20} ){0,3}PRIVATE KEY-----"
# The group in an alternative, if it has one, is the secret. Where a search could go far, it has a
# limit, so that it takes linear time.
_FORMATS: Final = re.compile(
    "|".join(
        (
            *(_word(prefix) + r"[A-Za-z0-9_-]{8,}" for prefix in _HYPHENATED),
            *(_word(prefix) + r"[_-][A-Za-z0-9_-]{8,}" for prefix in _SEPARATED),
            _word("AKIA") + r"[A-Z0-9]{12,}",
            _word("AIza") + r"[A-Za-z0-9_-]{20,}",
            # JSON Web Tokens.
            _word("eyJ") + r"[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
            # Tokens in headers. "Basic" is also an ordinary word, but hardly before a digit.
            _word("Bearer") + r" +([A-Za-z0-9._~+/=-]{8,})",
            _word("Basic") + r" +(?=[A-Za-z+/]{0,200}[0-9=])([A-Za-z0-9+/=]{8,})",
            # Private keys, also truncated ones.
            rf'-----BEGIN {_PRIVATE_KEY}(?:(?!-----)[^"]){{0,20000}}(?:-----END {_PRIVATE_KEY})?',
            # User names and passwords in URLs, but not a marker in their place.
            r"""://([^\s/?#@:"'\\<>\[]{0,128}:[^\s/?#@"'\\<>]{1,256})(?=@)""",
        )
    )
)


def find_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of values that have the format of a credential."""
    for match in _FORMATS.finditer(text):
        yield match.span(match.lastindex or 0)


def may_have_key(text: str) -> bool:
    """Whether a text contains a value that has the format of a credential."""
    return _FORMATS.search(text) is not None


def replace_keys(text: str, replacement: str) -> str:
    """Replace all values that have the format of a credential."""
    pieces: list[str] = []
    place = 0
    for start, end in find_keys(text):
        pieces += (text[place:start], replacement)
        place = end
    return "".join([*pieces, text[place:]])
