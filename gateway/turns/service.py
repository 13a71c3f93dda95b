"""The service that begins and saves turns."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters import IdSource, InputItem, InvalidRequestError, RequestBody
from adapters.errors import missing_field
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import MISSING
from gateway.http.auth import Principal
from gateway.http.request_body import ParsedRequest
from gateway.store import RUNNING, Item, Response, Status, Store, StoredTurn
from gateway.turns.history import (
    History,
    Settings,
    check_outputs_have_calls,
    load_history,
    read_settings,
    resolve_item_references,
)
from gateway.turns.items import is_compaction_trigger, to_stored_item, user_message
from gateway.turns.response_cache import ResponseCache
from gateway.turns.state_fields import (
    StateFields,
    is_stateless,
    read_state_fields,
    without_state_fields,
)
from gateway.turns.tool_credentials import redacted_tools
from gateway.turns.turn import Turn

_ENCODER: Final = msgspec.json.Encoder()
_STATUS: Final[msgspec.json.Decoder[Status]] = msgspec.json.Decoder(Status)
_ITEMS: Final = msgspec.json.Decoder(list[Raw])


class TurnService:
    """Begins and saves turns in a store."""

    def __init__(self, store: Store, ids: IdSource) -> None:
        self._store = store
        self._ids = ids

    async def begin(
        self, principal: Principal, request: ParsedRequest, cache: ResponseCache | None = None
    ) -> Turn | None:
        """Load the history of a request; return None if it uses no stored state.

        Raises `PreviousResponseNotFoundError` or a similar error if the history does not exist.
        """
        body, owner = request.body, principal.owner
        if cache is None and is_stateless(body):
            return None
        state = read_state_fields(body)
        history = None if cache is None else cache.find(state.previous_response_id)
        if history is None:
            history = await load_history(self._store, owner, state)
        items, sent = await self._read_input(owner, state, history)
        if state.previous_response_id is not None:
            check_outputs_have_calls(history.items, items)
        model = request.model or history.model
        if not model:
            raise missing_field("model")
        fields = without_state_fields(body, state)
        if model != request.model:
            fields["model"] = Raw(_ENCODER.encode(model))
        before = [InputItem(it.body, f"history[{i}]") for i, it in enumerate(history.items)]
        prepared = _with_input(fields, body, state, [*before, *sent])
        parsed = ParsedRequest(prepared, request.dialect, model)
        return self._turn(owner, state, history, items, parsed)

    async def _read_input(
        self, owner: str, state: StateFields, history: History
    ) -> tuple[tuple[Item, ...], list[InputItem]]:
        """Return the new items in their stored form, and in the form for the backend."""
        if isinstance(state.input, str):
            message = user_message(state.input, self._ids)
            return (message,), [InputItem(message.body, "input")]
        resolved: list[Raw | Item] = [*state.input]
        if state.may_refer:
            resolved = await resolve_item_references(self._store, owner, state.input, history.items)
        items: list[Item] = []
        sent: list[InputItem] = []
        for index, item in enumerate(resolved):
            path = f"input[{index}]"
            items.append(item if isinstance(item, Item) else to_stored_item(item, self._ids, path))
            sent.append(InputItem(item.body if isinstance(item, Item) else item, path))
        return tuple(items), sent

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
            "previous_response_id": state.previous_response_id,
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
            parent=history.parent,
            conversation=state.conversation,
            input=tuple(item for item in items if not is_compaction_trigger(item)),
            history=history.items,
            overrides=overrides,
        )

    async def save(self, turn: Turn, reply: Mapping[str, object], losses: str = "") -> None:
        """Save a finished response; when this returns, it is committed."""
        queued = self.stored_turn(turn, reply)
        response = _with_losses(queued.response, losses)
        await self._store.responses.save(replace(queued, response=response))

    def stored_turn(self, turn: Turn, reply: Mapping[str, object]) -> StoredTurn:
        """Return the stored form of a finished turn."""
        queued = queued_turn(turn, MISSING)
        response, output = self.finish(queued.response, reply)
        return replace(queued, response=response, output=output)

    def finish(
        self, response: Response, reply: Mapping[str, object], losses: str = ""
    ) -> tuple[Response, tuple[Item, ...]]:
        """Return a finished response, and the stored form of its valid output items."""
        output: list[Item] = []
        for index, raw in enumerate(_output_items(reply)):
            with suppress(InvalidRequestError):
                output.append(to_stored_item(raw, self._ids, f"output[{index}]"))
        status = _final_status(reply.get("status"), output)
        # The output items are stored separately.
        body = Raw(_ENCODER.encode(dict(reply) | {"output": (), "status": status}))
        finished = replace(response, status=status, body=body)
        return _with_losses(finished, losses), tuple(output)


def _with_losses(response: Response, losses: str) -> Response:
    """Return a response with the losses of its exchange."""
    if not losses:
        return response
    settings = replace(read_settings(response), losses=losses)
    return replace(response, settings=Raw(_ENCODER.encode(settings)))


def queued_turn(turn: Turn, body: Raw) -> StoredTurn:
    """Return the stored form of a turn that has no reply yet."""
    response = Response(
        id=turn.response_id,
        owner=turn.owner,
        created=turn.created,
        status="queued",
        body=body,
        settings=Raw(_ENCODER.encode(Settings(turn.model))),
        model=turn.model,
        parent=turn.parent,
        conversation=turn.conversation,
    )
    history = None if turn.parent is None else turn.history
    return StoredTurn(response, turn.stored_input, history=history)


def _with_input(
    fields: dict[str, Raw], body: RequestBody, state: StateFields, items: list[InputItem]
) -> RequestBody:
    """Add the input to a request; keep the client's bytes if the items are unchanged."""
    sent = state.input
    unchanged = len(items) == 1 if isinstance(sent, str) else [i.raw for i in items] == sent
    if unchanged and "input" in body.fields:
        return RequestBody(fields | {"input": body.fields["input"]})
    return RequestBody(fields, tuple(items))


def _final_status(value: object, output: Sequence[Item]) -> Status:
    """Return the status of a finished response, for any value that a backend sent.

    Replace a running status, which some backends report at the end: the response could not be
    continued, and a client would poll it for ever.
    """
    raw = value if isinstance(value, Raw) else _ENCODER.encode(value)
    try:
        reported = _STATUS.decode(raw)
    except DECODE_ERRORS:
        return "completed"
    if reported not in RUNNING:
        return reported
    return "completed" if output else "incomplete"


def _output_items(reply: Mapping[str, object]) -> list[Raw]:
    output = reply.get("output", ())
    if isinstance(output, Raw):
        try:
            return _ITEMS.decode(output)
        except DECODE_ERRORS:
            return []
    if not isinstance(output, list | tuple):
        return []
    items = cast("Sequence[object]", output)
    return [item if isinstance(item, Raw) else Raw(_ENCODER.encode(item)) for item in items]
