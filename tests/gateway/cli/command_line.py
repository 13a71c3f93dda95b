"""The command line inside a test, and small inputs for it."""

import json
import shlex
from typing import Any

from click.testing import CliRunner, Result

from gateway.cli.commands import main
from tests.judges.reading import JsonObject
from tests.judges.sample_streams import chat_stream, chunk
from tests.judges.samples import CHAT_REPLY, encoded

TO_RESPONSES = "--from chat --to responses"
REQUEST = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":1}'
TRANSLATED_REQUEST = (
    b'{"model":"m","input":[{"type":"message","role":"user","content":"hi"}],"store":false}\n'
)
LOSSES = [
    "invented store: the Responses API stores replies by default; sent as false",
    "dropped seed: the Responses API does not support this field",
]
REPLY = encoded(CHAT_REPLY)
CHUNKS = [chunk({"role": "assistant", "content": "hi"}), chunk({}, "stop")]
USAGE: JsonObject = {**chunk({}), "choices": [], "usage": CHAT_REPLY["usage"]}
FIRST_CHUNK = chat_stream(CHUNKS[:1], end=b"")
STREAM = chat_stream([*CHUNKS, USAGE])
EXAMPLE = (
    b'{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,'
    b'"function_call":{"name":"f","arguments":"{ }"}}],"functions":[{"name":"f","parameters":{}}]}'
)


def run(command: str, stdin: bytes = b"", *arguments: str) -> Result:
    result = CliRunner().invoke(main, [*shlex.split(command), *arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def translate(options: str, stdin: bytes, *arguments: str) -> Result:
    return run(f"translate --deterministic {options}", stdin, *arguments)


def error_of(result: Result, exit_code: int = 1) -> str:
    """Return the one line that a command printed, apart from which it wrote nothing."""
    assert (result.stdout_bytes, result.exit_code) == (b"", exit_code)
    return one_line(result.stderr)


def translated(options: str, stdin: bytes, *arguments: str) -> Any:
    return json.loads(translate(options, stdin, *arguments).stdout)


def one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1
    return text[:-1]
