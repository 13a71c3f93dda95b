"""Loops of two turns: what a backend thought comes back to it, whoever carries it in between.

Each is run whole and streamed, and with what comes with a call in a piece of its own behind it; all
must lead to the same second request.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Literal, cast

import msgspec
import pytest
from msgspec import Meta, Raw, Struct
from syrupy.assertion import SnapshotAssertion

import adapters
from tests.adapters.test_streams import judge
from tests.corpus import CASES, DialectName, Report, Sentence, StrictCapabilities, on_wire
from tests.exchange import Exchange
from tests.judges.reading import JsonObject, object_in, objects_in
from tests.snapshots import format_json, format_losses

Way = Literal["whole", "streamed", "late"]


class Wishes(adapters.ReplyOptions, frozen=True, forbid_unknown_fields=True):
    """How the client wants to be told things; a misspelled wish is an error."""


class Then(Struct, frozen=True, forbid_unknown_fields=True):
    """Another backend, which gets the second request."""

    name: Annotated[str, Meta(min_length=1)]
    dialect: DialectName | None = None


class Loop(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client asks first, and what the backend answers."""

    point: Sentence
    client: DialectName
    backend: DialectName
    request: Raw
    reply: Raw
    reports: tuple[Report, ...] = ()
    capabilities: StrictCapabilities = StrictCapabilities()
    reply_options: Wishes = Wishes()
    then: Then = Then("first")
    # The client brings back fields that it does not know, and whoever serves keeps what it is told.
    echoes: bool = True
    keeps: bool = True


class ReadableSealer:
    """Seals nothing: a page must be readable. It is bound to its backend all the same."""

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


def answer(loop: Loop, exchange: Exchange, way: Way) -> tuple[JsonObject, list[adapters.Loss]]:
    """Answer a request; give what the client makes of the answer."""
    body = on_wire(loop.reply)
    if way == "whole":
        told = exchange.reply(body)
        return json.loads(told.body), [*told.losses]
    machine = exchange.stream()
    spoken = streamed(loop.backend, body)
    stream = (
        machine.feed(_late(spoken) if way == "late" else spoken) + machine.finish(started=True).body
    )
    judge(loop.client, stream)
    return gathered(loop.client, stream), [*machine.losses]


def streamed(dialect: str, reply: bytes) -> bytes:
    """Tell a whole reply as a stream of its own dialect."""
    thoughts = adapters.ReplyOptions(reasoning_field="reasoning_content", reasoning_text=True)
    teller = Exchange(dialect, dialect, reply_options=thoughts, rewrite=True)
    return teller.reply_as_stream(reply).body


def _late(stream: bytes) -> bytes:
    """Move what comes with a Chat call behind it, into a piece of its own."""
    return b"".join(
        one + b"\n\n" for frame in stream.split(b"\n\n") if frame for one in _apart(frame)
    )


def _apart(frame: bytes) -> list[bytes]:
    if b'"extra_content":' not in frame:
        return [frame]
    chunk: JsonObject = json.loads(frame.removeprefix(b"data: "))
    [choice] = objects_in(chunk, "choices")
    [call] = objects_in(object_in(choice, "delta"), "tool_calls")
    behind = {"index": call["index"], "extra_content": call.pop("extra_content")}
    first = json.dumps(chunk).encode()
    choice["delta"] = {"tool_calls": [behind]}
    return [b"data: " + first, b"data: " + json.dumps(chunk).encode()]


def gathered(dialect: str, stream: bytes) -> JsonObject:
    """Make a whole reply of a stream again, as clients do."""
    if dialect == "responses":
        events = [
            json.loads(line[6:]) for line in stream.split(b"\n") if line.startswith(b"data: {")
        ]
        return cast("JsonObject", events[-1]["response"])
    message: JsonObject = {}
    for line in stream.split(b"\n"):
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                _add(message, choice["delta"])
    for call in cast("list[JsonObject]", message.get("tool_calls", [])):
        del call["index"]
    return {"choices": [{"message": message}]}


def _add(whole: JsonObject, delta: JsonObject) -> None:
    """Add a delta as the openai package does: texts and objects are joined, lists by an index."""
    for name, value in delta.items():
        known = whole.get(name)
        match value:
            case str() if isinstance(known, str) and name not in ("type", "role", "id"):
                whole[name] = known + value
            case dict() if isinstance(known, dict):
                _add(cast("JsonObject", known), cast("JsonObject", value))
            case list() if isinstance(known, list) and name == "tool_calls":
                _add_calls(cast("list[JsonObject]", known), cast("list[JsonObject]", value))
            case _:
                whole[name] = value


