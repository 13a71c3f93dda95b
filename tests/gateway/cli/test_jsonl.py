"""JSON Lines and batch files through the command line."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import adapters
from gateway.cli.jsonl import translate_lines
from gateway.dry_run import OfflineTranslator
from tests.gateway.cli.command_line import (
    EXAMPLE,
    REPLY,
    REQUEST,
    SENT,
    one_line,
    run,
    translate,
)

TO_RESPONSES = "--from chat --to responses"
BATCHED = (
    b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":%s,"mine":1.50}'
    % REQUEST
)


@pytest.mark.parametrize("name", ["many.jsonl", "many.NDJSON"])
def test_lines_are_known_by_the_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + REQUEST + b"\r\n\n  \n" + REQUEST)
    result = translate(f"{TO_RESPONSES} {tmp_path / name}", b"")
    assert result.stdout_bytes == SENT * 2
    assert result.stderr.splitlines() == [
        "line 1: dropped seed: the Responses API has no place for it",
        "line 4: dropped seed: the Responses API has no place for it",
    ]
    assert result.exit_code == 0


def test_lines_of_different_kinds_are_guessed() -> None:
    result = translate(f"{TO_RESPONSES} --lines --verbose", REQUEST + b"\n" + REPLY)
    assert [json.loads(line).get("object") for line in result.stdout.splitlines()] == [
        None,
        "response",
    ]
    assert "line 2: taken for a reply" in result.stderr.splitlines()


def test_ids_of_different_lines_differ() -> None:
    result = translate(f"{TO_RESPONSES} --lines", REPLY + b"\n" + REPLY)
    first, second = (json.loads(line)["output"][0]["id"] for line in result.stdout.splitlines())
    assert first != second


def test_bad_line_stops() -> None:
    lines = REQUEST + b'\n{"messages":1}\n' + REQUEST
    result = translate(f"{TO_RESPONSES} --lines", lines)
    assert result.stdout_bytes == SENT
    assert result.stderr.splitlines()[1:] == [
        "dragoman: line 2: messages: expected array | null, got int"
    ]
    assert result.exit_code == 1


def test_bad_line_is_replaced_if_asked() -> None:
    lines = b'{"messages":1}\n' + REQUEST
    result = translate(f"{TO_RESPONSES} --lines --keep-going", lines)
    first, second = result.stdout.splitlines(keepends=True)
    assert json.loads(first)["error"]["param"] == "messages"
    assert second.encode() == SENT
    assert result.stderr.splitlines()[0].startswith("dragoman: line 1: messages: ")
    assert result.exit_code == 1


def test_no_lines_are_no_fault() -> None:
    result = translate(f"{TO_RESPONSES} --lines", b"\n \n")
    assert (result.stdout_bytes, result.stderr, result.exit_code) == (b"", "", 0)


def test_memory_does_not_grow_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def count(data: bytes) -> None:
        written.append(len(data))

    monkeypatch.setattr("gateway.cli.jsonl.write", count)
    setting = OfflineTranslator("chat", "responses", mint=adapters.deterministic_ids())
    line = REQUEST.replace(b"hi", b"x" * 100_000).replace(b',"seed":1', b"")
    tracemalloc.start()
    translate_lines(setting, _repeat(line, 200), keep_going=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(written) > 200 * 100_000
    assert peak < 5_000_000


def _repeat(line: bytes, times: int) -> Iterator[bytes]:
    for _ in range(times):
        yield line + b"\n"


# Examples


def test_call_at_the_end_of_an_example_stays_open() -> None:
    result = translate("--from legacy --to chat --lines", EXAMPLE)
    messages = json.loads(result.stdout)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{ }"}
    assert result.stderr == ""


def test_call_within_an_example_is_answered() -> None:
    example = json.loads(EXAMPLE)
    example["messages"].append({"role": "user", "content": "and?"})
    result = translate("--from legacy --to chat --lines", json.dumps(example).encode())
    roles = [message["role"] for message in json.loads(result.stdout)["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    assert one_line(result.stderr).startswith("line 1: invented messages[1]")


def test_call_at_the_end_of_a_request_is_answered() -> None:
    example = json.loads(EXAMPLE) | {"model": "m"}
    result = translate("--from legacy --to chat", json.dumps(example).encode())
    assert json.loads(result.stdout)["messages"][-1]["role"] == "tool"


# Batch files


def test_batched_request_keeps_what_is_around_it() -> None:
    result = translate(f"{TO_RESPONSES} --lines", BATCHED)
    assert result.stdout_bytes == (
        b'{"custom_id":"a","method":"POST","url":"/v1/responses","body":'
        + SENT.rstrip()
        + b',"mine":1.50}\n'
    )
    assert one_line(result.stderr).startswith("line 1: dropped seed: ")


@pytest.mark.parametrize("url", ["/chat/completions", "/v1/chat/completions"])
def test_url_stays_where_it_is_right(url: str) -> None:
    batched = json.loads(BATCHED) | {"url": url}
    result = translate("--from chat --to legacy --lines", json.dumps(batched).encode())
    assert json.loads(result.stdout)["url"] == url


def test_url_is_added_where_it_is_missing() -> None:
    batched = json.loads(BATCHED)
    del batched["url"]
    result = translate(f"{TO_RESPONSES} --lines", json.dumps(batched).encode())
    assert json.loads(result.stdout)["url"] == "/v1/responses"


@pytest.mark.parametrize("url", ["/v1/embeddings", 5])
def test_other_url_is_refused(url: object) -> None:
    batched = json.loads(BATCHED) | {"url": url}
    result = translate(f"{TO_RESPONSES} --lines", json.dumps(batched).encode())
    assert one_line(result.stderr).startswith("dragoman: line 1: url: ")
    assert result.exit_code == 1


def test_batched_reply_is_translated_inside() -> None:
    line = (
        b'{"id":"b","custom_id":"a","response":{"status_code":200,"body":%s},"error":null}' % REPLY
    )
    result = translate(f"{TO_RESPONSES} --lines", line)
    told = json.loads(result.stdout)
    assert told["response"]["body"]["object"] == "response"
    assert (told["custom_id"], told["response"]["status_code"]) == ("a", 200)


def test_batched_error_is_translated_inside() -> None:
    line = b'{"custom_id":"a","response":{"status_code":429,"body":{"detail":"slow"}}}'
    told = json.loads(translate(f"{TO_RESPONSES} --lines", line).stdout)
    assert told["response"]["body"]["error"]["type"] == "rate_limit_error"


def test_batched_line_without_an_answer_is_kept() -> None:
    line = b'{"custom_id": "a", "response": null, "error": {"code": "batch_expired"}}'
    assert translate(f"{TO_RESPONSES} --lines", line).stdout_bytes == line + b"\n"


# Options that do not go with lines


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--lines --indent", "--indent"),
        ("--lines --kind stream", "--kind stream"),
        ("--keep-going", "--keep-going"),
    ],
)
def test_contradiction_is_a_usage_error(options: str, named: str) -> None:
    result = run(f"translate {TO_RESPONSES} {options}", REQUEST)
    assert result.exit_code == 2
    assert named in result.stderr
