"""Capture of the requests to a backend and their responses, at the backend's transport."""

import time
from typing import Self

import httpx

from gateway.observability.capture import (
    Capture,
    CapturedBody,
    CapturedCall,
    current_capture,
)


class CapturingTransport(httpx.AsyncBaseTransport):
    """A transport that captures the requests of exchanges, and forwards all requests unchanged."""

    def __init__(self, transport: httpx.AsyncBaseTransport, backend: str) -> None:
        self._transport = transport
        self._backend = backend

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; capture it and its response if it belongs to an exchange."""
        capture = current_capture()
        if capture is None:
            return await self._transport.handle_async_request(request)
        call = _begin_call(capture, self._backend, request, await request.aread())
        started = time.perf_counter()
        try:
            response = await self._transport.handle_async_request(request)
        except BaseException as error:
            call.error = type(error).__name__
            raise
        call.status, call.reply_headers = response.status_code, response.headers.raw
        if isinstance(response.stream, httpx.AsyncByteStream):
            response.stream = _CapturingStream(response.stream, call, started)
        return response

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


def _begin_call(
    capture: Capture, backend: str, request: httpx.Request, body: bytes
) -> CapturedCall:
    call = CapturedCall(
        backend,
        request.method,
        request.url.path,
        request.headers.raw,
        CapturedBody(capture.limit),
        CapturedBody(capture.limit),
        capture.elapsed(),
        complete=False,
    )
    call.request.add(body)
    capture.calls.append(call)
    return call


class _CapturingStream(httpx.AsyncByteStream):
    """A body of a response that is captured while it is read.

    As with the body itself, cancelling the wait for a chunk loses no data.
    """

    __slots__ = ("_call", "_chunks", "_started", "_stream")

    def __init__(self, stream: httpx.AsyncByteStream, call: CapturedCall, started: float) -> None:
        self._stream = stream
        self._chunks = aiter(stream)
        self._call = call
        self._started = started

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._call.complete = True
            raise
        except httpx.TransportError as error:
            self._call.error = type(error).__name__
            raise
        self._call.reply.add(chunk, time.perf_counter() - self._started)
        return chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
