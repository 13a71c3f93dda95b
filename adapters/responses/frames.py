"""The frames of a Responses stream: an `event:` line, a `data:` line, and their count."""

from adapters.ir.types import Error
from adapters.template import PLACEHOLDER, encode
from adapters.wire.error_body import error_body

Wire = dict[str, object]

DONE = b"data: [DONE]\n\n"

_ENCODED_HOLE = encode(PLACEHOLDER)


class DeltaTemplate:
    """A delta event with two holes: its text, and its number in the stream."""

    __slots__ = ("_after", "_before")

    def __init__(self, made: bytes) -> None:
        # The number is the last field; it is 0 here.
        whole = made.removesuffix(b"0}\n\n")
        # The last one: a name that stands before it may be anything, even that.
        self._before, _, self._after = whole.rpartition(_ENCODED_HOLE)

    def fill(self, text: str, number: int) -> bytes:
        """Give the frame with a text and a number."""
        return b"%b%b%b%d}\n\n" % (self._before, encode(text), self._after, number)


class Frames:
    """Makes frames and counts them."""

    def __init__(self) -> None:
        self._count = 0

    def skip_to(self, number: int) -> None:
        """Count on from where another server's numbers ended."""
        self._count = number or self._count

    def event(self, kind: str, fields: Wire) -> bytes:
        """Make a frame."""
        return frame(kind, fields, self._next())

    def delta(self, template: DeltaTemplate, text: str) -> bytes:
        """Make a frame from a template."""
        number = self._count
        self._count = number + 1
        return template.fill(text, number)

    def _next(self) -> int:
        self._count += 1
        return self._count - 1


def delta_template(kind: str, fields: Wire) -> DeltaTemplate:
    """Make the template of a delta event, the hole among its fields."""
    return DeltaTemplate(frame(kind, fields, 0))


def frame(kind: str, fields: Wire, number: int) -> bytes:
    """Put one event on the wire."""
    wire = {"type": kind} | fields | {"sequence_number": number}
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode(wire))


def error_fields(error: Error) -> Wire:
    """Tell an error flat and nested at once: each client reads one of the two."""
    said: Wire = {"code": error.code, "message": error.message, "param": error.param}
    return said | {"error": error_body(error)}
