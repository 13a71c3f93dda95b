"""One turn of a socket: the same visit as over HTTP, told as events."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec
from litestar.types import Receive
from litestar.types.asgi_types import HTTPDisconnectEvent
from msgspec import Raw
from msgspec.structs import replace

from adapters import (
    DragomanError,
    ReplyEnd,
    ReplyTranslator,
    TranslationOptions,
    read_client_request,
    write_backend_request,
)
from adapters.ir.types import Error
from adapters.responses import RESPONSES
from adapters.sse import Decoder
from adapters.wire.error_body import error_body, read_error, to_error
from gateway.context import AppContext
from gateway.http.auth import Principal
from gateway.http.create_request import parse_request
from gateway.http.headers import STREAM, Headers
from gateway.http.sinks import ReplySink
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.handler import handle_create, serve
from gateway.pipeline.request import Request
from gateway.store import ChainLink, Item
from gateway.turns.history import chain_items
from gateway.turns.service import TurnService
from gateway.turns.turn import Turn
from gateway.websocket.messages import CreateMessage

# Answers a turn that only prepares another one: nothing is generated, no backend is asked.
#
# Codex sends its long instructions so before the user has said anything, and then goes on from
# there.


_EMPTY_REPLY: Final = (
    b'{"id":"resp_0","object":"response","status":"completed","output":[],"usage":{'
    b'"input_tokens":0,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},'
    b'"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}}'
)


async def prewarm(app: AppContext, given: Request, sink: ReplySink) -> None:
    """Send a response without output, and save it, so that it can be continued."""
    record = sink.record
    request = parse_request(given.body, given.endpoint)
    turn = await app.turns.begin(given.principal, request, given.cache)
    if turn is None or given.cache is None:
        raise AssertionError("a connection with a cache always begins a turn")
    record.client_dialect, record.model = turn.request.dialect.name, turn.model
    # Whether the model is served is better learned now.
    app.router.find(turn.model)
    end = _empty_reply(app, turn)
    if end.client_reply is not None:
        if turn.store:
            await app.turns.save(turn, end.client_reply)
        else:
            given.cache.remember(turn, end.client_reply)
    record.stream = True
    await sink.send_response(HTTPStatus.OK, [*STREAM], end.body)


def _empty_reply(app: AppContext, turn: Turn) -> ReplyEnd:
    """Write the events as if a backend of the client's own dialect had replied with nothing."""
    options = TranslationOptions(
        RESPONSES, RESPONSES, app.ids, rewrite=True, response_overrides=turn.overrides
    )
    body = replace(turn.request.body, fields=turn.request.body.fields | {"stream": Raw(b"true")})
    sent = write_backend_request(read_client_request(body, options))
    translator = ReplyTranslator(sent.reply_plan)
    translator.feed(_EMPTY_REPLY)
    return translator.finish()


# Says on a socket what would have been answered over HTTP.
#
# An answer that streams becomes one message for each of its events. One that is an error becomes
# the
# one event that tells errors of this protocol, which has the status in it.


Tell = Callable[[bytes], Awaitable[None]]

# What belongs to an answer over HTTP and to nothing else.
_LEFT_OUT: Final = frozenset((b"content-type", b"content-length", b"dragoman-loss"))
_ENCODER: Final = msgspec.json.Encoder()


class WebSocketSink(ReplySink):
    """Sends a reply as events of a WebSocket; waits while the client is slow to read."""

    def __init__(
        self,
        headers: dict[str, str],
        receive: Receive,
        record: ExchangeRecord,
        tell: Tell,
        lane: str | None,
    ) -> None:
        super().__init__(headers, receive, record)
        self.status = 0
        self.response_headers: Headers = []
        self._tell = tell
        self._lane = lane
        self._decoder = Decoder()
        # Of an error, until it is whole.
        self._body: list[bytes] = []

    async def _send_head(self, status: int, headers: Headers) -> None:
        self.status, self.response_headers = status, headers

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        """Send the events of a chunk, or collect the body of an error."""
        if self.status < HTTPStatus.BAD_REQUEST:
            await self._pass(data)
        else:
            await self._gather(data, more=more)

    async def _pass(self, piece: bytes) -> None:
        # Comments and the word that ends a stream are for those who read lines.
        for frame in self._decoder.feed(piece):
            if frame.data.startswith(b"{"):
                await self._tell(in_lane(frame.data, self._lane))

    async def _gather(self, piece: bytes, *, more: bool) -> None:
        self._body.append(piece)
        if not more:
            error = read_error(self.status, b"".join(self._body))
            headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in self.response_headers
                if name not in _LEFT_OUT
            }
            await self._tell(write_error(self.status, error, self._lane, headers))


def write_problem(problem: DragomanError, lane: str | None) -> bytes:
    """Write the event that tells one of our own errors."""
    return write_error(problem.status, to_error(problem), lane)


def write_error(
    status: int, error: Error, lane: str | None, headers: dict[str, str] | None = None
) -> bytes:
    """Write the event that tells an error; Open Responses wants every one to have a code."""
    inside = error_body(error) | {"code": error.code or error.type}
    if headers:
        inside["headers"] = headers
    event: dict[str, object] = {"type": "error", "status": status, "error": inside}
    return in_lane(_ENCODER.encode(event), lane)


