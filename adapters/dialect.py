"""What every dialect offers. One folder each; adding one changes nothing elsewhere."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from adapters.capabilities import Capabilities
from adapters.conformance import Violation
from adapters.errors import InvalidRequestError
from adapters.ids import IdSource
from adapters.ir.events import (
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
    undecodable_stream,
)
from adapters.ir.types import CallKind, Error, Family, Reply, Request, Tool, Usage
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.sse import Frame, is_done, parse_event
from adapters.wire.json_object import JsonObject, RequestBody


class ReplyOptions(Struct, frozen=True):
    """Options of replies where a dialect allows more than one form."""

    # Send reasoning to Responses clients as `reasoning_text` content. By default it is sent as
    # summaries, which both SDKs and Open Responses accept.
    reasoning_text: bool = False
    # The message field in which Chat and legacy clients receive reasoning. Their specification has
    # none, so by default they receive no reasoning.
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    # End a truncated response with `response.completed` (and `incomplete_details`), for clients
    # that treat `response.incomplete` as an error.
    incomplete_as_completed: bool = False


DEFAULT = ReplyOptions()


# What the stream readers of all dialects have in common, and what the writers have.


# Shows proxies and most clients that the connection lives.
COMMENT = b": keep-alive\n\n"


def without_done(frames: list[bytes]) -> list[bytes]:
    """Return frames without the marker that ends a stream."""
    parsed = ((frame, parse_event(frame.rstrip(b"\n"))) for frame in frames)
    return [frame for frame, event in parsed if event is None or not is_done(event)]


class BaseStreamReader(ABC):
    """Frames in, events out."""

    @property
    def finished(self) -> bool:
        """Tell whether the answer is whole, and just the word that ends the stream is missing."""
        return False

    def feed(self, frame: Frame) -> list[Event]:
        """Take one frame; tell what cannot be read as a failure."""
        try:
            return self.read(frame)
        except InvalidRequestError as problem:
            # Of a frame that the end of the stream cut, the end tells whether it mattered.
            whole = frame.whole or is_complete_json(frame.data)
            return self.fail(undecodable_stream(str(problem))) if whole else []

    @abstractmethod
    def read(self, frame: Frame) -> list[Event]:
        """Take one frame; raise `InvalidInput` if it cannot be read."""

    @abstractmethod
    def fail(self, failed: Failed) -> list[Event]:
        """End the stream as a failure."""

    @abstractmethod
    def flush(self) -> list[Event]:
        """Learn that the stream is over."""


class BaseStreamWriter(ABC):
    """Events in, frames out: one method for each event."""

    def __init__(self) -> None:
        # Looked up by type: faster than asking for each in turn.
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

    def flush(self) -> list[bytes]:
        """Give nothing more: the last event ended the stream."""
        return []

    def keep_alive(self) -> list[bytes]:
        """Say that the answer is still being made."""
        return [COMMENT]

    def is_heartbeat(self, _frame: Frame) -> bool:
        """Tell whether a frame says no more than that, and may be repeated."""
        return False

    def renumber_heartbeat(self, pulse: bytes, _passed: int) -> bytes:
        """Give such a frame once more, behind so many that were passed on as they came."""
        return pulse

    def override_response_fields(self, block: bytes) -> bytes:
        """Give the lines of another server's event with what the answer says of itself here."""
        return block

    @property
    def reply(self) -> Mapping[str, object] | None:
        """The whole reply object that the last event carried, if the dialect has one."""
        return None

    def note_relayed_end(self, _block: bytes) -> None:
        """Note the event that ended a stream which was passed on as it came."""
        return

    def fail_after_end(self, last: list[bytes], error: Error) -> list[bytes]:
        """Return the last frames of a stream with a failure in place of its end."""
        return [*without_done(last), *self.fail(Failed(error))]

    def fail_relayed(self, failed: Failed, _passed: int) -> list[bytes]:
        """End, as a failure, a stream of which so many events were passed on as they came."""
        return self.fail(failed)

    @abstractmethod
    def start(self, event: Started) -> list[bytes]:
        """Begin the stream."""

    @abstractmethod
    def open(self, event: Opened) -> list[bytes]:
        """Begin a block."""

    @abstractmethod
    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a piece of a block."""

    @abstractmethod
    def close(self, event: Closed) -> list[bytes]:
        """End a block."""

    @abstractmethod
    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""

    @abstractmethod
    def fail(self, event: Failed) -> list[bytes]:
        """End the stream as a failure."""


class ReplyContext(Struct, frozen=True):
    """What a writer or a stream reader may ask besides what it reads or writes."""

    # What the client asked; an empty request where nobody knows.
    request: Request
    ids: IdSource
    losses: Losses
    reply_options: ReplyOptions = DEFAULT
    # What the answer says of itself, whatever the backend says: who keeps answers gives them ids.
    stamp: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of speaking, as functions from bytes to the hub and back."""

    name: str
    family: Family
    # The endpoint that its clients post to; dialects at one endpoint are told apart by `matches`.
    path: str
    matches: Callable[[RequestBody], bool]
    # Whether its API stores replies and continues conversations.
    stateful: bool
    # How this dialect spells a field of the hub, where the two differ.
    names: Mapping[str, str]
    # Fields of the hub that it cannot say at all.
    unsupported_fields: frozenset[str]
    # Where reasoning stands in its conversations: in items, which can carry it encrypted, or in a
    # field of the assistant's message.
    reasoning: Literal["items", "message_field"]
    # Whether its calls have ids, and whether it wraps a tool once more.
    has_call_ids: bool
    nests_tools: bool
    # Whether its functions can be strict.
    has_strict: bool
    # Whether it can declare a tool as it is to a backend with such capabilities, and how long the
    # name of a tool may be.
    supports_tool: Callable[[Tool, Capabilities], bool]
    longest_name: int
    # The kinds of calls that its answers can hold.
    call_kinds: frozenset[CallKind]
    # Whether silence about `store` means that the answer is kept.
    stores_by_default: bool
    # Names of request fields by which its servers look up what was said before.
    server_state_fields: frozenset[str]
    read_request: Callable[[RequestBody, Losses], Request]
    write_request: Callable[[Request, Capabilities, Losses], bytes]
    read_reply: Callable[[bytes, ReplyContext], Reply]
    write_reply: Callable[[Reply, ReplyContext], dict[str, object]]
    # Reads what a reply cost, without the rest of it.
    read_usage: Callable[[JsonObject | None], Usage | None]
    read_stream: Callable[[ReplyContext], BaseStreamReader]
    write_stream: Callable[[ReplyContext], BaseStreamWriter]
    write_error: Callable[[Error], bytes]
    check_stream: Callable[[bytes], list[Violation]]


