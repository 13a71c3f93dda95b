"""Invalid input and options end the command with one clear message and no partial output."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.cli.command_line import REPLY, REQUEST, STREAM, one_line, run, translate

DEEP = b"[" * 200_000
RANDOM_BYTES = hashlib.shake_128(b"seed").digest(100_000)

INVALID_REQUESTS = {
    "empty": (b"", "the input is empty"),
    "blank": (b" \n\n", "the input is empty"),
    "not JSON": (b"hello", "the body is not valid JSON: "),
    "cut": (REQUEST[:-5], "the body is not valid JSON: "),
    "two bodies": (REQUEST + REQUEST, "the body is not valid JSON: "),
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
    "UTF-16": (REQUEST.decode().encode("utf-16"), "the body is not UTF-8"),
    "other family": (
        b'{"model":"m","input":"hi"}',
        "messages is required; a body with `input` is a Responses API request",
    ),
}


@pytest.mark.parametrize("name", INVALID_REQUESTS)
def test_invalid_request_causes_one_message(name: str) -> None:
    body, message = INVALID_REQUESTS[name]
    result = translate("--from chat --to responses", body)
    assert one_line(result.stderr).startswith(f"dragoman: {message}")
    assert result.stdout_bytes == b""
    assert result.exit_code == 1


@pytest.mark.parametrize("name", INVALID_REQUESTS)
def test_invalid_reply_causes_one_message(name: str) -> None:
    body, _ = INVALID_REQUESTS[name]
    result = translate("--from chat --to responses --kind reply", body)
    assert one_line(result.stderr).startswith("dragoman: ")
    assert result.stdout_bytes == b""
    assert result.exit_code == 1


def test_reply_of_another_dialect_is_rejected() -> None:
    result = translate("--from responses --to chat", REPLY)
    assert one_line(result.stderr).startswith("dragoman: ")
    assert (result.stdout_bytes, result.exit_code) == (b"", 1)


def test_truncated_stream_ends_with_an_error() -> None:
    result = translate("--from chat --to responses", STREAM[: len(STREAM) // 2])
    assert "response.failed" in result.stdout
    assert "response.completed" not in result.stdout
    assert one_line(result.stderr) == (
        "dragoman: the backend's stream ended before the reply was complete"
    )
    assert result.exit_code == 1


@pytest.mark.parametrize("body", [b"", b"\n\n"])
def test_empty_stream_is_an_error(body: bytes) -> None:
    result = translate("--from chat --to responses --kind stream", body)
    assert one_line(result.stderr) == "dragoman: the input is empty"
    assert (result.stdout_bytes, result.exit_code) == (b"", 1)


def test_large_body_is_translated() -> None:
    body = REQUEST.replace(b"hi", b"x" * 50_000_000)
    result = translate("--from chat --to responses", body)
    assert len(result.stdout_bytes) > 50_000_000
    assert result.exit_code == 0


@pytest.mark.parametrize("command", ["translate --from chat --to legacy", "check --dialect chat"])
def test_unreadable_file_is_named(command: str, tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none.json", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        result = run(command, b"", str(path))
        assert one_line(result.stderr) == f"dragoman: {path}: {reason}"
        assert (result.stdout_bytes, result.exit_code) == (b"", 1)


def test_unreadable_request_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(b'{"messages":1}')
    options = f"--from chat --to responses --request {file}"
    result = translate(options, REPLY)
    assert one_line(result.stderr).startswith(f"dragoman: {file}: messages must be ")
    file.unlink()
    assert one_line(translate(options, REPLY).stderr).endswith("No such file or directory")


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
    result = run(command, REQUEST)
    assert part in result.stderr
    assert (result.stdout_bytes, result.exit_code) == (b"", 2)


def test_control_characters_of_the_input_are_escaped() -> None:
    message = {"role": "user", "content": "hi"}
    body = {"messages": [message], "x\ndropped everything: \x1b[2Jha": 1}
    result = translate("--from chat --to responses", json.dumps(body).encode())
    assert "x\\ndropped everything: \\x1b[2Jha" in one_line(result.stderr)


# Unusual input must not cause a traceback, which `run` would raise.

MESSAGE: dict[str, object] = {"type": "message", "role": "assistant", "content": []}
CREATED: dict[str, object] = {"type": "response.created", "response": {}}
COMPLETED: dict[str, object] = {"type": "response.completed", "response": {"output": []}}


def added(item: dict[str, object]) -> dict[str, object]:
    return {"type": "response.output_item.added", "output_index": 0, "item": item}


UNUSUAL_STREAMS: dict[str, list[dict[str, object]]] = {
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
    stream = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    assert run(command, stream).exit_code in (0, 1)


@pytest.mark.parametrize("properties", [1.5, "x", [[]], [{}], None])
def test_unusual_schema_causes_no_traceback(properties: object) -> None:
    schema = {"type": "object", "properties": properties, "required": properties}
    body = {"input": "x", "tools": [{"type": "function", "name": "f", "parameters": schema}]}
    result = run("translate --from responses --to chat", json.dumps(body).encode())
    assert result.exit_code in (0, 1)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.binary(max_size=200), st.sampled_from(["request", "reply", "stream", "error"]))
def test_random_bytes_cause_no_traceback(data: bytes, kind: str) -> None:
    result = translate(f"--from responses --to chat --kind {kind}", data)
    assert result.exit_code in (0, 1)
    assert result.exit_code == 0 or one_line(result.stderr).startswith("dragoman: ")
