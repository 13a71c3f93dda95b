"""Threads of the Assistants API, as the items of a conversation.

There is no official form of an export, so the objects of the API are found wherever people put
them: in the lists that its endpoints return, in a list, or in an object with `messages`, `runs` and
`steps`. Their `object` says what they are.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import msgspec
from msgspec import Struct

from adapters import Loss
from adapters.json_text import DECODE_ERRORS

JsonObject = dict[str, object]

# The fields of an export that contain objects of the API.
_CONTAINERS = ("thread", "messages", "data", "runs", "run_steps", "steps")
_TYPES = frozenset(("thread", "thread.message", "thread.run", "thread.run.step"))
_JSON = msgspec.json.Decoder()


class _Text(Struct, frozen=True):
    value: str = ""
    annotations: tuple[JsonObject, ...] = ()


class _ImageFile(Struct, frozen=True):
    file_id: str = ""
    detail: str | None = None


class _ImageUrl(Struct, frozen=True):
    url: str = ""
    detail: str | None = None


class _Part(Struct, frozen=True):
    type: str = ""
    text: _Text = _Text()
    image_file: _ImageFile = _ImageFile()
    image_url: _ImageUrl = _ImageUrl()
    refusal: str = ""


class _Function(Struct, frozen=True):
    name: str = ""
    arguments: str = ""
    output: str | None = None


class _Call(Struct, frozen=True):
    id: str = ""
    type: str = ""
    function: _Function = _Function()


class _Details(Struct, frozen=True):
    type: str = ""
    tool_calls: tuple[_Call, ...] = ()


class _Entry(Struct, frozen=True):
    """A thread, a message, a run or a step of a run, with the fields that are converted."""

    object: str = ""
    id: str = ""
    created_at: float = 0
    role: str = "user"
    content: tuple[_Part, ...] = ()
    attachments: tuple[JsonObject, ...] | None = None
    step_details: _Details = _Details()
    instructions: str | None = None
    model: str | None = None
    tools: tuple[JsonObject, ...] = ()
    metadata: dict[str, str] | None = None


class Thread(Struct, frozen=True):
    """A thread as a Responses request."""

    items: list[JsonObject]
    # The settings of its last run, and their paths.
    settings: JsonObject
    setting_paths: tuple[str, ...]
    metadata: dict[str, str]
    losses: tuple[Loss, ...]


def read_thread(record: bytes) -> Thread | None:
    """Return the thread in a record; None if the record has no object of the Assistants API."""
    if b'"thread' not in record:
        return None
    try:
        found = list(_find(_JSON.decode(record), ""))
        entries = [(msgspec.convert(entry, _Entry), path) for entry, path in found]
    except (*DECODE_ERRORS, msgspec.ValidationError):
        return None
    return _read_entries(entries) if entries else None


def _find(value: object, path: str) -> Iterator[tuple[JsonObject, str]]:
    """Yield the objects of the API in an export, with their paths."""
    if isinstance(value, list):
        found = [
            pair
            for number, one in enumerate(cast("list[object]", value))
            for pair in _find(one, f"{path}[{number}]")
        ]
        # The endpoints return the newest object first, and times have a resolution of a second.
        yield from reversed(found) if _is_descending(found) else found
    elif isinstance(value, dict):
        fields = cast("JsonObject", value)
        if fields.get("object") in _TYPES:
            yield fields, path
        for name in _CONTAINERS:
            yield from _find(fields.get(name), f"{path}.{name}".lstrip("."))


def _is_descending(found: Sequence[tuple[JsonObject, str]]) -> bool:
    times = [entry.get("created_at") for entry, _ in found]
    return bool(times) and isinstance(times[0], int) and times[0] > cast("int", times[-1] or 0)


def _order(entry: _Entry) -> tuple[float, int]:
    """Return the time of an entry, and the order within a second: question, calls, answer."""
    is_answer = entry.object == "thread.message" and entry.role == "assistant"
    return entry.created_at, 2 if is_answer else int(entry.object == "thread.run.step")


def _read_entries(entries: list[tuple[_Entry, str]]) -> Thread:
    items: list[JsonObject] = []
    losses: list[Loss] = []
    settings: JsonObject = {}
    setting_paths: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    for entry, path in sorted(entries, key=lambda one: _order(one[0])):
        match entry.object:
            case "thread":
                metadata = entry.metadata or {}
            case "thread.run":
                settings = _settings(entry)
                setting_paths = tuple(f"{path}.{name}" for name in settings)
            case "thread.run.step":
                items += _calls(entry.step_details.tool_calls, path, losses)
            case _:
                items.append(_message(entry, path, losses))
    return Thread(items, settings, setting_paths, metadata, tuple(losses))


def _settings(run: _Entry) -> JsonObject:
    settings: JsonObject = {}
    if run.model:
        settings["model"] = run.model
    if run.instructions:
        settings["instructions"] = run.instructions
    if run.tools:
        settings["tools"] = run.tools
    return settings


def _message(message: _Entry, path: str, losses: list[Loss]) -> JsonObject:
    if message.attachments:
        reason = "files of a message are not converted; upload them again"
        losses.append(Loss("dropped", f"{path}.attachments", reason, "capability"))
    parts = [
        part
        for number, one in enumerate(message.content)
        if (part := _part(one, message.role, f"{path}.content[{number}]", losses)) is not None
    ]
    return {"type": "message", "role": message.role, "content": parts}


def _part(part: _Part, role: str, path: str, losses: list[Loss]) -> JsonObject | None:
    match part.type:
        case "text":
            if part.text.annotations:
                reason = "citations refer to files of the Assistants API"
                losses.append(Loss("dropped", f"{path}.text.annotations", reason))
            kind = "output_text" if role == "assistant" else "input_text"
            return {"type": kind, "text": part.text.value}
        case "refusal":
            return {"type": "refusal", "refusal": part.refusal}
        case "image_file" if role != "assistant":
            return _image({"file_id": part.image_file.file_id}, part.image_file.detail)
        case "image_url" if role != "assistant":
            return _image({"image_url": part.image_url.url}, part.image_url.detail)
        case _:
            reason = f"a part of the type {part.type} in a message of the {role} is not converted"
            losses.append(Loss("dropped", path, reason, "capability"))
            return None


def _image(source: JsonObject, detail: str | None) -> JsonObject:
    return {"type": "input_image", "detail": detail or "auto", **source}


def _calls(calls: Sequence[_Call], path: str, losses: list[Loss]) -> Iterable[JsonObject]:
    """Return the calls of a step, then their outputs."""
    converted: list[JsonObject] = []
    outputs: list[JsonObject] = []
    for number, call in enumerate(calls):
        if call.type != "function":
            at = f"{path}.step_details.tool_calls[{number}]"
            reason = f"calls of {call.type}, which OpenAI runs itself, are not converted"
            losses.append(Loss("dropped", at, reason, "capability"))
            continue
        name, arguments = call.function.name, call.function.arguments
        place: JsonObject = {"call_id": call.id}
        converted.append({"type": "function_call", **place, "name": name, "arguments": arguments})
        if call.function.output is not None:
            output = call.function.output
            outputs.append({"type": "function_call_output", **place, "output": output})
    return [*converted, *outputs]
