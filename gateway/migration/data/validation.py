"""Checks of converted records: their form, and the ids that connect calls and their outputs.

Only what a conversion writes is checked: an unchanged part of a message may be known to one server
only.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError
from adapters.json_text import DECODE_ERRORS
from gateway.openapi.chat_reply import ChatReply
from gateway.openapi.chat_request import (
    AnyChatToolCall,
    ChatCustomTool,
    ChatFunctionTool,
    ChatToolChoice,
)
from gateway.openapi.responses_items import (
    CustomCallItem,
    CustomOutputItem,
    FunctionCallItem,
    FunctionOutputItem,
    KnownItem,
)
from gateway.openapi.responses_reply import ResponsesReply

Target = Literal["chat", "responses"]


class _CallId(Struct, gc=False):
    id: str = ""


class _UnchangedMessage(Struct):
    """A message with the ids of calls and outputs."""

    role: str = ""
    tool_calls: list[_CallId] | None = None
    tool_call_id: str | None = None


class _UnchangedRequest(Struct):
    messages: list[_UnchangedMessage] = []
    model: Raw = Raw()


class _Message(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    tool_calls: list[AnyChatToolCall] | None = None
    tool_call_id: str | None = None
    function_call: None = None


class _ChatRequest(Struct):
    """A converted request, which has no legacy field."""

    messages: list[_Message]
    model: Raw = Raw()
    tools: list[ChatFunctionTool | ChatCustomTool] | None = None
    tool_choice: ChatToolChoice | None = None
    functions: None = None
    function_call: None = None


class _ResponsesRequest(Struct):
    input: list[KnownItem]
    model: Raw = Raw()


class _Conversation(Struct):
    items: list[KnownItem]


class _Error(Struct):
    error: Raw = Raw()


_ERROR = msgspec.json.Decoder(_Error)
_UNCHANGED_REQUEST = msgspec.json.Decoder(_UnchangedRequest)
_CHAT_REQUEST = msgspec.json.Decoder(_ChatRequest)
_RESPONSES_REQUEST = msgspec.json.Decoder(_ResponsesRequest)
_CONVERSATION = msgspec.json.Decoder(_Conversation)
_REPLIES: dict[Target, msgspec.json.Decoder[ChatReply] | msgspec.json.Decoder[ResponsesReply]] = {
    "chat": msgspec.json.Decoder(ChatReply),
    "responses": msgspec.json.Decoder(ResponsesReply),
}


def check_request(body: bytes, target: Target, *, is_changed: bool) -> None:
    """Raise an error unless a converted request is valid; an unchanged one, if its ids match.

    A request without a model is an example for training, which may end with calls.
    """
    try:
        if target == "responses":
            request = _RESPONSES_REQUEST.decode(body)
            _check_pairs(_ids_of_items("input", request.input), ends_open=not request.model)
            return
        found = (_CHAT_REQUEST if is_changed else _UNCHANGED_REQUEST).decode(body)
    except DECODE_ERRORS as error:
        raise _invalid(error) from None
    _check_pairs(_ids_of_messages(found.messages), ends_open=not found.model)


def check_conversation(body: bytes) -> None:
    """Raise an error unless the items of a conversation are valid."""
    try:
        conversation = _CONVERSATION.decode(body)
    except DECODE_ERRORS as error:
        raise _invalid(error) from None
    _check_pairs(_ids_of_items("items", conversation.items), ends_open=False)


def check_reply(body: bytes, target: Target) -> None:
    """Raise an error unless a converted reply is valid."""
    try:
        _REPLIES[target].decode(body)
    except DECODE_ERRORS as error:
        if _ERROR.decode(body).error:
            message = "ended with an error, which no reply of the target expresses"
            raise InvalidRequestError("choices", message) from None
        raise _invalid(error) from None


def _invalid(error: Exception) -> InvalidRequestError:
    return InvalidRequestError(None, f"the converted record is not valid: {error}")


# Calls and their outputs: the path, the ids of calls that begin here, and the id of an output.
_Ids = tuple[str, Sequence[str], str | None]


def _ids_of_messages(messages: Sequence[_Message | _UnchangedMessage]) -> Iterator[_Ids]:
    for number, message in enumerate(messages):
        calls = message.tool_calls or ()
        output = message.tool_call_id or "" if message.role == "tool" else None
        yield f"messages[{number}]", [call.id for call in calls], output


def _ids_of_items(name: str, items: Sequence[KnownItem]) -> Iterator[_Ids]:
    for number, item in enumerate(items):
        match item:
            case FunctionCallItem() | CustomCallItem():
                yield f"{name}[{number}]", (item.call_id,), None
            case FunctionOutputItem() | CustomOutputItem():
                yield f"{name}[{number}]", (), item.call_id or ""
            case _:
                pass


def _check_pairs(ids: Iterator[_Ids], *, ends_open: bool) -> None:
    """Raise an error unless each output follows its call, and each call has one output."""
    waiting: dict[str, str] = {}
    for path, calls, output in ids:
        if output is not None and waiting.pop(output, None) is None:
            raise InvalidRequestError(path, f"has the output of a call {output!r} that is missing")
        for call in calls:
            if not call:
                raise InvalidRequestError(path, "has a call without an id")
            if call in waiting:
                raise InvalidRequestError(path, f"has the id {call!r} of another call")
            waiting[call] = path
    if waiting and not ends_open:
        call, path = next(iter(waiting.items()))
        raise InvalidRequestError(path, f"has a call {call!r} without an output")
