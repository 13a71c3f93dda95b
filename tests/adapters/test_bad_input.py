"""Bad input gives one clear error, never another exception or half a reply.

On a request or a whole reply the error is a `DragomanError` that names the path; on a stream it is
the frame that ends it in the client's dialect.
"""

from collections.abc import Mapping
from itertools import product

import msgspec
import pytest

import adapters
from adapters.conformance import Json, Object
from tests.adapters.laws.common import each_pair, each_unequal_pair
from tests.exchange import Exchange

# Minimal requests.
LEAST: dict[str, Object] = {
    "chat": {"model": "m", "messages": []},
    "legacy": {"model": "m", "messages": []},
    "responses": {"model": "m", "input": []},
}


NOT_AN_OBJECT = [
    *(b"", b" ", b"null", b"[]", b'"messages"', b"7"),
    *(b"{", b'{"model"', b'{"model":}', b'{"model":"m",}', b"{'model':'m'}", b'{"model":NaN}'),
    *(b'{"model":"m"}{}', b'{"metadata":{"a":tru}}', b'{"metadata":{"a":01}}'),
    *(b'{"model":"\xff"}', b'{"metadata":{"a":"\xff"}}', b'{"model":"a\nb"}'),
    *(b"\x1f\x8b\x08\x00", b"<html><body>502</body></html>", "{}".encode("utf-16")),
]
each_body_that_is_no_object = pytest.mark.parametrize("body", NOT_AN_OBJECT)


@each_pair
@each_body_that_is_no_object
def test_request_that_is_no_json_object(client: str, backend: str, body: bytes) -> None:
    with pytest.raises(adapters.InvalidRequestError) as caught:
        Exchange(client, backend).request(body)
    assert caught.value.status == 400
    assert caught.value.path in (None, "model")


@each_pair
@each_body_that_is_no_object
def test_reply_that_is_no_json_object(client: str, backend: str, body: bytes) -> None:
    with pytest.raises(adapters.InvalidReplyError) as caught:
        Exchange(client, backend).reply(body)
    assert caught.value.status == 502


@each_pair
@each_body_that_is_no_object
def test_error_that_is_no_json_object(client: str, backend: str, body: bytes) -> None:
    error = Exchange(client, backend).error(503, body)
    assert error.status == 503
    assert msgspec.json.decode(error.body)["error"]["message"]


def said(role: str, content: Json) -> Object:
    return {"messages": [{"role": role, "content": content}]}


def called(call: Json) -> Object:
    return {"messages": [{"role": "assistant", "tool_calls": [call]}]}


def item(**fields: Json) -> Object:
    return {"input": [dict(fields)]}


def rows_of(table: Mapping[str, list[tuple[Object, str]]]) -> list[tuple[str, Object, str]]:
    return [(dialect, *row) for dialect, rows in table.items() for row in rows]


