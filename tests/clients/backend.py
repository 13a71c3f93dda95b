"""The backend of the clients: two tool calls and their results, then a second turn.

The reply follows from the history of a request alone. The path names the backend's dialect, and the
model its quirk. The model of a client that makes one call at a time has `serial` in its name; other
clients must send both results at once.
"""

import json
import re
from collections.abc import Sequence
from functools import partial
from secrets import token_hex

from gateway.pytest_plugin.scripted_backend import (
    ReceivedRequest,
    Script,
    ScriptedBackend,
    json_reply,
    stream_reply,
)
from tests.clients.quirks import (
    CHAT,
    LEGACY,
    NO_DONE,
    NO_STREAM,
    NOT_SERIAL,
    OTHER_CALLS,
    QUIRKS,
    RESPONSES,
    apply_quirk,
)
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.gateway.gateway_config import DIALECTS
from tests.judges.reading import JsonObject, object_in, objects_in
from tests.judges.sample_streams import DONE, responses_stream

QUESTION = "What is the weather in Zürich, and what time is it in 東京?"
FAREWELL = "Thank you! Say goodbye in the language of the first city."
CALLS = (Call("get_weather", '{"city": "Zürich"}'), Call("get_time", '{"city": "東京"}'))
RESULTS = ("Zürich: sunny ☀", "東京: 14:05")
ANSWERS = (" / ".join(RESULTS), "Uf Widerluege, 世界!")
# Codex runs commands, by itself or from JavaScript.
_COMMANDS = [f"echo '{result}'" for result in RESULTS]
_SCRIPTS = [
    f"text((await tools.exec_command({{cmd: {json.dumps(one)}}})).output)" for one in _COMMANDS
]
_CALLS_OF_CLIENTS = (
    CALLS,
    tuple(Call("exec_command", json.dumps({"cmd": command})) for command in _COMMANDS),
    tuple(Call("exec", json.dumps({"input": script})) for script in _SCRIPTS),
)
# The ids of replies and items; those of calls are unique already.
_ID = re.compile(rb'"(chatcmpl|resp|msg|fc)[-_](\d+)"')
# Agents of this kind end with a call of this tool instead of a text.
FINAL_TOOL = "final_answer"
# The dialects whose calls a backend with another form of calls sends.
_OTHER_FORMS = {CHAT: LEGACY, LEGACY: CHAT}
# In the name of a model whose client makes one call at a time.
SERIAL = "serial"


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
        turn = next_turn(body, dialect, quirk)
    except (HistoryError, AssertionError, KeyError, ValueError) as error:
        shown = {"message": f"history: {error!r}", "type": "invalid_request_error"}
        return json_reply(json.dumps({"error": shown}).encode(), status=400)
    if dialect == LEGACY or quirk == OTHER_CALLS:
        turn = turn.for_legacy()
    form = _OTHER_FORMS[dialect] if quirk == OTHER_CALLS else dialect
    if body.get("stream") is not True or quirk == NO_STREAM:
        (whole,) = apply_quirk(quirk, _with_new_ids([reply_body(form, turn)]), dialect)
        return json_reply(json.dumps(whole).encode())
    usage = body.get("stream_options") == {"include_usage": True}
    events = [event for event in stream_events(form, turn, usage=usage) if event != DONE]
    data = [event.partition(b"data: ")[2] for event in events]
    payloads = apply_quirk(quirk, _with_new_ids(data), dialect)
    if dialect == RESPONSES:
        return stream_reply(*(responses_stream([payload], end=b"") for payload in payloads))
    end = b"" if quirk == NO_DONE else DONE
    return stream_reply(*(b"data: %s\n\n" % json.dumps(one).encode() for one in payloads), end)


def _with_new_ids(bodies: list[bytes]) -> list[bytes]:
    """Return the objects of a reply with ids of its own, because clients merge equal messages."""
    token = token_hex(8).encode()
    return [_ID.sub(rb'"\1_%b\2"' % token, body) for body in bodies]


