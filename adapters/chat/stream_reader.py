"""Reads the stream of a Chat or legacy backend, leniently."""

import msgspec
from msgspec import Raw
from msgspec.json import Decoder
from msgspec.structs import replace

from adapters.chat.choice_reader import ChoiceReader
from adapters.chat.reply import finish_error, read_finish
from adapters.chat.tool_calls import PartialCall, ToolCallAssembler
from adapters.chat.wire import (
    FAILED_FINISH_REASONS,
    Chunk,
    ChunkChoice,
    KnownChunk,
    read_usage,
    unknown_fields,
)
from adapters.dialect import BaseStreamReader, ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.events import (
    Channel,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
    truncated_stream,
)
from adapters.ir.normalize import UniqueCallIds
from adapters.ir.types import Error, ExtraField, Extras, Finish, Item, Usage
from adapters.json_text import DECODE_ERRORS, is_utf8, replace_invalid_text
from adapters.sse import Frame, encode, is_done
from adapters.wire.error_body import infer_status, is_error, read_error, read_error_value
from adapters.wire.json_object import is_present, read_fields
from adapters.wire.tools import declared_names

# A short way through a stream: the next chunk is mostly like the last but for one string.
#
# After a chunk that gave one plain delta, the bytes before and after its string are remembered. If
# the next frame begins and ends with the same bytes, and what is between is one JSON string, it
# says
# the same of the same block, and nothing else needs to be read. Everything else takes the long way,
# which misses nothing; both give the same events.


_STRING = Decoder(str)
_KEYS: dict[Channel, bytes] = {"text": b'"content":', "arguments": b'"arguments":'}
# What begins like whole arguments may be all of them again (see `Calls`).
_WHOLE = ("{", "[")


class DeltaFastPath:
    """What to expect of the next chunk."""

    __slots__ = ("_after", "_before", "_delta", "_end", "_slot", "_start")

    def __init__(self, before: bytes, after: bytes, delta: Delta, slot: PartialCall | None) -> None:
        self._before = before
        self._after = after
        # Where its string begins, and where, from the end, it ends.
        self._start = len(before)
        self._end = -len(after)
        self._delta = delta
        # The call whose arguments these are.
        self._slot = slot

    def read(self, data: bytes) -> Delta | None:
        """Read the next chunk, if it is as expected."""
        if not (data.startswith(self._before) and data.endswith(self._after)):
            return None
        try:
            text = _STRING.decode(data[self._start : self._end])
        except DECODE_ERRORS:
            return None
        if not text or text.startswith(_WHOLE):
            return None
        slot = self._slot
        if slot is not None:
            slot.fragments.append(text)
            slot.told += 1
        delta = self._delta
        return Delta(delta.index, delta.channel, text, delta.part)


def find_shortcut(
    data: bytes, events: list[Event], slot: PartialCall | None
) -> DeltaFastPath | None:
    """Learn from a chunk and what it gave; `slot` is the call to which it added just arguments."""
    delta = events[0]
    if len(events) != 1 or not isinstance(delta, Delta) or delta.logprobs or delta.annotations:
        return None
    if delta.channel != "arguments":
        slot = None
    elif slot is None or slot.block != delta.index:
        return None
    key = _KEYS.get(delta.channel)
    return None if key is None else _around(data, key, delta, slot)


def _around(
    data: bytes, key: bytes, delta: Delta, slot: PartialCall | None
) -> DeltaFastPath | None:
    """Find the bytes around the string of a delta, if they can only be that."""
    before, found, rest = data.partition(key)
    # Twice could mean that one of them stands within a text.
    if not found or key in rest:
        return None
    space = len(rest) - len(rest.lstrip(b" "))
    spelled = encode(delta.text)
    if not rest.startswith(spelled, space):
        return None
    return DeltaFastPath(before + key + rest[:space], rest[space + len(spelled) :], delta, slot)


# Refuses a chunk with a field that we do not know, so that none passes unseen.
_KNOWN = msgspec.json.Decoder(KnownChunk)
# Some servers write a number as a text; there it is read all the same.
_ANY = msgspec.json.Decoder(Chunk, strict=False)


