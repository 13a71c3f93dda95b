"""Bad input gives one clear error, never another exception or half a reply.

On a request or a whole reply the error is a `DragomanError` that names the path; on a stream it is
the frame that ends it in the client's dialect.
"""

from itertools import product

import msgspec
import pytest

import adapters
from tests.exchange import Exchange

PAIRS = list(product(adapters.DIALECTS, adapters.DIALECTS))
ACROSS = [(client, backend) for client, backend in PAIRS if client != backend]
NAMES = list(adapters.DIALECTS)

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Object = dict[str, Json]

# Minimal requests.
LEAST: dict[str, Object] = {
    "chat": {"model": "m", "messages": []},
    "legacy": {"model": "m", "messages": []},
    "responses": {"model": "m", "input": []},
}

each_pair = pytest.mark.parametrize(("client", "backend"), PAIRS)
each_unequal_pair = pytest.mark.parametrize(("client", "backend"), ACROSS)


# No JSON object

NOT_AN_OBJECT = [
    b"",
    b" ",
    b"null",
    b"[]",
    b'"messages"',
    b"7",
    b"{",
    b'{"model"',
    b'{"model":}',
    b'{"model":"m",}',
    b"{'model':'m'}",
    b'{"model":NaN}',
    b'{"model":"m"}{}',
    b'{"metadata":{"a":tru}}',
    b'{"metadata":{"a":01}}',
    b'{"model":"\xff"}',
    b'{"metadata":{"a":"\xff"}}',
    b'{"model":"a\nb"}',
    b"\x1f\x8b\x08\x00",
    b"<html><body>502</body></html>",
    "{}".encode("utf-16"),
]


@each_pair
@pytest.mark.parametrize("body", NOT_AN_OBJECT)
def test_request_that_is_no_json_object(client: str, backend: str, body: bytes) -> None:
    with pytest.raises(adapters.InvalidRequestError) as caught:
        Exchange(client, backend).request(body)
    assert caught.value.status == 400
    assert caught.value.path in (None, "model")


@each_pair
@pytest.mark.parametrize("body", NOT_AN_OBJECT)
def test_reply_that_is_no_json_object(client: str, backend: str, body: bytes) -> None:
    with pytest.raises(adapters.InvalidReplyError) as caught:
        Exchange(client, backend).reply(body)
    assert caught.value.status == 502


@each_pair
@pytest.mark.parametrize("body", NOT_AN_OBJECT)
def test_error_that_is_no_json_object(client: str, backend: str, body: bytes) -> None:
    told = Exchange(client, backend).error(503, body)
    assert told.status == 503
    assert msgspec.json.decode(told.body)["error"]["message"]


# Wrong types, which the error names by path


def said(role: str, content: Json) -> Object:
    return {"messages": [{"role": role, "content": content}]}


def called(call: Json) -> Object:
    return {"messages": [{"role": "assistant", "tool_calls": [call]}]}


def item(**fields: Json) -> Object:
    return {"input": [dict(fields)]}


WRONG_REQUESTS: list[tuple[str, Object, str]] = [
    ("chat", {"model": 3}, "model"),
    ("chat", {"messages": "hi"}, "messages"),
    ("chat", {"messages": ["hi"]}, "messages[0]"),
    ("chat", {"messages": [{}]}, "messages[0].role"),
    ("chat", said("wizard", "hi"), "messages[0].role"),
    ("chat", said("user", 3), "messages[0].content"),
    ("chat", said("user", [3]), "messages[0].content[0]"),
    ("chat", said("user", [{"type": "text", "text": 3}]), "messages[0].content[0].text"),
    (
        "chat",
        said("user", [{"type": "image_url", "image_url": 3}]),
        "messages[0].content[0].image_url",
    ),
    ("chat", said("tool", 3), "messages[0].content"),
    ("chat", called("x"), "messages[0].tool_calls[0]"),
    ("chat", called({"id": 3}), "messages[0].tool_calls[0].id"),
    ("chat", called({"function": "x"}), "messages[0].tool_calls[0].function"),
    ("chat", called({"function": {"name": []}}), "messages[0].tool_calls[0].function.name"),
    ("chat", {"tools": {}}, "tools"),
    ("chat", {"tools": [{"type": 3}]}, "tools[0].type"),
    ("chat", {"tools": [{"type": "function"}]}, "tools[0].name"),
    ("chat", {"tools": [{"function": {"name": 3}}]}, "tools[0].function.name"),
    (
        "chat",
        {"tools": [{"function": {"name": "f", "description": []}}]},
        "tools[0].function.description",
    ),
    ("chat", {"tool_choice": 3}, "tool_choice"),
    ("chat", {"tool_choice": {"type": "function", "function": {}}}, "tool_choice.function.name"),
    ("chat", {"temperature": "hot"}, "temperature"),
    ("chat", {"n": [1]}, "n"),
    ("chat", {"max_completion_tokens": 1.5}, "max_completion_tokens"),
    ("chat", {"stop": 3}, "stop"),
    ("chat", {"stop": ["a", 3]}, "stop[1]"),
    ("chat", {"stream": "yes"}, "stream"),
    ("chat", {"stream_options": {"include_usage": 3}}, "stream_options.include_usage"),
    ("chat", {"response_format": "json"}, "response_format"),
    ("chat", {"response_format": {"type": "xml"}}, "response_format.type"),
    ("chat", {"web_search_options": 3}, "web_search_options"),
    ("legacy", {"functions": "x"}, "functions"),
    ("legacy", {"functions": [{}]}, "functions[0].name"),
    ("legacy", {"function_call": 3}, "function_call"),
    ("legacy", {"function_call": {"arguments": "x"}}, "function_call.name"),
    (
        "legacy",
        {"messages": [{"role": "assistant", "function_call": "x"}]},
        "messages[0].function_call",
    ),
    ("legacy", {"messages": [{"role": "function", "name": 3}]}, "messages[0].name"),
    ("responses", {"model": []}, "model"),
    ("responses", {"instructions": 3}, "instructions"),
    ("responses", {"input": 3}, "input"),
    ("responses", {"input": [3]}, "input[0]"),
    ("responses", {"input": [{}]}, "input[0].type"),
    ("responses", item(type="message", role="wizard"), "input[0].role"),
    ("responses", item(role="user", content=3), "input[0].content"),
    (
        "responses",
        item(role="user", content=[{"type": "input_text", "text": 3}]),
        "input[0].content[0].text",
    ),
    ("responses", item(type="function_call", name=3), "input[0].name"),
    ("responses", item(type="function_call", call_id=3), "input[0].call_id"),
    ("responses", item(type="function_call_output", output=3), "input[0].output"),
    ("responses", item(type="reasoning", summary=[3]), "input[0].summary[0]"),
    ("responses", {"tools": [{"type": "function"}]}, "tools[0].name"),
    ("responses", {"tools": [{"type": "custom", "name": "c", "format": 3}]}, "tools[0].format"),
    ("responses", {"tool_choice": {"type": "allowed_tools", "tools": 3}}, "tool_choice.tools"),
    ("responses", {"text": {"format": {"type": "json_schema", "name": 3}}}, "text.format.name"),
    ("responses", {"text": {"verbosity": 3}}, "text.verbosity"),
    ("responses", {"reasoning": "high"}, "reasoning"),
    ("responses", {"reasoning": {"effort": 3}}, "reasoning.effort"),
    ("responses", {"include": "all"}, "include"),
    ("responses", {"include": [3]}, "include[0]"),
    ("responses", {"max_output_tokens": "many"}, "max_output_tokens"),
    ("responses", {"prompt_cache_options": {"ttl": 30}}, "prompt_cache_options.ttl"),
]


