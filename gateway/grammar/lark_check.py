"""Judges a text by a grammar in the language of lark.

In a module of its own, because to load the parser takes a tenth of a second, and few need it.
"""

import re
from functools import lru_cache

from lark import Lark
from lark.exceptions import LarkError, UnexpectedEOF, UnexpectedInput

# Grammars in use at a time; agents send the same few with every request.
_REMEMBERED = 64
# What stands in a grammar and may hold a slash, and then an expression for "any number of
# something": the parser takes none that matches nothing, so it becomes "some, or nothing".
_ANY_NUMBER = re.compile(
    r'"(?:\\.|[^"\\\n])*"|//[^\n]*'
    r"|/(?P<before>\(?(?:\.|\\[^/]|\[(?:\\.|[^\]\\])+\]))\*(?P<after>\)?)/(?P<flags>[imslux]*)"
)


def check_lark(definition: str, text: str) -> str | None:
    """Say what is wrong with a text; None if nothing is, or if it cannot be judged."""
    parser = _parser(definition)
    if parser is None:
        return None
    try:
        parser.parse(text)  # pyright: ignore[reportUnknownMemberType] - lark types it in part
    except UnexpectedEOF:
        return "it ends too soon"
    except UnexpectedInput as error:
        return f"line {error.line}, column {error.column} is not as it should be"
    except LarkError as error:
        return str(error)
    return None


def _some_or_nothing(found: "re.Match[str]") -> str:
    if found["before"] is None:
        return found.group()
    return f"(/{found['before']}+{found['after']}/{found['flags']})?"


@lru_cache(_REMEMBERED)
def _parser(definition: str) -> "Lark | None":
    """Make a parser; a grammar that is none cannot be judged."""
    try:
        return Lark(_ANY_NUMBER.sub(_some_or_nothing, definition), lexer="dynamic")
    except (LarkError, re.error, RecursionError):
        return None
