"""Reader of one choice of a Chat stream: its text, its reasoning and its calls."""

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import Raw
from msgspec.structs import replace

from adapters.chat.parts import DETAILS_FIELD, REASONING_FIELDS, ReasoningDetails
from adapters.chat.tool_calls import LEGACY_TYPE, ToolCallAssembler
from adapters.chat.wire import (
    FAMILY,
    NO_TEXT_REASON,
    REFUSAL_LOGPROBS_REASON,
    UNREADABLE_IMAGE_REASON,
    CallDelta,
    MessageDelta,
)
from adapters.ir.events import Channel, Closed, Delta, Event, Opened
from adapters.ir.normalize import EMPTY_REPLY_REASON
from adapters.ir.types import (
    Annotation,
    Citation,
    Finish,
    Image,
    Item,
    Logprob,
    Message,
    OpaqueItem,
    Reasoning,
    Refusal,
    Status,
    Text,
)
from adapters.losses import Losses
from adapters.wire.content import (
    read_content,
    read_streamed_annotations,
    read_streamed_logprobs,
)
from adapters.wire.images import raw_image, read_chat_image
from adapters.wire.json_object import is_present, read_fields, string_or_raw_json
from adapters.wire.malformed_values import read_or_drop


class ChoiceReader:
    """Reads one choice. At most one message or reasoning is open, and any number of calls."""

    def __init__(
        self, choice: int, blocks: Iterator[int], calls: ToolCallAssembler, losses: Losses
    ) -> None:
        self._choice = choice
        # The path of its message in the complete reply.
        self._path = f"choices[{choice}].message"
        # The ids of new blocks, which all choices share.
        self._blocks = blocks
        self.calls = calls
        self._losses = losses
        # The block of the open message or reasoning, and its current channel and part.
        self._block: int | None = None
        self._channel: Channel | None = None
        # The number of images in `images`.
        self._images = 0
        self._part = 0
        self._has_message = False
        # The length of the text so far, and of the text before its current part.
        self.text_length = 0
        self._part_start = 0
        # Reasoning that was received as a list, and whether it is also received as a string.
        self._details = ReasoningDetails()
        self._has_reasoning_text = False
        # The field in which the latest reasoning was received.
        self._reasoning_field = DETAILS_FIELD
        # Annotations that were received before their text.
        self._early_annotations: tuple[Annotation, ...] = ()
        # The latest block; negative before the first one.
        self._last_block = -1
        # The latest finish. It does not close blocks: some servers send one with every chunk.
        self.finished: Finish | None = None

    def feed(self, delta: MessageDelta, logprobs: Raw) -> list[Event]:
        """Read one delta."""
        events: list[Event] = []
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._read_reasoning(events, delta)
        content = delta.content
        if content or is_present(logprobs):
            self._read_content(events, content or "", logprobs)
        if delta.refusal:
            self._append(events, "refusal", delta.refusal)
        if delta.annotations:
            self._read_annotations(events, delta.annotations)
        if delta.images:
            self._read_images(events, delta.images)
        if delta.tool_calls:
            self._read_calls(events, delta.tool_calls)
        elif delta.function_call is not None:
            # If a delta has both `tool_calls` and `function_call`, they are the same call.
            self._read_calls(events, [CallDelta(0, type=LEGACY_TYPE, function=delta.function_call)])
        return events

    def finish(self, finish: Finish) -> list[Event]:
        """Store the finish, and close complete calls, so that a client can run them at once."""
        self.finished = finish
        return list(self.calls.close_complete()) if finish.reason in ("stop", "calls") else []

    def close(self) -> list[Event]:
        """Close all blocks; add an empty text to an empty reply, and report that."""
        events: list[Event] = list(self.calls.open_remaining())
        self._last_block = max(self._last_block, self.calls.last_block)
        if self._details and self._channel != "reasoning":
            # The list was received after the text or the calls.
            self._begin(events, "reasoning")
        if self._last_block < 0:
            self._losses.invented("content", EMPTY_REPLY_REASON)
            self._append(events, "text", "")
        if self._early_annotations:
            self._losses.dropped(f"{self._path}.annotations", NO_TEXT_REASON)
        truncated = self.finished is not None and self.finished.reason in ("length", "filter")
        closed: list[Event] = []
        if self._block is not None:
            incomplete = truncated and self._block == self._last_block
            closed += self._close_block("incomplete" if incomplete else "completed")
        closed += self.calls.close(self._last_block, truncated=truncated)
        return events + sorted(closed, key=lambda event: getattr(event, "index", 0))

    def _read_reasoning(self, events: list[Event], delta: MessageDelta) -> None:
        listed = ""
        if is_present(delta.reasoning_details):
            listed = self._details.add(delta.reasoning_details)
        raws = (delta.reasoning_content, delta.reasoning)
        for field, raw in zip(REASONING_FIELDS, raws, strict=True):
            text = string_or_raw_json(raw)
            if text and bytes(raw).startswith(b'"'):
                self._has_reasoning_text, self._reasoning_field = True, field
                self._append(events, "reasoning", text)
                return
            if text:
                self._losses.dropped(f"{self._path}.reasoning", "reasoning supports only text")
        if listed and not self._has_reasoning_text:
            self._append(events, "reasoning", listed)
        elif self._details and self._last_block < 0:
            # Encrypted reasoning without text must be opened before the text or the calls.
            self._begin(events, "reasoning")

    def _read_content(self, events: list[Event], content: str | list[Raw], logprobs: Raw) -> None:
        read = self._read_logprobs(logprobs) if is_present(logprobs) else ()
        if isinstance(content, str):
            if content or (read and self._channel == "text"):
                self._append(events, "text", content, read)
                read = ()
            content = []
        for part in read_content(content, "content", FAMILY):
            match part:
                case Text():
                    self._append(events, "text", part.text, read, part.annotations)
                    read = ()
                case Refusal():
                    self._append(events, "refusal", part.text)
                case Image(url=str() as url):
                    path, raw = f"{self._path}.content", raw_image(url)
                    item = OpaqueItem(FAMILY, "image", raw, path=path, image=url)
                    self._add_image(events, item)
                case _:
                    self._losses.dropped(f"{self._path}.content", "replies support only text")
        if read:
            path = f"choices[{self._choice}].logprobs"
            self._losses.dropped(path, "only log probabilities of text are supported")

    def _append(
        self,
        events: list[Event],
        channel: Channel,
        text: str,
        logprobs: tuple[Logprob, ...] = (),
        annotations: tuple[Annotation, ...] = (),
    ) -> None:
        if channel != self._channel or self._block is None:
            self._begin(events, channel)
            if channel == "text":
                annotations = self._early_annotations + annotations
                self._early_annotations = ()
        if channel == "text":
            self.text_length += len(text)
        block = self._last_block if self._block is None else self._block
        events.append(Delta(block, channel, text, self._part, logprobs, annotations))

    def _begin(self, events: list[Event], channel: Channel) -> None:
        """Begin a new part of the open message, or a new block."""
        if {channel, self._channel} == {"text", "refusal"} and self._block is not None:
            self._part += 1
        else:
            events += self._close_block("completed")
            events += self.calls.close_complete()
            field = self._reasoning_field
            path = f"{self._path}.{field or 'reasoning_content'}"
            item: Item = Reasoning(field=field, path=path)
            if channel != "reasoning":
                # In Chat, all text of a choice is one string.
                item = Message("assistant", continues=self._has_message, path=self._path)
                self._has_message = True
            self._block = self._last_block = next(self._blocks)
            events.append(Opened(self._block, item, self._choice))
            self._part = 0
        if channel == "text":
            self._part_start = self.text_length
        self._channel = channel

    def _read_annotations(self, events: list[Event], raws: list[Raw]) -> None:
        """Add annotations to the open text, or keep them for the first text."""
        path = f"choices[{self._choice}].delta.annotations"
        annotations = read_streamed_annotations(raws, FAMILY, path, self._losses)
        if self._channel == "text":
            self._append(events, "text", "", (), tuple(map(self._in_part, annotations)))
        elif self._has_message:
            path = f"{self._path}.annotations"
            self._losses.dropped(path, "received after the end of the text")
        else:
            self._early_annotations += annotations

    def _in_part(self, annotation: Annotation) -> Annotation:
        """Return an annotation with its position in the current part of the text."""
        start = self._part_start
        if not start or not isinstance(annotation, Citation) or annotation.start_index < start:
            return annotation
        return replace(
            annotation,
            start_index=annotation.start_index - start,
            end_index=annotation.end_index - start,
        )

    def _read_images(self, events: list[Event], raws: list[Raw]) -> None:
        for raw in raws:
            path = f"{self._path}.images[{self._images}]"
            image = read_chat_image(read_fields(raw, path), raw, FAMILY)
            if image is None:
                self._losses.dropped(path, UNREADABLE_IMAGE_REASON, "capability")
            else:
                self._add_image(events, replace(image, path=path))
            self._images += 1

    def _add_image(self, events: list[Event], image: OpaqueItem) -> None:
        """Add an image; text after it continues in another message."""
        events += self._close_block("completed")
        self._last_block = block = next(self._blocks)
        events += (Opened(block, image, self._choice), Closed(block))

    def _close_block(self, status: Status) -> Iterator[Event]:
        if self._block is not None:
            extras = self._details.take() if self._channel == "reasoning" else ()
            yield Closed(self._block, status, extras=extras)
            self._block = self._channel = None

    def _read_calls(self, events: list[Event], deltas: Sequence[CallDelta]) -> None:
        if call_events := self.calls.feed(deltas):
            if self._block is not None:
                events += self._close_block("completed")
            events += call_events
            self._last_block = max(self._last_block, self.calls.last_block)

    def _read_logprobs(self, raw: Raw) -> tuple[Logprob, ...]:
        path = f"choices[{self._choice}].logprobs"
        fields = read_or_drop(partial(read_fields, path=path), raw, path, self._losses)
        if fields is None:
            return ()
        refusal, content = fields.raw("refusal"), fields.raw("content")
        if refusal is not None and bytes(refusal) != b"[]":
            self._losses.dropped(f"{path}.refusal", REFUSAL_LOGPROBS_REASON)
        if content is None:
            return ()
        return read_streamed_logprobs(content, f"{path}.content", self._losses)
