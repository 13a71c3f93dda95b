"""Pass a request to another path of a backend's API, unchanged and streamed in both directions."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import unquote

import httpx
import msgspec
from litestar.types import Receive
from litestar.types.asgi_types import HTTPDisconnectEvent, HTTPRequestEvent
from msgspec import Raw, Struct

from adapters.json_text import DECODE_ERRORS
from adapters.wire.error_body import redact_text
from gateway.backends.client import BackendClient, connection_trace, read_error_response
from gateway.backends.routing import Route
from gateway.context import AppContext
from gateway.errors import (
    BackendDisconnectedError,
    BackendUnreachableError,
    ClientDisconnectedError,
    ModelNotFoundError,
    RequestTimeoutError,
)
from gateway.http.auth import Principal
from gateway.http.headers import Headers, client_headers, passthrough_headers
from gateway.http.monitor import ExchangeMonitor
from gateway.http.request_body import BODY_TIMEOUT_SECONDS, read_body
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG

# The path without the prefixes of OpenAI's and Azure's base URLs, and a model that is named in it.
_PATH: Final = re.compile(r"(?:/openai)?(?:/v1)?(?:/(?:deployments|engines)/([^/]+))?(/.+)")
_JSON: Final = re.compile(r"application/(?:[\w.-]+\+)?json\b", re.IGNORECASE)
_RELATIVE: Final = frozenset((".", ".."))
_BODY_HEADERS: Final = (b"content-encoding", b"content-length")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_TEXT: Final = msgspec.json.Decoder(str)


class Target(Struct, frozen=True):
    """Where a request goes: the path below the base URL of a backend, as the client encoded it."""

    method: str
    path: str
    query: str
    # The model that is named in the path, or an empty string.
    model: str

    def url(self, base: str) -> httpx.URL:
        """Return the URL at a backend."""
        url = httpx.URL(base)
        query = f"?{self.query}" if self.query else ""
        return url.copy_with(raw_path=f"{url.path.rstrip('/')}{self.path}{query}".encode("latin-1"))


def read_target(method: str, raw_path: bytes, query: bytes) -> Target | None:
    """Return the target of a request, or None if its path could leave the base URL."""
    match = _PATH.fullmatch(raw_path.decode("latin-1"))
    if match is None or _RELATIVE & {*unquote(match[2]).replace("\\", "/").split("/")}:
        return None
    return Target(method, match[2], query.decode("latin-1"), unquote(match[1] or ""))


def find_backends(backends: Sequence[BackendClient], target: Target) -> tuple[BackendClient, ...]:
    """Return the backends whose configuration allows a path."""
    path = unquote(target.path)
    return tuple(backend for backend in backends if backend.passes_through(path))


async def pass_through(
    app: AppContext, sink: ReplySink, target: Target, backends: Sequence[BackendClient]
) -> None:
    """Send a request to a backend, and its response to the client.

    A body in JSON may name the model, which selects the backend. Any other body is streamed to the
    first backend that allows the path.
    """
    principal = app.authenticator.authenticate(sink.headers)
    sink.record.key_name, sink.record.model = principal.name, target.model
    body, receive = None, sink.receive
    if "content-length" not in sink.headers and "transfer-encoding" not in sink.headers:
        body = b""
    elif _JSON.match(sink.headers.get("content-type", "")):
        body = await read_body(sink.receive, sink.headers, app.config.server.max_body_bytes)
    routes = _find_routes(app, sink, backends, body or b"")
    upload = None if body is not None else _Upload(sink.receive)
    if upload is not None:
        receive = upload.receive_disconnect
    async with ExchangeMonitor(receive, app.config.server.heartbeat_interval) as monitor:
        call = _Call(target, sink, principal, monitor)
        response = await call.send_to_first(routes, body, upload)
        try:
            await call.forward(response)
        finally:
            await response.aclose()


def _find_routes(
    app: AppContext, sink: ReplySink, backends: Sequence[BackendClient], body: bytes
) -> Sequence[Route]:
    """Return the backends for the model of a request, in order of preference."""
    model = _read_model(body) or sink.record.model
    if not model:
        return [Route(backend) for backend in backends]
    sink.record.model = model
    names = {backend.name for backend in backends}
    routes = [route for route in app.router.find(model) if route.backend.name in names]
    if not routes:
        raise ModelNotFoundError("model", f"no backend of {model!r} passes this path through")
    return routes


def _read_model(body: bytes) -> str:
    try:
        return _TEXT.decode(_OBJECT.decode(body).get("model", b'""'))
    except DECODE_ERRORS:
        # The backend reports what is wrong with the body.
        return ""


class _Upload(httpx.AsyncByteStream):
    """The body of a client's request as a stream; the monitor reads messages only after it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._complete = asyncio.Event()
        self.monitor: ExchangeMonitor | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive_part()
            more = message["more_body"]
            if self.monitor is not None:
                # The backend replies only after the body.
                self.monitor.connected()
            yield message["body"]
        self._complete.set()

    async def _receive_part(self) -> HTTPRequestEvent:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
                message = await self._receive()
        except TimeoutError:
            why = f"no data of the body received for {BODY_TIMEOUT_SECONDS} seconds"
            raise RequestTimeoutError(None, why) from None
        if message["type"] != "http.request":
            raise ClientDisconnectedError
        return message

    async def receive_disconnect(self) -> HTTPDisconnectEvent:
        """Return the message of the client after its body."""
        await self._complete.wait()
        return cast("HTTPDisconnectEvent", await self._receive())


