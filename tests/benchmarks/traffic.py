"""The requests and replies of the benchmark, as bytes that are made once.

A request names its answer in the model, which every gateway carries: `burst-64` asks for a stream
of 64 events in one write, `paced-100` for one event every 20 ms, `idle` for a stream that begins
and then says nothing, `unary` for a whole reply.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

import adapters
from adapters.dialect import ReplyContext
from adapters.ir.accumulator import accumulate
from adapters.losses import Losses
from adapters.sse import encode
from tests.benchmarks.core import SIZES, Kind, make_events, prose

PATHS = {"chat": "/v1/chat/completions", "legacy": "/v1/chat/completions"}
PAUSE = 0.02
# A paced event has its send time in nanoseconds in place of this.
MARK = b"@"
STAMP_DIGITS = 19
UNSTAMPED = MARK + b"0" * STAMP_DIGITS

# After so many events a reply has content in every dialect.
_BEGINNING = 4
_ASKED = SIZES["5 kB"]
_WORDS = [prose(number, 1) for number in range(10)]


class Answer(Struct, frozen=True):
    """What the backend plays: at once, and then piece by piece."""

    first: bytes
    then: tuple[bytes, ...] = ()


def request(dialect: str, model: str) -> bytes:
    """Return an HTTP request of about 5 kB, as a client of this dialect sends it.

    It is not stored: the cost of that is measured separately.
    """
    asked = replace(_ASKED, model=model, stream=model != "unary", store=False)
    capabilities = adapters.Capabilities()
    body = adapters.get_dialect(dialect).write_request(asked, capabilities, Losses(None))
    return post(PATHS.get(dialect, "/v1/responses"), body)


def post(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "User-Agent: benchmark\r\nAccept: */*\r\nAuthorization: Bearer benchmark\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@cache
def answer(dialect: str, kind: Kind, model: str) -> Answer:
    name, _, count = model.partition("-")
    match name:
        case "unary":
            return Answer(_whole(dialect))
        case "burst":
            pieces = [_WORDS[number % len(_WORDS)] for number in range(int(count))]
            return Answer(_STREAM + b"".join(_chunks(dialect, kind, pieces)) + _END)
        case "paced":
            chunks = [*_chunks(dialect, kind, [UNSTAMPED.decode()] * int(count)), _END]
            return Answer(_STREAM + b"".join(chunks[:_BEGINNING]), tuple(chunks[_BEGINNING:]))
        case "idle":
            return Answer(_STREAM + b"".join(islice(_chunks(dialect, kind, _WORDS), _BEGINNING)))
        case _:
            raise ValueError(model)


_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"x-request-id: req_0123456789abcdef\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_END = b"0\r\n\r\n"


def _chunks(dialect: str, kind: Kind, pieces: list[str]) -> Iterator[bytes]:
    """Write a stream as servers send it: each event in a chunk of its own."""
    writer = adapters.get_dialect(dialect).write_stream(_surroundings())
    for event in make_events(kind, pieces, "benchmark", len(pieces)):
        for frame in writer.feed(event):
            yield b"%x\r\n%b\r\n" % (len(frame), frame)


def _whole(dialect: str) -> bytes:
    """Write a whole reply of about 1 kB."""
    reply = accumulate(make_events("text", _WORDS * 10, "benchmark", len(_WORDS) * 10))
    body = encode(adapters.get_dialect(dialect).write_reply(reply, _surroundings()))
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        f"x-request-id: req_0123456789abcdef\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _surroundings() -> ReplyContext:
    asked = replace(_ASKED, include_usage=True)
    return ReplyContext(asked, adapters.deterministic_ids(), Losses(None))
