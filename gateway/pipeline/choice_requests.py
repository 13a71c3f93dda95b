"""Requests for several choices to a backend that gives one: all are sent at the same time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import httpx

from adapters import BackendRequest
from adapters.translation.choices import ChoicesTranslator, choice_bodies
from gateway.backends.client import BackendClient, read_error_response
from gateway.http.headers import Headers, numbered_request
from gateway.http.monitor import ExchangeMonitor
from gateway.pipeline.responses import SUCCESS, is_stream, response_chunks

_END: Final = b""


class ChoiceRequests(httpx.AsyncByteStream):
    """The requests for all choices, and their replies as one body of the reply to translate.

    If one request fails, all fail. Closing cancels those that are not complete.
    """

    def __init__(
        self,
        sent: BackendRequest,
        backend: BackendClient,
        headers: Headers,
        monitor: ExchangeMonitor,
    ) -> None:
        self._plan = sent.reply_plan
        self._posts = [
            asyncio.ensure_future(
                backend.post(
                    body,
                    numbered_request(headers, number),
                    monitor,
                    streams=self._plan.backend_streams,
                )
            )
            for number, body in enumerate(choice_bodies(sent), 1)
        ]
        # The next chunk of each reply that is being read, by the number of its choice.
        self._reads: dict[asyncio.Task[bytes], int] = {}
        self.reply = ChoicesTranslator(self._plan)

    async def first_response(self) -> httpx.Response:
        """Return the response that arrives first; cancel the other requests if it is an error.

        Raises the error of a request that fails before.
        """
        try:
            done, _ = await asyncio.wait(self._posts, return_when=asyncio.FIRST_COMPLETED)
            first = min(done, key=self._posts.index)
            response = first.result()
        except BaseException:
            await self.aclose()
            raise
        if response.status_code not in SUCCESS:
            self._posts.remove(first)
            await self.aclose()
        return response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the chunks of all replies as they arrive, each after its choice was selected."""
        replies = [self._read(number) for number in range(len(self._posts))]
        for number in range(len(replies)):
            self._read_next(replies, number)
        while self._reads:
            done, _ = await asyncio.wait(self._reads, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=self._reads.__getitem__):
                number = self._reads.pop(task)
                self.reply.select(number)
                chunk = task.result()
                yield chunk
                if chunk and not await self._close_if_cut(number):
                    self._read_next(replies, number)

    def _read_next(self, replies: Sequence[AsyncIterator[bytes]], number: int) -> None:
        self._reads[asyncio.ensure_future(_next_chunk(replies[number]))] = number

    async def _read(self, number: int) -> AsyncIterator[bytes]:
        """Yield the chunks of one reply, as soon as its response has arrived."""
        response = await self._posts[number]
        if response.status_code not in SUCCESS:
            response = await read_error_response(response)
            self.reply.select(number)
            self.reply.fail_choice(response.status_code, response.content)
            return
        content_type = response.headers.get("content-type", "")
        if is_stream(content_type, requested=self._plan.backend_streams):
            self.reply.select(number)
            self.reply.expect_stream()
        compressed = "content-encoding" in response.headers
        async for chunk in response_chunks(response, compressed=compressed):
            if chunk:
                yield chunk

    async def _close_if_cut(self, number: int) -> bool:
        """Close the response of a reply that ended before it, which cancels the backend's work."""
        self.reply.select(number)
        is_cut = self.reply.choice_cut
        if is_cut:
            await self._posts[number].result().aclose()
        return is_cut

    async def aclose(self) -> None:
        """Cancel the requests that are not complete, and close all responses."""
        reads, self._reads = [*self._reads], {}
        posts, self._posts = self._posts, []
        for task in (*reads, *posts):
            task.cancel()
        await asyncio.gather(*reads, *posts, return_exceptions=True)
        for post in posts:
            if not post.cancelled() and post.exception() is None:
                await post.result().aclose()


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes:
    return await anext(chunks, _END)
