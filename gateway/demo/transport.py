"""The demo as an httpx transport: it replies to requests without opening a socket."""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import msgspec
from msgspec.structs import replace

import adapters
from adapters import Dialect, DragomanError, IdSource, RequestBody
from adapters.dialect import BaseStreamWriter, ReplyContext
from adapters.ir.accumulator import to_events
from adapters.ir.events import Delta, Event
from adapters.ir.types import Error, Reply
from adapters.losses import Losses
from adapters.sse import encode
from adapters.wire.error_body import to_error, write_error
from adapters.wire.json_object import parse_body
from gateway.demo.reply import DEMO_MODEL, demo_reply

# Long enough for a person to see that the reply is streamed.
DELTA_DELAY_SECONDS = 0.02

_WORDS = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+$")
_ARGUMENTS = re.compile(r".{1,8}", re.DOTALL)


class DemoTransport(httpx.AsyncBaseTransport):
    """A backend with `/models` and the paths of all dialects, under any host and prefix."""

    def __init__(
        self, *, ids: IdSource | None = None, delta_delay: float = DELTA_DELAY_SECONDS
    ) -> None:
        self._ids = ids or IdSource(secrets.token_hex, time.time)
        self._delta_delay = delta_delay
        self._created = self._ids.now()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Reply to one request."""
        path = request.url.path.rstrip("/")
        dialects = [one for one in adapters.DIALECTS.values() if path.endswith(one.path)]
        if request.method == "POST" and dialects:
            try:
                return self._reply(dialects, parse_body(await request.aread()))
            except DragomanError as error:
                return self._send(error.status, dialects[0].write_error(to_error(error)))
        if request.method == "GET" and path.endswith("/models"):
            return self._send(200, self._models())
        message = f"the demo backend does not support {request.method} {request.url.path}"
        error_body = write_error(Error(message, "invalid_request_error", "unknown_url"))
        return self._send(404, error_body)

    def _reply(self, dialects: list[Dialect], body: RequestBody) -> httpx.Response:
        """Reply in that of the dialects to which the body belongs."""
        dialect = next(one for one in dialects if one.matches(body))
        request = dialect.read_request(body, Losses("report", dialect.names))
        reply = demo_reply(request, self._ids, dialect.names)
        context = ReplyContext(request, self._ids, Losses(None))
        if not request.stream:
            return self._send(200, encode(dialect.write_reply(reply, context)))
        stream = DemoStream(reply, dialect.write_stream(context), self._delta_delay)
        headers = self._headers("text/event-stream; charset=utf-8")
        return httpx.Response(200, headers=headers, stream=stream)

    def _models(self) -> bytes:
        model = {
            "id": DEMO_MODEL,
            "object": "model",
            "created": self._created,
            "owned_by": "dragoman",
        }
        return msgspec.json.encode({"object": "list", "data": [model]})

    def _send(self, status: int, body: bytes) -> httpx.Response:
        headers = self._headers("application/json") | {"content-length": str(len(body))}
        # With `content` the body would count as read, unlike one from a socket.
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"content-type": content_type, "x-request-id": self._ids.id("req_")}


class DemoStream(httpx.AsyncByteStream):
    """The frames of a streamed reply, with a delay before each delta."""

    def __init__(self, reply: Reply, writer: BaseStreamWriter, delta_delay: float) -> None:
        self._reply = reply
        self._writer = writer
        self._delta_delay = delta_delay

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in _chunked_events(self._reply):
            if isinstance(event, Delta):
                await asyncio.sleep(self._delta_delay)
            for frame in self._writer.feed(event):
                yield frame
        for frame in self._writer.flush():
            yield frame


def _chunked_events(reply: Reply) -> Iterator[Event]:
    """Yield the events of a reply: texts word by word, arguments in short pieces."""
    for event in to_events(reply):
        if not isinstance(event, Delta):
            yield event
            continue
        pattern = _ARGUMENTS if event.channel == "arguments" else _WORDS
        for text in pattern.findall(event.text) or [event.text]:
            yield replace(event, text=text)
