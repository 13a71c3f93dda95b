"""A process that judges texts by grammars: a line of JSON comes for each, and a line goes back.

Grammars come from clients, and some take forever: `(a+)+b`. Nothing in Python interrupts a match,
so a watchdog ends the whole process when a judgement takes too long.
"""

import faulthandler
import json
import re
import sys
import warnings
from functools import lru_cache

from gateway.grammar_check import check_lark

# In seconds.
LIMIT = 2.0
# Grammars in use at a time; agents send the same few with every request.
_REMEMBERED = 64


def judge(syntax: str, definition: str, text: str) -> str | None:
    """Say what is wrong with a text; None if nothing is, or if it cannot be judged."""
    if syntax == "lark":
        return check_lark(definition, text)
    expression = _expression(definition)
    if expression is None or expression.fullmatch(text):
        return None
    return "it does not match the regular expression"


@lru_cache(_REMEMBERED)
def _expression(definition: str) -> "re.Pattern[str] | None":
    """Compile an expression; one in words that Python does not know cannot be judged."""
    try:
        with warnings.catch_warnings():
            # Of what other languages mean by it, as in `[[:alpha:]]`.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(definition)
    except (re.error, RecursionError, OverflowError, FutureWarning):
        return None


def main() -> None:
    """Judge until no more comes."""
    for line in sys.stdin.buffer:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        try:
            problem = judge(*json.loads(line))
        except Exception:  # noqa: BLE001 - whatever a strange grammar brings about
            problem = None
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.buffer.write(json.dumps(problem).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
