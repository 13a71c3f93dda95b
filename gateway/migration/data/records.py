"""Conversion of single records, whose kind is detected by their fields.

| kind | fields |
|---|---|
| request | `messages` and `model` |
| training example | `messages` without `model` |
| preference example | `input`, `preferred_output`, `non_preferred_output` |
| line of a batch file | `custom_id`, and `body` or `response` |
| reply | `choices` |
| definition of a function | `name` and `parameters` |
| definition of a tool | `type` and `function` |
| settings | `functions` without `messages` |
| thread | objects of the Assistants API |
| list | messages, or definitions of functions |
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError, Loss, content_ids
from adapters.chat import CHAT
from adapters.json_text import DECODE_ERRORS
from adapters.legacy import LEGACY
from adapters.wire.json_object import MISSING, is_present
from gateway.batch import read_object, translate_batch_line
from gateway.dry_run import Kind, OfflineTranslator
from gateway.migration.data.threads import Thread, read_threads
from gateway.migration.data.validation import (
    Target,
    check_conversation,
    check_reply,
    check_request,
)

_Object = dict[str, Raw]
_OBJECT = msgspec.json.Decoder(_Object)
_OBJECTS = msgspec.json.Decoder(list[_Object])
_encode = msgspec.json.encode

_PREFERENCES = ("preferred_output", "non_preferred_output")
# The fields of a translated request that have the conversation.
_ITEMS = {"chat": "messages", "responses": "input"}
# A message for a request that needs one, and is not kept.
_PLACEHOLDER = Raw(b'[{"role":"user","content":"x"}]')
_FUNCTION = Raw(b'"function"')
_UNKNOWN = (
    "the record has no known form; expected a request, a training example, a line of a batch file,"
    " a reply, a thread or definitions of functions"
)


class _Message(Struct, gc=False):
    role: str | None = None
    function_call: Raw = MISSING


class _Request(Struct):
    messages: list[_Message] = []
    functions: Raw = MISSING
    function_call: Raw = MISSING


_REQUEST = msgspec.json.Decoder(_Request)


class ConvertedRecord(Struct, frozen=True):
    """A record in the form of the target; the same bytes if there is nothing to convert."""

    body: bytes
    losses: tuple[Loss, ...] = ()


def convert_record(record: bytes, target: Target) -> ConvertedRecord:
    """Convert one record; raise a `DragomanError` if that is not possible."""
    try:
        # The decoders do not check the encoding of raw values.
        record.decode()
        if threads := read_threads(record):
            return _convert_threads(threads, target)
        if record.startswith(b"["):
            return _convert_list(_OBJECTS.decode(record), record, target)
        return _convert_object(_OBJECT.decode(record), record, target)
    except DECODE_ERRORS as error:
        raise InvalidRequestError(None, f"the record cannot be read: {error}") from None


def _convert_object(fields: _Object, record: bytes, target: Target) -> ConvertedRecord:
    if "custom_id" in fields and fields.keys() & {"body", "response"}:
        return _convert_batch_line(fields, record, target)
    if "messages" in fields:
        return _translate(record, target)
    if "choices" in fields:
        return _convert_reply(fields, record, target)
    if fields.keys() >= {"input", *_PREFERENCES}:
        return _convert_preference(fields, target)
    return _convert_declarations(fields, record, target)


def _convert_declarations(fields: _Object, record: bytes, target: Target) -> ConvertedRecord:
    """Convert an object without a conversation."""
    if "functions" in fields:
        return _convert_settings(fields, target)
    if (declares := _declaring_field([fields])) is not None:
        converted, losses = _convert_tools(declares, [Raw(record)], target)
        return ConvertedRecord(bytes(converted[0]), losses)
    if target == "responses" and fields.keys() & {"input", "output"}:
        # A request or a response of the Responses API.
        return ConvertedRecord(record)
    raise InvalidRequestError(None, _UNKNOWN)


def _convert_reply(fields: _Object, record: bytes, target: Target) -> ConvertedRecord:
    if fields.get("object") == Raw(b'"chat.completion.chunk"'):
        raise InvalidRequestError("object", "is a chunk of a stream; convert whole replies")
    return _translate(record, target, "reply")


def _translator(record: bytes, target: Target, kind: Kind = "request") -> OfflineTranslator:
    """Return the translator of a record, whose ids depend only on the record."""
    return OfflineTranslator(_source(record, kind), target, content_ids(record))


def _source(record: bytes, kind: Kind) -> str:
    """Return the dialect of a record; only one in the legacy dialect is converted for Chat."""
    if b'"function' not in record:
        return CHAT.name
    is_legacy = b'"function_call"' in record if kind == "reply" else _is_legacy(record)
    return LEGACY.name if is_legacy else CHAT.name


def _is_legacy(request: bytes) -> bool:
    """Whether a request or any message in it is legacy, even if it declares tools."""
    try:
        fields = _REQUEST.decode(request)
    except DECODE_ERRORS:
        # Its reader reports the error.
        return True
    return (
        is_present(fields.functions)
        or is_present(fields.function_call)
        or any(one.role == "function" or is_present(one.function_call) for one in fields.messages)
    )


def _translate(record: bytes, target: Target, kind: Kind = "request") -> ConvertedRecord:
    translation = _translator(record, target, kind).translate(record, kind)
    _check(translation.body, target, kind, is_changed=translation.body != record)
    return ConvertedRecord(translation.body, translation.losses)


def _check(body: bytes, target: Target, kind: Kind, *, is_changed: bool) -> None:
    if kind == "request":
        check_request(body, target, is_changed=is_changed)
    elif is_changed:
        check_reply(body, target)


def _convert_batch_line(fields: _Object, record: bytes, target: Target) -> ConvertedRecord:
    kind: Kind = "request" if "body" in fields else "reply"
    before = _batch_body(fields)
    translator = _translator(bytes(fields["body"]) if kind == "request" else record, target, kind)
    # This replaces the body in the fields, too.
    translated = translate_batch_line(translator, fields, record)
    if translated is None:
        raise InvalidRequestError(None, _UNKNOWN)
    body = _batch_body(fields)
    # The bodies of errors have other rules, and nothing in them is converted.
    if body is not None and not read_object(body).get("error"):
        _check(body, target, kind, is_changed=body != before)
    return ConvertedRecord(translated.body, translated.losses)


def _batch_body(fields: _Object) -> bytes | None:
    """Return the body of the request or reply in a line of a batch file."""
    body = fields["body"] if "body" in fields else read_object(fields["response"]).get("body")
    return None if body is None else bytes(body)


# Lists and declarations


def _convert_list(elements: Sequence[_Object], record: bytes, target: Target) -> ConvertedRecord:
    """Convert a list of messages or of functions."""
    if elements and all("role" in element for element in elements):
        items, losses = _convert_messages(Raw(record), target)
        return ConvertedRecord(bytes(items), losses)
    if (declares := _declaring_field(elements)) is not None:
        tools, losses = _convert_tools(declares, [Raw(_encode(one)) for one in elements], target)
        return ConvertedRecord(_encode(tools), losses)
    raise InvalidRequestError(None, _UNKNOWN)


def _declaring_field(elements: Sequence[_Object]) -> Literal["functions", "tools"] | None:
    """Return the field of a request that has such elements; None if they declare no functions."""
    if elements and all(map(_is_function, elements)):
        return "functions"
    if elements and all(one.get("type") == _FUNCTION and "function" in one for one in elements):
        return "tools"
    return None


def _is_function(fields: _Object) -> bool:
    """Whether an object is the definition of a function; all but its name is optional."""
    has_schema = "parameters" in fields or fields.keys() <= {"name", "description", "strict"}
    return has_schema and "name" in fields and not fields.keys() & {"role", "type"}


def _convert_settings(fields: _Object, target: Target) -> ConvertedRecord:
    """Convert an object with `functions`, such as the settings of an application."""
    converted = _translate(_encode({**fields, "messages": _PLACEHOLDER}), target)
    changed = _OBJECT.decode(converted.body)
    del changed[_ITEMS[target]]
    return ConvertedRecord(_encode(changed), converted.losses)


def _convert_messages(messages: Raw, target: Target) -> tuple[Raw, tuple[Loss, ...]]:
    converted = _translate(_encode({"messages": messages}), target)
    return _OBJECT.decode(converted.body)[_ITEMS[target]], converted.losses


def _convert_tools(
    field: Literal["functions", "tools"], declarations: Sequence[Raw], target: Target
) -> tuple[list[Raw], tuple[Loss, ...]]:
    """Convert definitions of functions or of tools, as they are in this field of a request."""
    converted = _translate(_encode({"messages": _PLACEHOLDER, field: declarations}), target)
    tools = msgspec.json.decode(_OBJECT.decode(converted.body)["tools"], type=list[Raw])
    return tools, tuple(loss for loss in converted.losses if loss.path.startswith(field))


# Training examples with two answers


def _convert_preference(fields: _Object, target: Target) -> ConvertedRecord:
    converted = _translate(bytes(fields["input"]), target)
    losses = [*_within("input", converted.losses)]
    changed = {**fields, "input": Raw(converted.body)}
    for name in _PREFERENCES:
        changed[name], lost = _convert_messages(fields[name], target)
        losses += _within(name, lost)
    return ConvertedRecord(_encode(changed), tuple(losses))


def _within(name: str, losses: Sequence[Loss]) -> list[Loss]:
    """Return losses with the paths of the whole record."""
    return [msgspec.structs.replace(loss, path=f"{name}.{loss.path}") for loss in losses]


# Threads


def _convert_threads(threads: Sequence[Thread], target: Target) -> ConvertedRecord:
    """Return one conversation, or a list of them if a record has several threads."""
    converted = [_convert_thread(thread, target) for thread in threads]
    if len(converted) == 1:
        return converted[0]
    losses = tuple(loss for one in converted for loss in one.losses)
    return ConvertedRecord(_encode([Raw(one.body) for one in converted]), losses)


def _convert_thread(thread: Thread, target: Target) -> ConvertedRecord:
    """Return the conversation of a thread, for the Conversations API or as a Chat request."""
    if target == "responses":
        lost = [
            Loss("dropped", path, "a conversation has no such field; set it in requests")
            for path in thread.setting_paths
        ]
        body = _encode({"items": thread.items, "metadata": thread.metadata})
        check_conversation(body)
        return ConvertedRecord(body, (*thread.losses, *lost))
    request = _encode({**thread.settings, "input": thread.items})
    translator = OfflineTranslator("responses", target, content_ids(request))
    translation = translator.translate(request, "request")
    check_request(translation.body, target, is_changed=True)
    return ConvertedRecord(translation.body, (*thread.losses, *translation.losses))
