"""Whole replies of backends for clients of the same dialect: what has to be repaired, and how.

The rules are those of `adapters.chat.repair_check` for chunks.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, cast

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from adapters.chat.repair_check import (
    CALL_REASONS,
    MISSING_REASON,
    TRUNCATED_REASONS,
    CallStyle,
    is_integer,
    wrong_finish,
)
from adapters.chat.stream_repair import CHOICE_FIELDS, MESSAGE_FIELDS, choice_index
from adapters.chat.wire import (
    CallDelta,
    Chunk,
    ChunkChoice,
    Counts,
    FunctionDelta,
    MessageDelta,
    Wire,
    complete_usage,
    has_counts,
)
from adapters.dialect import ReplyContext
from adapters.ir.normalize import INCOMPLETE_USAGE_REASON, wants_one_choice
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import MISSING, NULL, is_present, string_or_raw_json

# A whole reply has the fields of a chunk, with `message` in place of `delta`.
_REPLY = Decoder(Chunk)
_OBJECT = Decoder(dict[str, Raw])
_MESSAGE: Decoder[dict[str, Raw] | None] = Decoder(dict[str, Raw] | None)
_OBJECTS = Decoder(list[dict[str, Raw]])
_Fields = dict[str, Raw]
# The fields of a reply that are written, if it is repaired.
_REPLY_FIELDS = ("id", "object", "created", "model")


# Typical replies: one choice with text or function calls.

_Filled = Annotated[str, Meta(min_length=1)]


class _Function(Struct, gc=False):
    name: _Filled
    arguments: str


class _Call(Struct, gc=False):
    id: _Filled
    type: Literal["function"]
    function: _Function


class _Message(Struct, gc=False):
    role: Literal["assistant"]
    content: str | None
    tool_calls: tuple[_Call, ...] | None = None
    function_call: None = None


class _Choice(Struct, gc=False):
    index: Literal[0]
    message: _Message
    finish_reason: Literal["stop", "tool_calls", "length", "content_filter"]


class _Reply(Struct, gc=False):
    id: _Filled
    object: Literal["chat.completion"]
    created: int
    model: _Filled
    choices: Annotated[tuple[_Choice, ...], Meta(min_length=1, max_length=1)]
    usage: Counts | None = None


_TYPICAL = Decoder(_Reply)


def _is_typical(body: bytes, style: CallStyle, used_ids: frozenset[str]) -> bool:
    """Whether a reply is a valid one of the usual form; others are checked by `_ReplyCheck`.

    This takes a third of the time.
    """
    try:
        [choice] = _TYPICAL.decode(body).choices
    except DECODE_ERRORS:
        return False
    calls = choice.message.tool_calls
    if not calls:
        return choice.finish_reason != "tool_calls"
    return (
        style == "tools"
        and choice.finish_reason != "stop"
        and all(call.function.arguments.strip() for call in calls)
        and (len(calls) == 1 or len({call.id for call in calls}) == len(calls))
        and not (used_ids and any(call.id in used_ids for call in calls))
    )


# Replies of any form


class _Content(Struct):
    content: Raw = MISSING


class _ContentChoice(Struct):
    message: _Content | None = None


class _Contents(Struct):
    choices: list[_ContentChoice] | None = None


_CONTENTS = Decoder(_Contents)


class _ReplyCheck:
    """Checks one reply, and reports what has to be changed, unless its reader reports it."""

    def __init__(
        self, context: ReplyContext, style: CallStyle, has_content: Sequence[bool]
    ) -> None:
        self._losses = context.losses
        self._style: CallStyle = style
        # Whether the message of each choice has the field `content`, which may be null.
        self._has_content = has_content
        # The ids of all calls, and of those in the history.
        self._ids: set[str | int] = {*context.call_ids}
        # Whether the current choice is truncated, so that its calls may have no arguments.
        self._truncated = False
        self.passes = True

    def _report(self, path: str, reason: str) -> None:
        self.passes = False
        self._losses.changed(path, reason)

    def _report_missing(self, path: str) -> None:
        """Report a field that has to be added."""
        self.passes = False
        self._losses.invented(path, MISSING_REASON)

    def check(self, reply: Chunk, expected: int) -> None:
        head = {"id": reply.id, "model": reply.model, "created": reply.created}
        for name, value in head.items():
            if value in ("", None):
                self._report_missing(name)
        if reply.object != "chat.completion":
            self._report("object", "missing or wrong; replaced")
        if reply.created is not None and not is_integer(reply.created):
            self._report("created", "not an integer; its fraction is removed")
        if is_present(reply.usage) and not has_counts(reply.usage):
            self._report("usage", INCOMPLETE_USAGE_REASON)
        choices = reply.choices or ()
        if len(choices) > expected:
            self._report("choices", "one choice was requested; further choices are merged into it")
        self._check_indices(choices)
        for number, choice in enumerate(choices):
            self._check_choice(choice, number)

    def _check_indices(self, choices: Sequence[ChunkChoice]) -> None:
        """Check the indices of the choices, which may be in any order."""
        missing = set(range(len(choices))) - {choice.index for choice in choices}
        for number, choice in enumerate(choices if missing else ()):
            if choice.index != number:
                self._report(f"choices[{number}].index", "missing or wrong; replaced")

    def _check_choice(self, choice: ChunkChoice, number: int) -> None:
        path = f"choices[{number}]"
        message = choice.message
        if message is None:
            self._report_missing(f"{path}.message")
            return
        if message.role != "assistant":
            self._report(f"{path}.message.role", "missing or wrong; replaced")
        if isinstance(message.content, list):
            self._report(f"{path}.message.content", "the text was received as a list of parts")
        elif message.content is None and not self._has_content[number]:
            self._report_missing(f"{path}.message.content")
        self._truncated = choice.finish_reason in TRUNCATED_REASONS
        has_calls = self._check_calls(message, f"{path}.message")
        expected = CALL_REASONS[self._style] if has_calls else "stop"
        if choice.finish_reason not in (expected, *TRUNCATED_REASONS):
            reason = choice.finish_reason
            if reason:
                self._report(f"{path}.finish_reason", wrong_finish(reason))
            else:
                self._report_missing(f"{path}.finish_reason")

    def _check_calls(self, message: MessageDelta, path: str) -> bool:
        """Check the calls of a message; return whether it has any."""
        calls, legacy = message.tool_calls or (), message.function_call
        if self._style == "functions":
            if calls:
                self._report(
                    f"{path}.function_call", "sent as function_call, as the client expects"
                )
            elif legacy is not None:
                self._check_function(legacy, f"{path}.function_call")
        elif calls:
            self._check_tool_calls(calls, f"{path}.tool_calls")
        elif legacy is not None:
            self._report(f"{path}.tool_calls", "sent as a tool call, as the client expects")
        return bool(calls) or legacy is not None

    def _check_tool_calls(self, calls: Sequence[CallDelta], path: str) -> None:
        for number, call in enumerate(calls):
            at = f"{path}[{number}]"
            if isinstance(call.id, int):
                self._report(f"{at}.id", "not a string; sent as a string")
            elif not call.id or call.id in self._ids:
                # The reader reports the new id.
                self.passes = False
            if call.id:
                self._ids.add(call.id)
            if call.type not in ("function", "custom"):
                self._report(f"{at}.type", "missing or unknown; replaced")
            if call.type != "custom" and call.function is not None:
                self._check_function(call.function, f"{at}.function")
            elif call.custom is None or not call.custom.name or call.custom.input is None:
                self._report(at, "the call has another form than its type")

    def _check_function(self, function: FunctionDelta, path: str) -> None:
        if not function.name:
            # The reader reports that the call is dropped.
            self.passes = False
        if not bytes(function.arguments).startswith(b'"'):
            self._report(f"{path}.arguments", "not a string; sent as a string")
        elif not self._truncated and not string_or_raw_json(function.arguments).strip():
            # The reader reports the new arguments.
            self.passes = False


def check_reply(body: bytes, context: ReplyContext, style: CallStyle = "tools") -> bool:
    """Whether a client of the same dialect can receive a whole reply as it is."""
    if _is_typical(body, style, context.call_ids):
        return True
    try:
        reply = _REPLY.decode(body)
    except DECODE_ERRORS:
        context.losses.changed("choices", "fields of a wrong type are converted")
        return False
    messages = (choice.message or _Content() for choice in _CONTENTS.decode(body).choices or ())
    has_content = [bool(message.content) for message in messages]
    check = _ReplyCheck(context, style, has_content)
    check.check(reply, context.request.choices or 1)
    return check.passes


def keep_reply_fields(body: bytes, written: Wire, context: ReplyContext) -> Wire:
    """Return a repaired reply with the fields of the backend's reply that the IR lacks.

    Among them are reasoning, annotations and log probabilities, which keep their form.
    """
    reply = _OBJECT.decode(body)
    received = _OBJECTS.decode(reply["choices"])
    received.sort(key=choice_index)
    messages = [_message_of(choice) for choice in received]
    if wants_one_choice(context.request):
        # Where choices are merged, the fields of the first one count.
        received, messages = [_union(received)], [_union(messages)]
    choices: list[Wire] = []
    for choice, fields, message in zip(_choices(written), received, messages, strict=False):
        kept = _others(message, MESSAGE_FIELDS)
        own = _without_new_nulls(cast("Wire", choice["message"]), message)
        changes = {"index": choice["index"], "message": own | kept}
        finish = {"finish_reason": choice["finish_reason"]}
        choices.append(changes | _others(fields, CHOICE_FIELDS) | finish)
    heads = {name: written[name] for name in _REPLY_FIELDS}
    if is_present(usage := reply.get("usage", NULL)):
        heads["usage"] = complete_usage(usage)
    return {**reply, **heads, "choices": choices}


def _message_of(choice: _Fields) -> _Fields:
    """Return the message of a choice, which some servers send as a delta."""
    message = _MESSAGE.decode(choice.get("message", NULL))
    return message or _MESSAGE.decode(choice.get("delta", NULL)) or {}


def _choices(written: Wire) -> list[Wire]:
    return cast("list[Wire]", written["choices"])


def _union(objects: list[_Fields]) -> _Fields:
    """Return the fields of several objects; the first object with a field counts."""
    union: _Fields = {}
    for fields in reversed(objects):
        union |= fields
    return union


def _others(fields: _Fields, names: frozenset[str]) -> Wire:
    return {name: value for name, value in fields.items() if name not in names}


def _without_new_nulls(written: Wire, received: _Fields) -> Wire:
    """Return the fields of a message that have a value, or that the backend sent too."""
    return {
        name: value
        for name, value in written.items()
        if name in MESSAGE_FIELDS and (value is not None or name in received or name == "content")
    }
