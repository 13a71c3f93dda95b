"""Prepares a turn from what is remembered, and keeps what came of it."""

from contextlib import suppress
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, InvalidRequestError
from adapters.json_text import DECODE_ERRORS
from adapters.translation.redaction import REDACTED
from adapters.wire.json_object import MISSING, NULL, read_body
from gateway.http.auth import Principal
from gateway.store import RUNNING, Item, Response, Status, Store, StoredTurn
from gateway.turns.history import (
    History,
    Settings,
    check_outputs_have_calls,
    load_history,
    resolve_item_references,
)
from gateway.turns.items import is_compaction_trigger, kept_items, to_stored_item
from gateway.turns.turn import StateFields, Turn, UnstoredResponses, is_stateless, read_asking

# What authorises a backend to use a server of the client's: it is passed on, and kept nowhere.
#
# OpenAI shows the tools of a request with its response, but neither stores nor shows the
# `authorization` of an MCP server, and of its headers only the names.


_MCP: Final = b'"mcp"'
_AUTHORIZATION: Final = "authorization"
_HEADERS: Final = "headers"


class _Body(Struct):
    tools: list[Raw] = []


class _Kind(Struct):
    type: Raw = MISSING


_BODY: Final = msgspec.json.Decoder(_Body)
_KIND: Final = msgspec.json.Decoder(_Kind)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])


def concealed_tools(body: bytes) -> list[Raw | dict[str, object]] | None:
    """Give the tools of a request as they may be shown; None if they may be shown as they are."""
    if _MCP not in body:
        return None
    try:
        tools = [_concealed(tool) for tool in _BODY.decode(body).tools]
    except DECODE_ERRORS:
        # Whoever reads it next says what is wrong.
        return None
    return None if all(isinstance(tool, Raw) for tool in tools) else tools


def _concealed(tool: Raw) -> Raw | dict[str, object]:
    if bytes(_KIND.decode(tool).type) != _MCP:
        return tool
    fields = _OBJECT.decode(tool)
    shown: dict[str, object] = {**fields}
    if shown.pop(_AUTHORIZATION, NULL) == NULL and fields.get(_HEADERS, NULL) == NULL:
        return tool
    if fields.get(_HEADERS, NULL) != NULL:
        shown[_HEADERS] = dict.fromkeys(_OBJECT.decode(fields[_HEADERS]), REDACTED)
    return shown


T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


class _Finished(Struct):
    """What is read of a response that is to be kept; one that is passed on may say anything."""

    status: Raw = MISSING
    output: Raw = MISSING


_FINISHED = msgspec.json.Decoder(_Finished)
_STATUS = msgspec.json.Decoder(Status)
_ITEMS = msgspec.json.Decoder(list[Raw])


