"""Prepares a turn from what is remembered, and keeps what came of it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, InputItem, InvalidRequestError, RequestBody
from adapters.json_text import DECODE_ERRORS
from adapters.translation.redaction import REDACTED
from adapters.wire.json_object import MISSING, NULL
from gateway.http.auth import Principal
from gateway.http.create_request import ParsedRequest
from gateway.store import RUNNING, Item, Response, Status, Store, StoredTurn
from gateway.turns.history import (
    History,
    Settings,
    check_outputs_have_calls,
    load_history,
    resolve_item_references,
)
from gateway.turns.items import is_compaction_trigger, kept_items, to_stored_item
from gateway.turns.turn import (
    StateFields,
    Turn,
    UnstoredResponses,
    is_stateless,
    read_state_fields,
    without_state_fields,
)

# What authorises a backend to use a server of the client's: it is passed on, and kept nowhere.
#
# OpenAI shows the tools of a request with its response, but neither stores nor shows the
# `authorization` of an MCP server, and of its headers only the names.


_MCP: Final = b'"mcp"'
_AUTHORIZATION: Final = "authorization"
_HEADERS: Final = "headers"


class _Kind(Struct):
    type: Raw = MISSING


_KIND: Final = msgspec.json.Decoder(_Kind)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])


def redacted_tools(body: RequestBody) -> list[Raw | dict[str, object]] | None:
    """Return the tools of a request without credentials; None if they contain none."""
    declared = body.fields.get("tools", NULL)
    if _MCP not in bytes(declared):
        return None
    try:
        tools = [_redacted(tool) for tool in _ITEMS.decode(declared)]
    except DECODE_ERRORS:
        # The reader of the request reports what is wrong.
        return None
    return None if all(isinstance(tool, Raw) for tool in tools) else tools


def _redacted(tool: Raw) -> Raw | dict[str, object]:
    if bytes(_KIND.decode(tool).type) != _MCP:
        return tool
    fields = _OBJECT.decode(tool)
    shown: dict[str, object] = {**fields}
    if shown.pop(_AUTHORIZATION, NULL) == NULL and fields.get(_HEADERS, NULL) == NULL:
        return tool
    if fields.get(_HEADERS, NULL) != NULL:
        shown[_HEADERS] = dict.fromkeys(_OBJECT.decode(fields[_HEADERS]), REDACTED)
    return shown


_ENCODER = msgspec.json.Encoder()


_STATUS: msgspec.json.Decoder[Status] = msgspec.json.Decoder(Status)
_ITEMS = msgspec.json.Decoder(list[Raw])


class TurnService:
    """Knows the store, and how requests speak of it."""

    def __init__(self, store: Store, ids: IdSource) -> None:
        self._store = store
        self._ids = ids

    async def begin(
        self, principal: Principal, request: ParsedRequest, cache: UnstoredResponses | None = None
    ) -> Turn | None:
        """Load what a request continues; return None if it neither stores nor continues anything.

        Raises `PreviousResponseNotFoundError` and the like if that is not there.
        """
        body, owner = request.body, principal.owner
        if cache is None and is_stateless(body):
            return None
        state = read_state_fields(body)
        history = await load_history(self._store, owner, state, cache)
        items, resolved = await self._read_input(owner, state, history)
        if state.previous is not None:
            check_outputs_have_calls(history.items, items)
        model = request.model or history.model or ""
        if not model:
            raise InvalidRequestError("model", "it is missing")
        fields = without_state_fields(body, state)
        if model != request.model:
            fields["model"] = Raw(_ENCODER.encode(model))
        prepared = _with_input(
            RequestBody(fields), body, state, [*_history_items(history), *resolved]
        )
        return self._turn(
            owner, state, history, items, ParsedRequest(prepared, request.dialect, model)
        )

    async def _read_input(
        self, owner: str, state: StateFields, history: History
    ) -> tuple[tuple[Item, ...], list[InputItem]]:
        """Return the new items in their stored form, and as the backend gets them."""
        given = state.input
        if isinstance(given, str):
            items = kept_items(given, self._ids)
            return items, [InputItem(item.body, "input") for item in items]
        resolved: list[Raw | Item] = [*given]
        if state.may_refer:
            resolved = await resolve_item_references(self._store, owner, given, history.items)
        items = tuple(
            one if isinstance(one, Item) else to_stored_item(one, self._ids, f"input[{place}]")
            for place, one in enumerate(resolved)
        )
        sent = [
            InputItem(one.body if isinstance(one, Item) else one, f"input[{place}]")
            for place, one in enumerate(resolved)
        ]
        return items, sent

    def _turn(
        self,
        owner: str,
        state: StateFields,
        history: History,
        items: tuple[Item, ...],
        request: ParsedRequest,
    ) -> Turn:
        response_id = self._ids.id("resp_")
        overrides: dict[str, object] = {
            "id": response_id,
            "previous_response_id": state.previous,
            "store": state.store,
            "background": state.background,
        }
        if state.conversation is not None:
            overrides["conversation"] = {"id": state.conversation}
        tools = redacted_tools(request.body)
        if tools is not None:
            overrides["tools"] = tools
        return Turn(
            owner=owner,
            request=request,
            store=state.store,
            background=state.background,
            stream=state.stream,
            response_id=response_id,
            created=self._ids.now(),
            previous=state.previous,
            parent=history.parent,
            conversation=state.conversation,
            input=tuple(item for item in items if not is_compaction_trigger(item)),
            history=history.items,
            overrides=overrides,
        )

    async def save(self, turn: Turn, response: Mapping[str, object]) -> None:
        """Save a finished response; when this returns, it is committed."""
        await self._store.responses.save(self.stored_turn(turn, response))

    def stored_turn(
        self, turn: Turn, response: Mapping[str, object], *, queued: bool = False
    ) -> StoredTurn:
        """Return a turn in its stored form: one that has ended, or one that is queued."""
        output = self._stored_output(_output_items(response))
        reported = _read_status(response.get("status"))
        status = reported if queued else _final_status(reported, output)
        # The output items are stored on their own.
        body = dict(response) | {"output": (), "status": status}
        row = Response(
            id=turn.response_id,
            owner=turn.owner,
            created=turn.created,
            status=status,
            body=Raw(_ENCODER.encode(body)),
            settings=Raw(_ENCODER.encode(Settings(turn.model))),
            model=turn.model,
            parent=turn.parent,
            conversation=turn.conversation,
        )
        return StoredTurn(
            row, turn.stored_input, output, None if turn.parent is None else turn.history
        )

    def _stored_output(self, output: list[Raw]) -> tuple[Item, ...]:
        """Give the items of an answer as they are kept, but for those that are none."""
        items: list[Item] = []
        for place, raw in enumerate(output):
            with suppress(InvalidRequestError):
                items.append(to_stored_item(raw, self._ids, f"output[{place}]"))
        return tuple(items)


def _with_input(
    prepared: RequestBody, body: RequestBody, state: StateFields, items: list[InputItem]
) -> RequestBody:
    """Add the input to a request; as it was given, if nothing was put before or into it."""
    given = state.input
    unchanged = len(items) == 1 if isinstance(given, str) else [i.raw for i in items] == given
    if unchanged and "input" in body.fields:
        return RequestBody(prepared.fields | {"input": body.fields["input"]})
    return RequestBody(prepared.fields, tuple(items))


def _history_items(history: History) -> list[InputItem]:
    return [InputItem(item.body, f"history[{place}]") for place, item in enumerate(history.items)]


def _final_status(reported: Status, output: tuple[Item, ...]) -> Status:
    """Return how a response ended.

    Some backends report a running status at the end; stored like that, the response could not be
    continued, and whoever polls it would never stop.
    """
    if reported not in RUNNING:
        return reported
    return "completed" if output else "incomplete"


def _read_status(value: object) -> Status:
    """Return the status of a response; a relayed one may have any value."""
    raw = value if isinstance(value, Raw) else _ENCODER.encode(value)
    try:
        return _STATUS.decode(raw)
    except DECODE_ERRORS:
        return "completed"


def _output_items(response: Mapping[str, object]) -> list[Raw]:
    output = response.get("output", ())
    if isinstance(output, Raw):
        try:
            return _ITEMS.decode(output)
        except DECODE_ERRORS:
            return []
    if not isinstance(output, list | tuple):
        return []
    items = cast("Sequence[object]", output)
    return [item if isinstance(item, Raw) else Raw(_ENCODER.encode(item)) for item in items]
