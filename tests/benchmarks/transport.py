"""What the transports cost: `python -m tests.benchmarks.transport`.

The same requests over our own transport, that of httpx, and httpx-aiohttp if it is installed, in
interleaved rounds against one server in a process of its own. CPU is this process's own.
"""

import asyncio
import multiprocessing
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection as Pipe
from statistics import median

import httpx
import uvloop

from gateway.backends.client import RequestTemplate
from gateway.backends.transport import DirectTransport

ROUNDS = 7
UNARY_REQUESTS = 300
STREAMS = 4
CHUNKS = 1000

BODY = b"x" * 5000
EVENT = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
UNARY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n" + BODY
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

HEADERS = (
    (b"Authorization", b"Bearer sk-test"),
    (b"Content-Type", b"application/json"),
    (b"Accept-Encoding", b"identity"),
    (b"User-Agent", b"benchmark"),
)
# The way of a request, and how many pieces its answer has.
LOADS = {
    "unary, 5 kB": ("/unary", UNARY_REQUESTS, 1),
    "a burst of 1,000 chunks": ("/burst", STREAMS, CHUNKS),
    "1,000 chunks one by one": ("/single", STREAMS, CHUNKS),
}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(BODY))
            match head.split(b" ", 2)[1]:
                case b"/unary":
                    writer.write(UNARY)
                case b"/burst":
                    writer.write(STREAM + CHUNK * CHUNKS + b"0\r\n\r\n")
                case _:
                    await trickle(writer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def trickle(writer: asyncio.StreamWriter) -> None:
    """Send the chunks so slowly that each is read by itself."""
    writer.write(STREAM)
    for _ in range(CHUNKS):
        writer.write(CHUNK)
        await asyncio.sleep(0.0005)
    writer.write(b"0\r\n\r\n")


def serve(pipe: Pipe) -> None:
    """Run the server, and tell its port."""

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


@contextmanager
def running_server() -> Generator[str, None, None]:
    """Run the server in a process of its own, and give its address."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.terminate()
        process.join()


def transports() -> dict[str, Callable[[], httpx.AsyncBaseTransport]]:
    """Give the transports to compare."""
    found: dict[str, Callable[[], httpx.AsyncBaseTransport]] = {
        "direct": DirectTransport,
        "httpx": httpx.AsyncHTTPTransport,
    }
    if find_spec("httpx_aiohttp") is not None:
        found["httpx-aiohttp"] = import_module("httpx_aiohttp").AiohttpTransport
    return found


@asynccontextmanager
async def warm(
    make: Callable[[], httpx.AsyncBaseTransport], url: str
) -> AsyncGenerator[httpx.AsyncBaseTransport, None]:
    """Give a transport that has an open connection."""
    transport = make()
    try:
        await exchange(transport, RequestTemplate(url + "/unary", HEADERS))
        yield transport
    finally:
        await transport.aclose()


async def exchange(transport: httpx.AsyncBaseTransport, target: RequestTemplate) -> int:
    """Send one request, read its answer, and give how many reads it took."""
    response = await transport.handle_async_request(target.post(BODY))
    reads = 0
    if isinstance(response.stream, httpx.AsyncByteStream):
        async for _ in response.stream:
            reads += 1
    await response.aclose()
    return reads


async def measure(
    transport: httpx.AsyncBaseTransport, target: RequestTemplate, requests: int
) -> float:
    """Give the microseconds of CPU that one request takes."""
    start = time.process_time()
    for _ in range(requests):
        await exchange(transport, target)
    return (time.process_time() - start) / requests * 1e6


async def compare(url: str) -> dict[str, dict[str, float]]:
    """Measure every load on every transport, and give the medians."""
    samples: dict[str, dict[str, list[float]]] = {load: {} for load in LOADS}
    for _ in range(ROUNDS):
        for name, make in transports().items():
            async with warm(make, url) as transport:
                for load, (path, requests, pieces) in LOADS.items():
                    taken = await measure(transport, RequestTemplate(url + path, HEADERS), requests)
                    samples[load].setdefault(name, []).append(taken / pieces)
    return {
        load: {name: median(values) for name, values in of_load.items()}
        for load, of_load in samples.items()
    }


def building() -> dict[str, float]:
    """Give the microseconds it takes to build a request and a response."""
    url, count = "http://127.0.0.1:8000/v1/chat/completions", 5000
    target = RequestTemplate(url, HEADERS)
    headers = dict(HEADERS)
    ways: dict[str, Callable[[], object]] = {
        "httpx.Request(content=...)": lambda: httpx.Request(
            "POST", url, headers=headers, content=BODY
        ),
        "Target.post": lambda: target.post(BODY),
        "httpx.Response": lambda: httpx.Response(
            200, headers=list(HEADERS), stream=httpx.ByteStream(b"")
        ),
    }
    taken: dict[str, float] = {}
    for name, build in ways.items():
        start = time.process_time()
        for _ in range(count):
            build()
        taken[name] = (time.process_time() - start) / count * 1e6
    return taken


def main() -> None:
    """Measure, and print the costs and their ratios to our own transport."""
    with running_server() as url:
        results = uvloop.run(compare(url))
    write = sys.stdout.write
    for load, costs in results.items():
        write(f"{load}: CPU in µs per {'request' if 'unary' in load else 'chunk'}\n")
        for name, cost in costs.items():
            write(f"  {name:<28}{cost:8.1f}  {cost / costs['direct']:5.1f} x\n")
    write("to build one, µs\n")
    for name, cost in building().items():
        write(f"  {name:<28}{cost:8.1f}\n")


if __name__ == "__main__":
    main()
