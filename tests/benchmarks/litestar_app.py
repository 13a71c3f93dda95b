"""A pass-through on Litestar, uvicorn and plain httpx, to see what the usual stack costs.

python -m tests.benchmarks.litestar_app BACKEND_PORT
"""

import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from litestar import Litestar, Request, Response, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from tests.benchmarks.processes import announce

_HEADERS = ("content-type", "authorization")


def _handler(client: httpx.AsyncClient) -> HTTPRouteHandler:
    @post("/{path:path}", status_code=200)
    async def pass_on(request: Request[None, None, State]) -> Response[bytes] | Stream:
        headers = {name: request.headers[name] for name in _HEADERS}
        body = await request.body()
        sent = client.build_request("POST", request.url.path, content=body, headers=headers)
        answer = await client.send(sent, stream=True)
        kind = answer.headers["content-type"]
        if kind == "text/event-stream":
            return Stream(_pieces(answer), media_type=kind)
        whole = await answer.aread()
        await answer.aclose()
        return Response(whole, media_type=kind)

    return pass_on


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    async for piece in answer.aiter_raw():
        yield piece
    await answer.aclose()


def _app(backend_port: int) -> Litestar:
    limits = httpx.Limits(max_connections=4000)
    base = f"http://127.0.0.1:{backend_port}"
    client = httpx.AsyncClient(base_url=base, limits=limits, timeout=None)  # noqa: S113 - idle streams are measured

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None, None]:
        async with client:
            yield

    return Litestar(
        [_handler(client)], lifespan=[lifespan], openapi_config=None, logging_config=None
    )


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    app = _app(int(sys.argv[1]))
    config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="warning")
    announce(listening.getsockname()[1])
    uvicorn.Server(config).run([listening])
