"""One backend as the service sees it: where it is, what it can, and how it is asked."""

import asyncio
import math
import random
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Final

import httpx
from msgspec import Struct

from adapters import Capabilities, Dialect, InvalidReplyError, dialect
from adapters.translation.redaction import redact_errors, redact_text
from adapters.wire.error_body import read_error
from gateway import statuses
from gateway.backends.key_redaction import key_redactor
from gateway.backends.transport import RequestTemplate
from gateway.config.schema import BackendConfig, RetryConfig, TimeoutConfig
from gateway.errors import BackendDisconnectedError, BackendTimeoutError, BackendUnreachableError
from gateway.http.auth import Principal
from gateway.http.client_connection import ClientConnection
from gateway.http.headers import (
    Headers,
    backend_headers,
    client_headers,
    drop_hop_by_hop,
    read_headers,
)
from gateway.http.monitor import ExchangeMonitor

# Backends that refuse what we ask for on our own account, which must not cost the answer.


# Names of headers that tell of a body as it was on the wire.
_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")
# What we ask for ourselves is a number, a summary or a refusal. The ids of all tokens of a long
# conversation, which vLLM sends along with their number, are some megabytes.
_LIMIT: Final = 64 * 1024 * 1024


async def read_whole(response: httpx.Response) -> httpx.Response:
    """Read an answer to its end; give it again, to be read once more."""
    gathered = bytearray()
    try:
        async for piece in response.aiter_bytes():
            gathered += piece
            if len(gathered) > _LIMIT:
                raise InvalidReplyError(None, f"the backend's answer is over {_LIMIT} bytes")
    finally:
        await response.aclose()
    return _again(response, bytes(gathered))


async def read_refusal(response: httpx.Response) -> httpx.Response:
    """Read a refusal; one whose words are cut off, or too many, is one by its status."""
    try:
        return await read_whole(response)
    except (httpx.HTTPError, InvalidReplyError):
        return _again(response, b"")


def _again(response: httpx.Response, body: bytes) -> httpx.Response:
    headers = response.headers.multi_items()
    kept = [(name, value) for name, value in headers if name not in _OF_THE_BODY]
    return httpx.Response(response.status_code, headers=kept, content=body)


def rejects_encrypted_reasoning(body: bytes) -> bool:
    """Tell whether an error is about sealed reasoning, of which the client knows nothing."""
    error = read_error(None, body)
    return error.param == "include" or "encrypted" in f"{error.message} {error.code}".lower()


def lacks_encrypted_reasoning(body: bytes) -> bool:
    """Tell whether it says that there is no such thing, as OpenAI does of models without reasoning.

    Otherwise just one seal is refused: that of another account, say.
    """
    error = read_error(None, body)
    return error.param == "include" or "not supported" in error.message.lower()


_PATHS = {"chat": "/chat/completions", "legacy": "/chat/completions", "responses": "/responses"}

_VERSION = "/v1"

# What goes with every request. Compressed answers would cost time and hold back events.
_FIXED: Headers = [(b"content-type", b"application/json"), (b"accept-encoding", b"identity")]
_ACCEPT = {
    True: (b"accept", b"text/event-stream"),
    False: (b"accept", b"application/json"),
}


