"""Prompt caches keep working: a request continues the request of the turn before.

In a conversation that only grows, the messages and tools that a backend gets for one turn are, byte
for byte, the beginning of those for the next.
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, Struct
from msgspec.structs import replace

import adapters
from adapters.capabilities import GENERIC
from adapters.profiles import PROFILES
from tests.adapters.laws import common
from tests.adapters.test_loops import OUTPUTS, ReadableSealer, accumulated, streamed
from tests.exchange import Exchange
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.samples import encoded, response

CallIds = Literal["unique", "repeated", "long", "missing"]
Field = Literal["reasoning_content", "reasoning", "reasoning_details"]

IMAGE = "data:image/png;base64,AA=="
PARAMETERS: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}
PATCH: JsonObject = {"name": "patch", "description": "Apply a patch.", "format": {"type": "text"}}


# The capabilities of backends by name.
KINDS = {
    **PROFILES,
    "prompted": adapters.Capabilities(tools="prompted"),
    "text calls": adapters.Capabilities(text_calls=("hermes",)),
    "never replayed": adapters.Capabilities(reasoning_replay="never"),
    "always replayed": adapters.Capabilities(reasoning_replay="always"),
    "text per call": adapters.Capabilities(reasoning_items="text_per_call"),
    "few deferred tools": adapters.Capabilities(max_deferred_tools=3, tool_types=()),
}


class Step(Struct, frozen=True):
    """What a model replies in one turn, and what follows it."""

    reasoning: str = ""
    text: str = ""
    # The numbers of the called tools.
    calls: tuple[int, ...] = ()
    # What the client sends after a reply without calls.
    user: str = "Go on."
    image: bool = False
    # A message of the developer or more tools after it.
    late: Literal["developer", "tools"] | None = None


class Setting(Struct, frozen=True):
    """How one conversation is held."""

    kind: str
    call_ids: CallIds = "unique"
    field: Field = "reasoning_content"
    # Whether the client sends undocumented fields back, and asks for encrypted reasoning.
    echoes: bool = True
    include: bool = True

    @property
    def capabilities(self) -> adapters.Capabilities:
        return KINDS[self.kind]


steps = st.builds(
    Step,
    reasoning=st.sampled_from(["", "Hm.", "So ☀"]),
    text=st.sampled_from(["", "Well."]),
    calls=st.lists(st.integers(0, 5), max_size=2).map(tuple),
    user=st.sampled_from(["Go on.", "And?"]),
    image=st.booleans(),
    late=st.none() | st.sampled_from(["developer", "tools"]),
)
settings = st.builds(
    Setting,
    kind=st.sampled_from([*KINDS]),
    call_ids=st.sampled_from(["unique", "repeated", "long", "missing"]),
    field=st.sampled_from(["reasoning_content", "reasoning", "reasoning_details"]),
    echoes=st.booleans(),
    include=st.booleans(),
)


# The client


def first_request(client: str, setting: Setting, *, stream: bool) -> JsonObject:
    names = ["look", "fs.read", "very_long_" * 7]
    functions = [{"name": name, "parameters": PARAMETERS} for name in names]
    start: JsonObject = {"role": "user", "content": "Begin."}
    if client == "legacy":
        return {"model": "m", "messages": [start], "functions": functions}
    if client == "chat":
        nested: list[JsonObject] = [{"type": "function", "function": one} for one in functions]
        if not stream:
            # The openai package cannot read the calls of custom tools in streams.
            nested.append({"type": "custom", "custom": PATCH})
        system: JsonObject = {"role": "developer", "content": "Be brief."}
        return {"model": "m", "messages": [system, start], "tools": nested}
    tools: list[JsonObject] = [{**one, "type": "function", "strict": False} for one in functions]
    space: JsonObject = {
        "type": "namespace",
        "name": "mcp__sea",
        "description": "Sea.",
        "tools": [tools[0]],
    }
    builtin: list[JsonObject] = [{"type": "apply_patch"}, {"type": "shell"}]
    tools += [space, {"type": "custom", **PATCH}, *builtin]
    # The user mentions all but the first one, which a backend with a limit does not get.
    deferred = ["sail_far", "sail_and", "sail_go", "sail_begin"]
    tools += [{**tools[0], "name": name, "defer_loading": True} for name in deferred]
    tools.append({"type": "tool_search", "execution": "client"})
    request: JsonObject = {"model": "m", "instructions": "Be brief.", "input": [start]}
    if setting.include:
        request["include"] = ["reasoning.encrypted_content"]
    return {**request, "tools": tools, "store": False}


def continued(
    client: str, request: JsonObject, reply: JsonObject, step: Step, setting: Setting
) -> None:
    """Add a reply and what follows it to the client's request."""
    parts: list[JsonObject] = [{"type": "text", "text": step.user}]
    if client == "responses":
        items = objects_in(reply, "output")
        parts = [{"type": "input_text", "text": step.user}]
        if step.image:
            parts.append({"type": "input_image", "image_url": IMAGE})
        calls = [item for item in items if "call_id" in item]
        added = [_output(call) for call in calls] or [{"role": "user", "content": parts}]
        request["input"] = [*objects_in(request, "input"), *items, *added, *_late(step, setting)]
        return
    message = object_in(objects_in(reply, "choices")[0], "message")
    kept = message if setting.echoes else _documented(message)
    if step.image:
        parts.append({"type": "image_url", "image_url": {"url": IMAGE}})
    added = [
        {"role": "tool", "tool_call_id": call["id"], "content": "Seen."}
        for call in cast("list[JsonObject]", message.get("tool_calls") or [])
    ]
    if message.get("function_call"):
        name = object_in(message, "function_call")["name"]
        added = [{"role": "function", "name": name, "content": "Seen."}]
    following = added or [{"role": "user", "content": parts if step.image else step.user}]
    if step.late == "developer":
        following += _late(step, setting)
    request["messages"] = [*objects_in(request, "messages"), kept, *following]


