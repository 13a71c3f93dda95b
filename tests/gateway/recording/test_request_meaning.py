"""Which requests have the same meaning for a replay, and the paths of what differs."""

import json
from typing import Any

import pytest

from adapters import DIALECTS, translate_request
from gateway.recording.request_meaning import compare_requests, read_meaning
from tests.gateway.gateway_config import DIALECT_PAIRS, PAIR_IDS
from tests.gateway.recording.replays import question
from tests.judges.reading import JsonObject
from tests.judges.samples import encoded

REQUEST: dict[str, Any] = {
    **question(),
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How is Oslo?"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ],
}


def compare(left: bytes, right: bytes, dialect: str = "chat") -> tuple[list[str], int]:
    """Return the paths of the differences, and the number of minor ones."""
    of = DIALECTS[dialect]
    compared = compare_requests(read_meaning(left, of), read_meaning(right, of))
    return [difference.path for difference in compared.differences], compared.minor


def changed(**fields: object) -> bytes:
    return encoded({**REQUEST, **fields})


@pytest.mark.parametrize(("client", "backend"), DIALECT_PAIRS, ids=PAIR_IDS)
def test_meaning_survives_translation(client: str, backend: str) -> None:
    """The request of a client reaches the backend as if the client had its dialect."""
    direct = translate_request(REQUEST, client="chat", backend=backend).body
    of_client = translate_request(REQUEST, client="chat", backend=client).body
    translated = translate_request(of_client, client=client, backend=backend).body
    assert compare(direct, translated, backend)[0] == []


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model": "other"}, "model"),
        ({"temperature": 0.5}, "temperature"),
        ({"max_completion_tokens": 9}, "max_output_tokens"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": []}, "tools"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"messages": REQUEST["messages"][:3]}, "messages[3]"),
        ({"messages": REQUEST["messages"][1:]}, "messages[0]"),
    ],
)
def test_other_requests_differ(fields: JsonObject, path: str) -> None:
    names = {path, DIALECTS["chat"].names.get(path, path)}
    [found], _ = compare(changed(), changed(**fields))
    assert found in names


def test_path_of_an_added_message_is_its_own() -> None:
    messages = REQUEST["messages"]
    added = [*messages[:2], {"role": "user", "content": "Quickly."}, *messages[2:]]
    assert compare(changed(), changed(messages=added)) == (["messages[2]"], 0)


def test_path_of_a_call_is_that_in_its_message() -> None:
    messages = json.loads(json.dumps(REQUEST["messages"]))
    messages[2]["tool_calls"][0]["function"]["arguments"] = '{"city":"Rome"}'
    [path], _ = compare(changed(), changed(messages=messages))
    assert path == "messages[2].tool_calls[0].arguments.city"


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": True, "stream_options": {"include_usage": True}},
        {"store": True, "metadata": {"a": "b"}},
        {"parallel_tool_calls": False},
        {"user": "me", "seed": 1},
    ],
)
def test_hints_do_not_prevent_a_match(fields: JsonObject) -> None:
    differences, minor = compare(changed(), changed(**fields))
    assert differences == []
    assert minor > 0


def test_role_of_the_developer_is_ignored() -> None:
    messages = [{**REQUEST["messages"][0], "role": "developer"}, *REQUEST["messages"][1:]]
    assert compare(changed(), changed(messages=messages)) == ([], 0)


def test_invalid_requests_are_compared_as_json() -> None:
    assert compare(b'{"messages": 1}', b'{"messages":1}') == ([], 0)
    assert compare(b'{"messages": 1}', b'{"messages": 2}') == (["body.messages"], 0)
    assert compare(b"<html>", b"<html>") == ([], 0)
