"""Server-sent events, from bytes that may be cut anywhere.

Lines end with LF, CR or CRLF and nothing else: `splitlines` would also cut at U+2028, which JSON
allows inside a string. Everything is done on bytes, so a character cut between two reads is whole
again before anybody decodes it (P153).
"""

from msgspec import Struct
from msgspec.json import Encoder

from adapters.errors import InvalidReplyError

# A single event may be large (an image, a long patch: P152 saw a limit of 64 KiB break streams),
# but a backend that never ends its line must not fill the memory.
EVENT_LIMIT = 64 * 1024 * 1024

# Files saved on Windows may start with it.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DATA = b"data: "
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
# How many bytes, without white space at the start, `is_stream` needs.
STREAM_PREFIX_BYTES = len(BYTE_ORDER_MARK) + max(map(len, _FIELDS))
# As numbers, which are found faster in bytes than bytes are.
_NEWLINE, _RETURN = 10, 13


class Frame(Struct, frozen=True, gc=False):
    """One event: its name, if it has one, and its data lines joined."""

    name: bytes
    data: bytes
    # False for what was left when the stream ended without an empty line after it.
    whole: bool = True


class Decoder:
    """Bytes in, frames out."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        # What has come of an event that is not complete. Joined only when it is: gathering a long
        # event from many small reads stays linear.
        self._pieces: list[bytes] = []
        self._size = 0
        # The last read ended with CR: a LF that begins the next belongs to it.
        self._after_carriage_return = False
        # The pieces end with LF: a LF that begins the next read ends the event.
        self._after_newline = False
        self._at_start = True

    def feed(self, data: bytes) -> list[Frame]:
        """Take some bytes; give the events that they completed."""
        return [frame for block in self.feed_raw(data) if (frame := parse_event(block)) is not None]

    def feed_raw(self, data: bytes) -> list[bytes]:
        """Take some bytes; give the lines of each event that they completed."""
        data = self._normalize(data)
        if not data:
            return []
        ends = b"\n\n" in data or (self._after_newline and data.startswith(b"\n"))
        self._after_newline = data.endswith(b"\n")
        self._pieces.append(data)
        if not ends:
            self._size += len(data)
            if self._size > self._limit:
                raise InvalidReplyError(None, f"an event of the stream is over {self._limit} bytes")
            return []
        *blocks, rest = b"".join(self._pieces).split(b"\n\n")
        self._pieces = [rest] if rest else []
        self._size = len(rest)
        return blocks

    def flush(self) -> list[Frame]:
        """Give what is left: an event that the end of the stream cut short, or nearly so."""
        frames = (parse_event(block, whole=False) for block in self.rest())
        return [frame for frame in frames if frame is not None]

    def rest(self) -> list[bytes]:
        """Give the lines of what is left."""
        rest = b"".join(self._pieces)
        self._pieces = []
        return [rest.removesuffix(b"\n")] if rest else []

    def _normalize(self, data: bytes) -> bytes:
        """Make every line end a LF."""
        if self._at_start and data:
            data = self._without_mark(data)
        if self._after_carriage_return and data:
            data = data.removeprefix(b"\n")
            self._after_carriage_return = False
        if _RETURN in data:
            self._after_carriage_return = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _without_mark(self, data: bytes) -> bytes:
        """Skip a byte order mark at the very start, however it is cut."""
        data = b"".join(self._pieces) + data
        self._pieces = []
        if len(data) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(data):
            self._pieces = [data]
            return b""
        self._at_start = False
        return data.removeprefix(BYTE_ORDER_MARK)


def is_stream(head: bytes) -> bool:
    """Whether a body that starts with `head` is a stream of server-sent events."""
    return head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(_FIELDS)


def parse_event(block: bytes, *, whole: bool = True) -> Frame | None:
    """Read the lines of one event; None where they hold no data (comments, keep-alives)."""
    if block.startswith(_DATA) and _NEWLINE not in block and len(block) > len(_DATA):
        return Frame(b"", block[len(_DATA) :], whole)
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    # Some servers keep a stream alive with empty data, which is no JSON.
    joined = b"\n".join(data)
    if not joined and not whole and block.lstrip().startswith(b"{"):
        # No stream at all: a server answered with one JSON body, an error as a rule.
        return Frame(name, block, whole)
    return Frame(name, joined, whole) if joined else None


def write_block(frame: Frame) -> bytes:
    """Write the lines of one event, without the empty line that ends it."""
    name = b"event: %b\n" % frame.name if frame.name else b""
    return name + _DATA + frame.data.replace(b"\n", b"\n" + _DATA)


def is_done(frame: Frame) -> bool:
    """Tell whether a frame is the word that ends a stream."""
    return frame.data.startswith((b"[DONE]", b" ")) and frame.data.strip() == b"[DONE]"


# Frames that differ from one another in one string only: encoded once, with a hole in it.
#
# A stream is mostly deltas of the same block, so all of a frame but its text is made when the block
# opens. The hole is found in the encoded frame itself; no JSON is written by hand.


# No dialect sends a lone NUL as a text, and its encoding cannot be mistaken for anything else.
PLACEHOLDER = "\0"

_ENCODER = Encoder()
_ENCODED_HOLE = _ENCODER.encode(PLACEHOLDER)

encode = _ENCODER.encode


class FrameTemplate:
    """The bytes before and after the hole."""

    __slots__ = ("after", "before")

    def __init__(self, frame: bytes) -> None:
        # The last one: a name that stands before it may be anything, even that.
        self.before, _, self.after = frame.rpartition(_ENCODED_HOLE)

    def fill(self, text: str) -> bytes:
        """Give the frame with a text in its hole."""
        return self.before + encode(text) + self.after
