"""Server-sent events: an incremental decoder, and templates for frames.

Lines end with LF, CR or CRLF and nothing else: `splitlines` would also split at U+2028, which JSON
allows in strings. The decoder works on bytes, so a character that is split between two reads is
complete before it is decoded (https://github.com/api7/aisix/issues/111).
"""

from msgspec import Struct
from msgspec.json import Encoder

from adapters.errors import InvalidReplyError
from adapters.json_text import is_complete_json

# The limit protects the memory from a backend that never ends its line. Smaller limits have broken
# streams with large events, such as images (https://github.com/SamSaffron/term-llm/issues/298).
EVENT_LIMIT = 64 * 1024 * 1024

# Files that were saved on Windows may begin with this mark.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DATA = b"data: "
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
# How many bytes `is_stream` needs, without white space at the start.
STREAM_PREFIX_BYTES = len(BYTE_ORDER_MARK) + max(map(len, _FIELDS))
# LF and CR as numbers: searching bytes for a number is faster.
_NEWLINE, _RETURN = 10, 13


class Frame(Struct, frozen=True, gc=False):
    """One event: its name, if it has one, and its joined data lines."""

    name: bytes
    data: bytes
    # False if the stream ended without an empty line after the event.
    whole: bool = True


class Decoder:
    """Decodes bytes into frames."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        # The incomplete event. It is joined once, so that many small reads take linear time.
        self._pieces: list[bytes] = []
        self._size = 0
        # Whether the last read ended with CR: a LF at the start of the next read belongs to it.
        self._after_carriage_return = False
        # Whether the pieces end with LF: a LF at the start of the next read ends the event.
        self._after_newline = False
        self._at_start = True

    def feed(self, data: bytes) -> list[Frame]:
        """Decode some bytes; return the events that end in them."""
        return [frame for block in self.feed_raw(data) if (frame := parse_event(block)) is not None]

    def feed_raw(self, data: bytes) -> list[bytes]:
        """Decode some bytes; return the lines of each event that ends in them."""
        data = self._normalize(data)
        if not data:
            return []
        ends = b"\n\n" in data or (self._after_newline and data.startswith(b"\n"))
        self._after_newline = data.endswith(b"\n")
        self._pieces.append(data)
        if not ends:
            self._size += len(data)
            if self._size > self._limit:
                raise InvalidReplyError(None, f"an event of the stream exceeds {self._limit} bytes")
            return []
        *blocks, rest = b"".join(self._pieces).split(b"\n\n")
        self._pieces = [rest] if rest else []
        self._size = len(rest)
        return blocks

    def flush(self) -> list[Frame]:
        """Return the event that the end of the stream truncated, if any."""
        return [frame for block in self.rest() if (frame := parse_event(block, whole=False))]

    def rest(self) -> list[bytes]:
        """Return the lines of the truncated event, if any."""
        rest = b"".join(self._pieces)
        self._pieces = []
        return [rest.removesuffix(b"\n")] if rest else []

    def take_json(self) -> bytes:
        """Remove and return a JSON object in place of events; return b"" if there is none."""
        rest = b"".join(self._pieces).lstrip()
        if not rest.startswith(b"{") or not is_complete_json(rest):
            return b""
        self._pieces = []
        return rest

    def _normalize(self, data: bytes) -> bytes:
        """Return the data with LF as the only line end, without a byte order mark at the start."""
        if self._at_start and data:
            data = b"".join(self._pieces) + data
            if len(data) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(data):
                self._pieces = [data]
                return b""
            self._pieces = []
            self._at_start = False
            data = data.removeprefix(BYTE_ORDER_MARK)
        if self._after_carriage_return and data:
            data = data.removeprefix(b"\n")
            self._after_carriage_return = False
        if _RETURN in data:
            self._after_carriage_return = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data


# The length of the beginning by which a stream is distinguished from a JSON body.
_SNIFFED_BYTES = 64


def is_stream(head: bytes) -> bool:
    """Whether a body that starts with `head` is a stream of server-sent events."""
    return head[:_SNIFFED_BYTES].removeprefix(BYTE_ORDER_MARK).lstrip().startswith(_FIELDS)


def parse_event(block: bytes, *, whole: bool = True) -> Frame | None:
    """Parse the lines of one event; return None if they have no data, for example a comment."""
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
    # Some servers send events with empty data to keep a stream alive.
    joined = b"\n".join(data)
    if not joined and not whole and block.lstrip().startswith(b"{"):
        # The server sent a JSON body instead of a stream, usually an error.
        return Frame(name, block, whole)
    return Frame(name, joined, whole) if joined else None


def write_block(frame: Frame) -> bytes:
    """Write the lines of one event, without the empty line that ends it."""
    name = b"event: %b\n" % frame.name if frame.name else b""
    return name + _DATA + frame.data.replace(b"\n", b"\n" + _DATA)


def is_done(frame: Frame) -> bool:
    """Whether a frame is the marker that ends a stream."""
    return frame.data.startswith((b"[DONE]", b" ")) and frame.data.strip() == b"[DONE]"


# Templates: most frames of a stream are deltas of one block, which differ only in their text. The
# first one is encoded with a placeholder, which is replaced with the text of each delta.

# No dialect sends a single NUL as text, and no other text has its encoding.
PLACEHOLDER = "\0"

encode = Encoder().encode

_ENCODED_PLACEHOLDER = encode(PLACEHOLDER)


def encode_line(value: object) -> bytes:
    """Return JSON without line ends, which would end the line of the event.

    A `Raw` value is not encoded again, so it may be indented.
    """
    data = encode(value)
    if _NEWLINE in data or _RETURN in data:
        return data.replace(b"\n", b"").replace(b"\r", b"")
    return data


class FrameTemplate:
    """The bytes of a frame before and after its placeholder."""

    __slots__ = ("after", "before")

    def __init__(self, frame: bytes) -> None:
        # Split at the last placeholder, because a name before it may be equal to it.
        self.before, _, self.after = frame.rpartition(_ENCODED_PLACEHOLDER)

    def fill(self, text: str) -> bytes:
        """Return the frame with a text instead of the placeholder."""
        return self.before + encode(text) + self.after
