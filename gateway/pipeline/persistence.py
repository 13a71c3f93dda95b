"""Save a reply and its reasoning, before the end of the reply is sent."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import Raw, Struct

from adapters import Loss, ReplyEnd, RequestBody
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import MISSING, NULL, decode
from gateway.context import AppContext
from gateway.http.headers import loss_list
from gateway.pipeline.stored_reasoning import ReasoningOrigin, save_reasoning
from gateway.store import Completion
from gateway.turns.items import LEGAL_ID
from gateway.turns.metadata import read_metadata
from gateway.turns.response_cache import ResponseCache
from gateway.turns.turn import Turn

_ENCODER: Final = msgspec.json.Encoder()
_MESSAGES: Final = msgspec.json.Decoder(list[dict[str, Raw]])
_TEXT: Final = msgspec.json.Decoder(str)
_NO_MESSAGES: Final = Raw(b"[]")


class Saver(Protocol):
    """An object that saves replies, in the database or in memory."""

    async def save(self, reply: Mapping[str, object], losses: Sequence[Loss], /) -> None:
        """Save a reply, with its losses if that is possible; then it is committed."""
        ...


class ResponseSaver(Struct, frozen=True):
    """Saves responses in the database."""

    app: AppContext
    turn: Turn

    async def save(self, reply: Mapping[str, object], losses: Sequence[Loss]) -> None:
        """Save the response with its turn."""
        await self.app.turns.save(self.turn, reply, loss_list(losses))


class ConnectionSaver(Struct, frozen=True):
    """Keeps responses in memory, for later turns of the same WebSocket."""

    app: AppContext
    cache: ResponseCache
    turn: Turn

    async def save(self, reply: Mapping[str, object], _losses: Sequence[Loss]) -> None:
        """Keep the response in memory."""
        self.cache.add(self.turn, self.app.turns.stored_turn(self.turn, reply))


class CompletionSaver(Struct, frozen=True):
    """Saves chat completions in the database."""

    app: AppContext
    owner: str
    created: int
    model: str
    # The messages of the request, byte for byte.
    messages: Raw
    metadata: dict[str, str]

    async def save(self, reply: Mapping[str, object], _losses: Sequence[Loss]) -> None:
        """Save the completion under its own id, or a new one if that is not usable."""
        name = _read_id(reply) or self.app.ids.id("chatcmpl-")
        body = Raw(_ENCODER.encode(reply))
        await self.app.store.completions.save(
            Completion(
                name, self.owner, self.created, body, self.messages, self.model, self.metadata
            )
        )


def completion_saver(app: AppContext, owner: str, body: RequestBody, model: str) -> CompletionSaver:
    """Return the saver for the completion of a request.

    Raises `InvalidRequestError` if the messages or the metadata are invalid.
    """
    messages = body.fields.get("messages", NULL)
    messages = _NO_MESSAGES if messages == NULL else messages
    decode(messages, _MESSAGES, "messages")
    metadata = read_metadata(body.fields.get("metadata", MISSING))
    return CompletionSaver(app, owner, app.ids.now(), model, messages, metadata)


def without_stored_fields(
    body: RequestBody, unsupported: Collection[str], *, stateful: bool
) -> RequestBody:
    """Remove the fields about storage that a backend must not get.

    The gateway stores the completion itself, so removing a field is no loss. A stateful backend
    never gets `store`, because the client could neither load nor delete what the backend stores.
    """
    dropped = {name for name in ("store", "metadata") if name in unsupported}
    if stateful:
        dropped.add("store")
    if not dropped & body.fields.keys():
        return body
    return RequestBody({name: raw for name, raw in body.fields.items() if name not in dropped})


def _read_id(reply: Mapping[str, object]) -> str | None:
    """Return the id of a completion, or None if the backend sent no usable one."""
    name = reply.get("id")
    if isinstance(name, Raw):
        try:
            name = _TEXT.decode(name)
        except DECODE_ERRORS:
            return None
    return name if isinstance(name, str) and LEGAL_ID.fullmatch(name) else None


async def save_reply(
    app: AppContext,
    end: ReplyEnd,
    saver: Saver | None,
    origin: ReasoningOrigin,
    found: Sequence[Loss],
) -> list[Loss]:
    """Save a reply and the reasoning that the client does not carry; return the new losses.

    A stored response has these losses and those that were `found` before.

    Raises a `DragomanError` if saving fails.
    """
    losses = await save_reasoning(app, end.reasoning, origin) if end.reasoning else []
    if saver is not None and end.client_reply is not None:
        await saver.save(end.client_reply, [*found, *losses])
    return losses