class BackendClient:
    """One backend."""

    def __init__(  # noqa: PLR0913 - each is one thing to know of a backend
        self,
        backend: BackendConfig,
        transport: httpx.AsyncBaseTransport,
        *,
        capabilities: Capabilities,
        rewrite: bool,
        timeouts: TimeoutConfig,
        retries: RetryConfig,
        key: str | None = None,
    ) -> None:
        self.config = backend
        self.name = backend.name
        self.transport = transport
        self.dialect: Dialect = dialect(backend.dialect)
        self.capabilities = capabilities
        self.rewrite = rewrite
        self.timeouts = timeouts
        self._retries = retries
        self._key = key
        # Redacts our key in errors and logs; None if there is nothing to redact.
        self.redact = key_redactor(key)
        self._target = self._make_target(_PATHS[backend.dialect])
        self.models_target = self._make_target("/models")
        # Models, by the names that clients use, that refuse to seal what they think.
        self._seal_nothing: set[str] = set()

    def target_for(self, path: str, *, root: bool = False) -> RequestTemplate:
        """Give another address of the backend; some are not under the version but at the root."""
        return self._make_target(path, root=root)

    def _make_target(self, path: str, *, root: bool = False) -> RequestTemplate:
        """Prepare what does not change from one request to the next."""
        base = httpx.URL(self.config.url)
        if root:
            base = base.copy_with(path=base.path.rstrip("/").removesuffix(_VERSION) or "/")
        own = [
            (name.lower().encode(), value.encode()) for name, value in self.config.headers.items()
        ]
        return RequestTemplate(
            base.copy_with(path=base.path.rstrip("/") + path),
            [*_FIXED, *own],
            # The transport's only own timeout; the watch keeps the others.
            connect_timeout=self.timeouts.connect or None,
        )

    def note_refusal(self, model: str, body: bytes) -> None:
        """Note that a model refuses to seal what it thinks, if that is what an error says."""
        if lacks_encrypted_reasoning(body):
            self._seal_nothing.add(model)

    def lacks_encrypted_reasoning(self, model: str) -> bool:
        """Tell whether a model is known to refuse that."""
        return model in self._seal_nothing

    def authorization(self, principal: Principal) -> Headers:
        """Give the key for this backend: our own there, or else the client's."""
        if self._key is not None:
            return [(b"authorization", f"Bearer {self._key}".encode("latin-1"))]
        if principal.authorization is not None:
            return [(b"authorization", principal.authorization.encode("latin-1"))]
        return []

    def headers_of(self, response: httpx.Response) -> dict[str, str]:
        """Return the end-to-end headers of an answer, with our key redacted."""
        headers = drop_hop_by_hop(read_headers(response.headers.raw))
        redact = self.redact
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
        target: RequestTemplate | None = None,
    ) -> httpx.Response:
        """Send a request, again if need be; give the answer as soon as its head is there.

        Raises `Unreachable` or `BrokenOff` if nothing came of it.
        """
        headers = [_ACCEPT[streams], *headers]
        tries = self._retries.max_retries
        wait = self._retries.initial_backoff
        while True:
            try:
                response = await self._send(target or self._target, body, headers, monitor)
            except (BackendUnreachableError, BackendDisconnectedError) as problem:
                if not tries or not self._tries_again(problem):
                    raise
                pause = _jitter(wait)
            else:
                again = tries and self._pause_for(response, wait)
                if not again:
                    return response
                pause = again
                await response.aclose()
            monitor.pause_deadline()
            await asyncio.sleep(pause)
            tries -= 1
            wait *= 2

    async def _send(
        self, target: RequestTemplate, body: bytes, headers: Headers, monitor: ExchangeMonitor
    ) -> httpx.Response:
        request = target.post(body, headers, monitor.connected)
        monitor.expect_first_byte(self.timeouts)
        try:
            return await self.transport.handle_async_request(request)
        except (httpx.ConnectTimeout, httpx.PoolTimeout):
            raise BackendUnreachableError(
                None, f"the backend {self.name} did not take a connection"
            ) from None
        except (httpx.ConnectError, httpx.ProxyError):
            raise BackendUnreachableError(
                None, f"the backend {self.name} cannot be reached"
            ) from None
        except httpx.TimeoutException:
            raise BackendTimeoutError(None, f"the backend {self.name} took too long") from None
        except httpx.TransportError as error:
            why = f"the backend {self.name} broke off before it answered ({type(error).__name__})"
            raise BackendDisconnectedError(None, why) from None

    def _tries_again(self, problem: BackendUnreachableError | BackendDisconnectedError) -> bool:
        """Tell whether to ask again; what may have been done once is done twice only if wanted."""
        return (
            isinstance(problem, BackendUnreachableError)
            or problem.status in self._retries.status_codes
        )

    def _pause_for(self, response: httpx.Response, backoff: float) -> float:
        """Tell how long to wait before asking again; 0: this answer is the one to pass on."""
        if response.status_code not in self._retries.status_codes:
            return 0
        asked = retry_after(response.headers.get("retry-after"), time.time())
        if asked is None:
            return _jitter(backoff)
        # A longer wait is the client's to take: it gets the header.
        return 0 if asked > self._retries.max_retry_after else max(asked, _jitter(0.01))


def _jitter(seconds: float) -> float:
    """Vary a pause, so that those who failed together do not all come again together."""
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - no secret hangs on it


def retry_after(value: str | None, now: float) -> float | None:
    """Read `Retry-After`: seconds, or a date."""
    if value is None:
        return None
    with suppress(ValueError):
        seconds = float(value)
        return max(seconds, 0) if math.isfinite(seconds) else None
    try:
        return max(parsedate_to_datetime(value).timestamp() - now, 0)
    except (ValueError, OverflowError):
        return None


# Asks a backend at another address than that of its answers.


# What a server answers that has no such address.
UNSUPPORTED_PATH_STATUSES: Final = frozenset((404, 405, 501))


class SideResponse(Struct, frozen=True):
    """What it answered, whole."""

    status: int
    headers: Headers
    body: bytes


class SideRequest(Struct, frozen=True):
    """Who asks, and of whom."""

    backend: BackendClient
    principal: Principal
    client: ClientConnection
    monitor: ExchangeMonitor

    async def post(self, path: str, body: bytes, *, root: bool = False) -> SideResponse:
        """Ask, again if need be; whatever goes wrong is a `DragomanError`."""
        upstream = self.backend
        headers = [*backend_headers(self.client.headers), *upstream.authorization(self.principal)]
        target = upstream.target_for(path, root=root)
        response = await upstream.post(body, headers, self.monitor, streams=False, target=target)
        self.monitor.expect_more()
        try:
            response = await read_whole(response)
        except httpx.HTTPError:
            raise InvalidReplyError(None, "the backend's answer was cut off") from None
        status = response.status_code
        clean = redact_text if status >= statuses.ERROR else redact_errors
        found = client_headers(upstream.headers_of(response))
        return SideResponse(status, found, clean(response.content, upstream.redact))