# Names, for one dialect's client, the parameter that another dialect's backend complains of.


_ROOT = re.compile(r"[^.\[]+")
# What Chat has in the inner object of a tool.
_INNER = re.compile(r"\.(name|description|parameters|strict)\b")
_TOOL = re.compile(r"(?:tools|functions)(\[\d+\])(?:\.(?:function|custom))?(.*)")


def translate_error_param(
    param: str | None, backend: Dialect, client: Dialect, *, tools_moved: bool = False
) -> str | None:
    """Translate the path of a parameter, as far as the two dialects have it in common.

    Where messages became items, or were grouped anew, the place within them is another: then only
    the list is named, and so it is with tools of which some may have been left out. What the
    client's dialect cannot say is not named at all.
    """
    if not param or backend is client:
        return param
    tool = _TOOL.fullmatch(param)
    if tool is not None:
        return _tool_path(client, *(("", "") if tools_moved else tool.groups()))
    hub = _hub_path(param, backend)
    match = _ROOT.match(hub)
    root = match.group() if match else hub
    if root in client.unsupported_fields:
        return None
    if root == "items":
        return client.names["items"]
    spelled = client.names.get(hub)
    return spelled or client.names.get(root, root) + hub[len(root) :]


def _tool_path(client: Dialect, index: str, rest: str) -> str:
    """Spell the path of a tool's field: Chat nests it, the others do not."""
    name = client.names.get("tools", "tools")
    nested = ".function" if client.nests_tools and _INNER.match(rest) else ""
    return f"{name}{index}{nested}{rest}"


def _hub_path(param: str, backend: Dialect) -> str:
    """Spell a backend's path as the hub would."""
    for name, spelled in sorted(backend.names.items(), key=lambda pair: -len(pair[1])):
        rest = param.removeprefix(spelled)
        if rest != param and rest[:1] in ("", ".", "["):
            return name + rest
    return "max_output_tokens" if param in _LIMITS else param


_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
