"""The client for one backend: requests, retries and the causes of error responses."""

import asyncio
import copy
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from fnmatch import translate
from http import HTTPStatus
from typing import Final

import httpx
from msgspec import Struct

from adapters import Capabilities, Dialect, InvalidReplyError, get_dialect
from adapters.model_rules import BackendCapabilities
from adapters.wire.error_body import read_error, redact_errors, redact_text
from gateway.backends.failures import connection_error
from gateway.backends.health import BackendHealth
from gateway.backends.key_redaction import key_redactor
from gateway.backends.refused_fields import RefusedFields
from gateway.backends.transport import SENDING_EVENT
from gateway.config.schema import BackendConfig, TimeoutConfig
from gateway.config.transforms import make_transforms
from gateway.errors import (
    BackendDisconnectedError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    OutOfResourcesError,
)
from gateway.http.auth import Principal
from gateway.http.headers import (
    Headers,
    backend_headers,
    client_headers,
    drop_hop_by_hop,
    read_headers,
)
from gateway.http.monitor import ExchangeMonitor

# Statuses by which a backend reports that it does not have a path.
UNSUPPORTED_PATH_STATUSES: Final = frozenset((404, 405, 501))

_VERSION_PREFIX = "/v1"
# Compression is not accepted, because it would cost time and delay events.
_COMMON_HEADERS: Headers = [
    (b"content-type", b"application/json"),
    (b"accept-encoding", b"identity"),
]
_ACCEPT = {True: (b"accept", b"text/event-stream"), False: (b"accept", b"application/json")}
# Headers that apply only to an encoded body.
_BODY_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
# Large, because vLLM's token counts include all token ids: megabytes for a long conversation.
_MAX_BODY_BYTES: Final = 64 * 1024 * 1024


# A callback for httpx's `trace` extension.
Trace = Callable[[str, Mapping[str, object]], Awaitable[None]]


class RequestTemplate:
    """A URL of a backend with the headers of every request to it.

    Requests are built from these prepared parts because httpx takes several times as long.
    `connect_timeout` limits the seconds for a connection and for a slot in the pool, unless None.
    """

    def __init__(
        self,
        url: httpx.URL | str,
        headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        connect_timeout: float | None = None,
    ) -> None:
        self._url = httpx.URL(url)
        self._headers = [(b"Host", self._url.netloc), *headers]
        # httpx's transport requires all four keys.
        timeout = {"connect": connect_timeout, "pool": connect_timeout, "read": None, "write": None}
        self._extensions: dict[str, object] = {"timeout": timeout}

    def post(
        self,
        content: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
        trace: Trace | None = None,
    ) -> httpx.Request:
        """Return a POST request with additional headers."""
        length = (b"Content-Length", b"%d" % len(content))
        return httpx.Request(
            "POST",
            self._url,
            headers=[*self._headers, *headers, length],
            stream=httpx.ByteStream(content),
            extensions=self._extensions if trace is None else {**self._extensions, "trace": trace},
        )

    def get(self, headers: Sequence[tuple[bytes, bytes]] = ()) -> httpx.Request:
        """Return a GET request with additional headers."""
        return httpx.Request(
            "GET", self._url, headers=[*self._headers, *headers], extensions=self._extensions
        )


class SideResponse(Struct, frozen=True):
    """The complete response to a side request: one that does not create a reply."""

    status: int
    headers: Headers
    body: bytes


