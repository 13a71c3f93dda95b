"""Recorded replies as an httpx transport, so that the gateway can use them as its backends."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from glob import escape
from http import HTTPStatus
from itertools import chain
from typing import Final

import httpx
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from adapters import Dialect, InvalidRequestError
from adapters.ir.types import Error
from adapters.model_rules import BackendCapabilities
from gateway.config.schema import BackendConfig, RetryConfig
from gateway.config.value_checks import check_profile
from gateway.http.headers import drop_hop_by_hop
from gateway.recording.diff_output import describe_differences
from gateway.recording.replay_index import Mismatch, RecordedReply, ReplayIndex, find_nearest
from gateway.recording.request_meaning import read_meaning
from gateway.recording.single_calls import SingleCallIndex

# The differences that the error for an unknown request contains.
_MAX_DIFFERENCES: Final = 5
# Each backend has a host of its own, because they have the same paths.
_HOST_SUFFIX: Final = ".recordings.invalid"
# The end of an event, and whether the event has data.
_EVENT: Final = re.compile(rb"(?:[^\r\n]+(?:\r\n|\r|\n))+(?:\r\n|\r|\n)")
_DATA: Final = re.compile(rb"^data:", re.MULTILINE)
_CONTENT_TYPES: Final = {".sse": "text/event-stream", ".json": "application/json"}
# Headers of the body as it was received, before it was decompressed.
_BODY_HEADERS: Final = ("content-length", "content-encoding")


class ReplayBackend(Struct, frozen=True):
    """A backend of a replay: all recorded replies of one dialect with the same capabilities."""

    config: BackendConfig
    dialect: Dialect
    replies: list[RecordedReply]


def replay_backends(replies: Iterable[RecordedReply], *, raw: bool) -> list[ReplayBackend]:
    """Return the backends of a replay; the first one has all models that were not recorded.

    With `raw`, the recorded capabilities are not used. Raises `InvalidRequestError` if this version
    does not have them.
    """
    groups: dict[bytes, list[RecordedReply]] = {}
    for reply in replies:
        plain = replace(reply, profile=None, capabilities={}) if raw else reply
        key = plain.dialect.name, plain.profile, plain.capabilities
        groups.setdefault(msgspec.json.encode(key), []).append(plain)
    return [
        ReplayBackend(_configure(number, group), group[0].dialect, group)
        for number, group in enumerate(groups.values(), start=1)
    ]


def _configure(number: int, replies: Sequence[RecordedReply]) -> BackendConfig:
    first = replies[0]
    for error in check_profile(first.profile, f"{first.name}: profile"):
        raise InvalidRequestError(None, error)
    try:
        BackendCapabilities(first.profile, first.capabilities).for_model()
    except msgspec.ValidationError as error:
        raise InvalidRequestError(None, f"{first.name}: capabilities: {error}") from None
    suffix = "" if number == 1 else f"-{number}"
    return BackendConfig(
        f"recorded-{first.dialect.name}{suffix}",
        f"http://{number}{_HOST_SUFFIX}/v1",
        first.dialect.name,
        # Escaped, because the names are patterns here.
        models=tuple(dict.fromkeys(escape(reply.model) for reply in replies if reply.model)),
        model_aliases={
            reply.client_model: reply.model
            for reply in replies
            if reply.model and reply.client_model not in ("", reply.model)
        },
        default=number == 1,
        profile=first.profile,
        capabilities=first.capabilities,
        # A client of the same dialect receives the recorded bytes.
        repair=False,
        retries=RetryConfig(max_retries=0),
    )


class ReplayTransport(httpx.AsyncBaseTransport):
    """The backends of a replay.

    `speed` is None to send everything at once, or a multiple of the recorded pace. With `cut`, each
    stream breaks off after this number of events.
    """

    def __init__(
        self,
        backends: Sequence[ReplayBackend],
        *,
        speed: float | None = None,
        cut: int | None = None,
    ) -> None:
        self._backends = backends
        self._indices = [ReplayIndex(backend.replies) for backend in backends]
        self._single_calls = [SingleCallIndex(backend.replies) for backend in backends]
        self._speed = speed
        self._cut = cut

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the recorded reply to a request, or an error that names what differs."""
        place = int(request.url.host.removesuffix(_HOST_SUFFIX)) - 1
        dialect = self._backends[place].dialect
        path = request.url.path.rstrip("/")
        if request.method == "GET" and path.endswith("/models"):
            return self._list_models()
        if request.method != "POST" or not path.endswith(dialect.path):
            message = f"a replay does not support {request.method} {request.url.path}"
            return _error(dialect, message, "unknown_url")
        meaning = read_meaning(await request.aread(), dialect)
        found = self._indices[place].find(meaning) or self._single_calls[place].find(meaning)
        if found is not None:
            return self._send(found)
        if self._has_other_backend(place, meaning.model):
            raise httpx.ConnectError("no recording matches; the next backend may have one")
        nearest = find_nearest(self._all_replies(), meaning)
        return _error(dialect, describe_mismatch(nearest), "no_matching_recording")

    def _all_replies(self) -> Iterator[RecordedReply]:
        return chain.from_iterable(backend.replies for backend in self._backends)

    def _send(self, reply: RecordedReply) -> httpx.Response:
        if reply.status is None:
            raise httpx.ReadError(reply.error or "no reply was recorded")
        headers = drop_hop_by_hop({name.lower(): value for name, value in reply.headers.items()})
        for name in _BODY_HEADERS:
            headers.pop(name, None)
        headers.setdefault("content-type", _CONTENT_TYPES.get(reply.body.suffix, "text/plain"))
        stream = ReplayStream(reply, speed=self._speed, cut=self._cut)
        return httpx.Response(reply.status, headers=headers, stream=stream)

    def _has_other_backend(self, place: int, model: str) -> bool:
        """Whether the gateway calls another backend if this one does not have a model."""
        own, later = self._backends[place], self._backends[place + 1 :]
        names = {reply.client_model for reply in own.replies if reply.model == model} | {model}
        return any(
            not names.isdisjoint((reply.client_model, reply.model))
            for backend in later
            for reply in backend.replies
        )

    def _list_models(self) -> httpx.Response:
        names = dict.fromkeys(reply.client_model or reply.model for reply in self._all_replies())
        models = [{"id": name, "object": "model", "created": 0, "owned_by": ""} for name in names]
        return _whole(HTTPStatus.OK, msgspec.json.encode({"object": "list", "data": models}))


