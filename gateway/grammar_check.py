"""Checks of custom tool inputs against the grammars of their tools.

A backend that receives a grammar only as a description may not follow it. The client receives the
input anyway, and the mismatch is reported as a loss.

Some grammars of clients take exponential time, such as `(a+)+b`. Python cannot interrupt a match,
so each check runs in a separate process, `python -m gateway.grammar_check`, which is killed after a
timeout. It reads syntax, definition and text as a JSON array, and writes the mismatch, or null.
"""

import asyncio
import json
import re
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Not imported in the separate process, because the import takes longer than a check.
    from adapters import CustomInput
    from adapters.ir.types import CustomTool
    from adapters.losses import Loss

# How long a reply waits for the checks of all its inputs.
TIMEOUT_SECONDS = 3.0
# The time for a check grows faster than the length of the text.
MAX_INPUT_CHARACTERS = 10_000

_SYNTAXES = ("lark", "regex")
_COMMAND = (sys.executable, "-m", "gateway.grammar_check")
# Limits the processes that run at a time.
_SLOTS = asyncio.Semaphore(4)


async def check_inputs(inputs: "Iterable[CustomInput]") -> "list[Loss]":
    """Return a loss for each input that does not match its tool's grammar.

    Inputs that cannot be checked within the timeout are assumed to match.
    """
    from adapters.losses import Loss  # noqa: PLC0415 - see above

    losses: list[Loss] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            for custom_input in inputs:
                mismatch = await _check(custom_input.tool, custom_input.input)
                if mismatch is not None:
                    reason = f"the input does not match the grammar: {mismatch}"
                    losses.append(Loss("changed", custom_input.path, reason))
    return losses


def check_inputs_blocking(inputs: "list[CustomInput]") -> "list[Loss]":
    """Run `check_inputs` in a new event loop."""
    return asyncio.run(check_inputs(inputs)) if inputs else []


async def _check(tool: "CustomTool", text: str) -> str | None:
    if tool.format != "grammar" or tool.syntax not in _SYNTAXES or not tool.definition:
        return None
    if len(text) > MAX_INPUT_CHARACTERS:
        return None
    async with _SLOTS:
        return await _run_check(json.dumps([tool.syntax, tool.definition, text]).encode())


async def _run_check(arguments: bytes) -> str | None:
    """Run one check in a process, which is killed on a timeout or a cancellation."""
    process = await asyncio.create_subprocess_exec(
        *_COMMAND,
        cwd=Path(__file__).parent.parent,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # Ctrl-C in a terminal is for the gateway only.
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate(arguments)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    # A grammar with which the check fails produces no output.
    mismatch: str | None = json.loads(output or b"null")
    return mismatch


# In the separate process

# Matches a regular expression in a grammar that repeats one element with `*`. Strings and comments
# are matched too, so that a slash in them does not start an expression.
_REPETITION = re.compile(
    r'"(?:\\.|[^"\\\n])*"|//[^\n]*'
    r"|/(?P<before>\(?(?:\.|\\[^/]|\[(?:\\.|[^\]\\])+\]))\*(?P<after>\)?)/(?P<flags>[imslux]*)"
)


def _match_lark(definition: str, text: str) -> str | None:
    from lark import Lark  # noqa: PLC0415 - slow to import, and not needed for `regex`
    from lark.exceptions import LarkError, UnexpectedEOF, UnexpectedInput  # noqa: PLC0415

    try:
        parser = Lark(_REPETITION.sub(_make_optional, definition), lexer="dynamic")
    except (LarkError, re.error, RecursionError):
        return None
    try:
        parser.parse(text)  # pyright: ignore[reportUnknownMemberType] - lark types it in part
    except UnexpectedEOF:
        return "unexpected end of input"
    except UnexpectedInput as error:
        return f"unexpected input at line {error.line}, column {error.column}"
    except LarkError as error:
        return str(error)
    return None


def _make_optional(match: re.Match[str]) -> str:
    """Rewrite `/x*/` as `(/x+/)?`, because Lark accepts no expression that matches nothing."""
    if match["before"] is None:
        return match.group()
    return f"(/{match['before']}+{match['after']}/{match['flags']})?"


def _match_regex(definition: str, text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            # Python warns of syntax with another meaning in other engines, such as `[[:alpha:]]`.
            warnings.simplefilter("error", FutureWarning)
            pattern = re.compile(definition)
    except (re.error, RecursionError, OverflowError, FutureWarning):
        return None
    return None if pattern.fullmatch(text) else "no match of the regular expression"


def _main() -> None:
    syntax, definition, text = json.load(sys.stdin)
    match = _match_lark if syntax == "lark" else _match_regex
    json.dump(match(definition, text), sys.stdout)


if __name__ == "__main__":
    _main()
