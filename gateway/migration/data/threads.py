"""Threads of the Assistants API, as the items of a conversation.

There is no official form of an export, so the objects of the API are found wherever people put
them: in the lists that its endpoints return, in a list, or in an object with `messages`, `runs` and
`steps`. Their `object` says what they are.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import msgspec
from msgspec import Struct

from adapters import InvalidRequestError, Loss
from adapters.json_text import DECODE_ERRORS
from adapters.translation.fit import NO_OUTPUT
from gateway.migration.data.thread_fields import JsonObject, dropped_fields, read_settings

# The fields of an export that contain objects of the API.
_CONTAINERS = ("thread", "messages", "data", "runs", "run_steps", "steps")
# A tuple, because the value of a field may be a list, which no set accepts.
_TYPES = ("thread", "thread.message", "thread.run", "thread.run.step")
_SEVERAL = 2
_BOOKKEEPING_LOSS = Loss(
    "dropped", "created_at", "a conversation has no ids, times and states of the Assistants API"
)
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
    thread_id: str = ""
    created_at: float = 0
    role: str = "user"
    content: tuple[_Part, ...] = ()
    attachments: tuple[JsonObject, ...] | None = None
    step_details: _Details = _Details()
    metadata: dict[str, str] | None = None

    def belongs_to(self) -> str:
        """Return the id of the thread."""
        return self.id if self.object == "thread" else self.thread_id


class _Found(Struct, frozen=True):
    """An object of the API, where it is in its record, and all of its fields."""

    entry: _Entry
    path: str
    fields: JsonObject


class Thread(Struct, frozen=True):
    """A thread as a Responses request."""

    items: list[JsonObject]
    # The settings of its last run, and their paths.
    settings: JsonObject
    setting_paths: tuple[str, ...]
    metadata: dict[str, str]
    losses: tuple[Loss, ...]


def read_threads(record: bytes) -> list[Thread]:
    """Return the threads in a record; none if it has no object of the Assistants API."""
    if b'"thread' not in record:
        return []
    try:
        found = list(_find(_JSON.decode(record), ""))
    except DECODE_ERRORS:
        # The reader of the other records reports it.
        return []
    try:
        objects = [_Found(msgspec.convert(fields, _Entry), path, fields) for fields, path in found]
    except msgspec.ValidationError as error:
        message = f"an object of the Assistants API cannot be read: {error}"
        raise InvalidRequestError(None, message) from None
    return [_read_thread(group) for group in _by_thread(objects)]


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
    times = [time for entry, _ in found if isinstance(time := entry.get("created_at"), int | float)]
    return bool(times) and times[0] > times[-1]


def _by_thread(found: Sequence[_Found]) -> list[list[_Found]]:
    """Group the objects by the ids of their threads, which may be missing if there is one."""
    ids = dict.fromkeys(name for one in found if (name := one.entry.belongs_to()))
    if len(ids) < _SEVERAL:
        return [list(found)] if found else []
    for one in found:
        if not one.entry.belongs_to():
            raise InvalidRequestError(one.path, "needs a thread_id, as there are several threads")
    return [[one for one in found if one.entry.belongs_to() == name] for name in ids]


def _order(found: _Found) -> tuple[float, int]:
    """Return the time of an entry, and the order within a second: question, calls, answer."""
    entry = found.entry
    is_answer = entry.object == "thread.message" and entry.role == "assistant"
    return entry.created_at, 2 if is_answer else int(entry.object == "thread.run.step")


def _read_thread(found: Sequence[_Found]) -> Thread:
    items: list[JsonObject] = []
    losses = [_BOOKKEEPING_LOSS]
    runs: list[_Found] = []
    metadata: dict[str, str] = {}
    for one in sorted(found, key=_order):
        losses += dropped_fields(one.entry.object, one.fields, one.path)
        match one.entry.object:
            case "thread":
                metadata = one.entry.metadata or {}
            case "thread.run":
                runs.append(one)
            case "thread.run.step":
                items += _calls(one.entry.step_details.tool_calls, one.path, losses)
            case _:
                items += _message(one.entry, one.path, losses)
    settings, paths = read_settings([(run.fields, run.path) for run in runs], losses)
    return Thread(items, settings, paths, metadata, tuple(losses))


def _message(message: _Entry, path: str, losses: list[Loss]) -> list[JsonObject]:
    """Return a message; none if it has no part that is converted."""
    if message.attachments:
        reason = "files of a message are not converted; upload them again"
        losses.append(Loss("dropped", f"{path}.attachments", reason, "capability"))
    parts = [
        part
        for number, one in enumerate(message.content)
        if (part := _part(one, message.role, f"{path}.content[{number}]", losses)) is not None
    ]
    if not parts:
        losses.append(Loss("dropped", path, "the message has no content", "capability"))
        return []
    return [{"type": "message", "role": message.role, "content": parts}]


def _part(part: _Part, role: str, path: str, losses: list[Loss]) -> JsonObject | None:
    match part.type:
        case "text":
            if part.text.annotations:
                reason = "citations refer to files of the Assistants API"
                losses.append(Loss("dropped", f"{path}.text.annotations", reason))
            if role == "assistant":
                return {"type": "output_text", "text": part.text.value, "annotations": []}
            return {"type": "input_text", "text": part.text.value}
        case "refusal":
            return {"type": "refusal", "refusal": part.refusal}
        case "image_file" if role != "assistant":
            return _image({"file_id": part.image_file.file_id}, part.image_file.detail)
        case "image_url" if role != "assistant":
            return _image({"image_url": part.image_url.url}, part.image_url.detail)
        case _:
            reason = f"a part of the type {part.type!r} in a message of the {role} is not converted"
            losses.append(Loss("dropped", path, reason, "capability"))
            return None


def _image(source: JsonObject, detail: str | None) -> JsonObject:
    return {"type": "input_image", "detail": detail or "auto", **source}


def _calls(calls: Sequence[_Call], path: str, losses: list[Loss]) -> Iterable[JsonObject]:
    """Return the calls of a step, then their outputs."""
    converted: list[JsonObject] = []
    outputs: list[JsonObject] = []
    for number, call in enumerate(calls):
        at = f"{path}.step_details.tool_calls[{number}]"
        if call.type != "function":
            reason = f"calls of {call.type}, which OpenAI runs itself, are not converted"
            losses.append(Loss("dropped", at, reason, "capability"))
            continue
        name, arguments, output = call.function.name, call.function.arguments, call.function.output
        if output is None:
            reason = "the call has no output; a placeholder was added"
            losses.append(Loss("invented", at, reason, "capability"))
        place: JsonObject = {"call_id": call.id}
        converted.append({"type": "function_call", **place, "name": name, "arguments": arguments})
        text = NO_OUTPUT if output is None else output
        outputs.append({"type": "function_call_output", **place, "output": text})
    return [*converted, *outputs]
