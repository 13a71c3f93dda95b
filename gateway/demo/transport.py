"""The demo as a transport: requests go in as if over HTTP, and no socket is opened."""

import secrets
import time

import httpx
import msgspec

import adapters
from adapters import Dialect, DragomanError, IdSource, Request
from adapters.dialect import ReplyContext
from adapters.ir.types import Error, Reply
from adapters.losses import Losses
from adapters.wire.error_body import to_error, write_error
from adapters.wire.json_object import read_body
from gateway.demo.reply import DEMO_MODEL, demo_reply
from gateway.demo.stream import DemoStream

# Between two pieces of a stream, in seconds: short enough not to bore, long enough to see.
PAUSE = 0.02

_JSON = "application/json"
_EVENTS = "text/event-stream; charset=utf-8"
_ENCODER = msgspec.json.Encoder()


class DemoTransport(httpx.AsyncBaseTransport):
    """Answers `/chat/completions`, `/responses` and `/models`, under any host and prefix."""

    def __init__(self, *, mint: IdSource | None = None, pause: float = PAUSE) -> None:
        self._mint = mint or IdSource(secrets.token_hex, time.time)
        self._pause = pause
        self._created = self._mint.now()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        path = request.url.path.rstrip("/")
        if request.method == "POST" and path.endswith("/chat/completions"):
            return self._complete(await request.aread())
        if request.method == "POST" and path.endswith("/responses"):
            return self._respond("responses", await request.aread())
        if request.method == "GET" and path.endswith("/models"):
            return self._answer(200, self._models())
        return self._unknown(request)

    def _complete(self, body: bytes) -> httpx.Response:
        """Answer at the address that two dialects share: the one with `functions` is legacy."""
        try:
            legacy = read_body(body).has("functions")
        except DragomanError as problem:
            return self._refuse(problem)
        return self._respond("legacy" if legacy else "chat", body)

    def _respond(self, name: str, body: bytes) -> httpx.Response:
        dialect = adapters.dialect(name)
        try:
            request = dialect.read_request(body, Losses("report", dialect.names))
            reply = demo_reply(request, self._mint, dialect.names)
        except DragomanError as problem:
            return self._refuse(problem)
        return self._tell(dialect, request, reply)

    def _tell(self, dialect: Dialect, request: Request, reply: Reply) -> httpx.Response:
        around = ReplyContext(request, self._mint, Losses(None))
        if not request.stream:
            return self._answer(200, dialect.write_reply(reply, around))
        stream = DemoStream(reply, dialect.write_stream(around), self._pause)
        return httpx.Response(200, headers=self._headers(_EVENTS), stream=stream)

    def _models(self) -> bytes:
        model = {
            "id": DEMO_MODEL,
            "object": "model",
            "created": self._created,
            "owned_by": "dragoman",
        }
        return _ENCODER.encode({"object": "list", "data": [model]})

    # Answers

    def _refuse(self, problem: DragomanError) -> httpx.Response:
        return self._answer(problem.status, write_error(to_error(problem)))

    def _unknown(self, request: httpx.Request) -> httpx.Response:
        why = f"the demo does not know {request.method} {request.url.path}"
        return self._answer(404, write_error(Error(why, "invalid_request_error", "unknown_url")))

    def _answer(self, status: int, body: bytes) -> httpx.Response:
        headers = self._headers(_JSON) | {"content-length": str(len(body))}
        # Not as `content`, which counts as read already: what comes from a socket is still to come.
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"content-type": content_type, "x-request-id": self._mint.id("req_")}