class BackendClient:
    """A backend: its configuration, its capabilities, and requests to it."""

    def __init__(
        self,
        config: BackendConfig,
        transport: httpx.AsyncBaseTransport,
        *,
        capabilities: BackendCapabilities,
        timeouts: TimeoutConfig,
        health: BackendHealth,
        key: str | None = None,
    ) -> None:
        self.config = config
        self.name = config.name
        self.transport = transport
        # The transport for requests to other paths of the API, which can stream their bodies.
        self.passthrough_transport = transport
        paths = "|".join(map(translate, config.passthrough_paths))
        self._passthrough_paths = re.compile(paths or r"(?!)")
        self.dialect: Dialect = get_dialect(config.dialect)
        self._capabilities = capabilities
        # The capabilities of a model, and whether requests in the backend's own dialect are
        # changed to fit them. `for_model` returns a client with those of another model.
        self.capabilities: Capabilities = capabilities.for_model()
        self.rewrite = capabilities.rewrites()
        self.transforms = make_transforms(config.transforms)
        self.timeouts = timeouts
        self.health = health
        self._retries = health.retries
        self._key = key
        # Redacts the backend's key in errors and logs; None if the key is not a secret.
        self.redact = key_redactor(key)
        self._create_template = self.template_for(self.dialect.path)
        self.models_template = self.template_for("/models")
        # Models, by the names that clients use, that reject requests for encrypted reasoning.
        self.models_without_encrypted_reasoning: set[str] = set()
        self.refused_fields = RefusedFields()

    @property
    def settings(self) -> tuple[object, ...]:
        """What is configured, in contrast to what was learned from replies."""
        return self.config, self.timeouts, self._retries, self.health.config, self._key

    def passes_through(self, path: str) -> bool:
        """Whether clients may use a path of the backend's API that the gateway does not have."""
        return self._passthrough_paths.fullmatch(path) is not None

    def for_model(self, model: str) -> "BackendClient":
        """Return a client with the capabilities of a model; all else is shared with this one."""
        if not self._capabilities.depend_on_model():
            return self
        client = copy.copy(self)
        client.capabilities = self._capabilities.for_model(model)
        client.rewrite = self._capabilities.rewrites(model)
        return client

    def template_for(self, path: str, *, root: bool = False) -> RequestTemplate:
        """Return a template for a path; `root` omits the version prefix of the base URL."""
        base = httpx.URL(self.config.url)
        prefix = base.path.rstrip("/")
        if root:
            prefix = prefix.removesuffix(_VERSION_PREFIX)
        configured = self.config.headers.items()
        own = [(name.lower().encode(), value.encode()) for name, value in configured]
        return RequestTemplate(
            base.copy_with(path=prefix + path),
            [*_COMMON_HEADERS, *own],
            # The only timeout of the transport; the monitor applies the others.
            connect_timeout=self.timeouts.connect or None,
        )

    def note_reasoning_error(self, model: str, body: bytes) -> None:
        """Stop requesting encrypted reasoning from a model, if an error shows that it has none.

        OpenAI sends such an error for models without reasoning. Other errors reject only one
        encrypted item, for example that of another account.
        """
        error = read_error(None, body)
        if error.param == "include" or "not supported" in error.message.lower():
            self.models_without_encrypted_reasoning.add(model)

    def authorization(self, principal: Principal) -> Headers:
        """Return the authorization header: with the configured key, or else the client's own."""
        if self._key is not None:
            return [(b"authorization", f"Bearer {self._key}".encode("latin-1"))]
        if principal.authorization is not None:
            return [(b"authorization", principal.authorization.encode("latin-1"))]
        return []

    def request_headers(self, headers: dict[str, str], principal: Principal) -> Headers:
        """Return the forwarded headers of a client's request, and the authorization header."""
        return [*backend_headers(headers), *self.authorization(principal)]

    def headers_of(self, response: httpx.Response) -> dict[str, str]:
        """Return the end-to-end headers of a response, with the backend's key redacted."""
        headers, redact = drop_hop_by_hop(read_headers(response.headers.raw)), self.redact
        if redact is None:
            return headers
        return {name: redact(value) for name, value in headers.items()}

    async def post(
        self,
        body: bytes,
        headers: Headers,
        monitor: ExchangeMonitor,
        *,
        streams: bool,
        template: RequestTemplate | None = None,
    ) -> httpx.Response:
        """Send a request, with retries; return the response once its head has arrived.

        Raises `BackendUnreachableError`, `BackendDisconnectedError` or `BackendTimeoutError`.
        """
        headers = [_ACCEPT[streams], *headers]
        retries_left = self._retries.max_retries
        backoff = self._retries.initial_backoff
        self.health.note_request()
        while True:
            try:
                response = await self._send(
                    template or self._create_template, body, headers, monitor
                )
            except (BackendUnreachableError, BackendDisconnectedError) as error:
                if isinstance(error, BackendUnavailableError):
                    raise
                # A request that may have been processed is retried only if that is configured.
                unsent = isinstance(error, BackendUnreachableError)
                retries = unsent or error.status in self._retries.status_codes
                if not (retries and retries_left and self._may_retry()):
                    raise
                pause = _jitter(backoff)
            else:
                if not retries_left or response.status_code not in self._retries.status_codes:
                    return response
                pause = self._pause_before_retry(response, backoff)
                if not pause or not self._may_retry():
                    return response
                await response.aclose()
            monitor.pause_deadline()
            await asyncio.sleep(pause)
            retries_left -= 1
            backoff *= 2

    async def post_side_request(
        self,
        path: str,
        body: bytes,
        headers: Headers,
        monitor: ExchangeMonitor,
        *,
        root: bool = False,
    ) -> SideResponse:
        """Send a request that does not create a reply.

        Raises a `DragomanError` for every failure.
        """
        template = self.template_for(path, root=root)
        response = await self.post(body, headers, monitor, streams=False, template=template)
        monitor.expect_more()
        try:
            response = await read_whole(response)
        except httpx.HTTPError:
            message = "the backend's reply ended before it was complete"
            raise InvalidReplyError(None, message) from None
        status = response.status_code
        redact = redact_text if status >= HTTPStatus.BAD_REQUEST else redact_errors
        forwarded = client_headers(self.headers_of(response))
        return SideResponse(status, forwarded, redact(response.content, self.redact))

    def _may_retry(self) -> bool:
        """Whether a request may be sent again, by the circuit breaker and the retry budget."""
        return self.health.circuit == "closed" and self.health.may_retry()

    async def _send(
        self, template: RequestTemplate, body: bytes, headers: Headers, monitor: ExchangeMonitor
    ) -> httpx.Response:
        request = template.post(body, headers, connection_trace(monitor))
        return await self.send(self.transport, request, monitor)

    async def send(
        self, transport: httpx.AsyncBaseTransport, request: httpx.Request, monitor: ExchangeMonitor
    ) -> httpx.Response:
        """Send a request once, and note what its result shows of the backend's health.

        Returns the response once its head has arrived; raises a `GatewayError`.
        """
        health = self.health
        health.begin()
        monitor.expect_response(self.timeouts)
        try:
            response = await transport.handle_async_request(request)
        except httpx.TransportError as failure:
            error = connection_error(failure, self.name)
            # Requests that were not sent show nothing of the backend.
            unsent = isinstance(error, BackendUnavailableError | OutOfResourcesError)
            if unsent or isinstance(failure, httpx.LocalProtocolError):
                health.abandon()
            else:
                health.fail(error.message)
            raise error from failure
        except BaseException:
            if isinstance(monitor.reason, BackendTimeoutError):
                health.fail(monitor.reason.message)
            else:
                health.abandon()
            raise
        # Errors with a status may concern only one model or one client.
        health.succeed()
        return response

    def _pause_before_retry(self, response: httpx.Response, backoff: float) -> float:
        """Return the seconds until a retry, or 0 if that is too long for the gateway to wait."""
        requested = retry_after(response.headers.get("retry-after"), time.time())
        if requested is None:
            return _jitter(backoff)
        # A longer wait is left to the client, which gets the header with the response.
        return 0 if requested > self._retries.max_retry_after else max(requested, _jitter(0.01))


