"""Requests that a backend received, parsed independently of their dialect."""

from dataclasses import dataclass

from gateway.pytest_plugin.scripted_backend import ReceivedRequest
from tests.gateway.backend_replies import Call
from tests.judges import sdk
from tests.judges.reading import JsonObject, as_object, object_in, objects_in, text_in

ENDPOINT_PATHS = {
    "chat": "/chat/completions",
    "legacy": "/chat/completions",
    "responses": "/responses",
}


@dataclass(frozen=True)
class ParsedRequest:
    """The parts that a request has in every dialect."""

    tools: tuple[str, ...]
    # The tool that the model must call.
    forced_tool: str | None
    is_stream: bool
    # The calls in the history with their results.
    results: tuple[tuple[Call, str], ...]


# Fields that the stream helpers of the SDK add to the turns that clients send back.
SDK_EXTRA_FIELDS = {
    "chat": ("parsed", "parsed_arguments", "annotations", "index"),
    "legacy": (),
    "responses": ("parsed", "parsed_arguments"),
}


def parse_request(
    dialect: str, request: ReceivedRequest, *, is_passthrough: bool = False
) -> ParsedRequest:
    """Parse a request and validate it by the rules of its dialect.

    A client of the same dialect may send the extra fields of its SDK.
    """
    extra_fields = SDK_EXTRA_FIELDS[dialect] if is_passthrough else ()
    assert request.method == "POST"
    assert request.target.endswith(f"/v1{ENDPOINT_PATHS[dialect]}")
    assert request.headers["content-type"] == "application/json"
    body = request.json()
    if dialect == "responses":
        sdk.judge_responses_request(request.body, beyond=extra_fields)
        return _read_responses(body)
    sdk.judge_chat_request(request.body, beyond=extra_fields)
    return _read_chat(body) if dialect == "chat" else _read_legacy(body)


def _read_chat(body: JsonObject) -> ParsedRequest:
    assert "functions" not in body
    tools = [text_in(object_in(tool, "function"), "name") for tool in objects_in(body, "tools")]
    choice = body.get("tool_choice", "auto")
    function = None if choice == "auto" else object_in(object_in(body, "tool_choice"), "function")
    forced = None if function is None else text_in(function, "name")
    calls: dict[str, Call] = {}
    results: list[tuple[Call, str]] = []
    for message in objects_in(body, "messages"):
        assert not message.get("function_call")
        for call in objects_in(message, "tool_calls") if message.get("tool_calls") else ():
            calls[text_in(call, "id")] = _call(object_in(call, "function"))
        if message["role"] == "tool":
            answered = calls.pop(text_in(message, "tool_call_id"))
            results.append((answered, text_in(message, "content")))
    assert not calls, f"calls without a result: {calls}"
    return ParsedRequest(tuple(tools), forced, body.get("stream") is True, tuple(results))


def _read_legacy(body: JsonObject) -> ParsedRequest:
    assert "tools" not in body
    names = [text_in(function, "name") for function in objects_in(body, "functions")]
    choice = body.get("function_call", "auto")
    forced = None if choice == "auto" else text_in(as_object(choice, "function_call"), "name")
    last: Call | None = None
    results: list[tuple[Call, str]] = []
    for message in objects_in(body, "messages"):
        assert not message.get("tool_calls")
        if message.get("function_call"):
            last = _call(object_in(message, "function_call"))
        if message["role"] == "function":
            assert last is not None
            assert last.name == message["name"]
            results.append((last, text_in(message, "content")))
    return ParsedRequest(tuple(names), forced, body.get("stream") is True, tuple(results))


def _read_responses(body: JsonObject) -> ParsedRequest:
    tools = [text_in(tool, "name") for tool in objects_in(body, "tools")]
    choice = body.get("tool_choice", "auto")
    forced = None if choice == "auto" else text_in(as_object(choice, "tool_choice"), "name")
    calls: dict[str, Call] = {}
    results: list[tuple[Call, str]] = []
    for item in objects_in(body, "input"):
        if item.get("type") == "function_call":
            calls[text_in(item, "call_id")] = _call(item)
        if item.get("type") == "function_call_output":
            results.append((calls.pop(text_in(item, "call_id")), text_in(item, "output")))
    assert not calls, f"calls without a result: {calls}"
    return ParsedRequest(tuple(tools), forced, body.get("stream") is True, tuple(results))


def _call(fields: JsonObject) -> Call:
    return Call(text_in(fields, "name"), text_in(fields, "arguments"))
