"""CPU time of the transports: `python -m tests.benchmarks.transport`.

The same requests over the direct transport, httpx's and, if it is installed, httpx-aiohttp's, in
interleaved rounds against one server in its own process. Only the CPU time of this process counts.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from statistics import median

import httpx
import uvloop

from gateway.backends.client import RequestTemplate
from gateway.backends.transport import DirectTransport
from tests.benchmarks.processes import announce, helper

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
# The path, the number of requests, and the chunks in each response.
LOADS = {
    "unary, 5 kB": ("/unary", UNARY_REQUESTS, 1),
    "a burst of 1,000 chunks": ("/burst", STREAMS, CHUNKS),
    "1,000 chunks one by one": ("/single", STREAMS, CHUNKS),
}


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
    """Send the chunks so slowly that each is read separately."""
    writer.write(STREAM)
    for _ in range(CHUNKS):
        writer.write(CHUNK)
        await asyncio.sleep(0.0005)
    writer.write(b"0\r\n\r\n")


async def serve() -> None:
    server = await asyncio.start_server(serve_connection, "127.0.0.1", 0)
    announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def transports() -> dict[str, Callable[[], httpx.AsyncBaseTransport]]:
    compared: dict[str, Callable[[], httpx.AsyncBaseTransport]] = {
        "direct": DirectTransport,
        "httpx": httpx.AsyncHTTPTransport,
    }
    if find_spec("httpx_aiohttp") is not None:
        compared["httpx-aiohttp"] = import_module("httpx_aiohttp").AiohttpTransport
    return compared


@asynccontextmanager
async def connected(
    make: Callable[[], httpx.AsyncBaseTransport], url: str
) -> AsyncGenerator[httpx.AsyncBaseTransport, None]:
    transport = make()
    try:
        await exchange(transport, RequestTemplate(url + "/unary", HEADERS))
        yield transport
    finally:
        await transport.aclose()


async def exchange(transport: httpx.AsyncBaseTransport, template: RequestTemplate) -> int:
    """Send one request and read its response; return the number of reads."""
    response = await transport.handle_async_request(template.post(BODY))
    reads = 0
    if isinstance(response.stream, httpx.AsyncByteStream):
        async for _ in response.stream:
            reads += 1
    await response.aclose()
    return reads


async def measure(
    transport: httpx.AsyncBaseTransport, template: RequestTemplate, requests: int
) -> float:
    """Return the CPU time of one request in microseconds."""
    start = time.process_time()
    for _ in range(requests):
        await exchange(transport, template)
    return (time.process_time() - start) / requests * 1e6


async def compare(url: str) -> dict[str, dict[str, float]]:
    """Measure every load on every transport; return the medians."""
    samples: dict[str, dict[str, list[float]]] = {load: {} for load in LOADS}
    for _ in range(ROUNDS):
        for name, make in transports().items():
            async with connected(make, url) as transport:
                for load, (path, requests, chunks) in LOADS.items():
                    template = RequestTemplate(url + path, HEADERS)
                    microseconds = await measure(transport, template, requests)
                    samples[load].setdefault(name, []).append(microseconds / chunks)
    return {
        load: {name: median(values) for name, values in by_transport.items()}
        for load, by_transport in samples.items()
    }


def construction_times() -> dict[str, float]:
    """Return the microseconds it takes to build a request and a response."""
    url, count = "http://127.0.0.1:8000/v1/chat/completions", 5000
    template = RequestTemplate(url, HEADERS)
    headers = dict(HEADERS)
    builders: dict[str, Callable[[], object]] = {
        "httpx.Request(content=...)": lambda: httpx.Request(
            "POST", url, headers=headers, content=BODY
        ),
        "RequestTemplate.post": lambda: template.post(BODY),
        "httpx.Response": lambda: httpx.Response(
            200, headers=list(HEADERS), stream=httpx.ByteStream(b"")
        ),
    }
    times: dict[str, float] = {}
    for name, build in builders.items():
        start = time.process_time()
        for _ in range(count):
            build()
        times[name] = (time.process_time() - start) / count * 1e6
    return times


def main() -> None:
    """Measure, and print the times and their ratios to the direct transport."""
    with helper("transport", "serve") as server:
        results = uvloop.run(compare(f"http://127.0.0.1:{server.port}"))
    write = sys.stdout.write
    for load, costs in results.items():
        write(f"{load}: CPU in µs per {'request' if 'unary' in load else 'chunk'}\n")
        for name, cost in costs.items():
            write(f"  {name:<28}{cost:8.1f}  {cost / costs['direct']:5.1f} x\n")
    write("construction in µs\n")
    for name, cost in construction_times().items():
        write(f"  {name:<28}{cost:8.1f}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        uvloop.run(serve())
    else:
        main()
