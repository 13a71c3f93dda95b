"""Redaction of a backend's key.

Errors and headers of the backend and our logs are redacted. The output of a model is not, because
a key may be an ordinary word in it.
"""

import re
from typing import Final

from adapters.wire.error_body import REDACTED, Redact

# Values that are set only because a program requires a key, in lower case and with hyphens.
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
# A shorter key is not redacted, because it may be an ordinary word.
_SHORTEST: Final = 16
# The number of backslashes before a quote in JSON in JSON in JSON.
_BACKSLASHES: Final = 7


def key_redactor(key: str | None) -> Redact | None:
    """Return a function that redacts a key, or None if the key is missing or not a secret."""
    if key is None or len(key) < _SHORTEST or is_placeholder(key):
        return None
    pattern = re.compile("".join(map(_spellings, key)))
    return lambda text: pattern.sub(REDACTED, text)


def is_placeholder(key: str) -> bool:
    """Whether a key is a known placeholder, or a repeated character."""
    plain = key.lower().replace("_", "-")
    return plain in PLACEHOLDERS or len(set(plain.removeprefix("sk-"))) == 1


def _spellings(char: str) -> str:
    """Return a pattern for a character in plain text and in JSON."""
    if char.isalnum():
        return char
    before = rf"\\{{0,{_BACKSLASHES}}}" if char in '"/\\' else ""
    code = rf"\\{{1,{_BACKSLASHES}}}u(?i:{ord(char):04x})"
    return f"(?:{before}{re.escape(char)}|{code})"
