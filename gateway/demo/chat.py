"""Chat Completions as the demo needs them: the fields that it reads, and replies as streams."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from adapters import InvalidRequestError

JsonObject = dict[str, Any]
Mode = Literal["none", "auto", "required"]

# The field of a call that has its arguments, or its input.
TEXT_FIELDS = {"function": "arguments", "custom": "input"}

_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`")
# What a stream sends at once: a word of a text, or a few characters of a call.
_WORD = re.compile(r"\s*\S+|\s+")
_FRAGMENT = re.compile(r".{1,8}", re.DOTALL)


class Body(Struct):
    """The inner object of a tool, of a tool choice, of a call or of a response format."""

    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    schema: dict[str, object] | None = None
    arguments: str = ""
    input: str = ""


class Function(Struct, tag="function", tag_field="type"):
    """A function that is declared, chosen or called."""

    body: Body = field(name="function")
    id: str = ""


class Custom(Struct, tag="custom", tag_field="type"):
    """A custom tool that is declared, chosen or called."""

    body: Body = field(name="custom")
    id: str = ""


Tool = Function | Custom


class Allowed(Struct):
    """The tools that may be called, and whether one must be."""

    mode: Mode
    tools: list[Tool]


class AllowedTools(Struct, tag="allowed_tools", tag_field="type"):
    """A tool choice that lists tools."""

    allowed_tools: Allowed


class Part(Struct):
    """A part of a message; images and files have no text."""

    text: str = ""


class Message(Struct):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[Tool] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The text of the content."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or () if part.text)


class ResponseFormat(Struct):
    """The format of a reply."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: Body | None = None


class Request(Struct):
    """A request."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    model: str | None = None
    tools: list[Tool] | None = None
    tool_choice: Mode | Tool | AllowedTools | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop: str | list[str] | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    stream: bool | None = None
    stream_options: dict[str, bool | None] | None = None


_REQUEST = msgspec.json.Decoder(Request)


def read_request(body: bytes) -> Request:
    """Read a request; raise `InvalidRequestError` if a field is wrong."""
    try:
        return _REQUEST.decode(body)
    except (ValueError, RecursionError) as error:
        # For example "Object missing required field `name` - at `$.tools[0].function`".
        why, _, place = str(error).partition(" - at `$")
        path, reason = place.strip(".`"), f"is invalid: {why}"
        missing = _MISSING_FIELD.fullmatch(why)
        if missing is not None:
            path, reason = f"{path}.{missing[1]}", "is required"
        raise InvalidRequestError(path.lstrip(".") or None, reason) from None


def stream_reply(reply: JsonObject, *, with_usage: bool) -> Iterator[bytes]:
    """Write the frames of a whole reply."""
    head = {**reply, "object": "chat.completion.chunk", "usage": None}
    if not with_usage:
        del head["usage"]
    for choice in reply["choices"]:
        parts = [(delta, None) for delta in _deltas(choice["message"])]
        for delta, reason in [*parts, ({}, choice["finish_reason"])]:
            written = {"index": choice["index"], "delta": delta, "finish_reason": reason}
            yield _frame({**head, "choices": [written]})
    if with_usage:
        yield _frame({**head, "choices": [], "usage": reply["usage"]})
    yield b"data: [DONE]\n\n"


def _deltas(message: JsonObject) -> Iterator[JsonObject]:
    """Yield a message in small parts."""
    yield {"role": "assistant", "content": ""}
    for text in _WORD.findall(message["content"] or ""):
        yield {"content": text}
    for index, call in enumerate(message.get("tool_calls", ())):
        kind: str = call["type"]
        text_field, body = TEXT_FIELDS[kind], call[kind]
        yield {"tool_calls": [{"index": index, **call, kind: {**body, text_field: ""}}]}
        for text in _FRAGMENT.findall(body[text_field]):
            yield {"tool_calls": [{"index": index, kind: {text_field: text}}]}


def _frame(chunk: JsonObject) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"