def in_lane(event: bytes, lane: str | None) -> bytes:
    """Say in an event to which lane it belongs; the rest of it stays as it was spelled."""
    if lane is None:
        return event
    # The names of lanes need no escaping: they are letters, digits, `_`, `.` and `-`.
    return b'%b,"stream_id":"%b"}' % (event.rstrip()[:-1], lane.encode())


# What a connection remembers of answers that are not stored.
#
# Each lane remembers its latest few responses, so that what was forked a moment ago is still there;
# together they hold no more bytes than one request may have, and the oldest go first. A longer
# history could not be sent again by the client either.


# The protocol asks for one.
_LATEST: Final = 4


@dataclass(frozen=True, slots=True)
class _Remembered:
    lane: str | None
    model: str
    items: tuple[Item, ...]
    size: int


class ResponseCache:
    """What one connection remembers."""

    def __init__(self, ledger: TurnService, limit: int) -> None:
        self._ledger = ledger
        # In bytes.
        self._limit = limit
        # The oldest first.
        self._known: dict[str, _Remembered] = {}

    def of(self, lane: str | None) -> "StreamResponseCache":
        """Give it as one lane has it: any lane may begin where another has come to."""
        return StreamResponseCache(self, lane)

    def get(self, response_id: str | None) -> _Remembered | None:
        """Give what is remembered of a response."""
        return None if response_id is None else self._known.get(response_id)

    def add(self, lane: str | None, plan: Turn, response: Mapping[str, object]) -> None:
        """Remember a response, and forget others for it."""
        turn = self._ledger.stored_turn(plan, response)
        if turn.response.status == "failed":
            return
        before = (*plan.history, *map(_apart, plan.input))
        output = tuple(map(_apart, turn.output))
        step = ChainLink(plan.response_id, turn.response.status, Raw(b"null"), before, output)
        items = tuple(chain_items((step,)))
        size = sum(len(bytes(item.body)) for item in items)
        self._known[plan.response_id] = _Remembered(lane, plan.model, items, size)
        self._forget_older(lane)
        self._forget_much()

    def drop(self, lane: str | None, response_id: str | None) -> None:
        """Forget a response of a lane: what continued it there has failed."""
        known = self.get(response_id)
        if response_id is not None and known is not None and known.lane == lane:
            del self._known[response_id]

    def _forget_older(self, lane: str | None) -> None:
        own = [name for name, known in self._known.items() if known.lane == lane]
        for name in own[:-_LATEST]:
            del self._known[name]

    def _forget_much(self) -> None:
        size = sum(known.size for known in self._known.values())
        while size > self._limit:
            size -= self._known.pop(next(iter(self._known))).size


def _apart(item: Item) -> Item:
    """Give an item that does not hold the whole message which it came in."""
    return replace(item, body=item.body.copy())


class StreamResponseCache:
    """What one lane remembers, as the memory asks for it (see `Nearby`)."""

    def __init__(self, whole: ResponseCache, lane: str | None) -> None:
        self._whole = whole
        self._lane = lane

    def find(self, response_id: str) -> tuple[Item, ...] | None:
        """Give the whole history up to a response, that one included."""
        known = self._whole.get(response_id)
        return None if known is None else known.items

    def model_of(self, response_id: str | None) -> str | None:
        """Tell which model made a response."""
        known = self._whole.get(response_id)
        return None if known is None else known.model

    def remember(self, turn: Turn, response: Mapping[str, object]) -> None:
        """Remember an answer."""
        self._whole.add(self._lane, turn, response)

    def forget(self, response_id: str | None) -> None:
        """Forget an answer of this lane."""
        self._whole.drop(self._lane, response_id)


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
        self._recollection = ResponseCache(desk.turns, desk.config.server.max_body_bytes)
        # Nobody is there any more to be told anything.
        self.gone = asyncio.Event()

    async def answer(self, create: CreateMessage, tell: Tell) -> None:
        """Answer one; whatever goes wrong with it is told and written down."""
        record = self.record()
        sink = WebSocketSink(self._headers, self._left, record, tell, create.lane)
        recollection = self._recollection.of(create.lane)
        try:
            await serve(self._desk, sink, self._serve(create, sink, recollection))
        finally:
            if record.outcome != "ok" or record.status >= HTTPStatus.BAD_REQUEST:
                recollection.forget(create.previous)

    def record(self) -> ExchangeRecord:
        """Begin to write down what happens."""
        record = ExchangeRecord(self._path)
        record.key_name = self._caller.name
        return record

    def note(self, problem: DragomanError) -> None:
        """Write down what was refused before it became a turn."""
        record = self.record()
        record.status = problem.status
        record.note_error(problem.code)
        self._desk.record_exchange(record)

    async def _serve(
        self, create: CreateMessage, sink: WebSocketSink, cache: StreamResponseCache
    ) -> None:
        body = create.body(cache.model_of(create.previous))
        if self._desk.config.logging.bodies:
            sink.record.request_body = body
        request = Request(RESPONSES.path, self._caller, body, cache=cache)
        if create.generates:
            await handle_create(self._desk, request, sink)
        else:
            await prewarm(self._desk, request, sink)

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
