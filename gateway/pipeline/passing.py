"""Passes a stream on to a client that streams: each piece at once, and the last when it is kept."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final

from adapters.ir.events import Failed, Finished
from adapters.ir.types import Error
from gateway import statuses
from gateway.http.headers import STREAM, Headers, loss_header
from gateway.pipeline.hearing import CUT, LINGER, last_word
from gateway.pipeline.parties import Parties

# A backend may fail right after it has begun, before it says anything: so long that is waited for.
_HOLD: Final = 1.0


class Passing:
    """One stream on its way."""

    def __init__(
        self, parties: Parties, headers: Headers, refuse: Callable[[Error], Awaitable[None]]
    ) -> None:
        self._upstream = parties.upstream
        self._client = parties.client
        self._watch = parties.watch
        self._record = parties.record
        self._judge = parties.judge
        self._notary = parties.notary
        self._headers = [*headers, *loss_header(parties.losses)]
        # Answers with an error, and not with a stream.
        self._refuse = refuse
        self._machine = parties.exchange.stream()
        # What is written for a stream whose head is held back, until the answer really begins.
        self._held: list[bytes] = []
        # A piece is on its way to the client: nothing else may be written between.
        self._writing = False

    async def run(self, pieces: AsyncIterator[bytes]) -> None:
        """Pass it on, to its end."""
        self._record.stream = True
        self._watch.set_heartbeat(self._keep_alive)
        # If it is cut off, the machine knows whether the answer had been finished before.
        with suppress(*CUT):
            await self._pump(pieces)
        await self._finish(self._machine.flush())

    async def fail(self, error: Error) -> None:
        """End it for a reason that lies outside of it."""
        await self._finish(self._machine.fail(error))

    async def _pump(self, pieces: AsyncIterator[bytes]) -> None:
        """Write what each read brought, at once and in one piece."""
        machine = self._machine
        feed, heard, hear = machine.feed, self._watch.note_backend_activity, self._notary.hear
        async for piece in pieces:
            heard()
            written = feed(piece)
            if machine.finished:
                await self._hear_last(written, pieces)
                return
            if hear is not None:
                hear(written)
            if written:
                await self._write(written)

    async def _hear_last(self, written: bytes, pieces: AsyncIterator[bytes]) -> None:
        """Write the end of an answer; wait a little for what may follow it."""
        self._watch.pause_deadline()
        await self._write_last(written, seen=False)
        if self._machine.outcome is None:
            await self._linger(pieces, last_word(self._upstream.timeouts))
        if self._machine.outcome is not None:
            await self._linger(pieces, LINGER)

    async def _linger(self, pieces: AsyncIterator[bytes], seconds: float) -> None:
        """Wait a little for the last word of a stream, or for its end once that is said."""
        machine = self._machine
        said = machine.outcome
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for piece in pieces:
                    await self._write_last(machine.feed(piece), seen=said is not None)
                    if machine.outcome is not said:
                        return

    async def _write_last(self, written: bytes, *, seen: bool) -> None:
        """Write what may be the last word: it is kept before it is told, and only once."""
        if self._machine.outcome is not None and not seen:
            written = await self._see_last(written)
        elif self._notary.hear is not None:
            self._notary.hear(written)
        if written:
            await self._write(written)

    async def _write(self, data: bytes) -> None:
        if not self._client.begun:
            self._hold(data)
            if not self._machine.has_content:
                return
            data = await self._begin()
        await self._tell(data)

    async def _tell(self, data: bytes) -> None:
        self._writing = True
        self._watch.begin_client_write()
        await self._client.write(data)
        # Of a backend's own comments a client may take no note (P147).
        self._watch.end_client_write(counts=not data.startswith(b":") or b"\ndata:" in data)
        self._writing = False

    def _hold(self, data: bytes) -> None:
        """Hold something back, but not for long: a client may show that its answer has begun."""
        if not self._held:
            self._watch.set_heartbeat(self._keep_alive, at_most=_HOLD)
        self._held.append(data)

    async def _begin(self) -> bytes:
        """Send the head of the stream; give what was held back."""
        self._watch.set_heartbeat(self._keep_alive)
        await self._client.send_headers(statuses.WHOLE, [*STREAM, *self._headers])
        held = b"".join(self._held)
        self._held.clear()
        return held

    async def _keep_alive(self) -> None:
        """Tell the client that we are still there; a stream held back so long begins now."""
        if self._writing:
            return
        self._writing = True
        pulse = b"" if self._held else self._machine.keep_alive()
        if not self._client.begun:
            pulse = await self._begin() + pulse
        self._writing = False
        if pulse:
            await self._tell(pulse)

    async def _see_last(self, last: bytes) -> bytes:
        outcome = self._machine.outcome
        usage = None if outcome is None else outcome.usage
        failed = not isinstance(outcome, Finished)
        told = await self._notary.see_last(last, usage, failed=failed)
        if self._notary.problem is not None:
            self._record.note_error(self._notary.problem.code)
        return told

    async def _finish(self, last: bytes) -> None:
        machine, outcome = self._machine, self._machine.outcome
        if last or self._notary.waits:
            # Some servers say no last word: that the answer is whole, the end of the stream tells.
            last = await self._see_last(last)
        self._record.losses += [*machine.losses, *self._notary.losses, *await self._judge()]
        if outcome is not None:
            self._record.usage = outcome.usage
        if isinstance(outcome, Failed):
            self._record.note_error(outcome.error.code)
            if not self._client.begun and not machine.has_content:
                # Nothing was said yet: an error with its own status tells more (P158, P159).
                await self._refuse(outcome.error)
                return
        if not self._client.begun:
            last = await self._begin() + last
        await self._client.end(last)
