"""The writer of the chunks that replace invalid chunks of a backend with the client's dialect."""

from collections.abc import Iterable

from msgspec import Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from adapters.chat.stream_writer import ChoiceWriter, StreamWriter
from adapters.chat.wire import DONE, Wire, complete_usage
from adapters.chat.wire import frame as write_frame
from adapters.dialect import BaseStreamWriter, Passed, ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.events import Channel, Closed, Delta, Event, Opened, Started
from adapters.ir.types import Reasoning, Usage
from adapters.json_text import DECODE_ERRORS
from adapters.sse import Frame
from adapters.wire.images import image_of
from adapters.wire.json_object import NULL, JsonObject, is_present

# The fields that are written from the IR; all others are kept as the backend sent them.
_HEAD_FIELDS = ("id", "object", "created", "model", "service_tier", "system_fingerprint")
CHUNK_FIELDS = frozenset((*_HEAD_FIELDS, "choices", "usage", "error"))
CHOICE_FIELDS = frozenset(("index", "delta", "message", "finish_reason"))
MESSAGE_FIELDS = frozenset(("role", "content", "refusal", "tool_calls", "function_call"))

_OBJECT = Decoder(dict[str, Raw])
_OBJECTS = Decoder(list[dict[str, Raw]])
_BEFORE_DATA = len(b"data: ")
_EMPTY = (NULL, Raw(b'""'), Raw(b"[]"))

_Fields = dict[str, Raw]


class KeptFields(Struct, eq=False):
    """Fields of backend's chunks that were not sent yet, by choice."""

    chunk: _Fields = {}
    choices: dict[int, _Fields] = {}
    deltas: dict[int, _Fields] = {}
    # The usage that the end of the stream has.
    usage: Raw | None = None

    def __bool__(self) -> bool:
        return bool(self.chunk or self.choices or self.deltas)

    def add(self, data: bytes, *, merges: bool) -> None:
        """Add the fields of a chunk; with `merges`, there is only one choice."""
        try:
            chunk = _OBJECT.decode(data)
            choices = _OBJECTS.decode(chunk.get("choices") or b"[]")
            for fields in choices:
                number = 0 if merges else choice_index(fields)
                message = fields.get("delta", NULL)
                message = fields.get("message", NULL) if message == NULL else message
                delta = {} if message == NULL else _OBJECT.decode(message)
                _keep(fields, CHOICE_FIELDS, self.choices.setdefault(number, {}))
                _keep(delta, MESSAGE_FIELDS, self.deltas.setdefault(number, {}))
        except DECODE_ERRORS:
            # The end of the stream, or a chunk whose choices cannot be separated.
            return
        _keep(chunk, CHUNK_FIELDS, self.chunk)
        if is_present(usage := chunk.get("usage", NULL)):
            self.usage = usage
        self.choices = {number: kept for number, kept in self.choices.items() if kept}
        self.deltas = {number: kept for number, kept in self.deltas.items() if kept}


def choice_index(fields: _Fields) -> int:
    """Return the index of a choice; 0 if it is missing or malformed, as for readers."""
    try:
        return JsonObject({**fields}).integer("index") or 0
    except InvalidRequestError:
        return 0


def _keep(fields: _Fields, written: frozenset[str], kept: _Fields) -> None:
    for name, value in fields.items():
        if name not in written and value not in _EMPTY:
            kept[name] = value


class RepairWriter(StreamWriter):
    """Writes events as chunks with the fields of the backend's chunks that the IR lacks.

    Among them are reasoning, annotations and log probabilities, which keep their form.
    """

    continued_channels: frozenset[Channel] = frozenset(("arguments",))

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._kept = KeptFields()

    def continue_passed(self, events: Iterable[Event], passed: Passed) -> None:
        """Continue a stream that was passed through so far."""
        for number in passed.begun_choices:
            self._choice(number)
        super().continue_passed(events, passed)

    def end_passed(self) -> list[bytes]:
        """Return the frames that end a stream that was passed through up to its end."""
        return [DONE]

    def keep_fields(self, frame: Frame | None, written: list[bytes]) -> list[bytes]:
        """Return chunks with the other fields of the backend's chunk, or of an earlier one."""
        kept = self._kept
        if frame is not None:
            kept.add(frame.data, merges=self._merges_choices)
        if not kept:
            return written
        chunks = [self._with_fields(chunk) if kept else chunk for chunk in written]
        remaining = list(kept.deltas) if self._choices else []
        return chunks + [self._with_fields(self._frames.chunk(number, {})) for number in remaining]

    def _with_fields(self, chunk: bytes) -> bytes:
        """Add the fields that belong to a chunk, and remove them from those to be sent."""
        kept = self._kept
        try:
            wire: Wire = dict(_OBJECT.decode(chunk[_BEFORE_DATA:]))
            choices = _OBJECTS.decode(wire.get("choices", b"[]"))  # type: ignore[arg-type]
        except DECODE_ERRORS:
            return chunk
        if not choices:
            return chunk
        [choice] = choices
        number = int(bytes(choice["index"]))
        delta = _OBJECT.decode(choice["delta"]) | kept.deltas.pop(number, {})
        wire["choices"] = [{**choice, "delta": delta, **kept.choices.pop(number, {})}]
        wire |= kept.chunk
        kept.chunk = {}
        return write_frame(wire)

    # Details that are kept as they are

    def start(self, event: Started) -> list[bytes]:
        """Begin the stream; other fields of a whole reply are kept as they are."""
        extras = tuple(extra for extra in event.extras if extra.name in _HEAD_FIELDS)
        return super().start(replace(event, extras=extras))

    def open(self, event: Opened) -> list[bytes]:
        """Begin a block; reasoning and images are kept as they are."""
        if isinstance(event.item, Reasoning) or image_of(event.item) is not None:
            return self._choice(event.choice)[1]
        return super().open(event)

    def _add_annotations(self, choice: ChoiceWriter, event: Delta) -> None:
        """Write no annotations, which are kept as they are."""

    def _close_reasoning(self, choice: ChoiceWriter, event: Closed) -> list[bytes]:  # noqa: ARG002 - as in the base class
        """Write no details of reasoning, which are kept as they are."""
        return []

    def _report_empty(self, choice: ChoiceWriter) -> None:
        """Report nothing: an empty reply stays as it is."""

    def _write_usage(self, usage: Usage | None) -> list[bytes]:  # noqa: ARG002 - as in the base class
        """Write the usage as the backend sent it, unless the client has received it."""
        kept = None if self._kept.usage is None else complete_usage(self._kept.usage)
        return [] if kept is None else [self._frames.usage(kept)]


def write_stream(context: ReplyContext) -> BaseStreamWriter:
    """Return the writer of a stream."""
    return RepairWriter(context) if context.repairs else StreamWriter(context)
