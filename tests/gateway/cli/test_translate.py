"""`dragoman translate` with a single body or stream."""

import json
from pathlib import Path

import pytest

from tests.gateway.cli.command_line import (
    REPLY,
    REQUEST,
    STREAM,
    TRANSLATED_REQUEST,
    one_line,
    run,
    translate,
)


def test_request_is_written_and_losses_are_printed() -> None:
    result = translate("--from chat --to responses", REQUEST)
    assert result.stdout_bytes == TRANSLATED_REQUEST
    assert one_line(result.stderr) == "dropped seed: the Responses API does not support this field"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("stdin", "kind"), [(REQUEST, "request"), (REPLY, "reply"), (STREAM, "stream")]
)
def test_same_dialect_is_passed_through(stdin: bytes, kind: str) -> None:
    result = translate(f"--from chat --to chat --kind {kind}", stdin)
    assert result.stdout_bytes.rstrip() == stdin.rstrip()
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("stdin", "kind"),
    [
        (REQUEST, "a request"),
        (b"\xef\xbb\xbf \n" + REQUEST, "a request"),
        (REPLY, "a reply"),
        (b'{"error":{"message":"x"}}', "an error"),
        (STREAM, "a stream"),
        (b"\xef\xbb\xbf\n: hello\n\n" + STREAM, "a stream"),
    ],
)
def test_kind_is_detected(stdin: bytes, kind: str) -> None:
    result = translate("--from chat --to responses --verbose", stdin)
    assert result.stderr.splitlines()[0] == f"detected {kind}"
    assert result.exit_code == 0
    assert translate("--from chat --to legacy", stdin).stderr == ""


def test_reply_of_the_responses_api_is_detected() -> None:
    reply = translate("--from chat --to responses", REPLY).stdout_bytes
    result = translate("--from responses --to chat", reply)
    assert json.loads(result.stdout)["choices"][0]["message"]["content"] == "hi"


def test_output_is_indented() -> None:
    result = translate("--from chat --to responses --indent", REQUEST)
    assert result.stdout.startswith('{\n  "model": "m",\n')
    assert json.loads(result.stdout) == json.loads(TRANSLATED_REQUEST)


def test_ids_are_random_unless_deterministic() -> None:
    command = "translate --from chat --to responses"
    first, second = (run(command, REPLY).stdout_bytes for _ in range(2))
    assert first != second
    command += " --deterministic"
    first, second = (run(command, REPLY).stdout_bytes for _ in range(2))
    assert first == second


def test_request_with_losses_can_be_rejected() -> None:
    body = b'{"model":"m","input":"hi","tools":[{"type":"file_search","vector_store_ids":[]}]}'
    assert translate("--from responses --to chat", body).exit_code == 0
    result = translate("--from responses --to chat --loss-policy refuse", body)
    assert result.exit_code == 1
    assert result.stdout_bytes == b""
    assert one_line(result.stderr).startswith("dragoman: tools[0]: ")


def test_status_determines_the_error_type() -> None:
    result = translate("--from chat --to responses --kind error --status 429", b"slow down")
    assert json.loads(result.stdout)["error"] == {
        "message": "slow down",
        "type": "rate_limit_error",
        "param": None,
        "code": None,
    }


def test_reply_repeats_settings_of_its_request(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(b'{"model":"m","messages":[],"temperature":0.25}')
    result = translate(f"--from chat --to responses --request {file}", REPLY)
    assert json.loads(result.stdout)["temperature"] == 0.25


def test_usage_is_written_for_a_request_of_the_responses_api(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(b'{"model":"m","input":"hi"}')
    stream = translate("--from chat --to responses", STREAM).stdout_bytes
    result = translate(f"--from responses --to chat --request {file}", stream)
    assert '"usage":{"prompt_tokens"' in result.stdout


# Capabilities


def test_capability_is_applied() -> None:
    body = b'{"model":"m","input":[{"role":"developer","content":"x"}]}'
    for value, role in (("true", "developer"), ("false", "system")):
        options = f"--from responses --to chat --capability developer_role={value}"
        assert json.loads(translate(options, body).stdout)["messages"][0]["role"] == role


def test_profile_is_applied_within_one_dialect() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x","name":"ada"}],"store":true}'
    assert translate("--from chat --to chat", body).stdout_bytes == body + b"\n"
    result = translate("--from chat --to chat --profile mistral", body)
    assert json.loads(result.stdout) == {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
    }
    assert "dropped store: the backend does not support this field" in result.stderr


def test_capability_overrides_the_profile() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x","name":"ada"}]}'
    options = "--from chat --to chat --capability message_names=true --profile mistral"
    assert json.loads(translate(options, body).stdout) == json.loads(body)


@pytest.mark.parametrize("value", ["low,high", '["low","high"]'])
def test_capability_can_be_a_list(value: str) -> None:
    body = b'{"model":"m","input":"x","reasoning":{"effort":"max"}}'
    options = "--from responses --to chat --capability"
    result = translate(options, body, f"reasoning_efforts={value}")
    assert json.loads(result.stdout)["reasoning_effort"] == "high"


@pytest.mark.parametrize("value", ["reasoning_content", "null"])
def test_capability_can_be_a_string(value: str) -> None:
    options = f"--from chat --to responses --capability reasoning_field={value}"
    assert translate(options, REQUEST).stdout_bytes == TRANSLATED_REQUEST


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("unknown=true", "developer_role=true|false"),
        ("strict_tools", "strict_tools=true|false"),
        ("strict_tools=maybe", "strict_tools=true|false"),
        ("call_id_format=ten", "call_id_format=any|alphanumeric_9"),
        ("tool_choices=auto,never", "tool_choices=WORD,WORD"),
    ],
)
def test_invalid_capability_is_explained(value: str, message: str) -> None:
    result = translate("--from chat --to responses", REQUEST, "--capability", value)
    assert result.exit_code == 2
    assert message in result.stderr
