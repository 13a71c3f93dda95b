"""Call ids in a reply differ from those in the history: some servers repeat theirs."""

import json

import pytest
from msgspec import Raw

import adapters
from tests.exchange import Exchange
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.judges.reading import JsonObject
from tests.judges.samples import encoded

CALLS = (Call("f", '{"a":1}'), Call("f", '{"a":2}'))
# The id of the first call in the backend's replies.
CALL_ID: str = json.loads(reply_body("chat", Turn(calls=CALLS)))["choices"][0]["message"][
    "tool_calls"
][0]["id"]
HISTORY: dict[str, JsonObject] = {
    "chat": {
        "messages": [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": CALL_ID, "type": "function", "function": {"name": "f", "arguments": "1"}}
                ],
            },
            {"role": "tool", "tool_call_id": CALL_ID, "content": "done"},
        ]
    },
    "responses": {
        "input": [
            {"role": "user", "content": "go"},
            {"type": "function_call", "call_id": CALL_ID, "name": "f", "arguments": "1"},
            {"type": "function_call_output", "call_id": CALL_ID, "output": "done"},
        ]
    },
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", ["chat", "responses"])
@pytest.mark.parametrize("backend", ["chat", "responses"])
def test_call_id_of_the_history_is_replaced(client: str, backend: str, *, stream: bool) -> None:
    exchange = Exchange(client, backend)
    exchange.request(encoded({"model": "m", "stream": stream, **HISTORY[client]}))
    turn = Turn(calls=CALLS)
    if stream:
        output = exchange.translate_stream(stream_events(backend, turn))
    else:
        output = exchange.reply(reply_body(backend, turn)).body
    assert f'"{CALL_ID}_2"'.encode() in output
    assert f'"{CALL_ID}"'.encode() not in output


@pytest.mark.parametrize(
    ("dialect", "messages", "expected"),
    [
        ("chat", b'[{"tool_call_id" : "a"},{"content":"\\"tool_call_id\\":\\"b\\""}]', {"a"}),
        ("chat", b'[{"tool_call_id":null},{"tool_call_id":"a\\u0062"}]', {"ab"}),
        ("chat", b'"tool_call_id"', set[str]()),
        ("responses", b'[{"role":"user"},{"call_id":"a"},{"call_id":null}]', {"a"}),
        ("responses", b'"call_id"', set[str]()),
        ("legacy", b'[{"tool_call_id":"a"}]', set[str]()),
    ],
)
def test_call_ids_are_found_in_fields_and_not_in_texts(
    dialect: str, messages: bytes, expected: set[str]
) -> None:
    assert adapters.get_dialect(dialect).find_call_ids(Raw(messages)) == expected


def test_calls_with_new_ids_pass_unchanged() -> None:
    exchange = Exchange("chat", "chat")
    exchange.request(encoded({"model": "m", "stream": True, **HISTORY["chat"]}))
    events = [
        event.replace(CALL_ID.encode(), b"call_new")
        for event in stream_events("chat", Turn(calls=CALLS))
    ]
    assert exchange.translate_stream(events) == b"".join(events)
