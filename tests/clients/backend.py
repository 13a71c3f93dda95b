"""The backend of the clients: two tool calls and their results, then a second turn.

The reply follows from the history of a request alone. The path names the backend's dialect, and the
model its quirk.
"""

import json
from collections.abc import Sequence
from functools import partial

from tests.clients.quirks import CHAT, LEGACY, NO_DONE, QUIRKS, RESPONSES, apply_quirk
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.gateway.scripted_backend import (
    ReceivedRequest,
    Script,
    ScriptedBackend,
    json_reply,
    stream_reply,
)
from tests.judges.reading import JsonObject, object_in, objects_in
from tests.judges.sample_streams import DONE, responses_stream

DIALECTS = (CHAT, RESPONSES, LEGACY)
QUESTION = "What is the weather in Zürich, and what time is it in 東京?"
FAREWELL = "Thank you! Say goodbye in the language of the first city."
CALLS = (Call("get_weather", '{"city": "Zürich"}'), Call("get_time", '{"city": "東京"}'))
RESULTS = ("Zürich: sunny ☀", "東京: 14:05")
ANSWERS = (" / ".join(RESULTS), "Uf Widerluege, 世界!")
# Agents of this kind end with a call of this tool instead of a text.
FINAL_TOOL = "final_answer"


class HistoryError(Exception):
    """A history that no strict backend accepts."""


def model_name(dialect: str, quirk: str, pattern: str = "{}") -> str:
    return pattern.format(f"{dialect}-{quirk}".replace(" ", "-").replace("[DONE]", "done"))


def script_backend(backend: ScriptedBackend, pattern: str = "{}") -> None:
    """Serve the model of each dialect and quirk."""
    for dialect in DIALECTS:
        for quirk in QUIRKS:
            model = model_name(dialect, quirk, pattern)
            for route in (model, f"POST /{dialect}/v1/engines/{model}/chat/completions"):
                backend.respond_with(route, partial(_reply, dialect, quirk))


def _reply(dialect: str, quirk: str, request: ReceivedRequest) -> Script:
    body = request.json()
    try:
        turn = next_turn(body, dialect)
    except (HistoryError, AssertionError, KeyError) as error:
        shown = {"message": f"history: {error!r}", "type": "invalid_request_error"}
        return json_reply(json.dumps({"error": shown}).encode(), status=400)
    if dialect == LEGACY:
        turn = turn.for_legacy()
    if body.get("stream") is not True:
        (whole,) = apply_quirk(quirk, [reply_body(dialect, turn)], dialect)
        return json_reply(json.dumps(whole).encode())
    usage = body.get("stream_options") == {"include_usage": True}
    events = [event for event in stream_events(dialect, turn, usage=usage) if event != DONE]
    data = [event.partition(b"data: ")[2] for event in events]
    payloads = apply_quirk(quirk, data, dialect)
    if dialect == RESPONSES:
        return stream_reply(*(responses_stream([payload], end=b"") for payload in payloads))
    end = b"" if quirk == NO_DONE else DONE
    return stream_reply(*(b"data: %s\n\n" % json.dumps(one).encode() for one in payloads), end)


def next_turn(body: JsonObject, dialect: str) -> Turn:
    """Return the model's turn after a history; raise `HistoryError` if it is inconsistent."""
    prompt, results = _read_history(body, dialect)
    tools = _tool_names(body, dialect)
    if FAREWELL in prompt:
        return _answer(ANSWERS[1], tools)
    pending = [call for call in CALLS if call.name not in results]
    if pending:
        return Turn(calls=tuple(Call(_offered(one.name, tools), one.arguments) for one in pending))
    return _answer(" / ".join(results[call.name] for call in CALLS), tools)


def _answer(text: str, tools: Sequence[str]) -> Turn:
    if FINAL_TOOL in tools:
        return Turn(calls=(Call(FINAL_TOOL, json.dumps({"answer": text}, ensure_ascii=False)),))
    return Turn(text)


def _offered(name: str, tools: Sequence[str]) -> str:
    """Return the client's name of a tool, which may have a prefix."""
    found = next((tool for tool in tools if tool.endswith(name)), None)
    if found is None:
        raise HistoryError(f"{name} is not among the tools {[*tools]}")
    return found


def _tool_names(body: JsonObject, dialect: str) -> list[str]:
    if dialect == LEGACY:
        return [str(one["name"]) for one in objects_in(body, "functions")]
    tools = objects_in(body, "tools") if body.get("tools") else []
    functions = [object_in(tool, "function") if dialect == CHAT else tool for tool in tools]
    return [str(one.get("name")) for one in functions]


# The history


def _read_history(body: JsonObject, dialect: str) -> tuple[str, dict[str, str]]:
    """Return the last prompt, and the results after it by the names of the tools."""
    prompt = ""
    calls: dict[str, Call] = {}
    results: dict[str, str] = {}
    for entry in _entries(body, dialect):
        match entry:
            case ("user", text):
                prompt, results = text, {}
            case ("call", call_id, name, arguments):
                if not call_id or call_id in calls:
                    raise HistoryError(f"two calls with id {call_id!r}, or none")
                calls[call_id] = _known_call(name, arguments)
            case (_, call_id, text):
                if call_id not in calls:
                    raise HistoryError(f"a result of the unknown call {call_id!r}")
                results[calls[call_id].name] = _plain(text)
            case _:
                pass
    return prompt, results


def _known_call(name: str, arguments: str) -> Call:
    known = next((call for call in CALLS if name.endswith(call.name)), None)
    if known is not None and json.loads(arguments) != json.loads(known.arguments):
        raise HistoryError(f"the arguments of {name} were {arguments!r}")
    return known or Call(name, arguments)


Entry = tuple[str, ...]


def _entries(body: JsonObject, dialect: str) -> list[Entry]:
    if dialect == RESPONSES:
        if isinstance(body["input"], str):
            return [("user", body["input"])]
        return [_item_entry(item) for item in objects_in(body, "input")]
    entries: list[Entry] = []
    for message in objects_in(body, "messages"):
        for call in objects_in(message, "tool_calls") if message.get("tool_calls") else ():
            function = object_in(call, "function")
            entries.append(("call", str(call["id"]), *_function_texts(function)))
        if message.get("function_call"):
            name, arguments = _function_texts(object_in(message, "function_call"))
            # Legacy calls have no ids; each tool is called once.
            entries.append(("call", name, name, arguments))
        text = _text(message.get("content"))
        match message["role"]:
            case "user":
                entries.append(("user", text))
            case "tool":
                entries.append(("result", str(message["tool_call_id"]), text))
            case "function":
                entries.append(("result", str(message["name"]), text))
            case _:
                pass
    return entries


def _item_entry(item: JsonObject) -> Entry:
    match item.get("type", "message"):
        case "message" if item["role"] == "user":
            return ("user", _text(item["content"]))
        case "function_call":
            return ("call", str(item["call_id"]), *_function_texts(item))
        case "function_call_output":
            return ("result", str(item["call_id"]), _text(item["output"]))
        case _:
            return ()


def _function_texts(function: JsonObject) -> tuple[str, str]:
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        raise HistoryError(f"arguments are no string: {arguments!r}")
    return str(function["name"]), arguments


def _text(content: object) -> str:
    if isinstance(content, list):
        parts = objects_in({"content": content}, "content")
        return "".join(str(part.get("text", "")) for part in parts)
    return "" if content is None else str(content)


def _plain(result: str) -> str:
    """Return a result without the JSON that some clients write it in."""
    try:
        value: object = json.loads(result)
    except ValueError:
        return result
    return value if isinstance(value, str) else result
