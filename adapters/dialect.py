"""The interface of a dialect: its properties, and its readers and writers.

Each dialect is a package. A new dialect only has to be added to `DIALECTS`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from msgspec import Raw, Struct, ValidationError
from msgspec.json import Decoder

from adapters.capabilities import Capabilities
from adapters.conformance import Violation
from adapters.errors import InvalidRequestError
from adapters.ids import IdSource
from adapters.ir.events import (
    ALL_CHANNELS,
    BlockId,
    Channel,
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
    undecodable_stream,
)
from adapters.ir.types import (
    CallKind,
    Error,
    Family,
    Reasoning,
    Reply,
    Request,
    Tool,
    Usage,
)
from adapters.json_text import DECODE_ERRORS, is_complete_json, is_utf8, replace_invalid_text
from adapters.losses import Losses
from adapters.sse import Frame, is_done, parse_event
from adapters.wire.json_object import JsonObject, RequestBody

T = TypeVar("T")


class ReplyOptions(Struct, frozen=True):
    """The choice between several valid forms of a reply."""

    # Send reasoning to Responses clients as `reasoning_text` content. By default it is sent as
    # summaries, which both openai packages and Open Responses accept.
    reasoning_text: bool = False
    # Whether Responses clients receive the text of reasoning: "requested" if the request has
    # `reasoning.summary`, "auto" also if it has no `reasoning` at all, because users of open models
    # expect to see it.
    reasoning_summary: Literal["auto", "always", "requested"] = "auto"
    # The message field in which Chat and legacy clients receive reasoning. By default they receive
    # no reasoning, because their specification has no field for it.
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    # End a truncated response with `response.completed` (and `incomplete_details`), for clients
    # that treat `response.incomplete` as an error.
    incomplete_as_completed: bool = False


DEFAULT_REPLY_OPTIONS = ReplyOptions()

# A heartbeat: proxies and clients ignore it, but do not close the connection as idle.
HEARTBEAT = b": keep-alive\n\n"


def without_done(frames: list[bytes]) -> list[bytes]:
    """Return frames without `[DONE]`."""
    parsed = ((frame, parse_event(frame.rstrip(b"\n"))) for frame in frames)
    return [frame for frame, event in parsed if event is None or not is_done(event)]


def decode_event(
    data: bytes,
    decoder: Decoder[T],
    decode_other: Callable[[bytes, ValidationError | None], T],
    losses: Losses,
) -> T:
    """Decode an event of a backend's stream.

    `decode_other` is called with the decoder's error if the event does not have the decoder's type,
    or with None after invalid characters in the event were replaced. If it does not raise, the
    replacement is reported.
    """
    # The decoder does not find invalid UTF-8 in `Raw` values.
    if data.isascii() or is_utf8(data):
        try:
            return decoder.decode(data)
        except ValidationError as error:
            return decode_other(data, error)
        except DECODE_ERRORS:
            pass
    text = replace_invalid_text(data)
    if text == data:
        raise InvalidRequestError(None, "an event of the stream is not JSON")
    event = decode_other(text, None)
    losses.changed("stream", "invalid characters are replaced")
    return event


# Whether a client of the same dialect can receive a frame: "pass" as it is; "hold" until the frames
# after it show that it is the last one of its kind; "write" its events in a correct form.
Verdict = Literal["pass", "hold", "write"]


class Passed(Struct, frozen=True):
    """What has been passed through of a stream, besides its events."""

    # The number of its frames.
    frames: int
    # The choices whose start has passed.
    begun_choices: Sequence[int] = ()
    # How many events that end the latest part of a block have passed.
    part_ends: Mapping[BlockId, int] = {}


class BaseStreamReader(ABC):
    """Reads the frames of a backend's stream as events."""

    # The verdict on the latest frame, if the context requests repairs.
    verdict: Verdict = "pass"
    # Whether the latest frame has one delta and differs from the frame before it only in its text.
    # Then it has the same verdict, which is "pass" if the context requests repairs.
    similar: bool = False
    # The choices whose start was read.
    begun_choices: Sequence[int] = ()
    # How many events that end the latest part of a block were read.
    part_ends: Mapping[BlockId, int] = {}
    # Whether the marker that ends a stream was read, if the dialect has one.
    saw_end: bool = False
    # Whether the rest of the stream is written, and not passed.
    writes: bool = False

    @property
    def finished(self) -> bool:
        """Whether the reply is complete, and only `[DONE]` may follow."""
        return False

    def feed(self, frame: Frame) -> list[Event]:
        """Read one frame; end the stream with an error if that fails."""
        try:
            return self.read(frame)
        except InvalidRequestError as error:
            # The last frame may be truncated; then `flush` reports the truncated stream.
            whole = frame.whole or is_complete_json(frame.data)
            return self.fail(undecodable_stream(str(error))) if whole else []

    @abstractmethod
    def read(self, frame: Frame) -> list[Event]:
        """Read one frame; raise `InvalidRequestError` if it cannot be read."""

    @abstractmethod
    def fail(self, failed: Failed) -> list[Event]:
        """End the stream with an error."""

    @abstractmethod
    def flush(self) -> list[Event]:
        """Read the end of the stream."""


