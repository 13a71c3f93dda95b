"""The frames of a Chat stream: `data:` lines with one chunk each."""

from adapters.ir.types import Error, Extras
from adapters.template import FrameTemplate, encode
from adapters.wire.error_body import error_body

Wire = dict[str, object]

DONE = b"data: [DONE]\n\n"


class Frames:
    """Makes chunks that agree in everything that must be the same in all of them."""

    def __init__(self, head: Wire, *, with_usage: bool) -> None:
        self._head = head
        # A client that asked for the usage gets `usage: null` on every chunk but the last.
        self._tail: Wire = {"usage": None} if with_usage else {}

    def chunk(
        self,
        choice: int,
        delta: Wire,
        finish_reason: str | None = None,
        logprobs: Wire | None = None,
    ) -> bytes:
        """Make a chunk of one choice."""
        written: Wire = {"index": choice, "delta": delta, "finish_reason": finish_reason}
        if logprobs is not None:
            written["logprobs"] = logprobs
        return frame(self._head | {"choices": [written]} | self._tail)

    def template(self, choice: int, delta: Wire) -> FrameTemplate:
        """Make a chunk with a hole in its delta."""
        return FrameTemplate(self.chunk(choice, delta))

    def usage(self, usage: Wire) -> bytes:
        """Make the chunk that says what it cost."""
        return frame(self._head | {"choices": (), "usage": usage})

    def add(self, name: str, value: object) -> None:
        """Say something more on all chunks that are still to come."""
        self._head[name] = value


def head(reply_id: str, created: int, model: str, service_tier: str | None, extras: Extras) -> Wire:
    """Give what all chunks of a reply have in common."""
    wire: Wire = {
        "id": reply_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
    }
    if service_tier is not None:
        wire["service_tier"] = service_tier
    for extra in extras:
        if extra.family == "completions":
            wire[extra.name] = extra.value
    return wire


def error_frame(error: Error) -> bytes:
    """Make the frame that ends a broken stream."""
    return frame({"error": error_body(error)})


def frame(wire: Wire) -> bytes:
    """Put one object on the wire."""
    return b"data: " + encode(wire) + b"\n\n"
