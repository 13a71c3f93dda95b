"""`dragoman translate` with JSON Lines and batch files."""

import json
import tracemalloc
from pathlib import Path

import pytest

import adapters
from gateway.cli.jsonl import JsonlTranslator
from gateway.dry_run import OfflineTranslator
from tests.gateway.cli import command_line as cli

BY_LINE = f"{cli.TO_RESPONSES} --lines"
BATCH_REQUEST = (
    b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":%s,"mine":1.50}'
    % cli.REQUEST
)


@pytest.mark.parametrize("name", ["many.jsonl", "many.NDJSON"])
def test_json_lines_are_detected_by_file_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + cli.REQUEST + b"\r\n\n  \n" + cli.REQUEST)
    result = cli.translate(f"{cli.TO_RESPONSES} {tmp_path / name}", b"")
    assert result.stdout_bytes == cli.TRANSLATED_REQUEST * 2
    losses = [f"line {number}: {loss}" for number in (1, 4) for loss in cli.LOSSES]
    assert result.stderr.splitlines() == losses
    assert result.exit_code == 0


def test_kind_of_each_line_is_detected() -> None:
    result = cli.translate(f"{BY_LINE} --verbose", cli.REQUEST + b"\n" + cli.REPLY)
    kinds = [json.loads(line).get("object") for line in result.stdout.splitlines()]
    assert kinds == [None, "response"]
    assert "line 2: detected a reply" in result.stderr.splitlines()


def test_ids_of_different_lines_differ() -> None:
    result = cli.translate(BY_LINE, cli.REPLY + b"\n" + cli.REPLY)
    first, second = (json.loads(line)["output"][0]["id"] for line in result.stdout.splitlines())
    assert first != second


def test_invalid_line_ends_the_translation() -> None:
    lines = cli.REQUEST + b'\n{"messages":1}\n' + cli.REQUEST
    result = cli.translate(BY_LINE, lines)
    assert result.stdout_bytes == cli.TRANSLATED_REQUEST
    error = "dragoman: line 2: messages must be an array, not an integer"
    assert result.stderr.splitlines()[len(cli.LOSSES) :] == [error]
    assert result.exit_code == 1


def test_invalid_line_is_replaced_with_keep_going() -> None:
    lines = b'{"messages":1}\n' + cli.REQUEST
    result = cli.translate(f"{BY_LINE} --keep-going", lines)
    first, second = result.stdout.splitlines(keepends=True)
    assert json.loads(first)["error"]["param"] == "messages"
    assert second.encode() == cli.TRANSLATED_REQUEST
    assert result.stderr.splitlines()[0].startswith("dragoman: line 1: messages must be ")
    assert result.exit_code == 1


def test_empty_input_is_no_error() -> None:
    result = cli.translate(BY_LINE, b"\n \n")
    assert (result.stdout_bytes, result.stderr, result.exit_code) == (b"", "", 0)


def test_memory_does_not_grow_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def count(data: bytes) -> None:
        written.append(len(data))

    monkeypatch.setattr("gateway.cli.jsonl.write_output", count)
    translator = OfflineTranslator("chat", "responses", ids=adapters.deterministic_ids())
    line = cli.REQUEST.replace(b"hi", b"x" * 100_000).replace(b',"seed":1', b"")
    tracemalloc.start()
    JsonlTranslator(translator).translate(line + b"\n" for _ in range(200))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(written) > 200 * 100_000
    assert peak < 5_000_000


def test_call_at_the_end_of_an_example_needs_no_output() -> None:
    result = cli.translate("--from legacy --to chat --lines", cli.EXAMPLE)
    messages = json.loads(result.stdout)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{ }"}
    assert "messages[1]" not in result.stderr


def test_call_within_an_example_gets_an_output() -> None:
    example = json.loads(cli.EXAMPLE)
    example["messages"].append({"role": "user", "content": "and?"})
    result = cli.translate("--from legacy --to chat --lines", json.dumps(example).encode())
    roles = [message["role"] for message in json.loads(result.stdout)["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    assert "line 1: invented messages[1]" in result.stderr


def test_call_at_the_end_of_a_request_gets_an_output() -> None:
    request = cli.EXAMPLE.replace(b"{", b'{"model":"m",', 1)
    assert cli.translated("--from legacy --to chat", request)["messages"][-1]["role"] == "tool"


def test_other_fields_of_a_batch_request_are_kept() -> None:
    result = cli.translate(BY_LINE, BATCH_REQUEST)
    assert result.stdout_bytes == (
        b'{"custom_id":"a","method":"POST","url":"/v1/responses","body":'
        + cli.TRANSLATED_REQUEST.rstrip()
        + b',"mine":1.50}\n'
    )
    assert result.stderr.splitlines() == [f"line 1: {loss}" for loss in cli.LOSSES]


def batch_request(url: object) -> bytes:
    return json.dumps(json.loads(BATCH_REQUEST) | {"url": url}).encode()


@pytest.mark.parametrize("url", ["/chat/completions", "/v1/chat/completions"])
def test_valid_url_is_kept(url: str) -> None:
    assert cli.translated("--from chat --to legacy --lines", batch_request(url))["url"] == url


def test_missing_url_is_added() -> None:
    line = BATCH_REQUEST.replace(b'"url":"/v1/chat/completions",', b"")
    assert cli.translated(BY_LINE, line)["url"] == "/v1/responses"


@pytest.mark.parametrize("url", ["/v1/embeddings", 5])
def test_url_of_another_endpoint_is_rejected(url: object) -> None:
    result = cli.translate(BY_LINE, batch_request(url))
    assert cli.error_of(result).startswith("dragoman: line 1: url must be ")


def test_body_of_a_batch_reply_is_translated() -> None:
    line = b'{"id":"b","custom_id":"a","response":{"status_code":200,"body":%s},"error":null}'
    result = cli.translated(BY_LINE, line % cli.REPLY)
    assert result["response"]["body"]["object"] == "response"
    assert (result["custom_id"], result["response"]["status_code"]) == ("a", 200)


def test_body_of_a_batch_error_is_translated() -> None:
    line = b'{"custom_id":"a","response":{"status_code":429,"body":{"detail":"slow"}}}'
    error = cli.translated(BY_LINE, line)["response"]["body"]["error"]
    assert error["type"] == "rate_limit_error"


def test_batch_line_without_a_body_is_kept() -> None:
    line = b'{"custom_id": "a", "response": null, "error": {"code": "batch_expired"}}'
    assert cli.translate(BY_LINE, line).stdout_bytes == line + b"\n"
