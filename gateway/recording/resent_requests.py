"""Recorded requests of clients, sent again to compare the replies with the recorded ones."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple

import httpx
import msgspec
from msgspec import Struct

from adapters import DIALECTS, Dialect, DragomanError
from adapters.comparison import Difference, compare_json
from adapters.conformance import Json
from adapters.ir.types import ToolCall
from adapters.json_text import DECODE_ERRORS
from gateway.errors import BackendUnreachableError
from gateway.recording.documents import first_event, read_document, read_reply
from gateway.recording.format import Body, make_body
from gateway.recording.recording_diff import NamedRecording, compare_recorded_bodies

# The transports of requests that a client itself sent.
_TRANSPORTS: Final = ("http", "websocket")
_PREVIOUS: Final = "previous_response_id"
# Long prompts take minutes to process.
_TIMEOUT: Final = httpx.Timeout(600, connect=10)


class ReplyComparison(Struct, frozen=True):
    """What differs between the recorded reply to a request and the one that arrived now."""

    name: str
    differences: list[Difference]


class _Reply(Struct, frozen=True):
    status: int | None
    body: Body | None

    def response_id(self) -> str | None:
        """Return the id of a response, which a later request may continue."""
        value = None if self.body is None else _decode(self.body)
        if isinstance(value, dict) and isinstance(value.get("response"), dict):
            value = value["response"]
        found = value.get("id") if isinstance(value, dict) else None
        return found if isinstance(found, str) else None

    def ids(self) -> list[str]:
        """Return the ids that a later request may contain: of the response and of its calls."""
        response = self.response_id()
        if self.body is None or response is None:
            return []
        try:
            read = read_reply(read_document(self.body.data))
        except DragomanError:
            return [response]
        items = (item for choice in read.choices for item in choice.items)
        return [response, *(item.call_id for item in items if isinstance(item, ToolCall))]


class _Request(Struct, frozen=True):
    name: str
    dialect: Dialect
    url: str
    body: bytes
    # The response that it continues, by the id in the recording.
    previous: str | None
    reply: _Reply


class _Resent(NamedTuple):
    """The reply to a request in the recording, and the task that receives the new one."""

    recorded: _Reply
    task: asyncio.Task[_Reply]


def resendable(recordings: Iterable[NamedRecording]) -> list[NamedRecording]:
    """Return the recordings of whole requests by clients that received the reply."""
    return [one for one in recordings if _is_resendable(one)]


def _is_resendable(one: NamedRecording) -> bool:
    exchange, request = one.recording.exchange, one.recording.client_request
    whole = request is not None and not request.omitted_bytes
    sent_by_client = exchange.client.transport in _TRANSPORTS and exchange.client.method == "POST"
    return whole and sent_by_client and exchange.outcome != "client_disconnected"


async def resend_requests(
    recordings: Sequence[NamedRecording], url: str, *, key: str | None, concurrency: int
) -> AsyncGenerator[ReplyComparison]:
    """Send requests to a gateway or a backend; yield what differs, in the order of the recordings.

    A request that continues the response to another one is sent after it, with the new ids of the
    response and of its calls. Raises `BackendUnreachableError` if the server cannot be reached.
    """
    headers = {"content-type": "application/json"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    limit = asyncio.Semaphore(concurrency)
    # By the ids of the responses in the recordings.
    by_id: dict[str | None, _Resent] = {}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            httpx.AsyncClient(timeout=_TIMEOUT, headers=headers)
        )
        sent: list[tuple[_Request, asyncio.Task[_Reply]]] = []
        for one in recordings:
            request = _read_request(one, url)
            earlier = None if request.previous is None else by_id.get(request.previous)
            task = asyncio.create_task(_send(client, request, earlier, limit))
            stack.callback(task.cancel)
            by_id[request.reply.response_id()] = _Resent(request.reply, task)
            sent.append((request, task))
        for request, task in sent:
            differences = _compare(request.dialect, request.reply, await task)
            yield ReplyComparison(request.name, differences)


def _read_request(one: NamedRecording, url: str) -> _Request:
    client, body = one.recording.exchange.client, one.recording.client_request
    data = b"" if body is None else body.data
    value = None if body is None else _decode(body)
    previous = value.get(_PREVIOUS) if isinstance(value, dict) else None
    dialect = DIALECTS[client.dialect]
    return _Request(
        one.folder.name,
        dialect,
        url.rstrip("/") + dialect.path,
        data,
        previous if isinstance(previous, str) else None,
        _Reply(client.status, one.recording.client_reply),
    )


async def _send(
    client: httpx.AsyncClient,
    request: _Request,
    earlier: _Resent | None,
    limit: asyncio.Semaphore,
) -> _Reply:
    body = request.body
    if earlier is not None:
        received = await earlier.task
        for old, new in zip(earlier.recorded.ids(), received.ids(), strict=False):
            body = body.replace(msgspec.json.encode(old), msgspec.json.encode(new))
    async with limit:
        try:
            response = await client.post(request.url, content=body)
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise BackendUnreachableError(None, f"{request.url}: {reason}") from None
    data = response.content
    return _Reply(response.status_code, make_body(data) if data else None)


def _compare(dialect: Dialect, recorded: _Reply, received: _Reply) -> list[Difference]:
    facts = compare_json(_facts(dialect, recorded), _facts(dialect, received))
    return [*facts, *compare_recorded_bodies(recorded.body, received.body)]


def _facts(dialect: Dialect, reply: _Reply) -> Json:
    """Return the status and the violations of the rules of the dialect, without their lines."""
    body = reply.body
    violations = dialect.check_stream(body.data) if body is not None and body.streamed else []
    messages: list[Json] = [*dict.fromkeys(violation.message for violation in violations)]
    return {"status": reply.status, "violations": messages}


def _decode(body: Body) -> Json:
    """Return a JSON body, or the first event of a stream; None for other bodies."""
    if body.streamed:
        return first_event(body.data)
    try:
        value: Json = msgspec.json.decode(body.data)
    except DECODE_ERRORS:
        return None
    return value
