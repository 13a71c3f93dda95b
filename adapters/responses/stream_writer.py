"""Writes a stream for a Responses client."""

import re
from collections.abc import Mapping

from msgspec import Raw
from msgspec.structs import replace

from adapters.dialect import ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.events import Closed, Delta, Failed, Finished, Opened, Started
from adapters.ir.replies import one_choice_asked, worst_finish
from adapters.ir.types import Error, Item
from adapters.machine import BaseStreamWriter
from adapters.responses.frames import DONE, Frames, Wire, error_fields
from adapters.responses.item_stream_writer import ItemStreamWriter
from adapters.responses.output_writer import LABEL, OutputWriter, mint_item_id
from adapters.responses.reply import SEVERAL_ANSWERS, make_outcome, new_response
from adapters.responses.response import Response, ResponseSnapshot, write_failure
from adapters.responses.usage import usage_or_zeros, write_usage
from adapters.sse import Frame, parse_event
from adapters.template import encode
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.json_object import read_body

# It stands last in what we write, and anywhere in what others do.
_NUMBER = re.compile(rb'("sequence_number"\s*:\s*)\d+')


class StreamWriter(BaseStreamWriter):
    """Events in, frames out."""

    def __init__(self, around: ReplyContext) -> None:
        super().__init__()
        self._around = around
        self._frames = Frames()
        self._output = OutputWriter(around.preferences, around.losses)
        self._response: Response | None = None
        self._blocks: dict[int, ItemStreamWriter] = {}

    def start(self, event: Started) -> list[bytes]:
        """Begin the stream, if it was not begun before its answer was."""
        ExtrasWriter("responses", LABEL, self._around.losses).report_dropped(event.extras)
        if self._response is not None:
            self._response.service_tier = event.service_tier or self._response.service_tier
            return []
        response = new_response(
            event.id, event.model, event.created, event.service_tier, self._around
        )
        self._response = response
        # Encoded once, for it is said twice.
        begun: Wire = {"response": Raw(encode(response.write(ResponseSnapshot("in_progress"))))}
        return [
            self._frames.event("response.created", begun),
            self._frames.event("response.in_progress", begun),
        ]

    def keep_alive(self) -> list[bytes]:
        """Say again that the response is in progress: Codex does not count comments (P147)."""
        if self._response is None:
            return self.start(Started())
        begun: Wire = {"response": self._response.write(ResponseSnapshot("in_progress"))}
        return [self._frames.event("response.in_progress", begun)]

    def is_pulse(self, frame: Frame) -> bool:
        """Tell whether a frame says that the response is in progress."""
        return frame.name == b"response.in_progress"

    def repeated(self, pulse: bytes, passed: int) -> bytes:
        """Give it the number of the last event, so that numbers neither go back nor run ahead."""
        return _NUMBER.sub(rb"\g<1>%d" % (passed - 1), pulse)

    def stamped(self, block: bytes) -> bytes:
        """Stamp the response, in those few events that carry it."""
        stamp = self._around.stamp
        # Within a text these quotes would be escaped.
        if not stamp or b'"response"' not in block:
            return block
        frame = parse_event(block)
        try:
            return block if frame is None else _stamped(frame, stamp)
        except InvalidRequestError:
            # What is odd passes as it is: its own dialect may know what it means.
            return block

    def open(self, event: Opened) -> list[bytes]:
        """Begin a block."""
        around = self._around
        item_id = mint_item_id(event.item, around.mint)
        block = self._blocks[event.index] = ItemStreamWriter(
            event, item_id, self._frames, self._output, around.preferences, around.losses
        )
        return block.open()

    def fill(self, event: Delta) -> list[bytes]:
        """Write a piece of a block."""
        return self._blocks[event.index].fill(event)

    def close(self, event: Closed) -> list[bytes]:
        """End a block."""
        return self._blocks[event.index].close(event)

    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""
        if len(event.finishes) > 1 and not one_choice_asked(self._around.request):
            self._around.losses.changed("choices", SEVERAL_ANSWERS)
        items: tuple[Item, ...] = tuple(block.item() for block in self._blocks.values())
        outcome = make_outcome(worst_finish(event.finishes), items, self._around)
        outcome.usage = usage_or_zeros(event.usage, self._around.losses)
        ExtrasWriter("responses", LABEL, self._around.losses).report_dropped(event.extras)
        if self._response is not None and event.service_tier is not None:
            self._response.service_tier = event.service_tier
        return [self._tell(outcome), DONE]

    def fail(self, event: Failed) -> list[bytes]:
        """End the stream as a failure."""
        written: list[bytes] = []
        if self._response is None:
            written += self.start(Started())
        for index, block in self._blocks.items():
            # A call that may not be whole is not told as done: Codex would run it.
            if not block.is_closed and not block.is_call:
                written += block.close(Closed(index, "incomplete"))
        return [*written, *self._break_off(event)]

    def _break_off(self, event: Failed) -> list[bytes]:
        param = self._around.param(event.error.param)
        error = self._error(replace(event.error, param=param))
        outcome = ResponseSnapshot("failed", error=write_failure(event.error))
        if event.usage is not None:
            outcome.usage = write_usage(event.usage)
        return [error, self._tell(outcome), DONE]

    def break_off(self, failed: Failed, passed: int) -> list[bytes]:
        """End, as a failure, a stream whose events are another server's.

        How far its items had come, only that server knows: none is closed in its place.
        """
        begun = self.start(Started()) if self._response is None else []
        self._frames.skip_to(passed)
        return [*(begun if not passed else []), *self._break_off(failed)]

    def _error(self, error: Error) -> bytes:
        return self._frames.event("error", error_fields(error))

    def _tell(self, outcome: ResponseSnapshot) -> bytes:
        """Tell the whole response, for the last time."""
        response = self._response
        if response is None:
            raise AssertionError("a response is told before it is started")
        outcome.output = [block.write_item("incomplete") for block in self._blocks.values()]
        return self._frames.event(
            f"response.{outcome.status}", {"response": response.write(outcome)}
        )


def _stamped(frame: Frame, stamp: Mapping[str, object]) -> bytes:
    fields = read_body(frame.data)
    response = fields.nested("response")
    if response is None:
        raise InvalidRequestError("response", "it is missing")
    data = read_body(frame.data).encode_with(response=Raw(response.encode_with(**stamp)))
    return (b"event: %b\ndata: %b" % (frame.name, data)) if frame.name else b"data: " + data
