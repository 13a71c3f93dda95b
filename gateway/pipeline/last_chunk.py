"""Tells a Chat or legacy client, at the end of a stream, that something could not be kept."""

from adapters import DragomanError
from adapters.chat.wire import DONE, error_frame
from adapters.sse import Decoder, is_done, parse_event
from adapters.wire.error_body import to_error


def broken_instead(piece: bytes, problem: DragomanError) -> bytes:
    """Tell, in place of the last word of a stream, what went wrong."""
    blocks = Decoder().feed_raw(piece)
    before = (block + b"\n\n" for block in blocks if not _is_last(block))
    return b"".join([*before, error_frame(to_error(problem)), DONE])


def _is_last(block: bytes) -> bool:
    frame = parse_event(block)
    return frame is not None and is_done(frame)
