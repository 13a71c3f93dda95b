"""Carries a backend's answer to the client, in whichever of the four ways the two want it.

Each side is whole or streamed. What the backend really sends counts, not what it was asked for.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import httpx
from msgspec.structs import replace

from adapters import DragomanError, InvalidReplyError, Translation
from adapters.ir.types import Error
from adapters.sse import BYTE_ORDER_MARK, is_stream
from adapters.translation.redaction import redact_text
from adapters.translation.streams import StreamCollector
from adapters.wire.error_body import read_error, to_error
from gateway import statuses
from gateway.http.headers import JSON, STREAM, Headers, client_headers, loss_header
from gateway.pipeline.hearing import (
    CUT,
    complete,
    exhaust,
    is_streamed,
    last_word,
    once,
    pieces_of,
)
from gateway.pipeline.parties import Parties
from gateway.pipeline.passing import Passing

# The largest whole answer that is read: beyond it, something is wrong.
_WHOLE_LIMIT: Final = 256 * 1024 * 1024
# So much of the beginning tells a stream from JSON.
_SNIFFED: Final = 64


class Delivery:
    """The way of one answer."""

    def __init__(self, parties: Parties) -> None:
        self._parties = parties
        self._exchange = parties.exchange
        self._upstream = parties.upstream
        self._client = parties.client
        self._watch = parties.watch
        self._record = parties.record
        self._headers: Headers = []
        # There once a stream is passed on.
        self._passing: Passing | None = None
        # The status of a backend that says no.
        self._error_status = 0

    async def run(self, response: httpx.Response) -> None:
        """Deliver an answer."""
        self._watch.expect_more()
        headers = self._upstream.headers_of(response)
        self._headers = client_headers(headers)
        self._record.request_id = headers.get("x-request-id")
        pieces = pieces_of(response, headers)
        status = response.status_code
        if statuses.ERROR <= status <= statuses.LAST:
            self._error_status = status
            await self._deliver_error(status, pieces)
        elif status not in statuses.ANSWERED:
            why = f"it answered with status {status}, which says neither yes nor no"
            raise InvalidReplyError(
                None, f"the backend {self._upstream.name} cannot be read: {why}"
            )
        elif is_streamed(headers, self._exchange):
            await self._deliver_stream(pieces)
        else:
            await self._deliver_whole(pieces)

    # Whole answers

    async def _deliver_error(self, status: int, pieces: AsyncIterator[bytes]) -> None:
        try:
            body = await self._read_whole(pieces)
        except InvalidReplyError:
            body = b""
        error = read_error(status, redact_text(body, self._upstream.redact))
        self._record.error_code = error.code or error.type
        await self._answer(self._exchange.error(status, body))

    async def _deliver_whole(self, pieces: AsyncIterator[bytes]) -> None:
        body = await self._read_whole(pieces)
        if is_stream(body[:_SNIFFED]):
            await self._deliver_stream(once(body))
            return
        if self._exchange.client_streams:
            await self._answer_streamed(self._exchange.tell(body))
        else:
            await self._answer(self._exchange.reply(body))

    async def _read_whole(self, pieces: AsyncIterator[bytes]) -> bytes:
        gathered: list[bytes] = []
        size = 0
        try:
            async for piece in pieces:
                self._watch.note_backend_activity()
                gathered.append(piece)
                size += len(piece)
                if size > _WHOLE_LIMIT:
                    raise InvalidReplyError(
                        None, f"the backend's answer is over {_WHOLE_LIMIT} bytes"
                    )
        except CUT:
            raise InvalidReplyError(None, "the backend's answer was cut off") from None
        body = gathered[0] if len(gathered) == 1 else b"".join(gathered)
        return body.removeprefix(BYTE_ORDER_MARK)

    async def _answer_streamed(self, answer: Translation) -> None:
        """Send a stream that is there already; what failed is no stream."""
        if answer.status >= statuses.ERROR:
            await self._answer(answer)
            return
        notary = self._parties.notary
        last = await notary.see_last(answer.body, answer.usage)
        if notary.problem is not None:
            self._record.note_error(notary.problem.code)
        await self._send_answer(replace(answer, body=last), STREAM)

    async def _answer(self, answer: Translation) -> None:
        await self._parties.notary.see_whole(answer)
        await self._send_answer(answer, JSON)

    async def _send_answer(self, answer: Translation, kind: Headers) -> None:
        self._record.usage = answer.usage
        parties = self._parties
        found = [*answer.losses, *parties.notary.losses, *await parties.judge()]
        self._record.losses += found
        losses = loss_header([*parties.losses, *found])
        await self._client.send_response(
            answer.status, [*kind, *self._headers, *losses], answer.body
        )

    # Streams

    async def _deliver_stream(self, pieces: AsyncIterator[bytes]) -> None:
        if self._exchange.client_streams:
            self._passing = Passing(self._parties, self._headers, self._refuse)
            await self._passing.run(pieces)
        else:
            await self._gather_stream(pieces)

    async def _gather_stream(self, pieces: AsyncIterator[bytes]) -> None:
        """Make a whole answer of a stream."""
        collector = self._exchange.collect()
        # If it is cut off, what there is tells whether the answer had been finished before.
        with suppress(*CUT):
            await self._collect(collector, pieces)
        await self._answer(self._exchange.collected(collector))

    async def _collect(self, collector: StreamCollector, pieces: AsyncIterator[bytes]) -> None:
        size = 0
        async for piece in pieces:
            self._watch.note_backend_activity()
            collector.feed(piece)
            size += len(piece)
            if size > _WHOLE_LIMIT:
                raise InvalidReplyError(None, f"the backend's answer is over {_WHOLE_LIMIT} bytes")
            if collector.finished:
                await self._hear_out(collector, pieces)
                return

    async def _hear_out(self, collector: StreamCollector, pieces: AsyncIterator[bytes]) -> None:
        """Wait a little for what may follow the end of an answer."""
        self._watch.pause_deadline()
        try:
            async with asyncio.timeout(last_word(self._upstream.timeouts)):
                await complete(collector, pieces)
        except TimeoutError:
            return
        await exhaust(pieces)

    async def fail(self, problem: DragomanError) -> None:
        """End the answer for a reason that lies outside of it."""
        if self._passing is not None and self._client.begun:
            await self._passing.fail(to_error(problem))
        elif not self._client.begun and self._error_status:
            # The status is known, only the words are missing.
            await self._answer(self._exchange.error(self._error_status, b""))
        elif not self._client.begun:
            await self._refuse(to_error(problem))

    async def _refuse(self, error: Error) -> None:
        await self._answer(self._exchange.failure(error))
