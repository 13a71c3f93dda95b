"""How scripted replies are sent: in which pieces, with which pauses, and whether to their end."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypedDict

from gateway.pytest_plugin.scripted_backend import (
    JSON,
    LAST_CHUNK,
    ConnectionEnd,
    Gate,
    Pause,
    Script,
    Step,
    chunk,
    reply_head,
    stream_head,
)

# Recorded headers that the reply itself determines.
_OWN_HEADERS = ("content-length", "content-type", "content-encoding", "transfer-encoding")


class Delivery(TypedDict, total=False):
    """How a reply is sent; by default, each event of a stream is one write."""

    # The number of bytes of each write.
    chunk_size: int
    # Seconds before each write but the first.
    pause: float
    # Close the connection after this many events; a whole reply is cut in its middle.
    cut_after: int
    # Keep the connection open, but send nothing after this many events.
    silent_after: int


def stream_script(events: Sequence[bytes], delivery: Delivery) -> Script:
    """Return a stream of events."""
    sent = events[: _last(delivery)]
    end = _early_end(delivery) or (LAST_CHUNK,)
    return (stream_head(), *_in_pieces(sent, delivery, chunked=True), *end)


def body_script(body: bytes, status: int, headers: Mapping[str, str], delivery: Delivery) -> Script:
    """Return a whole reply."""
    kept = {name: value for name, value in headers.items() if name.lower() not in _OWN_HEADERS}
    head = reply_head(status, {**JSON, "Content-Length": str(len(body)), **kept})
    end = _early_end(delivery)
    sent = body[: len(body) // 2] if end else body
    return (head, *_in_pieces([sent], delivery, chunked=False), *end)


def _last(delivery: Delivery) -> int | None:
    return delivery.get("cut_after", delivery.get("silent_after"))


def _early_end(delivery: Delivery) -> tuple[Step, ...]:
    if "cut_after" in delivery:
        return (ConnectionEnd.CLOSE,)
    # Nobody opens this gate.
    return (Gate(),) if "silent_after" in delivery else ()


def _in_pieces(parts: Iterable[bytes], delivery: Delivery, *, chunked: bool) -> Iterator[Step]:
    size, pause = delivery.get("chunk_size"), delivery.get("pause", 0)
    pieces = parts if size is None else _split(b"".join(parts), size)
    for number, piece in enumerate(pieces):
        if number and pause:
            yield Pause(pause)
        if piece:
            yield chunk(piece) if chunked else piece


def _split(data: bytes, size: int) -> list[bytes]:
    return [data[place : place + size] for place in range(0, len(data), size)]
