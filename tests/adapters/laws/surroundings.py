"""Requests in which a value of the openai package's types makes sense, such as a choice of a tool
that is declared, or an output whose call comes before it."""

from collections.abc import Callable

from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

import adapters
from adapters.conformance import Json, Object
from tests.judges.samples import encoded
from tests.judges.walk import Path, Sample, Walk

REQUESTS: dict[str, type] = {
    "chat": CompletionCreateParamsNonStreaming,
    "responses": ResponseCreateParamsNonStreaming,
}

SCHEMA: Json = {"type": "object", "properties": {}}
# Values where the types allow more than makes sense.
PREPARED: dict[str, Json] = {
    "ChatCompletionAllowedToolsParam.tools": [{"type": "function", "function": {"name": "some"}}],
    "JSONSchema.schema": SCHEMA,
    # Equal to `content`, it would not be missed.
    "Summary.text": "a summary",
    "ToolChoiceAllowedParam.tools": [{"type": "function", "name": "some"}],
    "ToolChoiceTypesParam.type": "web_search_preview",
}
# Fields that are not together with others of their object.
APART = {
    "ChatCompletionAssistantMessageParam.function_call",
    "AllOf.id",
}
WALKS = (Walk(PREPARED), Walk(PREPARED, complete=True, apart=APART))

# The names that the walk gives to tools.
NAMES = ("some", "other")
_OUTPUT = "_output"


def client_of(dialect: str, body: Json) -> str:
    """Return the dialect of a request; Chat and legacy have one type."""
    assert isinstance(body, dict)
    legacy = adapters.get_dialect("legacy")
    is_legacy = dialect == "chat" and legacy.matches(adapters.parse_body(encoded({**body})))
    return "legacy" if is_legacy else dialect


def surrounded(dialect: str, sample: Sample) -> tuple[Json, Path]:
    """Return a request in which the sample makes sense, and the path of its field in there."""
    assert isinstance(sample.value, dict)
    body: Object = {"model": "m", **sample.value}
    if dialect == "responses":
        body.setdefault("input", "hi")
    field = str(sample.path[0])
    if field == "stream_options":
        body["stream"] = True
    elif field in _TOOL_SETTINGS:
        body |= _TOOL_SETTINGS[field](dialect, body.get(field))
    elif field == "top_logprobs" and dialect == "chat":
        body["logprobs"] = True
    elif field in ("messages", "input") and len(sample.path) > 1:
        return _after_its_call(body, field, sample.path)
    return body, sample.path


def _declared_tools(dialect: str, choice: Json) -> Object:
    kind = choice["type"] if isinstance(choice, dict) else "function"
    if dialect == "chat":
        kind = "custom" if kind == "custom" else "function"
        return {"tools": [{"type": kind, str(kind): {"name": name}} for name in NAMES]}
    match kind:
        case "custom":
            return {"tools": [{"type": "custom", "name": name} for name in NAMES]}
        case "function" | "allowed_tools":
            function: Object = {"type": "function", "parameters": SCHEMA, "strict": False}
            return {"tools": [{**function, "name": name} for name in NAMES]}
        case _:
            assert isinstance(choice, dict)
            return {"tools": [{k: v for k, v in choice.items() if k in ("type", "server_label")}]}


def _declared_functions(_dialect: str, _choice: Json) -> Object:
    return {"functions": [{"name": name} for name in NAMES]}


_TOOL_SETTINGS: dict[str, Callable[[str, Json], Object]] = {
    "tool_choice": _declared_tools,
    "parallel_tool_calls": lambda dialect, _: _declared_tools(dialect, None),
    "max_tool_calls": lambda dialect, _: _declared_tools(dialect, None),
    "function_call": _declared_functions,
}


def _after_its_call(body: Object, field: str, path: Path) -> tuple[Json, Path]:
    """Put the call of an output before it."""
    items = body[field]
    assert isinstance(items, list)
    item = items[0]
    assert isinstance(item, dict)
    call = _message_with_call(item) if field == "messages" else _call_item(item)
    if call is None:
        return body, path
    if item.get("type") == "function_call_output":
        # The id is optional in this type only.
        item = {"call_id": "some", **item}
    return {**body, field: [call, item]}, (field, 1, *path[2:])


def _message_with_call(output: Object) -> Object | None:
    call: Object = {"name": output.get("name", "f"), "arguments": "{}"}
    match output.get("role"):
        case "tool":
            whole: Json = {"id": output["tool_call_id"], "type": "function", "function": call}
            return {"role": "assistant", "tool_calls": [whole]}
        case "function":
            return {"role": "assistant", "function_call": call}
        case _:
            return None


_ACTIONS: dict[str, Object] = {
    "function_call": {"name": "f", "arguments": "{}"},
    "custom_tool_call": {"name": "f", "input": "x"},
    "computer_call": {"id": "cu", "pending_safety_checks": [], "action": {"type": "wait"}},
    "local_shell_call": {"id": "x", "action": {"type": "exec", "command": ["ls"], "env": {}}},
    "shell_call": {"action": {"commands": ["ls"]}},
    "apply_patch_call": {"operation": {"type": "delete_file", "path": "x"}},
    "tool_search_call": {"arguments": {}, "execution": "client"},
}


def _call_item(output: Object) -> Object | None:
    kind = str(output.get("type", ""))
    if not kind.endswith(_OUTPUT) or kind == "program_output":
        return None
    name = "tool_search_call" if kind == "tool_search_output" else kind.removesuffix(_OUTPUT)
    call_id = output.get("call_id") or (output.get("id") if name == "local_shell_call" else None)
    call: Object = {"type": name, "call_id": call_id or "some", "status": "completed"}
    return {**call, **_ACTIONS[name]}
