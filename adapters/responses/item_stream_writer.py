"""Writes one item of a Responses stream, from its first event to its last."""

from msgspec import Raw

from adapters.ir.accumulator import ItemBuffer, PartBuffer
from adapters.ir.events import Channel, Closed, Delta, Opened
from adapters.ir.types import Item, Status, ToolCall
from adapters.losses import Losses
from adapters.preferences import Preferences
from adapters.responses.annotations import write_annotation, write_logprobs
from adapters.responses.frames import DeltaTemplate, Frames, Wire, delta_template
from adapters.responses.output_writer import OutputWriter
from adapters.responses.wire import CALLS, PARTS, PartWords
from adapters.template import PLACEHOLDER


class ItemStreamWriter:
    """One item on its way out: gathered, so that its last events tell the whole of it."""

    def __init__(
        self,
        opened: Opened,
        item_id: str,
        frames: Frames,
        output: OutputWriter,
        preferences: Preferences,
        losses: Losses,
    ) -> None:
        self._block = ItemBuffer(opened)
        self.item_id = item_id
        self._place: Wire = {"item_id": item_id, "output_index": opened.index}
        self._frames = frames
        self._output = output
        self._preferences = preferences
        self._losses = losses
        # The frame of its deltas: of the part that is open, or of the call.
        self._template: DeltaTemplate | None = None
        self._annotations = 0

    @property
    def is_closed(self) -> bool:
        """Tell whether it has ended."""
        return self._block.closed

    @property
    def is_call(self) -> bool:
        """Tell whether it is a call."""
        return isinstance(self._block.bare, ToolCall)

    def open(self) -> list[bytes]:
        """Announce the item."""
        bare = self._block.bare
        if isinstance(bare, ToolCall):
            words = CALLS.get(bare.kind)
            if words is None:
                # It is announced when it is whole.
                return []
            self._template = delta_template(words.delta, self._place | {"delta": PLACEHOLDER})
        return [self._announce(bare)]

    def fill(self, delta: Delta) -> list[bytes]:
        """Write a delta; the first of a part announces the part."""
        block = self._block
        written: list[bytes] = []
        if delta.part >= len(block.pieces) and not self.is_call:
            written += self._end_part()
            block.add(delta)
            written += self._begin_part(delta.channel)
        else:
            block.add(delta)
        if delta.logprobs:
            written.append(self._delta_with_logprobs(delta))
        elif delta.text and self._template is not None:
            written.append(self._frames.delta(self._template, delta.text))
        for annotation in delta.annotations:
            wire = write_annotation(annotation, self._losses)
            if wire is not None:
                fields = self._part_place() | {
                    "annotation_index": self._annotations,
                    "annotation": wire,
                }
                kind = "response.output_text.annotation.added"
                written.append(self._frames.event(kind, fields))
                self._annotations += 1
        return written

    def close(self, closed: Closed) -> list[bytes]:
        """Tell the whole item."""
        written = self._end_part()
        bare = self._block.bare
        if isinstance(bare, ToolCall) and bare.kind not in CALLS:
            # What a search is for comes with its end; the others cannot be said without a part.
            begun = bare if bare.kind == "tool_search" else self.item()
            written.append(self._announce(begun))
        elif isinstance(bare, ToolCall):
            words = CALLS[bare.kind]
            fields = self._place | {words.field: "".join(self._block.texts("arguments"))}
            if bare.kind == "function":
                # Gone from the newest types, required by others: it does no harm.
                fields["name"] = bare.name
            written.append(self._frames.event(words.done, fields))
        self._block.close(closed)
        written.append(self._item_event("response.output_item.done", self.item(), closed.status))
        return written

    def item(self) -> Item:
        """Give the item as far as it has come."""
        return self._block.item()

    def write_item(self, status: Status) -> Wire | Raw:
        """Write the item as far as it has come."""
        return self._output.write(self.item(), self.item_id, self._block.status or status)

    def _announce(self, item: Item) -> bytes:
        return self._item_event("response.output_item.added", item, "in_progress")

    def _item_event(self, kind: str, item: Item, status: Status) -> bytes:
        fields: Wire = {
            "output_index": self._place["output_index"],
            "item": self._output.write(item, self.item_id, status),
        }
        return self._frames.event(kind, fields)

    # Parts

    def _words(self, channel: Channel) -> PartWords:
        """Give the words of a channel; thoughts are told as summaries unless wished otherwise."""
        if channel == "thought" and not self._preferences.reasoning_text:
            return PARTS["summary"]
        return PARTS[channel]

    def _part_place(self) -> Wire:
        """Say which part is open: it is counted among the parts that share its index."""
        piece = self._block.pieces[-1]
        words = self._words(piece.channel)
        before = self._block.pieces[:-1]
        number = sum(self._words(one.channel).index == words.index for one in before)
        return self._place | {words.index: number}

    def _begin_part(self, channel: Channel) -> list[bytes]:
        words = self._words(channel)
        place = self._part_place()
        fields = place | {"delta": PLACEHOLDER}
        if channel == "text":
            fields["logprobs"] = ()
        self._template = delta_template(words.delta, fields)
        self._annotations = 0
        empty = self._part(words, PartBuffer(channel))
        return [self._frames.event(words.added, place | {"part": empty})]

    def _end_part(self) -> list[bytes]:
        if self.is_call or not self._block.pieces:
            return []
        piece = self._block.pieces[-1]
        words = self._words(piece.channel)
        place = self._part_place()
        done = place | {words.field: piece.text()}
        if piece.channel == "text":
            done["logprobs"] = write_logprobs(piece.logprobs)
        return [
            self._frames.event(words.done, done),
            self._frames.event(words.ended, place | {"part": self._part(words, piece)}),
        ]

    def _part(self, words: PartWords, piece: PartBuffer) -> Wire:
        if piece.channel in ("text", "refusal"):
            return self._output.write_part(piece.part())
        return {"type": words.part, words.field: piece.text()}

    def _delta_with_logprobs(self, delta: Delta) -> bytes:
        words = self._words(delta.channel)
        fields = self._part_place() | {
            "delta": delta.text,
            "logprobs": write_logprobs(delta.logprobs),
        }
        return self._frames.event(words.delta, fields)
