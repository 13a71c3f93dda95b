"""Invalid input and options end the command with one clear message and no partial output."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.cli import command_line as cli
from tests.judges.reading import JsonObject
from tests.judges.samples import encoded

DEEP = b"[" * 200_000
RANDOM_BYTES = hashlib.shake_128(b"seed").digest(100_000)

INVALID_REQUESTS = {
    "empty": (b"", "the input is empty"),
    "blank": (b" \n\n", "the input is empty"),
    "not JSON": (b"hello", "the body is not valid JSON: "),
    "cut": (cli.REQUEST[:-5], "the body is not valid JSON: "),
    "two bodies": (cli.REQUEST + cli.REQUEST, "the body is not valid JSON: "),
    "not an object": (b"[]", "the body must be an object, not an array"),
    "wrong type": (
        b'{"messages":[{"role":"user","content":1}]}',
        "messages[0].content must be a string or an array, not an integer",
    ),
    "deep": (b'{"messages":' + DEEP, "the body is nested too deeply"),
    "deep and whole": (
        b'{"messages":[],"x":' + DEEP + b"]" * len(DEEP) + b"}",
        "the body is nested too deeply",
    ),
    "random bytes": (RANDOM_BYTES, "the body is not UTF-8"),
    "UTF-16": (cli.REQUEST.decode().encode("utf-16"), "the body is not UTF-8"),
    "other family": (
        b'{"model":"m","input":"hi"}',
        "messages is required; a body with `input` is a Responses API request",
    ),
}


@pytest.mark.parametrize("name", INVALID_REQUESTS)
@pytest.mark.parametrize("option", ["", "--kind reply"])
def test_invalid_body_causes_one_message(name: str, option: str) -> None:
    body, message = INVALID_REQUESTS[name]
    error = cli.error_of(cli.translate(f"{cli.TO_RESPONSES} {option}", body))
    assert error.startswith("dragoman: " if option else f"dragoman: {message}")


def test_reply_of_another_dialect_is_rejected() -> None:
    assert cli.error_of(cli.translate("--from responses --to chat", cli.REPLY)).startswith(
        "dragoman: "
    )


def test_truncated_stream_ends_with_an_error() -> None:
    result = cli.translate(cli.TO_RESPONSES, cli.STREAM[: len(cli.STREAM) // 2])
    assert "response.failed" in result.stdout
    assert "response.completed" not in result.stdout
    message = "the backend's stream ended before the reply was complete"
    assert cli.one_line(result.stderr) == f"dragoman: {message}"
    assert result.exit_code == 1


@pytest.mark.parametrize("body", [b"", b"\n\n"])
def test_empty_stream_is_an_error(body: bytes) -> None:
    result = cli.translate(f"{cli.TO_RESPONSES} --kind stream", body)
    assert cli.error_of(result) == "dragoman: the input is empty"


def test_large_body_is_translated() -> None:
    result = cli.translate(cli.TO_RESPONSES, cli.REQUEST.replace(b"hi", b"x" * 50_000_000))
    assert len(result.stdout_bytes) > 50_000_000
    assert result.exit_code == 0


@pytest.mark.parametrize("command", ["translate --from chat --to legacy", "check --dialect chat"])
def test_unreadable_file_is_named(command: str, tmp_path: Path) -> None:
    reasons = {tmp_path / "none.json": "No such file or directory", tmp_path: "Is a directory"}
    for path, reason in reasons.items():
        assert cli.error_of(cli.run(command, b"", str(path))) == f"dragoman: {path}: {reason}"


def test_unreadable_request_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(b'{"messages":1}')
    options = f"{cli.TO_RESPONSES} --request {file}"
    assert cli.error_of(cli.translate(options, cli.REPLY)).startswith(
        f"dragoman: {file}: messages must be "
    )
    file.unlink()
    assert cli.error_of(cli.translate(options, cli.REPLY)).endswith("No such file or directory")


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("translate --from chat", "--to"),
        ("translate --from chat --to klingon", "klingon"),
        ("translate --from chat --to chat --kind image", "image"),
        ("translate --from chat --to chat --kind reply --status 500", "--status"),
        ("translate --from chat --to chat --status 1000", "--status"),
        ("translate --from chat --to chat --kind request --request x", "--request"),
        ("translate --from chat --to chat --lines --indent", "--indent"),
        ("translate --from chat --to chat --lines --kind stream", "--kind stream"),
        ("translate --from chat --to chat --keep-going", "--keep-going"),
        ("check --dialect klingon", "klingon"),
        ("interpret", "interpret"),
    ],
)
def test_invalid_option_is_a_usage_error(command: str, part: str) -> None:
    result = cli.run(command, cli.REQUEST)
    assert part in result.stderr
    assert (result.stdout_bytes, result.exit_code) == (b"", 2)


def test_control_characters_of_the_input_are_escaped() -> None:
    message = {"role": "user", "content": "hi"}
    body: JsonObject = {"messages": [message], "x\ndropped everything: \x1b[2Jha": 1}
    result = cli.translate(cli.TO_RESPONSES, encoded(body))
    assert result.stderr.count("\n") == len(result.stderr.splitlines()) == len(cli.LOSSES)
    assert "x\\ndropped everything: \\x1b[2Jha" in result.stderr


# Unusual input must not cause a traceback, which `run` would raise.

MESSAGE: JsonObject = {"type": "message", "role": "assistant", "content": []}
CREATED: JsonObject = {"type": "response.created", "response": {}}
COMPLETED: JsonObject = {"type": "response.completed", "response": {"output": []}}


def added(item: JsonObject) -> JsonObject:
    return {"type": "response.output_item.added", "output_index": 0, "item": item}


UNUSUAL_STREAMS: dict[str, list[JsonObject]] = {
    "an id that is an object": [CREATED, added({**MESSAGE, "id": {}}), COMPLETED],
    "arguments for a message": [
        added({**MESSAGE, "id": "m"}),
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "x"},
    ],
    "an item without a type": [added({"id": "x"})],
    "a reference": [added({"id": "x", "type": "item_reference"})],
}


@pytest.mark.parametrize(
    "command", ["check --dialect responses", "translate --from responses --to responses"]
)
@pytest.mark.parametrize("name", UNUSUAL_STREAMS)
def test_unusual_stream_causes_no_traceback(name: str, command: str) -> None:
    events = UNUSUAL_STREAMS[name]
    stream = b"".join(b"data: %b\n\n" % encoded(event) for event in events)
    assert cli.run(command, stream).exit_code in (0, 1)


@pytest.mark.parametrize("properties", [1.5, "x", [[]], [{}], None])
def test_unusual_schema_causes_no_traceback(properties: object) -> None:
    schema = {"type": "object", "properties": properties, "required": properties}
    tool = {"type": "function", "name": "f", "parameters": schema}
    body = encoded({"input": "x", "tools": [tool]})
    result = cli.run("translate --from responses --to chat", body)
    assert result.exit_code in (0, 1)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.binary(max_size=200), st.sampled_from(["request", "reply", "stream", "error"]))
def test_random_bytes_cause_no_traceback(data: bytes, kind: str) -> None:
    result = cli.translate(f"--from responses --to chat --kind {kind}", data)
    assert result.exit_code in (0, 1)
    assert result.exit_code == 0 or cli.one_line(result.stderr).startswith("dragoman: ")
