"""Judges the input of a custom tool by the tool's grammar.

A backend that is only shown a grammar may not keep to it. That is worth knowing; the input goes to
the client all the same, which will say what it thinks of it.
"""

import asyncio
import atexit
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock

from lark import Lark
from lark.exceptions import LarkError, UnexpectedEOF, UnexpectedInput

from adapters.ir.types import CustomTool
from adapters.losses import Loss

# To judge a text takes longer than in proportion to its length, and others wait meanwhile.
LONGEST = 10_000
_SYNTAXES = ("lark", "regex")


def check_grammar(tool: CustomTool, text: str) -> str | None:
    """Say what is wrong with an input; None if nothing is, or if it cannot be judged.

    It waits for the judgement, for some seconds at most.
    """
    if not is_checkable(tool, text):
        return None
    return ask(tool.syntax or "", tool.definition or "", text)


def is_checkable(tool: CustomTool, text: str) -> bool:
    """Tell whether there is a grammar that we know, and a text that is not too long for it."""
    known = tool.format == "grammar" and tool.syntax in _SYNTAXES
    return known and bool(tool.definition) and len(text) <= LONGEST


# Judges the inputs of an answer by their grammars, while others are served.


# So many seconds an answer waits for its judgement.
_PATIENCE = 3.0
# One judgement at a time, and none in the threads that others wait for.
_THREAD = ThreadPoolExecutor(1, "grammars")


class Judging:
    """The inputs of one answer: noted as they come, and judged when the answer is whole."""

    def __init__(self) -> None:
        self._noted: list[tuple[CustomTool, str]] = []

    def note(self, tool: CustomTool, text: str) -> None:
        """Note an input; nobody waits for its judgement here."""
        if is_checkable(tool, text):
            self._noted.append((tool, text))

    async def losses(self) -> list[Loss]:
        """Give what is wrong with the inputs, as far as that can be told in time."""
        noted, self._noted = self._noted, []
        losses: list[Loss] = []
        if not noted:
            return losses
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                for tool, text in noted:
                    problem = await loop.run_in_executor(_THREAD, check_grammar, tool, text)
                    if problem is not None:
                        why = f"its input does not keep to the grammar: {problem}"
                        losses.append(Loss("changed", f"call {tool.name}", why))
        return losses


# The process that judges texts by grammars, as those see it who ask.
#
# It ends itself if a judgement takes too long; then there is none, and the next one starts it
# again.


_COMMAND = (sys.executable, "-m", "gateway.grammar_worker")
# Where the worker finds the package that it is part of.
_HOME = Path(__file__).parent.parent


def ask(syntax: str, definition: str, text: str) -> str | None:
    """Ask what is wrong with a text; None if nothing is, or if it could not be judged in time."""
    return _WORKER.ask(json.dumps([syntax, definition, text]).encode())


class _Worker:
    """The process that judges: started when it is needed, and again after it had to end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def ask(self, line: bytes) -> str | None:
        """Ask for one judgement; None if there was none in time."""
        with self._lock:
            process = self._started()
            answer = b""
            # A process that ended cannot be written to.
            with suppress(OSError):
                answer = _exchange(process, line)
            if not answer:
                self._end()
                return None
        problem: str | None = json.loads(answer)
        return problem

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            # In a session of its own: an interrupt is not meant for it.
            self._process = subprocess.Popen(  # noqa: S603 - a command of our own
                _COMMAND,
                cwd=_HOME,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        # What it did not read is lost.
        with suppress(OSError):
            process.communicate()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()


def _exchange(process: "subprocess.Popen[bytes]", line: bytes) -> bytes:
    if process.stdin is None or process.stdout is None:
        return b""
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    return process.stdout.readline()


_WORKER = _Worker()
atexit.register(_WORKER.close)


# Judges a text by a grammar in the language of lark.
#
# In a module of its own, because to load the parser takes a tenth of a second, and few need it.


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
