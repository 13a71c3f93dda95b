"""Reads the stream of a Chat or legacy backend, leniently."""

import msgspec
from msgspec import Raw, ValidationError

from adapters.chat.calls import Calls
from adapters.chat.read_choice import ChoiceReader
from adapters.chat.reply import read_finish
from adapters.chat.usage import read_usage
from adapters.chat.wire import Chunk, ChunkChoice, KnownChunk, find_strangers
from adapters.conversation import Error, Extra, Extras, Item, Usage
from adapters.dialect import Surroundings
from adapters.envelope import normalized, read_error_value
from adapters.errors import CUT, UNREADABLE, InvalidInput
from adapters.events import Event, Failed, Finished, Opened, Started
from adapters.fields import is_said, read_fields
from adapters.jsontext import UNDECODABLE, readable
from adapters.sse import Frame
from adapters.tools import declared_names

# Refuses a chunk with a field that we do not know, so that none passes unseen.
_KNOWN = msgspec.json.Decoder(KnownChunk)
_ANY = msgspec.json.Decoder(Chunk)


class StreamReader:
    """Frames in, events out."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._declared = declared_names(around.request.tools)
        self._decoder: msgspec.json.Decoder[KnownChunk] | msgspec.json.Decoder[Chunk] = _KNOWN
        self._started = False
        self._ended = False
        self._blocks = 0
        self._choices: dict[int, ChoiceReader] = {}
        self._usage: Raw | None = None
        self._service_tier: str | None = None

    def feed(self, frame: Frame) -> list[Event]:
        """Take one frame."""
        if self._ended:
            return []
        if frame.data == b"[DONE]":
            return self._end()
        try:
            return self._read(self._decode(frame.data), frame.name)
        except InvalidInput as problem:
            # Of a frame that the end of the stream cut, the end tells whether it mattered.
            return (
                self._fail(Error(str(problem), code=UNREADABLE, status=502)) if frame.whole else []
            )

    def flush(self) -> list[Event]:
        """Learn that the stream is over."""
        return [] if self._ended else self._end()

    # One chunk

    def _decode(self, data: bytes) -> Chunk:
        try:
            return self._decoder.decode(data)
        except ValidationError:
            return self._decode_unusual(data)
        except UNDECODABLE:
            text = readable(data)
            if text == data:
                raise InvalidInput(None, "an event of the stream is not JSON") from None
            self._around.losses.changed("stream", "what is no character is replaced")
            return self._decode_unusual(text)

    def _decode_unusual(self, data: bytes) -> Chunk:
        """Decode a chunk with fields that nobody knows, and report them."""
        try:
            chunk = _ANY.decode(data)
        except UNDECODABLE as error:
            raise InvalidInput(None, f"an event of the stream cannot be read: {error}") from None
        for path in find_strangers(data):
            self._around.losses.dropped(path, "it has no place in another dialect")
            # Seen once, it will be in every chunk: do not look again.
            self._decoder = _ANY
        return chunk

    def _read(self, chunk: Chunk, name: bytes) -> list[Event]:
        if is_said(chunk.error):
            return self._fail(read_error_value(chunk.error, None))
        if chunk.object == "error" or name == b"error":
            return self._fail(Error(chunk.message or "the backend failed", code=_code(chunk.code)))
        if is_said(chunk.usage):
            self._usage = chunk.usage
        if chunk.service_tier is not None:
            self._service_tier = chunk.service_tier
        choices = chunk.choices
        if not choices:
            # The usage at the end, or a preamble without an id (P109).
            return []
        events: list[Event] = [] if self._started else [self._start(chunk)]
        for choice in choices:
            events += self._read_choice(choice)
        return events

    def _start(self, chunk: Chunk) -> Started:
        self._started = True
        extras: Extras = ()
        if chunk.system_fingerprint:
            value = Raw(msgspec.json.encode(chunk.system_fingerprint))
            extras = (Extra("completions", "system_fingerprint", value, None),)
        created = None if chunk.created is None else int(chunk.created)
        return Started(chunk.id or "", chunk.model or "", created, chunk.service_tier, extras)

    def _read_choice(self, choice: ChunkChoice) -> list[Event]:
        number = choice.index or 0
        reader = self._choices.get(number)
        if reader is None:
            reader = self._choices[number] = self._make_reader(number)
        if choice.finish_reason:
            reader.finished = read_finish(choice.finish_reason, self._around.losses)
        # A server that only plays at streaming sends one chunk with the whole message.
        delta = choice.delta or choice.message
        return [] if delta is None else reader.feed(delta, choice.logprobs)

    def _make_reader(self, number: int) -> ChoiceReader:
        around = self._around

        def open_block(item: Item) -> Opened:
            opened = Opened(self._blocks, item, number)
            self._blocks += 1
            return opened

        calls = Calls(open_block, self._declared, around.mint, around.losses)
        return ChoiceReader(open_block, calls, around.losses)

    # The end

    def _end(self) -> list[Event]:
        readers = [reader for _, reader in sorted(self._choices.items())]
        finishes = tuple(reader.finished for reader in readers if reader.finished is not None)
        asked = self._around.request.choices or 1
        if not finishes or (asked > 1 and len(finishes) < len(readers)):
            return self._fail(
                Error(
                    "the backend's stream ended before the answer was finished",
                    code=CUT,
                    status=502,
                )
            )
        events = [event for reader in readers for event in reader.close()]
        events.append(Finished(finishes, self._read_usage(), self._service_tier))
        self._ended = True
        return events

    def _fail(self, error: Error) -> list[Event]:
        self._ended = True
        return [Failed(normalized(error), self._read_usage())]

    def _read_usage(self) -> Usage | None:
        if self._usage is None:
            return None
        try:
            return read_usage(read_fields(self._usage, "usage"))
        except InvalidInput as problem:
            self._around.losses.dropped("usage", f"it cannot be read: {problem.why}")
            return None


def _code(code: str | int | None) -> str | None:
    """Give a code that says something; a number only repeats the status."""
    return code if isinstance(code, str) else None