WRONG_REQUESTS: dict[str, list[tuple[Object, str]]] = {
    "chat": [
        ({"model": 3}, "model"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0].role"),
        (said("wizard", "hi"), "messages[0].role"),
        (said("user", 3), "messages[0].content"),
        (said("user", [3]), "messages[0].content[0]"),
        (said("user", [{"type": "text", "text": 3}]), "messages[0].content[0].text"),
        (said("user", [{"type": "image_url", "image_url": 3}]), "messages[0].content[0].image_url"),
        (said("tool", 3), "messages[0].content"),
        (called("x"), "messages[0].tool_calls[0]"),
        (called({"id": 3}), "messages[0].tool_calls[0].id"),
        (called({"function": "x"}), "messages[0].tool_calls[0].function"),
        (called({"function": {"name": []}}), "messages[0].tool_calls[0].function.name"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": 3}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"function": {"name": 3}}]}, "tools[0].function.name"),
        (
            {"tools": [{"function": {"name": "f", "description": []}}]},
            "tools[0].function.description",
        ),
        ({"tool_choice": 3}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {}}}, "tool_choice.function.name"),
        ({"temperature": "hot"}, "temperature"),
        ({"n": [1]}, "n"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"stop": 3}, "stop"),
        ({"stop": ["a", 3]}, "stop[1]"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": 3}}, "stream_options.include_usage"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"web_search_options": 3}, "web_search_options"),
    ],
    "legacy": [
        ({"functions": "x"}, "functions"),
        ({"functions": [{}]}, "functions[0].name"),
        ({"function_call": 3}, "function_call"),
        ({"function_call": {"arguments": "x"}}, "function_call.name"),
        ({"messages": [{"role": "assistant", "function_call": "x"}]}, "messages[0].function_call"),
        ({"messages": [{"role": "function", "name": 3}]}, "messages[0].name"),
    ],
    "responses": [
        ({"model": []}, "model"),
        ({"instructions": 3}, "instructions"),
        ({"input": 3}, "input"),
        ({"input": [3]}, "input[0]"),
        ({"input": [{}]}, "input[0].type"),
        (item(type="message", role="wizard"), "input[0].role"),
        (item(role="user", content=3), "input[0].content"),
        (
            item(role="user", content=[{"type": "input_text", "text": 3}]),
            "input[0].content[0].text",
        ),
        (item(type="function_call", name=3), "input[0].name"),
        (item(type="function_call", call_id=3), "input[0].call_id"),
        (item(type="function_call_output", output=3), "input[0].output"),
        (item(type="reasoning", summary=[3]), "input[0].summary[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "custom", "name": "c", "format": 3}]}, "tools[0].format"),
        ({"tool_choice": {"type": "allowed_tools", "tools": 3}}, "tool_choice.tools"),
        ({"text": {"format": {"type": "json_schema", "name": 3}}}, "text.format.name"),
        ({"text": {"verbosity": 3}}, "text.verbosity"),
        ({"reasoning": "high"}, "reasoning"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
        ({"include": "all"}, "include"),
        ({"include": [3]}, "include[0]"),
        ({"max_output_tokens": "many"}, "max_output_tokens"),
        ({"prompt_cache_options": {"ttl": 30}}, "prompt_cache_options.ttl"),
    ],
}


@pytest.mark.parametrize(("dialect", "body", "path"), rows_of(WRONG_REQUESTS))
def test_wrong_type_in_a_request_names_its_path(dialect: str, body: Object, path: str) -> None:
    # Between equal dialects it passes, and the backend checks it.
    for backend in adapters.DIALECTS.keys() - {dialect}:
        with pytest.raises(adapters.InvalidRequestError) as caught:
            Exchange(dialect, backend).request(msgspec.json.encode(LEAST[dialect] | body))
        assert caught.value.path == path
        problem = Exchange(dialect, backend).own_error(caught.value)
        assert problem.status == 400
        assert msgspec.json.decode(problem.body)["error"]["param"] == path


def answered(message: Json, **more: Json) -> Object:
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **more}


WRONG_REPLIES: dict[str, list[tuple[Object, str]]] = {
    "chat": [
        ({}, "choices"),
        ({"choices": []}, "choices"),
        ({"choices": {}}, "choices"),
        ({"choices": [3]}, "choices[0]"),
        (answered("hi"), "choices[0].message"),
        (answered({"content": 3}), "choices[0].message.content"),
        (answered({"tool_calls": 3}), "choices[0].message.tool_calls"),
        (answered({"tool_calls": [{"function": 3}]}), "choices[0].message.tool_calls[0].function"),
    ],
    "legacy": [(answered({"function_call": 3}), "choices[0].message.function_call")],
    "responses": [
        ({}, "output"),
        ({"output": {}}, "output"),
        ({"output": [3]}, "output[0]"),
        ({"output": [{}]}, "output[0].type"),
        ({"output": [{"type": "message", "role": "assistant", "content": 3}]}, "output[0].content"),
        ({"output": [{"type": "function_call", "name": 3}]}, "output[0].name"),
        ({"output": [], "status": 3}, "status"),
        ({"output": [], "incomplete_details": 3}, "incomplete_details"),
    ],
}