def next_turn(body: JsonObject, dialect: str, quirk: str = "none") -> Turn:
    """Return the model's turn after a history; raise `HistoryError` if it is inconsistent."""
    prompt, results = _read_history(body, dialect)
    tools = _tool_names(body, dialect)
    if FAREWELL in prompt:
        return _answer(ANSWERS[1], tools)
    if len(results) == len(CALLS):
        return _answer(" / ".join(results[number] for number in range(len(CALLS))), tools)
    one_by_one = dialect == LEGACY or quirk == OTHER_CALLS
    if results and not one_by_one and SERIAL not in str(body["model"]):
        raise HistoryError(f"of two calls only {[*results]} has a result")
    wanted = _forced_tool(body) or tools
    calls = [
        Call(tool, call.arguments)
        for known in _CALLS_OF_CLIENTS
        for number, call in enumerate(known)
        for tool in wanted
        if _is_tool(tool, call) and number not in results
    ]
    if not calls:
        raise HistoryError(f"no tool to call among {tools}")
    parallel = body.get("parallel_tool_calls", True) or quirk == NOT_SERIAL
    return Turn(calls=tuple(calls if parallel else calls[:1]))


def _is_tool(tool: str, call: Call) -> bool:
    """Whether a tool of the client, whose name may have a prefix, is the one of a call."""
    return tool == call.name or (call in CALLS and tool.endswith(call.name))


def _answer(text: str, tools: Sequence[str]) -> Turn:
    arguments = json.dumps({"answer": text}, ensure_ascii=False)
    final = [Call(name, arguments) for name in tools if name.endswith(FINAL_TOOL)]
    return Turn(calls=tuple(final)) if final else Turn(text)


def _forced_tool(body: JsonObject) -> list[str]:
    """Return the tool that the model must call, if the request names one."""
    choice = body.get("tool_choice") or body.get("function_call")
    if not isinstance(choice, dict):
        return []
    named = object_in({"choice": choice}, "choice")
    return [str(object_in(named, "function")["name"] if "function" in named else named["name"])]


def _tool_names(body: JsonObject, dialect: str) -> list[str]:
    if dialect == LEGACY:
        return [str(one["name"]) for one in objects_in(body, "functions")]
    tools = objects_in(body, "tools") if body.get("tools") else []
    functions = [object_in(tool, "function") if dialect == CHAT else tool for tool in tools]
    return [str(one.get("name")) for one in functions]


# The history


def _read_history(body: JsonObject, dialect: str) -> tuple[str, dict[int, str]]:
    """Return the last prompt, and the results after it by the numbers of the calls."""
    prompt = ""
    calls: dict[str, int | None] = {}
    results: dict[int, str] = {}
    for entry in _entries(body, dialect):
        match entry:
            case ("user", text) if any(result in text for result in RESULTS):
                # Some agents write results as texts of the user.
                prompt += text
                results |= {number: one for number, one in enumerate(RESULTS) if one in text}
            case ("user", text):
                prompt, results = text, {}
            case ("call", call_id, name, arguments):
                # Legacy calls have no ids but the names of their tools.
                if not call_id or (call_id in calls and dialect != LEGACY):
                    raise HistoryError(f"two calls with id {call_id!r}, or none")
                calls[call_id] = _number_of_call(name, arguments)
            case (_, call_id, text):
                if call_id not in calls:
                    raise HistoryError(f"a result of the unknown call {call_id!r}")
                number = calls[call_id]
                if number is not None:
                    results[number] = RESULTS[number] if RESULTS[number] in text else _plain(text)
            case _:
                pass
    return prompt, results


def _number_of_call(name: str, arguments: str) -> int | None:
    """Return which of its tools' calls this is, or None for other tools."""
    given: object = json.loads(arguments)
    known = [
        (number, json.loads(call.arguments) == given)
        for calls in _CALLS_OF_CLIENTS
        for number, call in enumerate(calls)
        if _is_tool(name, call)
    ]
    if known and not any(same for _, same in known):
        raise HistoryError(f"the arguments of {name} were {arguments!r}")
    return next((number for number, same in known if same), None)


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
