"""Redaction of a backend's key.

It is for a backend's errors and headers and for our logs. What a model says is never redacted: a
key may be an ordinary word there.
"""

import re
from typing import Final

from adapters.wire.error_body import REDACTED, Redact

# Keys that are set only because a client demands one, in lower case and with hyphens.
PLACEHOLDERS: Final = frozenset(
    (
        "api-key",
        "api-key-not-needed",
        "change-me",
        "changeme",
        "dummy",
        "dummy-api-key",
        "dummy-key",
        "empty",
        "fake",
        "fake-api-key",
        "fake-key",
        "key",
        "lm-studio",
        "local",
        "no-api-key",
        "no-api-key-needed",
        "no-api-key-required",
        "no-key",
        "no-key-needed",
        "no-key-required",
        "none",
        "not-needed",
        "not-required",
        "null",
        "ollama",
        "placeholder",
        "placeholder-api-key",
        "sk-dummy",
        "sk-dummy-key",
        "sk-fake-key",
        "sk-no-key-needed",
        "sk-no-key-required",
        "sk-not-needed",
        "sk-placeholder",
        "sk-test",
        "sk-your-api-key",
        "sk-your-api-key-here",
        "test",
        "test-key",
        "vllm",
        "your-api-key",
        "your-api-key-here",
    )
)
# A shorter key may be a word of any text.
_SHORTEST: Final = 16
# JSON in JSON in JSON has so many backslashes before a quote.
_BACKSLASHES: Final = 7


def key_redactor(key: str | None) -> Redact | None:
    """Return a function that redacts a key; None if there is none, or no secret one."""
    if key is None or len(key) < _SHORTEST or _is_placeholder(key):
        return None
    pattern = re.compile("".join(map(_spellings, key)))
    return lambda text: pattern.sub(REDACTED, text)


def _is_placeholder(key: str) -> bool:
    """Return whether a key is a known placeholder, or one character again and again."""
    plain = key.lower().replace("_", "-")
    return plain in PLACEHOLDERS or len(set(plain.removeprefix("sk-"))) == 1


def _spellings(char: str) -> str:
    """Return a pattern for a character, as it is and as JSON encoders escape it."""
    if char.isalnum():
        return char
    before = rf"\\{{0,{_BACKSLASHES}}}" if char in '"/\\' else ""
    code = rf"\\{{1,{_BACKSLASHES}}}u(?i:{ord(char):04x})"
    return f"(?:{before}{re.escape(char)}|{code})"