def _late(step: Step, setting: Setting) -> list[JsonObject]:
    # A backend that accepts system messages only at the start gets late ones there, too.
    if step.late == "developer" and setting.capabilities.system_messages != "single":
        return [{"role": "developer", "content": "Be quick."}]
    # Tools in the prompt are at its start, and tools that were searched for are at the end.
    capabilities = setting.capabilities
    moves_tools = capabilities.tools == "prompted" or capabilities.max_deferred_tools is not None
    if step.late == "tools" and not moves_tools:
        tool = {"type": "function", "name": f"late_{step.user[:2]}", "parameters": PARAMETERS}
        return [{"type": "additional_tools", "role": "developer", "tools": [tool]}]
    return []


def _output(call: JsonObject) -> JsonObject:
    kind = str(call["type"])
    fields = OUTPUTS.get(kind, {"output": "Seen."})
    return {"type": f"{kind}_output", "call_id": call["call_id"], **fields}


def _documented(message: JsonObject) -> JsonObject:
    documented = ["role", "content", "function_call"]
    kept: JsonObject = {name: message[name] for name in documented if name in message}
    calls = cast("list[JsonObject]", message.get("tool_calls") or [])
    names = ("id", "type", "function", "custom")
    known = [{name: call[name] for name in names if name in call} for call in calls]
    return {**kept, "tool_calls": known} if known else kept


# The backend


def backend_reply(
    backend: str, number: int, sent: JsonObject, step: Step, setting: Setting
) -> bytes:
    called = [*_called(sent, step)]
    if not called and step.calls and setting.capabilities.tools == "prompted":
        text = '<tool_call>\n{"name": "look", "arguments": {"n": 1}}\n</tool_call>'
        step = replace(step, text=text)
    if backend == "responses":
        return _responses_reply(number, called, step, setting)
    fields: JsonObject = {}
    if step.reasoning:
        detail = {"type": "reasoning.text", "text": step.reasoning, "index": 0}
        fields = {setting.field: [detail] if setting.field.endswith("details") else step.reasoning}
    message = {"role": "assistant", "content": step.text or None, **fields}
    if called and backend == "legacy":
        message["function_call"] = called[0]["function"]
    elif called:
        message["tool_calls"] = [
            {**call, "id": _call_id(number, place, setting)} for place, call in enumerate(called)
        ]
    finish = "stop" if not called else "function_call" if backend == "legacy" else "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    usage = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
    head: JsonObject = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return encoded({**head, "choices": [choice], "usage": usage})


def _called(sent: JsonObject, step: Step) -> Iterator[JsonObject]:
    """Yield calls of tools that were declared to the backend, in the form of Chat."""
    declared = [*_declared(sent)]
    for place, wanted in enumerate(step.calls if declared else ()):
        tool = declared[wanted % len(declared)]
        fields = cast("dict[str, Any]", tool.get("parameters") or {}).get("properties", {})
        arguments: JsonObject = {name: _value(schema) for name, schema in fields.items()}
        if tool.get("type") == "custom":
            yield {"type": "custom", "custom": {"name": tool["name"], "input": "x" * place}}
        else:
            text = json.dumps(arguments)
            yield {"type": "function", "function": {"name": tool["name"], "arguments": text}}


def _declared(sent: JsonObject) -> Iterator[JsonObject]:
    for tool in cast("list[JsonObject]", sent.get("functions") or sent.get("tools") or []):
        kind = str(tool.get("type", "function"))
        inner = tool.get(kind) if kind in ("function", "custom") else None
        flat = {**cast("JsonObject", inner), "type": kind} if inner else tool
        if kind in ("function", "custom"):
            yield flat


