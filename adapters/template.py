"""Frames that differ from one another in one string only: encoded once, with a hole in it.

A stream is mostly deltas of the same block, so all of a frame but its text is made when the block
opens. The hole is found in the encoded frame itself; no JSON is written by hand.
"""

from msgspec.json import Encoder

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
