"""The formats by which API keys, tokens and other credentials are recognized in any text."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_LETTERS: Final = "A-Za-z0-9_-"
_CLASS: Final = re.compile(r"\[\w+\]")


def _word(prefix: str) -> str:
    """Return the pattern of a prefix that is not the end of a longer word.

    The look behind is after the first character, because a search is ten times as fast if each
    alternative begins with a character.
    """
    return f"{prefix[0]}(?<![A-Za-z0-9]{prefix[0]}){prefix[1:]}"


def _after(separator: str, prefixes: Iterable[str]) -> str:
    """Return the pattern of a separator after one of some prefixes, which is the group.

    The search is for the separator, because it is rarer than the letters of all prefixes.
    """
    widths: dict[int, list[str]] = {}
    for prefix in prefixes:
        widths.setdefault(len(_CLASS.sub(".", prefix)), []).append(prefix)
    # A look behind has a fixed width.
    before = (f"(?<=(?<![A-Za-z0-9])({'|'.join(same)}){separator})" for same in widths.values())
    return f"{separator}(?:{'|'.join(before)})"


# Prefixes before each separator that are found before at least 8 characters.
_SHORT: Final = {
    "-": ("sk", "dk", "pk", "rk", "xox[a-z]", "gsk", "hf", "gh[oprsu]", "github_pat", "glpat"),
    "_": ("gsk", "hf", "gh[oprsu]", "github_pat", "glpat", "[rs]k_live", "[rs]k_test"),
}
# Prefixes that are less distinct, before at least 16 characters.
_LONG: Final = {
    "-": ("xai", "nvapi", "pplx", "csk", "tvly", "pypi", "xapp", "GOCSPX"),
    "_": (
        *("r8", "fw", "jina", "tgp_v1", "rpa", "pcsk", "lsv2_[ps][kt]", "npm", "glsa", "dckr_pat"),
        *("dop_v1", "shpat", "whsec", "lin_api", "sbp", "sb_secret", "vercel_blob_rw"),
    ),
    r"\.": ("SG", "AQ", "ya29", "hvs"),
}
_PRIVATE_KEY = r"(?:[A-Z]{1,20} ){0,3}PRIVATE KEY-----"
# A parameter of a URL with a key or a signature.
_PARAMETER: Final = (
    r"(?:amp;)?(?i:api[_-]?key|subscription-key|key|(?:access_|auth_?|x-amz-security-)?token|auth|"
    r"sig|(?:x-(?:amz|goog)-)?signature|(?:client_)?secret|password)"
    r"""=([^\s&#"'`\\<>()\[\]]{8,})"""
)
# The group in an alternative, if it has one, is the secret or its prefix. Where a search could go
# far, it has a limit, so that it takes linear time.
_FORMATS: Final = re.compile(
    "|".join(
        (
            *(_after(*entry) + f"[{_LETTERS}]{{8,}}" for entry in _SHORT.items()),
            *(_after(*entry) + f"[.{_LETTERS}]{{16,}}" for entry in _LONG.items()),
            _word("AKIA") + r"[A-Z0-9]{12,}",
            _word("ASIA") + r"[A-Z0-9]{12,}",
            _word("AIza") + rf"[{_LETTERS}]{{20,}}",
            _word("ATATT3") + rf"[.{_LETTERS}]{{16,}}",
            # JSON Web Tokens.
            _word("eyJ") + r"[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
            # Tokens in headers. "Basic" is also an ordinary word, but hardly before a digit.
            _word("Bearer") + r" +([A-Za-z0-9._~+/=-]{8,})",
            _word("Basic") + r" +(?=[A-Za-z+/]{0,200}[0-9=])([A-Za-z0-9+/=]{8,})",
            # Private keys, also truncated ones.
            rf'-----BEGIN {_PRIVATE_KEY}(?:(?!-----)[^"]){{0,20000}}(?:-----END {_PRIVATE_KEY})?',
            # User names and passwords in URLs, but not a marker in their place.
            r"""://([^\s/?#@:"'\\<>\[]{0,128}:[^\s/?#@"'\\<>]{1,256})(?=@)""",
            rf"\?{_PARAMETER}",
            rf"&{_PARAMETER}",
            r"=(?<=AccountKey=)([A-Za-z0-9+/]{16,}={0,2})",
        )
    )
)


def find_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of values that have the format of a credential."""
    for match in _FORMATS.finditer(text):
        start, end = match.span(match.lastindex or 0)
        # A prefix is before the separator that was found.
        yield start, match.end() if start < match.start() else end


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
