"""Two turns: the reasoning of a backend comes back to it, carried by the client or stored.

Each is run whole, streamed, and with the extra content of calls in a later chunk; all must lead to
the same second request.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Literal, cast

import msgspec
import pytest
from msgspec import Meta, Raw, Struct
from syrupy.assertion import SnapshotAssertion

import adapters
from gateway.config.schema import DialectName
from gateway.pytest_plugin.formats import format_json, format_losses
from tests.adapters.laws.common import payloads
from tests.adapters.test_streams import assert_valid
from tests.corpus import CASES, Report, Sentence, StrictCapabilities, on_wire
from tests.exchange import Exchange
from tests.judges import sdk
from tests.judges.reading import JsonObject, object_in, objects_in, read_object, text_in
from tests.judges.samples import encoded

Mode = Literal["whole", "streamed", "late"]

# The outputs of a client for calls of its own tools.
OUTPUTS: dict[str, JsonObject] = {
    "shell_call": {"output": []},
    "local_shell_call": {"output": "high at 9", "id": "lsh_answer"},
    "apply_patch_call": {"status": "completed"},
    "computer_call": {
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}
    },
    "tool_search_call": {"tools": []},
}


class StrictReplyOptions(adapters.ReplyOptions, frozen=True, forbid_unknown_fields=True):
    """Options of the reply; an unknown name is an error."""


class Then(Struct, frozen=True, forbid_unknown_fields=True):
    """Another backend, which gets the second request."""

    name: Annotated[str, Meta(min_length=1)]
    dialect: DialectName | None = None


class Loop(Struct, frozen=True, forbid_unknown_fields=True):
    point: Sentence
    client: DialectName
    backend: DialectName
    request: Raw
    reply: Raw
    reports: tuple[Report, ...] = ()
    capabilities: StrictCapabilities = StrictCapabilities()
    reply_options: StrictReplyOptions = StrictReplyOptions()
    then: Then = Then("first")
    # Whether the client echoes unknown fields, and whether the service stores reasoning.
    echoes: bool = True
    keeps: bool = True


class ReadableSealer:
    """A sealer without encryption, for readable snapshots; it is still bound to its backend."""

    prefix = "sealed-"

    def __init__(self, backend: str) -> None:
        self._head = f"{self.prefix}for-{backend} "

    def seal(self, payload: bytes) -> str:
        return self._head + payload.decode()

    def open(self, text: str) -> bytes | None:
        return text.removeprefix(self._head).encode() if text.startswith(self._head) else None


LOOPS = {
    path.stem: msgspec.json.decode(path.read_bytes(), type=Loop)
    for path in sorted((CASES / "loops").glob("*.json"))
}


def begin(loop: Loop, then: Then) -> Exchange:
    return Exchange(
        loop.client,
        then.dialect or loop.backend,
        capabilities=loop.capabilities,
        reply_options=loop.reply_options,
        sealer=ReadableSealer(then.name),
    )


def reply_to(loop: Loop, exchange: Exchange, mode: Mode) -> tuple[JsonObject, list[adapters.Loss]]:
    """Reply to a request; return the reply as the client reads it."""
    body = on_wire(loop.reply)
    if mode == "whole":
        reply = exchange.reply(body)
        return read_object(reply.body), [*reply.losses]
    translator = exchange.stream()
    backend_stream = streamed(loop.backend, body)
    if mode == "late":
        frames = backend_stream.removesuffix(b"\n\n").split(b"\n\n")
        backend_stream = b"".join(one + b"\n\n" for frame in frames for one in _split_frame(frame))
    stream = translator.feed(backend_stream) + translator.finish(started=True).body
    assert_valid(loop.client, stream)
    return accumulated(loop.client, stream), [*translator.losses]


def streamed(dialect: str, reply: bytes) -> bytes:
    """Return a whole reply as the stream of the same backend."""
    field: Literal["reasoning_content", "reasoning"] | None = None
    if b'"reasoning_content":' in reply:
        field = "reasoning_content"
    elif b'"reasoning":' in reply:
        field = "reasoning"
    options = adapters.ReplyOptions(reasoning_field=field, reasoning_text=True)
    exchange = Exchange(dialect, dialect, reply_options=options, rewrite=True)
    return exchange.reply_as_stream(reply).body


def _split_frame(frame: bytes) -> list[bytes]:
    """Move the extra content of a Chat call into a later chunk."""
    if b'"extra_content":' not in frame:
        return [frame]
    chunk: JsonObject = json.loads(frame.removeprefix(b"data: "))
    [choice] = objects_in(chunk, "choices")
    [call] = objects_in(object_in(choice, "delta"), "tool_calls")
    behind = {"index": call["index"], "extra_content": call.pop("extra_content")}
    first = encoded(chunk)
    choice["delta"] = {"tool_calls": [behind]}
    return [b"data: " + first, b"data: " + encoded(chunk)]


def accumulated(dialect: str, stream: bytes) -> JsonObject:
    """Return the reply that a client makes of a stream, with the openai package for Chat."""
    if dialect == "responses":
        return object_in(payloads(stream)[-1], "response")
    completion = sdk.judge_chat_stream(stream)
    assert completion is not None
    reply = completion.to_dict(exclude_none=True, warnings=False)
    message = object_in(objects_in(reply, "choices")[0], "message")
    for call in cast("list[JsonObject]", message.get("tool_calls", [])):
        del call["index"]
    return reply


def next_request(loop: Loop, reply: JsonObject) -> bytes:
    request: JsonObject = json.loads(on_wire(loop.request))
    if loop.client == "responses":
        output = objects_in(reply, "output")
        outputs = [_output(item) for item in output if "call_id" in item]
        request["input"] = [*cast("list[object]", request["input"]), *output, *outputs]
    else:
        message = object_in(objects_in(reply, "choices")[0], "message")
        messages = cast("list[object]", request["messages"])
        request["messages"] = [*messages, _echo(loop, message), *_tool_messages(message)]
    return encoded(request)


def _output(call: JsonObject) -> JsonObject:
    kind = text_in(call, "type")
    output_type = f"{kind}_output".replace("search_call", "search")
    outputs = OUTPUTS.get(kind, {"output": "high at 9"})
    return {"type": output_type, "call_id": call["call_id"], **outputs}


def _echo(loop: Loop, message: JsonObject) -> JsonObject:
    if loop.echoes:
        return message
    calls = cast("list[JsonObject]", message.get("tool_calls", []))
    known = [{name: call[name] for name in ("id", "type", "function")} for call in calls]
    return {"role": "assistant", "content": message.get("content"), "tool_calls": known}


def _tool_messages(message: JsonObject) -> list[JsonObject]:
    if "function_call" in message:
        return [{"role": "function", "name": "tide", "content": "high at 9"}]
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": "high at 9"}
        for call in objects_in(message, "tool_calls")
    ]


def run(
    loop: Loop, mode: Mode
) -> tuple[adapters.BackendRequest, JsonObject, adapters.BackendRequest]:
    """Run a loop; return the first request, the reply and the second request."""
    first = begin(loop, Then("first"))
    request: JsonObject = json.loads(on_wire(loop.request))
    given = encoded(request | ({} if mode == "whole" else {"stream": True}))
    # The gateway looks for stored reasoning with every request.
    first.reasoning_keys(given)
    sent = first.request(given)
    reply, losses = reply_to(loop, first, mode)
    reasoning: Mapping[str, str] = first.reasoning if loop.keeps else {}
    second, body = begin(loop, loop.then), next_request(loop, reply)
    stored = {key: reasoning[key] for key in second.reasoning_keys(body) if key in reasoning}
    again = second.request(body, stored_reasoning=stored)
    content = reply["output"] if "output" in reply else objects_in(reply, "choices")[0]["message"]
    result: JsonObject = {"told": content, "losses": format_losses(losses)}
    return sent, result, again


def _history(sent: adapters.BackendRequest) -> list[JsonObject]:
    body = read_object(sent.body)
    return objects_in(body, "messages" if "messages" in body else "input")


@pytest.mark.parametrize("name", LOOPS)
def test_loop(name: str, json_snapshot: SnapshotAssertion) -> None:
    loop = LOOPS[name]
    sent, reply, again = run(loop, "whole")
    page: JsonObject = {
        "sent": Raw(sent.body),
        "sent losses": format_losses(sent.losses),
        **reply,
        "sent again": _history(again),
        "sent again losses": format_losses(again.losses),
    }
    assert format_json(page) == json_snapshot(name=name)
    _, _, streamed_again = run(loop, "streamed")
    assert _comparable(streamed_again) == _comparable(again)
    # Whether the client carries the extra content of a Chat call.
    if loop.backend == "chat" and "include" in json.loads(on_wire(loop.request)):
        _, _, again_after_late = run(loop, "late")
        assert _comparable(again_after_late) == _comparable(again)


def _comparable(sent: adapters.BackendRequest) -> list[JsonObject]:
    """Return a history without empty fields, which only whole messages have."""
    return [{name: value for name, value in item.items() if value} for item in _history(sent)]