def describe_mismatch(nearest: Mismatch | None) -> str:
    """Return an error message with the differences from the nearest recording."""
    if nearest is None:
        return "no recording matches this request"
    shown = describe_differences(nearest.differences, _MAX_DIFFERENCES)
    return f"no recording matches this request; {nearest.name} is the nearest: {shown}"


def _error(dialect: Dialect, message: str, code: str) -> httpx.Response:
    status = HTTPStatus.NOT_FOUND
    error = Error(message, "invalid_request_error", code, status=status.value)
    return _whole(status, dialect.write_error(error))


def _whole(status: HTTPStatus, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    # With `content` the body would count as read, unlike one from a socket.
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))


class ReplayStream(httpx.AsyncByteStream):
    """A recorded body, in the reads in which it arrived."""

    def __init__(self, reply: RecordedReply, *, speed: float | None, cut: int | None) -> None:
        self._data = reply.body.data
        self._error = reply.error
        if cut is not None and reply.body.streamed:
            self._data = first_events(self._data, cut)
            self._error = f"cut after {cut} events"
        self._reads = scaled_reads(reply.reads, len(reply.body.data))
        self._speed = speed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield each read when it is due."""
        clock, sent = asyncio.get_running_loop(), 0
        begin = clock.time()
        for milliseconds, end in self._reads:
            if self._speed is not None:
                due = begin + milliseconds / 1000 / self._speed
                await asyncio.sleep(max(0, due - clock.time()))
            if chunk := self._data[sent:end]:
                yield chunk
            sent = end
        if self._error is not None:
            raise httpx.ReadError(self._error)


def scaled_reads(reads: Sequence[tuple[float, int]], length: int) -> list[tuple[float, int]]:
    """Return the time of each read and the position in the body at which it ends.

    Redaction may have changed the length of the body; then the positions are scaled.
    """
    total = sum(size for _, size in reads)
    if not total:
        return [(0, length)]
    ends: list[tuple[float, int]] = []
    received = 0
    for milliseconds, size in reads:
        received += size
        ends.append((milliseconds, round(received * length / total)))
    return ends


def first_events(stream: bytes, count: int) -> bytes:
    """Return a stream up to the end of an event; comments are not counted."""
    for event in _EVENT.finditer(stream):
        if not count:
            return stream[: event.start()]
        count -= _DATA.search(event[0]) is not None
    return stream
