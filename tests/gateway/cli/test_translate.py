"""`dragoman translate` with a single body or stream."""

import json
from pathlib import Path

import pytest

from tests.gateway.cli import command_line as cli

TO_CHAT = "--from responses --to chat"


@pytest.mark.parametrize(
    ("stdin", "kind"), [(cli.REQUEST, "request"), (cli.REPLY, "reply"), (cli.STREAM, "stream")]
)
def test_same_dialect_is_passed_through(stdin: bytes, kind: str) -> None:
    result = cli.translate(f"--from chat --to chat --kind {kind}", stdin)
    assert result.stdout_bytes.rstrip() == stdin.rstrip()
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("stdin", "kind"),
    [
        (cli.REQUEST, "a request"),
        (b"\xef\xbb\xbf \n" + cli.REQUEST, "a request"),
        (cli.REPLY, "a reply"),
        (b'{"error":{"message":"x"}}', "an error"),
        (cli.STREAM, "a stream"),
        (b"\xef\xbb\xbf\n: hello\n\n" + cli.STREAM, "a stream"),
    ],
)
def test_kind_is_detected(stdin: bytes, kind: str) -> None:
    result = cli.translate(f"{cli.TO_RESPONSES} --verbose", stdin)
    assert result.stderr.splitlines()[0] == f"detected {kind}"
    assert result.exit_code == 0
    assert "detected" not in cli.translate("--from chat --to legacy", stdin).stderr


def test_reply_of_the_responses_api_is_detected() -> None:
    reply = cli.translate(cli.TO_RESPONSES, cli.REPLY).stdout_bytes
    assert cli.translated(TO_CHAT, reply)["choices"][0]["message"]["content"] == "Hi"


def test_output_is_indented() -> None:
    result = cli.translate(f"{cli.TO_RESPONSES} --indent", cli.REQUEST)
    assert result.stdout.startswith('{\n  "model": "m",\n')
    assert json.loads(result.stdout) == json.loads(cli.TRANSLATED_REQUEST)


def test_ids_are_random_unless_deterministic() -> None:
    command = f"translate {cli.TO_RESPONSES}"
    assert cli.run(command, cli.REPLY).stdout_bytes != cli.run(command, cli.REPLY).stdout_bytes
    command += " --deterministic"
    assert cli.run(command, cli.REPLY).stdout_bytes == cli.run(command, cli.REPLY).stdout_bytes


def test_request_with_losses_can_be_rejected() -> None:
    body = b'{"model":"m","input":"hi","tools":[{"type":"file_search","vector_store_ids":[]}]}'
    assert cli.translate(TO_CHAT, body).exit_code == 0
    result = cli.translate(f"{TO_CHAT} --loss-policy refuse", body)
    assert cli.error_of(result).startswith("dragoman: tools[0]: ")


def test_usage_is_written_for_a_request_of_the_responses_api(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(b'{"model":"m","input":"hi"}')
    stream = cli.translate(cli.TO_RESPONSES, cli.STREAM).stdout_bytes
    result = cli.translate(f"{TO_CHAT} --request {file}", stream)
    assert '"usage":{"prompt_tokens"' in result.stdout


DEVELOPER = b'{"model":"m","input":[{"role":"developer","content":"x"}]}'
EFFORT = b'{"model":"m","input":"x","reasoning":{"effort":"max"}}'


@pytest.mark.parametrize(
    ("body", "capability", "expected"),
    [
        (DEVELOPER, "developer_role=true", {"messages": [{"role": "developer", "content": "x"}]}),
        (DEVELOPER, "developer_role=false", {"messages": [{"role": "system", "content": "x"}]}),
        (EFFORT, "reasoning_efforts=low,high", {"reasoning_effort": "high"}),
        (EFFORT, 'reasoning_efforts=["low","high"]', {"reasoning_effort": "high"}),
    ],
)
def test_capability_is_applied(body: bytes, capability: str, expected: dict[str, object]) -> None:
    result = cli.translated(f"{TO_CHAT} --capability", body, capability)
    assert result == result | expected


def test_profile_is_applied_within_one_dialect() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x","name":"ada"}],"store":true}'
    assert cli.translate("--from chat --to chat", body).stdout_bytes == body + b"\n"
    result = cli.translate("--from chat --to chat --profile mistral", body)
    messages = [{"role": "user", "content": "x"}]
    assert json.loads(result.stdout) == {"model": "m", "messages": messages}
    assert "dropped store: the backend does not support this field" in result.stderr


def test_capability_overrides_the_profile() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x","name":"ada"}]}'
    options = "--from chat --to chat --capability message_names=true --profile mistral"
    assert json.loads(cli.translate(options, body).stdout) == json.loads(body)


@pytest.mark.parametrize("value", ["reasoning_content", "null"])
def test_capability_can_be_a_string(value: str) -> None:
    options = f"{cli.TO_RESPONSES} --capability reasoning_field={value}"
    assert cli.translate(options, cli.REQUEST).stdout_bytes == cli.TRANSLATED_REQUEST


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
    result = cli.translate(cli.TO_RESPONSES, cli.REQUEST, "--capability", value)
    assert result.exit_code == 2
    assert message in result.stderr