def connection_trace(monitor: ExchangeMonitor) -> Trace:
    """Return a callback that notifies the monitor when a connection is ready for the request."""

    async def trace(event: str, info: Mapping[str, object]) -> None:
        # The CONNECT request to a proxy only prepares the connection.
        if event == SENDING_EVENT and getattr(info["request"], "method", None) != b"CONNECT":
            monitor.connected()

    return trace


def _jitter(seconds: float) -> float:
    """Vary a pause, so that requests that failed together are not all retried together."""
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - not for secrets


def retry_after(value: str | None, now: float) -> float | None:
    """Read a `Retry-After` header, a number of seconds or a date, as seconds from now."""
    if value is None:
        return None
    with suppress(ValueError):
        seconds = float(value)
        return max(seconds, 0) if math.isfinite(seconds) else None
    try:
        return max(parsedate_to_datetime(value).timestamp() - now, 0)
    except (ValueError, OverflowError):
        return None


# Complete bodies


async def read_whole(response: httpx.Response) -> httpx.Response:
    """Read a response to its end; return an equal response whose body is in memory.

    Raises `InvalidReplyError` if the body is too large.
    """
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_BODY_BYTES:
                message = f"the backend's reply exceeds {_MAX_BODY_BYTES} bytes"
                raise InvalidReplyError(None, message)
    finally:
        await response.aclose()
    return _with_body(response, bytes(body))


async def read_error_response(response: httpx.Response) -> httpx.Response:
    """Read an error response; a body that is truncated or too large becomes empty."""
    try:
        return await read_whole(response)
    except (httpx.HTTPError, InvalidReplyError):
        return _with_body(response, b"")


def _with_body(response: httpx.Response, body: bytes) -> httpx.Response:
    headers = [
        (name, value) for name, value in response.headers.multi_items() if name not in _BODY_HEADERS
    ]
    return httpx.Response(response.status_code, headers=headers, content=body)


def rejects_encrypted_reasoning(body: bytes) -> bool:
    """Whether a backend rejected a request because of encrypted reasoning."""
    error = read_error(None, body)
    return error.param == "include" or "encrypted" in f"{error.message} {error.code}".lower()