class BaseStreamWriter(ABC):
    """Writes events as the frames of a client's stream, with a method for each type of event."""

    # The channels whose text the writer needs in order to continue a stream.
    continued_channels: frozenset[Channel] = ALL_CHANNELS
    # Whether the events of the dialect have names.
    names_events: bool = True

    def __init__(self) -> None:
        # A lookup by type is faster than a series of comparisons.
        self._write: dict[type[Event], Callable[..., list[bytes]]] = {
            Started: self.start,
            Opened: self.open,
            Delta: self.write_delta,
            Closed: self.close,
            Finished: self.finish,
            Failed: self.fail,
        }

    def feed(self, event: Event) -> list[bytes]:
        """Write one event."""
        return self._write[event.__class__](event)

    def keep_alive(self) -> list[bytes]:
        """Return the frames of a heartbeat."""
        return [HEARTBEAT]

    def is_heartbeat(self, _frame: Frame) -> bool:
        """Whether a backend's frame is a heartbeat, which may be repeated."""
        return False

    def renumber_heartbeat(self, heartbeat: bytes, _passed: int) -> bytes:
        """Return a heartbeat of the backend for repetition after `_passed` of its frames."""
        return heartbeat

    def override_response_fields(self, block: bytes) -> bytes:
        """Return a backend's event with the response fields that the gateway overrides."""
        return block

    def continue_passed(self, events: Iterable[Event], _passed: Passed) -> None:
        """Continue a stream whose frames so far had these events and were passed through.

        `Started` was written before. Text in other channels than `continued_channels` is omitted.
        """
        for event in events:
            self.feed(event)

    def note_frame(self, _frame: Frame, _events: Sequence[Event]) -> None:
        """Store the fields of a backend's frame that the IR lacks; called before it is written."""
        return

    def keep_fields(self, _frame: Frame | None, written: list[bytes]) -> list[bytes]:
        """Return the frames that replace a backend's frame with its fields that the IR lacks.

        The backend's frame is None for frames that are written after the end of its stream.
        """
        return written

    def end_passed(self) -> list[bytes]:
        """Return the frames that end a stream that was passed through up to its end."""
        return []

    @property
    def reply(self) -> Mapping[str, object] | None:
        """The reply object in the last event, if the dialect has one."""
        return None

    def note_passed_end(self, _block: bytes) -> None:
        """Read the last event of a stream that is passed through."""
        return

    def fail_after_end(self, last: list[bytes], error: Error) -> list[bytes]:
        """Return the frames that end a stream with an error, instead of its own last frames."""
        return [*without_done(last), *self.fail(Failed(error))]

    def fail_passed(self, failed: Failed, _passed: int) -> list[bytes]:
        """End a stream with an error after `_passed` frames of the backend."""
        return self.fail(failed)

    @abstractmethod
    def start(self, event: Started) -> list[bytes]:
        """Begin the stream."""

    @abstractmethod
    def open(self, event: Opened) -> list[bytes]:
        """Begin a block."""

    @abstractmethod
    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a delta of a block."""

    @abstractmethod
    def close(self, event: Closed) -> list[bytes]:
        """End a block."""

    @abstractmethod
    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""

    @abstractmethod
    def fail(self, event: Failed) -> list[bytes]:
        """End the stream with an error."""


class ReplyContext(Struct, frozen=True):
    """The request of a reply, and the ids, losses and options of its readers and writers."""

    # `EMPTY_REQUEST` if the request is not known.
    request: Request
    ids: IdSource
    losses: Losses
    reply_options: ReplyOptions = DEFAULT_REPLY_OPTIONS
    # Fields of the response object that replace the backend's, for example the id of a response
    # that the gateway stores.
    response_overrides: Mapping[str, object] = {}
    # Whether reasoning is written in the message field in which it was received, because the
    # backend has the client's dialect.
    keeps_reasoning_field: bool = False
    # The ids of the calls in the history, which calls of the reply must not have.
    call_ids: frozenset[str] = frozenset()
    # Whether the backend and the client have the same dialect, and frames are repaired: the reader
    # returns a verdict on each frame, and the writer writes only what the reader does not pass.
    repairs: bool = False


def passes_any(_body: bytes, _context: ReplyContext) -> bool:
    """Whether a whole reply can be passed through; always true."""
    return True


def keeps_none(
    _body: bytes, written: dict[str, object], _context: ReplyContext
) -> dict[str, object]:
    """Return a reply as it was written."""
    return written


def no_call_ids(_items: Raw) -> frozenset[str]:
    """Return no ids of calls."""
    return frozenset()


def matches_any(_body: RequestBody) -> bool:
    """Whether a request is in the only dialect of its endpoint; always true."""
    return True


@dataclass(frozen=True, slots=True)
class Dialect:
    """A form of requests and replies."""

    name: str
    family: Family
    # The endpoint to which clients post requests, and whether a request there is in this dialect.
    path: str
    matches: Callable[[RequestBody], bool]
    # Whether its servers store replies and continue conversations.
    stateful: bool
    # Its names of IR fields, if they differ, and the IR fields that it does not support.
    names: Mapping[str, str]
    # Its paths of the fields of a reply that do not belong to an item.
    reply_names: Mapping[str, str]
    unsupported_fields: frozenset[str]
    # Where a conversation contains reasoning: in items, which may be encrypted, or in a field of an
    # assistant message.
    reasoning: Literal["items", "message_field"]
    has_call_ids: bool
    # Whether its servers may know only the request fields from before tools.
    predates_tools: bool
    # Whether its servers usually accept `allowed_tools` as a tool choice.
    has_allowed_tools: bool
    # Whether the fields of a tool are in an inner object, and whether functions have `strict`.
    nests_tools: bool
    has_strict: bool
    # Whether a tool can be declared unchanged to a backend with these capabilities.
    supports_tool: Callable[[Tool, Capabilities], bool]
    # The maximum length of a tool's name.
    max_tool_name_length: int
    # The kinds of calls that a reply can contain.
    call_kinds: frozenset[CallKind]
    # Whether replies are stored if the request does not set `store`.
    stores_by_default: bool
    # Request fields that refer to a stored conversation.
    server_state_fields: frozenset[str]
    read_request: Callable[[RequestBody, Losses], Request]
    write_request: Callable[[Request, Capabilities, Losses], bytes]
    read_reply: Callable[[bytes, ReplyContext], Reply]
    write_reply: Callable[[Reply, ReplyContext], dict[str, object]]
    read_usage: Callable[[JsonObject | None], Usage | None]
    read_stream: Callable[[ReplyContext], BaseStreamReader]
    write_stream: Callable[[ReplyContext], BaseStreamWriter]
    # Reads an error body of any form; the status is None if it is not known.
    read_error: Callable[[int | None, bytes], Error]
    write_error: Callable[[Error], bytes]
    check_stream: Callable[[bytes], list[Violation]]
    # Writes reasoning as fields of a message; None if the dialect has items for it.
    write_reasoning: Callable[[Sequence[Reasoning]], Mapping[str, object]] | None = None
    # Whether its readers and writers support repairs, as requested by `ReplyContext.repairs`.
    repairs: bool = False
    # Whether a client of the same dialect can receive a whole reply as it is; what cannot be is
    # reported. And the fields of such a reply that the IR lacks, added to the reply as written.
    check_reply: Callable[[bytes, ReplyContext], bool] = passes_any
    # The ids of the calls with an output in the items of a request.
    find_call_ids: Callable[[Raw], frozenset[str]] = no_call_ids
    # The request fields on which the repair of a whole reply depends.
    reply_fields: frozenset[str] = frozenset()
    keep_reply_fields: Callable[[bytes, dict[str, object], ReplyContext], dict[str, object]] = (
        keeps_none
    )
    # Its paths in the losses of requests, if these include fields of items and tools.
    loss_names: Mapping[str, str] | None = None


# Paths in errors

_FIRST_NAME = re.compile(r"[^.\[]*")
# Fields in the inner object of a tool, if tools have one.
_INNER_TOOL_FIELD = re.compile(r"\.(name|description|parameters|strict)\b")
_TOOL_PATH = re.compile(r"(?:tools|functions)(\[\d+\])(?:\.(?:function|custom))?(.*)")
_TOKEN_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def translate_error_param(
    param: str | None, backend: Dialect, client: Dialect, *, tools_dropped: bool = False
) -> str | None:
    """Translate a path in a backend's error to the client's names; None if it has no such field.

    The index of a message or item is removed, because it differs between dialects. So is the index
    of a tool with `tools_dropped`.
    """
    if not param or backend is client:
        return param
    tool = _TOOL_PATH.fullmatch(param)
    if tool is not None:
        return _tool_path(client, *(("", "") if tools_dropped else tool.groups()))
    path = _ir_path(param, backend)
    match = _FIRST_NAME.match(path)
    first = match.group() if match else path
    if first in client.unsupported_fields:
        return None
    if first == "items":
        return client.names["items"]
    return client.names.get(path) or client.names.get(first, first) + path[len(first) :]


def _tool_path(client: Dialect, index: str, rest: str) -> str:
    name = client.names.get("tools", "tools")
    nested = ".function" if client.nests_tools and _INNER_TOOL_FIELD.match(rest) else ""
    return f"{name}{index}{nested}{rest}"


def _ir_path(param: str, backend: Dialect) -> str:
    for field, name in sorted(backend.names.items(), key=lambda pair: -len(pair[1])):
        rest = param.removeprefix(name)
        if rest != param and rest[:1] in ("", ".", "["):
            return field + rest
    return "max_output_tokens" if param in _TOKEN_LIMITS else param
