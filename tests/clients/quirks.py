"""What sloppy backends do wrong: changes of canonical chunks, events and whole replies."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.sample_streams import numbered

CHAT, RESPONSES, LEGACY = "chat", "responses", "legacy"
ITEM_EVENTS = ("response.output_item.added", "response.output_item.done")
NULL_FIELDS = ("content", "refusal", "tool_calls", "function_call", "reasoning_content")


@dataclass(frozen=True)
class Quirk:
    """A change of the objects of a stream, or of one whole reply as a list of one object."""

    change: Callable[[list[JsonObject]], list[JsonObject]]
    dialects: tuple[str, ...]
    # Whether whole replies have the quirk too.
    in_replies: bool = True


def apply_quirk(name: str, bodies: Iterable[bytes], dialect: str) -> list[JsonObject]:
    """Return the objects of a stream or of a reply with a quirk."""
    quirk = QUIRKS[name]
    streamed = [read_object(body) for body in bodies]
    return quirk.change(streamed) if dialect in quirk.dialects else streamed


def quirk_names(dialect: str, *, streamed: bool) -> list[str]:
    """Return the quirks that a backend of a dialect can have."""
    return [
        name
        for name, quirk in QUIRKS.items()
        if dialect in quirk.dialects and (streamed or quirk.in_replies)
    ]


# The parts of replies


def _messages(payload: JsonObject) -> list[JsonObject]:
    """Return the messages of a completion, or the deltas of a chunk."""
    choices = objects_in(payload, "choices") if "choices" in payload else []
    return [object_in(choice, "delta" if "delta" in choice else "message") for choice in choices]


def _calls(payload: JsonObject) -> list[JsonObject]:
    """Return the calls of a reply, a chunk or an event."""
    calls = [call for message in _messages(payload) for call in _list(message, "tool_calls")]
    outputs = [payload, object_in(payload, "response") if "response" in payload else {}]
    items = [item for output in outputs for item in _list(output, "output")]
    items += [object_in(payload, "item")] if "item" in payload else []
    return calls + [item for item in items if item["type"] == "function_call"]


def _list(parent: JsonObject, name: str) -> list[JsonObject]:
    return objects_in(parent, name) if parent.get(name) else []


def _functions(payload: JsonObject) -> list[JsonObject]:
    """Return the objects with the arguments of calls, in all dialects."""
    calls = [
        object_in(call, "function") if "function" in call else call for call in _calls(payload)
    ]
    legacy = [
        object_in(one, "function_call") for one in _messages(payload) if "function_call" in one
    ]
    return calls + legacy


def _arguments_delta(payload: JsonObject) -> bool:
    """Whether a payload is nothing but a part of the arguments of a call."""
    if payload.get("type") in (
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
    ):
        return True
    functions = _functions(payload)
    return bool(functions) and "choices" in payload and not any("name" in one for one in functions)


# Changes


def _each(change: Callable[[JsonObject], None], payloads: list[JsonObject]) -> list[JsonObject]:
    for payload in payloads:
        change(payload)
    return payloads


def _change_ids(value: str | None, payload: JsonObject) -> None:
    for call in _calls(payload):
        for name in ("id", "call_id"):
            if name in call:
                _set(call, name, value)
    if "item_id" in payload and "arguments" in str(payload["type"]):
        _set(payload, "item_id", value)


def _change_indices(change: Callable[[int], int | None], payload: JsonObject) -> None:
    places = [call for call in _calls(payload) if "function" in call]
    for place, name in [(payload, "output_index"), *((call, "index") for call in places)]:
        index = place.get(name)
        if isinstance(index, int):
            _set(place, name, change(index))


def _set(place: JsonObject, name: str, value: object) -> None:
    if value is None:
        del place[name]
    else:
        place[name] = value


def _remove_type(payload: JsonObject) -> None:
    for call in _calls(payload):
        if "function" in call:
            call.pop("type", None)


def _object_arguments(payloads: list[JsonObject]) -> list[JsonObject]:
    """Send the arguments as an object, in a stream where they begin."""
    texts: list[str] = []
    for payload in payloads:
        for function in _functions(payload):
            text = str(function.get("arguments", ""))
            if "name" in function and not text and "choices" in payload:
                texts.append(text)
            elif _arguments_delta(payload):
                texts[-1] += text
    wholes = iter(texts)
    kept: list[JsonObject] = []
    for payload in payloads:
        if _arguments_delta(payload):
            continue
        for function in _functions(payload):
            text = str(function["arguments"]) or next(wholes, "")
            if text:
                function["arguments"] = json.loads(text)
        kept.append(payload)
    return kept


def _repeat_names(payloads: list[JsonObject]) -> list[JsonObject]:
    """Send the id, the type and the name of a call in each of its chunks."""
    started: JsonObject = {}
    for payload in payloads:
        for call in _calls(payload):
            function = object_in(call, "function")
            if "name" in function:
                started = {**call, "name": function["name"]}
            call |= {"id": started["id"], "type": "function"}
            function["name"] = started["name"]
        for message in _messages(payload):
            if "function_call" in message:
                function = object_in(message, "function_call")
                started = {**started, **function}
                function["name"] = started["name"]
    return payloads


def _finish_with_stop(payload: JsonObject) -> None:
    for choice in _list(payload, "choices"):
        if choice.get("finish_reason"):
            choice["finish_reason"] = "stop"


def _split_choices(payload: JsonObject) -> None:
    """Send the second call in a choice of its own."""
    for choice, message in zip(_list(payload, "choices"), _messages(payload), strict=True):
        name = "delta" if "delta" in choice else "message"
        first, second = _divide(_list(message, "tool_calls"))
        choices: list[JsonObject] = []
        if first or not second:
            choices.append({**choice, name: {**message, "tool_calls": first} if first else message})
        if second:
            other = {**message, "tool_calls": second}
            choices.append({**choice, "index": 1, name: other})
        elif name == "delta" and choice.get("finish_reason") == "tool_calls":
            choices.append({**choice, "index": 1})
        payload["choices"] = choices


def _divide(calls: list[JsonObject]) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the first call, and the second one as the first one of another choice."""
    places = [call.get("index", place) for place, call in enumerate(calls)]
    first = [call for place, call in zip(places, calls, strict=True) if place == 0]
    rest = [call for place, call in zip(places, calls, strict=True) if place == 1]
    return first, [{**call, "index": 0} if "index" in call else call for call in rest]


