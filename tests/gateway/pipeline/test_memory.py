"""What a stream holds in memory while it is open."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import cast

import httpx
import pytest
from litestar.types import HTTPRequestEvent, HTTPScope, Message

from gateway import app as application
from gateway import service
from gateway.config.schema import BackendConfig, Config, StateConfig
from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.plain_requests import request_body, request_path
from tests.judges.reading import JsonObject

FIRST_CHUNKS = b"".join(stream_events("chat", Turn("Hello"))[:2])


class OpenStream(httpx.AsyncByteStream):
    """A stream that sends one chunk and stays open."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield FIRST_CHUNKS
        await asyncio.Event().wait()


def reply(_: httpx.Request) -> httpx.Response:
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, stream=OpenStream())


async def references_to_body(client: str, body: bytes) -> int:
    """Return how many references to a request body exist while its reply is streamed."""
    content_sent = asyncio.Event()
    received = False

    async def receive() -> HTTPRequestEvent:
        nonlocal received
        if received:
            await asyncio.Event().wait()
        received = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body" and b"Hello" in message["body"]:
            content_sent.set()

    backend = BackendConfig("b", "http://localhost/v1", "chat")
    app = application.create_app(Config(backends=(backend,), state=StateConfig("memory:")))
    async with app.lifespan():
        # The keys of a scope that the gateway reads.
        scope: JsonObject = {"type": "http", "method": "POST", "path": request_path(client)}
        task = asyncio.ensure_future(app(cast("HTTPScope", scope | {"headers": ()}), receive, send))
        await asyncio.wait_for(content_sent.wait(), 30)
        # Without the one that is held by the call itself.
        references = sys.getrefcount(body) - 1
        task.cancel()
        await asyncio.wait([task])
    return references


@pytest.mark.parametrize("client", ["chat", "responses"])
def test_stream_does_not_hold_its_request(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def make_transport(_: BackendConfig) -> httpx.MockTransport:
        return httpx.MockTransport(reply)

    monkeypatch.setattr(service, "make_transport", make_transport)
    request = request_body(client, "m", streamed=True) | {"store": False}
    body = json.dumps(request).encode()
    before = sys.getrefcount(body)
    # The coroutine and the two closures that this test calls refer to it.
    assert asyncio.run(references_to_body(client, body)) <= before + 2