@pytest.mark.parametrize(("dialect", "body", "path"), WRONG_REQUESTS)
def test_wrong_type_in_a_request_names_its_path(dialect: str, body: Object, path: str) -> None:
    # Between equal dialects it passes, and the backend checks it.
    for backend in set(NAMES) - {dialect}:
        with pytest.raises(adapters.InvalidRequestError) as caught:
            Exchange(dialect, backend).request(msgspec.json.encode(LEAST[dialect] | body))
        assert caught.value.path == path
        problem = Exchange(dialect, backend).own_error(caught.value)
        assert problem.status == 400
        assert msgspec.json.decode(problem.body)["error"]["param"] == path


def answered(message: Json, **more: Json) -> Object:
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **more}


WRONG_REPLIES: list[tuple[str, Object, str]] = [
    ("chat", {}, "choices"),
    ("chat", {"choices": []}, "choices"),
    ("chat", {"choices": {}}, "choices"),
    ("chat", {"choices": [3]}, "choices[0]"),
    ("chat", answered("hi"), "choices[0].message"),
    ("chat", answered({"content": 3}), "choices[0].message.content"),
    ("chat", answered({"tool_calls": 3}), "choices[0].message.tool_calls"),
    (
        "chat",
        answered({"tool_calls": [{"function": 3}]}),
        "choices[0].message.tool_calls[0].function",
    ),
    ("chat", answered({}, created="today"), "created"),
    ("legacy", answered({"function_call": 3}), "choices[0].message.function_call"),
    ("responses", {}, "output"),
    ("responses", {"output": {}}, "output"),
    ("responses", {"output": [3]}, "output[0]"),
    ("responses", {"output": [{}]}, "output[0].type"),
    (
        "responses",
        {"output": [{"type": "message", "role": "assistant", "content": 3}]},
        "output[0].content",
    ),
    ("responses", {"output": [{"type": "function_call", "name": 3}]}, "output[0].name"),
    ("responses", {"output": [], "status": 3}, "status"),
    ("responses", {"output": [], "incomplete_details": 3}, "incomplete_details"),
]


@pytest.mark.parametrize(("dialect", "body", "path"), WRONG_REPLIES)
def test_wrong_type_in_a_reply_names_its_path(dialect: str, body: Object, path: str) -> None:
    others = set(NAMES) - {dialect}
    for client, turn in product(others, (Exchange.reply, Exchange.reply_as_stream)):
        with pytest.raises(adapters.InvalidReplyError) as caught:
            turn(Exchange(client, dialect), msgspec.json.encode(body))
        assert caught.value.path == path


# Unknown dialects, deep and large input


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
    """Of a thousand calls none has an output."""
    calls: list[Json] = [
        {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"}
        if client == "responses"
        else {"role": "assistant", "function_call": {"name": "f", "arguments": f"{number}"}}
        for number in range(5_000)
    ]
    name = "input" if client == "responses" else "messages"
    body = msgspec.json.encode({"model": "m", name: calls})
    assert len(Exchange(client, backend).request(body).losses) >= len(calls)