def _add_chunk_without_choices(payloads: list[JsonObject]) -> list[JsonObject]:
    first = {name: value for name, value in payloads[0].items() if name != "choices"}
    return [first, *payloads]


def _add_nulls(payload: JsonObject) -> None:
    """Send a role in each chunk, and null in each field without a value."""
    for function in _functions(payload):
        function.setdefault("name", None)
    for message in _messages(payload):
        message["role"] = "assistant"
        for name in NULL_FIELDS:
            message.setdefault(name, None)
    for name in ("usage", "system_fingerprint", "service_tier"):
        if "choices" in payload:
            payload.setdefault(name, None)
    for call in _calls(payload):
        if "call_id" in call:
            call |= {"namespace": None, "status": None}
        else:
            call.setdefault("id", None)
            call.setdefault("type", None)
    if str(payload.get("type")).endswith(".delta"):
        payload.setdefault("logprobs", None)


def _interleave(payloads: list[JsonObject]) -> list[JsonObject]:
    """Send all calls at once: their beginnings, their arguments in turns, their ends."""
    places = [place for place, payload in enumerate(payloads) if _of_call(payload)]
    if not places:
        return payloads
    by_call: dict[object, list[JsonObject]] = {}
    for place in places:
        by_call.setdefault(_index_of_call(payloads[place]), []).append(payloads[place])
    turns = zip_longest(*by_call.values())
    mixed = [payload for turn in turns for payload in turn if payload is not None]
    whole = [*payloads[: places[0]], *mixed, *payloads[places[-1] + 1 :]]
    return numbered(whole) if "sequence_number" in payloads[0] else whole


def _of_call(payload: JsonObject) -> bool:
    return _arguments_delta(payload) or (bool(_calls(payload)) and "response" not in payload)


def _index_of_call(payload: JsonObject) -> object:
    if "output_index" in payload:
        return payload["output_index"]
    calls = _calls(payload)
    return calls[0].get("index") if calls else None


def _unchanged(payloads: list[JsonObject]) -> list[JsonObject]:
    return payloads


_ALL = (CHAT, RESPONSES, LEGACY)
_BOTH = (CHAT, RESPONSES)
_CHUNKED = (CHAT, LEGACY)
# Quirks of the backend itself, which do not change the objects of its replies.
NO_DONE = "no [DONE]"
NO_STREAM = "no stream"
OTHER_CALLS = "other calls"
NOT_SERIAL = "not serial"
OF_BACKEND = frozenset((NO_DONE, NO_STREAM, OTHER_CALLS, NOT_SERIAL))
QUIRKS = {
    "none": Quirk(_unchanged, _ALL),
    "ids missing": Quirk(partial(_each, partial(_change_ids, None)), _BOTH),
    "ids empty": Quirk(partial(_each, partial(_change_ids, "")), _BOTH),
    "ids same": Quirk(partial(_each, partial(_change_ids, "call_0")), _BOTH),
    "index missing": Quirk(
        partial(_each, partial(_change_indices, lambda _: None)), _BOTH, in_replies=False
    ),
    "index same": Quirk(
        partial(_each, partial(_change_indices, lambda _: 0)), _BOTH, in_replies=False
    ),
    "index from one": Quirk(
        partial(_each, partial(_change_indices, lambda index: index + 1)), _BOTH, in_replies=False
    ),
    "type missing": Quirk(partial(_each, _remove_type), (CHAT,)),
    "object arguments": Quirk(_object_arguments, _ALL),
    "names repeated": Quirk(_repeat_names, _CHUNKED, in_replies=False),
    "nulls": Quirk(partial(_each, _add_nulls), _ALL),
    "interleaved": Quirk(_interleave, _BOTH, in_replies=False),
    "finish stop": Quirk(partial(_each, _finish_with_stop), _CHUNKED),
    "choices split": Quirk(partial(_each, _split_choices), (CHAT,)),
    "choices missing": Quirk(_add_chunk_without_choices, _CHUNKED, in_replies=False),
    OTHER_CALLS: Quirk(_unchanged, _CHUNKED),
    NOT_SERIAL: Quirk(_unchanged, _BOTH),
    NO_STREAM: Quirk(_unchanged, _ALL, in_replies=False),
    NO_DONE: Quirk(_unchanged, _CHUNKED, in_replies=False),
}