def _value(schema: object) -> object:
    fields = cast("JsonObject", schema) if isinstance(schema, dict) else {}
    values: dict[object, object] = {"integer": 1, "number": 1, "array": [], "object": {}}
    allowed = cast("list[object]", fields.get("enum") or [])
    return allowed[0] if allowed else values.get(fields.get("type"), "ls")


def _call_id(number: int, place: int, setting: Setting) -> str:
    match setting.call_ids:
        case "unique":
            return f"call_{number}_{place}"
        case "repeated":
            return f"call_{place}"
        case "long":
            return f"call_{number}_{place}_" + "x" * 70
        case "missing":
            return ""


def _responses_reply(number: int, called: list[JsonObject], step: Step, setting: Setting) -> bytes:
    output: list[JsonObject] = []
    if step.reasoning:
        summary = [{"type": "summary_text", "text": step.reasoning}]
        reasoning: JsonObject = {"type": "reasoning", "id": f"rs_{number}", "summary": summary}
        if setting.capabilities.reasoning_items == "encrypted":
            reasoning["encrypted_content"] = f"gAAAA{number}"
        output.append(reasoning)
    if step.text or not called:
        part: JsonObject = {
            "type": "output_text",
            "text": step.text,
            "annotations": [],
            "logprobs": [],
        }
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        output.append({**message, "status": "completed", "content": [part]})
    for place, call in enumerate(called):
        kind = str(call["type"])
        item = {"id": f"fc_{number}_{place}", "status": "completed"}
        item["call_id"] = _call_id(number, place, setting) or f"call_{number}{place}"
        name = "function_call" if kind == "function" else "custom_tool_call"
        output.append({"type": name, **item, **cast("JsonObject", call[kind])})
    return encoded(response("completed", output))


# The law


def hold(
    client: str, backend: str, setting: Setting, script: list[Step], *, stream: bool
) -> list[bytes]:
    """Hold a conversation; return the requests that the backend gets."""
    request, kept = first_request(client, setting, stream=stream), dict[str, str]()
    ids = adapters.deterministic_ids()
    bodies: list[bytes] = []
    for number, step in enumerate([*script, Step()]):
        exchange = Exchange(
            client,
            backend,
            ids=ids,
            capabilities=setting.capabilities,
            rewrite=setting.capabilities is not GENERIC,
            sealer=ReadableSealer("here"),
        )
        body = encoded(request | ({"stream": True} if stream else {}))
        keys = exchange.reasoning_keys(body)
        stored = {key: kept[key] for key in keys if key in kept}
        sent = exchange.request(body, stored_reasoning=stored)
        bodies.append(sent.body)
        replied = backend_reply(backend, number, read_object(sent.body), step, setting)
        reply = (
            _stream(exchange, client, backend, replied) if stream else exchange.reply(replied).body
        )
        kept |= exchange.reasoning
        continued(client, request, read_object(reply), step, setting)
    return bodies


def _stream(exchange: Exchange, client: str, backend: str, reply: bytes) -> bytes:
    return encoded(accumulated(client, exchange.translate_stream([streamed(backend, reply)])))


def prompt_of(body: bytes) -> tuple[Raw, list[Raw], list[Raw]]:
    """Return the instructions, the messages and the tools of a request."""
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    items = fields.get("messages") or fields["input"]
    tools = fields.get("tools") or fields.get("functions") or Raw(b"[]")
    decode = msgspec.json.Decoder(list[Raw]).decode
    return fields.get("instructions", Raw()), decode(items), decode(tools)


def assert_grows(bodies: list[bytes], *, merges: bool = False) -> None:
    """Raise unless each request begins with the one before it.

    With `merges`, a message of the user may continue the one at the end, if no reply is between.
    """
    prompts = [prompt_of(body) for body in bodies]
    for before, after in pairwise(prompts):
        assert after[0] == before[0]
        for shorter, longer in zip(before[1:], after[1:], strict=True):
            expected, found = [*map(bytes, shorter)], [*map(bytes, longer[: len(shorter)])]
            if merges and expected and found[-1] != expected[-1]:
                assert _text(found.pop()).startswith(_text(expected.pop()))
            assert found == expected


def _text(message: bytes) -> str:
    content = read_object(message)["content"]
    return content if isinstance(content, str) else str(cast("Any", content)[0]["text"])


@common.each_pair
@given(setting=settings, script=st.lists(steps, min_size=1, max_size=4), stream=st.booleans())
def test_request_begins_with_the_one_before(
    client: str, backend: str, setting: Setting, script: list[Step], *, stream: bool
) -> None:
    bodies = hold(client, backend, setting, script, stream=stream)
    assert_grows(bodies, merges=setting.capabilities.alternating_roles)
