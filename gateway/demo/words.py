"""What the names of parameters and tools say about the text that fits them."""

import re
from typing import Literal

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")

Kind = Literal["subject", "query", "example"]


def word_set(text: str) -> frozenset[str]:
    """Give the words of a text."""
    return frozenset(text.split())


# Parameters that take something the user named: a place, a person, a thing.
_SUBJECTS = word_set(
    "address airport city company country currency destination from id location name origin person"
    " place region state stock symbol target ticker to town where"
)
# Parameters that take the user's own words.
_QUERIES = word_set(
    "answer body content description explanation input keyword keywords message note prompt q query"
    " question reason reasoning request response result search subject summary task term text"
    " thought title topic"
)
# What else a text can be, by the last word of its parameter's name that is known here. Commands and
# code do no harm: somebody may run them.
_EXAMPLES = {
    "author": "Ada Lovelace",
    "branch": "main",
    "city": "Paris",
    "cmd": "echo hello",
    "code": "print('hello')",
    "color": "blue",
    "colour": "blue",
    "command": "echo hello",
    "country": "France",
    "currency": "EUR",
    "cwd": ".",
    "date": "2025-01-31",
    "day": "Monday",
    "directory": ".",
    "email": "ada@example.com",
    "file": "README.md",
    "filename": "README.md",
    "folder": ".",
    "format": "text",
    "host": "example.com",
    "id": "42",
    "lang": "en",
    "language": "en",
    "locale": "en",
    "location": "Paris",
    "month": "January",
    "name": "Ada",
    "path": "README.md",
    "person": "Ada",
    "phone": "+49 30 123456",
    "place": "Paris",
    "python": "print('hello')",
    "script": "echo hello",
    "shell": "echo hello",
    "sql": "select 1",
    "symbol": "ACME",
    "ticker": "ACME",
    "time": "12:00",
    "timezone": "UTC",
    "town": "Paris",
    "unit": "celsius",
    "units": "metric",
    "uri": "https://example.com",
    "url": "https://example.com",
    "user": "ada",
    "username": "ada",
    "workdir": ".",
}


def split_name(name: str) -> list[str]:
    """Split `get_weather`, `getWeather` and `get-weather` into words."""
    return [word.lower() for word in _WORD.findall(name)]


def kind_of(name: str) -> Kind | None:
    """Tell what a parameter takes, by the last word of its name that is known here."""
    for word in _ranked(name):
        if word in _SUBJECTS or _singular(word) in _SUBJECTS:
            return "subject"
        if word in _QUERIES:
            return "query"
        if word in _EXAMPLES:
            return "example"
    return None


def _ranked(name: str) -> list[str]:
    """Give the words of a name, the most telling first: the last, but for `name` itself."""
    words = split_name(name)
    words.reverse()
    return sorted(words, key=lambda word: word == "name")


def _singular(word: str) -> str:
    return word[:-3] + "y" if word.endswith("ies") else word.removesuffix("s")


def example_for(name: str) -> str | None:
    """Give a text that fits a parameter of this name."""
    known = (_EXAMPLES.get(word) for word in _ranked(name))
    return next((example for example in known if example), None)
