"""What every dialect offers. One folder each; adding one changes nothing elsewhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec import Struct

from adapters.capabilities import Capabilities
from adapters.conformance import Violation
from adapters.ids import IdSource
from adapters.ir.types import CallKind, Error, Family, Reply, Request, Tool, Usage
from adapters.losses import Losses
from adapters.machine import BaseStreamReader, BaseStreamWriter
from adapters.preferences import DEFAULT, Preferences
from adapters.wire.json_object import JsonObject


def _same(param: str | None) -> str | None:
    return param


class ReplyContext(Struct, frozen=True):
    """What a writer or a stream reader may ask besides what it reads or writes."""

    # What the client asked; an empty request where nobody knows.
    request: Request
    mint: IdSource
    losses: Losses
    preferences: Preferences = DEFAULT
    # Names, for the client, a parameter that the backend complains of.
    param: Callable[[str | None], str | None] = _same
    # What the answer says of itself, whatever the backend says: who keeps answers gives them ids.
    stamp: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of speaking, as functions from bytes to the hub and back."""

    name: str
    family: Family
    # How this dialect spells a field of the hub, where the two differ.
    names: Mapping[str, str]
    # Fields of the hub that it cannot say at all.
    unsupported_fields: frozenset[str]
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
    read_request: Callable[[bytes, Losses], Request]
    write_request: Callable[[Request, Capabilities, Losses], bytes]
    read_reply: Callable[[bytes, ReplyContext], Reply]
    write_reply: Callable[[Reply, ReplyContext], bytes]
    # Reads what a reply cost, without the rest of it.
    read_usage: Callable[[JsonObject | None], Usage | None]
    read_stream: Callable[[ReplyContext], BaseStreamReader]
    write_stream: Callable[[ReplyContext], BaseStreamWriter]
    write_error: Callable[[Error], bytes]
    check_stream: Callable[[bytes], list[Violation]]