class _Call(Struct):
    """One request to a backend."""

    target: Target
    sink: ReplySink
    principal: Principal
    monitor: ExchangeMonitor

    async def send_to_first(
        self, routes: Sequence[Route], body: bytes | None, upload: _Upload | None
    ) -> httpx.Response:
        """Return the response of the first backend that can be reached."""
        *first, last = routes
        for route in first if upload is None else ():
            try:
                return await self._send(route, body or b"")
            except BackendUnreachableError as error:
                LOG.warning(
                    "backend unreachable, trying the next one",
                    backend=route.backend.name,
                    model=self.sink.record.model,
                    error=error.message,
                )
        if upload is None:
            return await self._send(last, body or b"")
        upload.monitor = self.monitor
        return await self._send(routes[0], upload)

    async def _send(self, route: Route, body: "bytes | _Upload") -> httpx.Response:
        backend, record = route.backend, self.sink.record
        record.backend, record.redact = backend.name, backend.redact
        headers = self._headers(backend, streamed=not isinstance(body, bytes))
        if isinstance(body, bytes):
            if route.model is not None:
                body = _rename_model(body, route.model)
            if body:
                headers.append((b"content-length", b"%d" % len(body)))
            stream: httpx.ByteStream | _Upload = httpx.ByteStream(body)
        else:
            stream = body
        connect = backend.timeouts.connect or None
        timeout = {"connect": connect, "pool": connect, "read": None, "write": None}
        request = httpx.Request(
            self.target.method,
            self.target.url(backend.config.url),
            headers=headers,
            stream=stream,
            extensions={"timeout": timeout, "trace": connection_trace(self.monitor)},
        )
        return await backend.send(backend.passthrough_transport, request, self.monitor)

    def _headers(self, backend: BackendClient, *, streamed: bool) -> Headers:
        given = self.sink.headers
        content = passthrough_headers(given)
        if not streamed:
            # The body was decompressed.
            content = [(name, value) for name, value in content if name not in _BODY_HEADERS]
        elif "content-length" not in given:
            content.append((b"transfer-encoding", b"chunked"))
        own = [(name.encode(), value.encode()) for name, value in backend.config.headers.items()]
        host = (b"host", httpx.URL(backend.config.url).netloc)
        identity = (b"accept-encoding", b"identity")
        return [host, identity, *content, *own, *backend.request_headers(given, self.principal)]

    async def forward(self, response: httpx.Response) -> None:
        """Send a response to the client; redact the backend's key in an error."""
        backend_headers = dict(response.headers.items())
        headers = [*client_headers(backend_headers), *passthrough_headers(backend_headers)]
        self.sink.record.request_id = backend_headers.get("x-request-id")
        self.monitor.expect_more()
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            whole = await read_error_response(response)
            content = redact_text(whole.content, self.sink.record.redact)
            headers = [(name, value) for name, value in headers if name not in _BODY_HEADERS]
            self.sink.record.note_error(None)
            await self.sink.send_response(response.status_code, headers, content)
            return
        await self.sink.start(response.status_code, headers)
        try:
            async for chunk in response.aiter_raw():
                self.monitor.note_backend_activity()
                self.monitor.writing = True
                await self.sink.write(chunk)
                self.monitor.end_client_write()
        except httpx.TransportError:
            # Without its end, the response is recognized as incomplete.
            message = "the backend's response ended before it was complete"
            raise BackendDisconnectedError(None, message) from None
        await self.sink.end()


def _rename_model(body: bytes, model: str) -> bytes:
    """Replace the name of the model by that of the backend."""
    fields = _OBJECT.decode(body)
    return msgspec.json.encode(fields | {"model": Raw(msgspec.json.encode(model))})