class TurnService:
    """Knows the store, and how requests speak of it."""

    def __init__(self, store: Store, mint: IdSource) -> None:
        self._store = store
        self._mint = mint

    async def begin(
        self, caller: Principal, body: bytes, nearby: UnstoredResponses | None = None
    ) -> Turn | None:
        """Find what a request stands on; None if it asks nothing of the memory.

        Raises `PreviousNotFound` and the like if it is not there.
        """
        if nearby is None and is_stateless(body):
            return None
        asking, owner = read_asking(body), caller.owner
        past = await load_history(self._store, owner, asking, nearby)
        items, spoken = await self._read_input(owner, asking, past)
        if asking.previous is not None:
            check_outputs_have_calls(past.items, items)
        return self._plan(owner, asking, past, items, self._body(body, asking, past, spoken))

    async def _read_input(
        self, owner: str, asking: StateFields, past: History
    ) -> tuple[tuple[Item, ...], list[Raw] | None]:
        """Give the new items as they are kept, and as the backend gets them; None: as they are."""
        given = asking.input
        if isinstance(given, str):
            items = kept_items(given, self._mint)
            return items, [item.body for item in items] if past.items else None
        resolved: list[Raw | Item] = [*given]
        if asking.may_refer:
            resolved = await resolve_item_references(self._store, owner, given, past.items)
        items = tuple(
            one if isinstance(one, Item) else to_stored_item(one, self._mint, f"input[{place}]")
            for place, one in enumerate(resolved)
        )
        spoken = [one.body if isinstance(one, Item) else one for one in resolved]
        return items, spoken if past.items or spoken != given else None

    def _body(
        self, body: bytes, asking: StateFields, past: History, spoken: list[Raw] | None
    ) -> bytes:
        """Write the request for a backend, which knows nothing of what was before."""
        model = asking.model or past.model
        if not model:
            raise InvalidRequestError("model", "it is missing")
        if spoken is None:
            return body if asking.plain and asking.model else asking.spelled(asking.input, model)
        return asking.spelled([*(item.body for item in past.items), *spoken], model)

    def _plan(
        self, owner: str, asking: StateFields, past: History, items: tuple[Item, ...], body: bytes
    ) -> Turn:
        response_id = self._mint.id("resp_")
        stamp: dict[str, object] = {
            "id": response_id,
            "previous_response_id": asking.previous,
            "store": asking.store,
            "background": asking.background,
        }
        if asking.conversation is not None:
            stamp["conversation"] = {"id": asking.conversation}
        tools = concealed_tools(body)
        if tools is not None:
            stamp["tools"] = tools
        return Turn(
            owner=owner,
            model=asking.model or past.model or "",
            body=body,
            store=asking.store,
            background=asking.background,
            stream=asking.stream,
            response_id=response_id,
            created=self._mint.now(),
            previous=asking.previous,
            parent=past.parent,
            conversation=asking.conversation,
            input=tuple(item for item in items if not is_compaction_trigger(item)),
            history=past.items,
            stamp=stamp,
        )

    async def save(self, plan: Turn, response: Raw) -> None:
        """Keep a finished response; when this returns, it is committed."""
        await self._store.responses.save(self.turn(plan, response))

    def turn(self, plan: Turn, response: Raw, *, queued: bool = False) -> StoredTurn:
        """Give a turn as it is kept: one that has ended, or one that is queued."""
        seen = _FINISHED.decode(response)
        output = self._kept_output(_read_or(seen.output, _ITEMS, []))
        said = _read_or(seen.status, _STATUS, "completed")
        status = said if queued else _ended(said, output)
        # The items are kept apart.
        changes: dict[str, object] = {"output": ()}
        if status != said:
            changes["status"] = status
        row = Response(
            id=plan.response_id,
            owner=plan.owner,
            created=plan.created,
            status=status,
            body=Raw(read_body(bytes(response)).encode_with(**changes)),
            settings=Raw(_ENCODER.encode(Settings(plan.model))),
            model=plan.model,
            parent=plan.parent,
            conversation=plan.conversation,
        )
        return StoredTurn(
            row, plan.kept_input, output, None if plan.parent is None else plan.history
        )

    def _kept_output(self, output: list[Raw]) -> tuple[Item, ...]:
        """Give the items of an answer as they are kept, but for those that are none."""
        items: list[Item] = []
        for place, raw in enumerate(output):
            with suppress(InvalidRequestError):
                items.append(to_stored_item(raw, self._mint, f"output[{place}]"))
        return tuple(items)


def _ended(said: Status, output: tuple[Item, ...]) -> Status:
    """Tell how a response ended; some backends say at the end that they are still at it.

    Nobody is. Kept as they say it, it could not be continued, and who polls it would never stop.
    """
    if said not in RUNNING:
        return said
    return "completed" if output else "incomplete"


def _read_or(raw: Raw, decoder: msgspec.json.Decoder[T], otherwise: T) -> T:
    try:
        return decoder.decode(raw)
    except DECODE_ERRORS:
        return otherwise
