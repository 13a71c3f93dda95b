"""How a client wants to be told what its dialect can say in more than one way."""

from typing import Literal

from msgspec import Struct


class Preferences(Struct, frozen=True):
    """One switch for each such matter; the defaults suit most clients."""

    # Tell a model's own thoughts as `reasoning_text`. By default they are told as summaries, which
    # both SDKs and Open Responses accept.
    reasoning_text: bool = False
    # Tell Chat and legacy clients a model's thoughts in this field of the message, which their
    # specification does not know. None: they are not told.
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    # End an answer that was cut off with `response.completed` (and `incomplete_details`), for
    # clients that take `response.incomplete` for an error.
    complete_truncated: bool = False


DEFAULT = Preferences()