def _add_calls(known: list[JsonObject], deltas: list[JsonObject]) -> None:
    for delta in deltas:
        if cast("int", delta["index"]) == len(known):
            known.append(delta)
        else:
            _add(known[cast("int", delta["index"])], delta)


def next_request(loop: Loop, told: JsonObject) -> bytes:
    """Go on as the client does: with what it was told, and an output for each call."""
    request: JsonObject = json.loads(on_wire(loop.request))
    if loop.client == "responses":
        output = cast("list[JsonObject]", told["output"])
        given = [_output(item) for item in output if "call_id" in item]
        request["input"] = [*cast("list[object]", request["input"]), *output, *given]
    else:
        choices = cast("list[JsonObject]", told["choices"])
        message = cast("JsonObject", choices[0]["message"])
        spoken = cast("list[object]", request["messages"])
        request["messages"] = [*spoken, _echo(loop, message), *_given(message)]
    return json.dumps(request).encode()


# What a client answers to the calls of tools of its own family.
GIVEN: dict[str, JsonObject] = {
    "shell_call": {"output": []},
    "local_shell_call": {"output": "high at 9", "id": "lsh_answer"},
    "apply_patch_call": {"status": "completed"},
    "computer_call": {
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}
    },
}


def _output(call: JsonObject) -> JsonObject:
    kind = cast("str", call["type"])
    if kind == "tool_search_call":
        return {"type": "tool_search_output", "call_id": call["call_id"], "tools": []}
    given = GIVEN.get(kind, {"output": "high at 9"})
    return {"type": f"{kind}_output", "call_id": call["call_id"], **given}


def _echo(loop: Loop, message: JsonObject) -> JsonObject:
    if loop.echoes:
        return message
    calls = cast("list[JsonObject]", message.get("tool_calls", []))
    known = [{name: call[name] for name in ("id", "type", "function")} for call in calls]
    return {"role": "assistant", "content": message.get("content"), "tool_calls": known}


def _given(message: JsonObject) -> list[JsonObject]:
    if "function_call" in message:
        return [{"role": "function", "name": "tide", "content": "high at 9"}]
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": "high at 9"}
        for call in cast("list[JsonObject]", message["tool_calls"])
    ]


def run(
    loop: Loop, way: Way
) -> tuple[adapters.BackendRequest, JsonObject, adapters.BackendRequest]:
    """Run a loop; give what was sent, told and sent again."""
    first = begin(loop, Then("first"))
    sent = first.request(_asking(loop, way))
    told, losses = answer(loop, first, way)
    kept: Mapping[str, str] = first.reasoning if loop.keeps else {}
    second, body = begin(loop, loop.then), next_request(loop, told)
    stored = {key: kept[key] for key in second.reasoning_keys(body) if key in kept}
    again = second.request(body, stored_reasoning=stored)
    shown: JsonObject = {"told": _spoken(told), "losses": format_losses(losses)}
    return sent, shown, again


def _asking(loop: Loop, way: Way) -> bytes:
    request: JsonObject = json.loads(on_wire(loop.request))
    return json.dumps(request | ({} if way == "whole" else {"stream": True})).encode()


def _spoken(told: JsonObject) -> object:
    """Give what was said of a reply, without all that is around it."""
    if "output" in told:
        return told["output"]
    return cast("list[JsonObject]", told["choices"])[0]["message"]


def show(sent: adapters.BackendRequest, told: JsonObject, again: adapters.BackendRequest) -> str:
    return format_json(
        {
            "sent": Raw(sent.body),
            "sent losses": format_losses(sent.losses),
            **told,
            "sent again": _history(json.loads(again.body)),
            "sent again losses": format_losses(again.losses),
        }
    )


def _history(body: JsonObject) -> object:
    return body.get("messages") or body.get("input")


@pytest.mark.parametrize("name", LOOPS)
def test_loop(name: str, json_snapshot: SnapshotAssertion) -> None:
    loop = LOOPS[name]
    sent, told, again = run(loop, "whole")
    assert show(sent, told, again) == json_snapshot(name=name)
    _, _, streamed_again = run(loop, "streamed")
    assert _meant(streamed_again) == _meant(again)
    if _carries(loop):
        _, _, again_after_late = run(loop, "late")
        assert _meant(again_after_late) == _meant(again)


def _carries(loop: Loop) -> bool:
    """Tell whether the client carries what comes with a Chat call."""
    request: JsonObject = json.loads(on_wire(loop.request))
    return loop.backend == "chat" and "include" in request


def _meant(sent: adapters.BackendRequest) -> list[JsonObject]:
    """Give a history without what says nothing: a whole message has nulls, a stream has not."""
    items = cast("list[JsonObject]", _history(json.loads(sent.body)))
    return [{name: value for name, value in item.items() if value} for item in items]
