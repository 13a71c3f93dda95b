"""One turn of a socket: the same visit as over HTTP, told as events."""

import asyncio
from typing import Final

from litestar.types.asgi_types import HTTPDisconnectEvent

from adapters import DragomanError
from gateway import statuses
from gateway.context import AppContext
from gateway.http.auth import Principal
from gateway.http.client_connection import ClientConnection
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.handler import Visit, attend
from gateway.websocket.messages import CreateMessage
from gateway.websocket.prewarm import prewarm
from gateway.websocket.response_cache import ResponseCache, StreamResponseCache
from gateway.websocket.sink import Tell, WebSocketSink

# Said once, when the connection was opened: of a single turn it is not true.
_OF_THE_CONNECTION: Final = frozenset(("idempotency-key", "x-codex-turn-metadata"))
_BETA: Final = "openai-beta"
_SOCKETS: Final = "responses_websockets="


class TurnHandler:
    """Answers the turns of one connection."""

    def __init__(
        self, desk: AppContext, caller: Principal, headers: dict[str, str], path: str
    ) -> None:
        self._desk = desk
        self._caller = caller
        self._headers = _of_a_turn(headers)
        self._path = path
        self._recollection = ResponseCache(desk.ledger, desk.configuration.server.max_body_bytes)
        # Nobody is there any more to be told anything.
        self.gone = asyncio.Event()

    async def answer(self, create: CreateMessage, tell: Tell) -> None:
        """Answer one; whatever goes wrong with it is told and written down."""
        record = self.record()
        client = ClientConnection(
            self._headers, self._left, WebSocketSink(tell, create.lane).send, record
        )
        recollection = self._recollection.of(create.lane)
        try:
            await attend(self._desk, record, self._serve(create, client, record, recollection))
        finally:
            if record.ended != "ok" or record.status >= statuses.ERROR:
                recollection.forget(create.previous)

    def record(self) -> ExchangeRecord:
        """Begin to write down what happens."""
        record = ExchangeRecord(self._path)
        record.key = self._caller.name
        return record

    def note(self, problem: DragomanError) -> None:
        """Write down what was refused before it became a turn."""
        record = self.record()
        record.status = problem.status
        record.note_failure(problem.code)
        self._desk.record_exchange(record)

    async def _serve(
        self,
        create: CreateMessage,
        client: ClientConnection,
        record: ExchangeRecord,
        recollection: StreamResponseCache,
    ) -> None:
        body = create.body(recollection.model_of(create.previous))
        visit = Visit(self._desk, "responses", client, record, recollection)
        if create.generates:
            await visit.serve(self._caller, body)
        else:
            warming = prewarm(self._desk, client, record, self._caller, body, recollection)
            await visit.attempt(warming)

    async def _left(self) -> HTTPDisconnectEvent:
        """Wait until the client has left."""
        await self.gone.wait()
        return {"type": "http.disconnect"}


def _of_a_turn(headers: dict[str, str]) -> dict[str, str]:
    """Give the headers that hold for each turn; which protocol we speak concerns no backend."""
    kept = {name: value for name, value in headers.items() if name not in _OF_THE_CONNECTION}
    betas = [one.strip() for one in kept.pop(_BETA, "").split(",")]
    others = [one for one in betas if one and not one.startswith(_SOCKETS)]
    return kept | {_BETA: ", ".join(others)} if others else kept