@pytest.mark.parametrize(("dialect", "body", "path"), rows_of(WRONG_REPLIES))
def test_wrong_type_in_a_reply_names_its_path(dialect: str, body: Object, path: str) -> None:
    others = adapters.DIALECTS.keys() - {dialect}
    for client, turn in product(others, (Exchange.reply, Exchange.reply_as_stream)):
        with pytest.raises(adapters.InvalidReplyError) as caught:
            turn(Exchange(client, dialect), msgspec.json.encode(body))
        assert caught.value.path == path


def test_unknown_dialect() -> None:
    for pair in (("anthropic", "chat"), ("chat", ""), ("Chat", "legacy")):
        with pytest.raises(
            adapters.InvalidRequestError, match="must be one of chat, responses, legacy"
        ):
            Exchange(*pair)
    with pytest.raises(adapters.InvalidRequestError) as caught:
        adapters.check("chatty", b"")
    assert caught.value.path == "dialect"


# Too deep for functions with three, two and one frame per level, and for the decoder.
DEPTHS = (*range(100, 1100, 100), 100_000)
DEEP: list[tuple[bytes, bytes, bytes]] = [
    (b"[", b"1", b"]"),
    (b'{"a":', b"null", b"}"),
    (b'{"anyOf":[', b'{"type":null}', b"]}"),
    (b'{"additionalProperties":false,"required":["a"],"properties":{"a":', b"1", b"}}"),
]
DEEP_PLACES = {
    "chat": [
        b'"messages":%b',
        b'"messages":[{"role":"user","content":[%b]}]',
        b'"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":%b}}]}]',
        b'"messages":[],"tools":[{"function":{"name":"f","parameters":%b}}]',
        b'"messages":[],"some_option":%b',
    ],
    "legacy": [b'"messages":[],"functions":[{"name":"f","parameters":%b}]'],
    "responses": [
        b'"input":%b',
        b'"input":[{"type":"some_item","inner":%b}]',
        b'"input":[],"tools":[{"type":"function","name":"f","parameters":%b}]',
        b'"input":[],"text":{"format":{"type":"json_schema","name":"s","schema":%b}}',
    ],
}


@each_pair
def test_deep_nesting(client: str, backend: str) -> None:
    for place, (before, core, after) in product(DEEP_PLACES[client], DEEP):
        for depth in DEPTHS:
            deep = before * depth + core + after * depth
            body = b'{"model":"m",%b}' % place.replace(b"%b", deep)
            try:
                Exchange(client, backend).request(body)
            except adapters.DragomanError:
                continue
            except RecursionError:
                pytest.fail(f"{place!r} with {before!r} {depth} deep", pytrace=False)


@each_unequal_pair
def test_large_request(client: str, backend: str) -> None:
    """A text of 50 MB passes, and nothing grows faster than it."""
    text = "fifty megabytes… " * (50_000_000 // 17)
    name = "input" if client == "responses" else "messages"
    body = msgspec.json.encode({"model": "m", name: [{"role": "user", "content": text}]})
    written = Exchange(client, backend).request(body).body
    assert text.encode() in written
    assert len(written) < len(body) + 1000


@each_unequal_pair
def test_request_with_many_calls(client: str, backend: str) -> None:
    """None of the calls has an output."""
    calls: list[Json] = [
        {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"}
        if client == "responses"
        else {"role": "assistant", "function_call": {"name": "f", "arguments": f"{number}"}}
        for number in range(5_000)
    ]
    name = "input" if client == "responses" else "messages"
    body = msgspec.json.encode({"model": "m", name: calls})
    assert len(Exchange(client, backend).request(body).losses) >= len(calls)