class StreamReader(BaseStreamReader):
    """Frames in, events out."""

    def __init__(self, around: ReplyContext) -> None:
        self._around = around
        self._declared = declared_names(around.request.tools)
        # Choices may be put together, so their calls share one stock of ids.
        self._ids = UniqueCallIds(around.losses)
        self._started = False
        self._ended = False
        self._blocks = 0
        self._choices: dict[int, ChoiceReader] = {}
        self._usage: Raw | None = None
        # The word of a server that says it could not go on.
        self._broken_off: str | None = None
        self._service_tier: str | None = None
        # How the next chunk can be read, if it is like the last.
        self._shortcut: DeltaFastPath | None = None

    def read(self, frame: Frame) -> list[Event]:
        """Take one frame; raise `InvalidInput` if it cannot be read."""
        data = frame.data
        if self._shortcut is not None:
            delta = self._shortcut.read(data)
            if delta is not None:
                return [delta]
            self._shortcut = None
        if self._ended:
            return []
        if is_done(frame):
            return self._end()
        if data.startswith(b"[") and b'"error"' in data:
            # Google's servers put an error into a list.
            return self.fail(read_error(None, data))
        events = self._read(self._decode(data), frame.name, data)
        if events and not frame.name and len(self._choices) == 1:
            [choice] = self._choices.values()
            self._shortcut = find_shortcut(data, events, choice.continued())
        return events

    def flush(self) -> list[Event]:
        """Learn that the stream is over."""
        return [] if self._ended else self._end()

    # One chunk

    def _decode(self, data: bytes) -> Chunk:
        """Decode a frame; what is carried as `Raw` must be text, too."""
        if not data.isascii() and not is_utf8(data):
            return self._decode_replaced(data)
        try:
            return _KNOWN.decode(data)
        except msgspec.ValidationError:
            return self._decode_unusual(data)
        except DECODE_ERRORS:
            return self._decode_replaced(data)

    def _decode_replaced(self, data: bytes) -> Chunk:
        """Decode a frame with something in it that is no character, if that is all."""
        text = replace_invalid_text(data)
        if text == data:
            raise InvalidRequestError(None, "an event of the stream is not JSON")
        chunk = self._decode_unusual(text)
        self._around.losses.changed("stream", "what is no character is replaced")
        return chunk

    def _decode_unusual(self, data: bytes) -> Chunk:
        """Decode a chunk with fields that nobody knows, and report them."""
        try:
            chunk = _ANY.decode(data)
            self._report_strangers(data)
        except DECODE_ERRORS as error:
            raise InvalidRequestError(
                None, f"an event of the stream cannot be read: {error}"
            ) from None
        return chunk

    def _report_strangers(self, data: bytes) -> None:
        for path in unknown_fields(data):
            self._around.losses.dropped(path, "it is not carried over in a stream")

    def _read(self, chunk: Chunk, name: bytes, data: bytes) -> list[Event]:
        if chunk.error and is_error(chunk.error):
            return self.fail(read_error_value(chunk.error, None))
        if chunk.object == "error" or name == b"error":
            return self.fail(read_error(None, data))
        if chunk.usage and is_present(chunk.usage):
            self._usage = chunk.usage
        if chunk.service_tier is not None:
            self._service_tier = chunk.service_tier
        choices = chunk.choices
        if not choices:
            # The usage at the end, or a preamble without an id (P109).
            return []
        if not self._started or choices[0].finish_reason:
            # What servers are known to add to every chunk is looked for in the first and the last.
            self._report_strangers(data)
        events: list[Event] = [] if self._started else [self._start(chunk)]
        for choice in choices:
            events += self._read_choice(choice)
        return events

    def _start(self, chunk: Chunk) -> Started:
        self._started = True
        extras: Extras = ()
        if chunk.system_fingerprint:
            value = Raw(msgspec.json.encode(chunk.system_fingerprint))
            extras = (ExtraField("completions", "system_fingerprint", value),)
        created = None if chunk.created is None else int(chunk.created)
        return Started(chunk.id or "", chunk.model or "", created, chunk.service_tier, extras)

    def _read_choice(self, choice: ChunkChoice) -> list[Event]:
        number = choice.index or 0
        reader = self._choices.get(number)
        if reader is None:
            reader = self._choices[number] = self._make_reader(number)
        # A server that only plays at streaming sends one chunk with the whole message.
        delta = choice.delta or choice.message
        events = [] if delta is None else reader.feed(delta, choice.logprobs)
        if choice.finish_reason in FAILED_FINISH_REASONS:
            self._broken_off = choice.finish_reason
        elif choice.finish_reason:
            events += reader.finish(read_finish(choice.finish_reason, self._around.losses))
        return events

    def _make_reader(self, number: int) -> ChoiceReader:
        around = self._around

        def open_block(item: Item) -> Opened:
            opened = Opened(self._blocks, item, number)
            self._blocks += 1
            return opened

        calls = ToolCallAssembler(open_block, self._declared, around.mint, self._ids)
        return ChoiceReader(open_block, calls, around.losses)

    # The end

    @property
    def finished(self) -> bool:
        """Tell whether every choice has ended: some servers say no last word (P156)."""
        asked = self._around.request.choices or 1
        readers = self._choices.values()
        return len(readers) >= asked and all(reader.finished for reader in readers)

    def _end(self) -> list[Event]:
        if self._broken_off is not None:
            return self.fail(finish_error(self._broken_off))
        readers = [reader for _, reader in sorted(self._choices.items())]
        ended = [reader.finished for reader in readers if reader.finished is not None]
        asked = self._around.request.choices or 1
        if not ended or (asked > 1 and len(ended) < len(readers)):
            return self.fail(truncated_stream())
        events = [event for reader in readers for event in reader.close()]
        events.append(Finished(self._finishes(), self._read_usage(), self._service_tier))
        self._ended = True
        return events

    def _finishes(self) -> tuple[Finish, ...]:
        """Say how each choice ended, by its number; one that says nothing ended as it should."""
        readers = (self._choices.get(number) for number in range(max(self._choices) + 1))
        stop = Finish("stop", "")
        return tuple((reader and reader.finished) or stop for reader in readers)

    def fail(self, failed: Error | Failed) -> list[Event]:
        """End the stream as a failure."""
        self._ended = True
        if isinstance(failed, Error):
            failed = Failed(infer_status(failed))
        return [replace(failed, usage=self._read_usage())]

    def _read_usage(self) -> Usage | None:
        if self._usage is None:
            return None
        try:
            return read_usage(read_fields(self._usage, "usage"))
        except InvalidRequestError as problem:
            self._around.losses.dropped("usage", f"it cannot be read: {problem.why}")
            return None
