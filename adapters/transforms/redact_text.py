"""The transform that redacts texts of requests and replies.

A pattern matches within one line, so that a line of a streamed text can be sent as soon as it is
complete. The values of JSON, such as the arguments of a call, are searched without their escapes.
Values that only one dialect knows, files and images are not searched.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.ir.events import BlockId, Channel, Closed, Delta, Event, Opened
from adapters.ir.types import (
    Annotation,
    Item,
    Logprob,
    Message,
    Part,
    Reasoning,
    Refusal,
    Request,
    Text,
    ToolCall,
    ToolOutput,
)
from adapters.json_text import DECODE_ERRORS, is_complete_json
from adapters.transforms.item_transform import ItemTransform
from adapters.transforms.transform import Transform, TransformLosses

_REDACTED = "text was redacted"
_DETAILS = "log probabilities, annotations and details of redacted text are dropped"
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_STRING = msgspec.json.Decoder(str)
_ENCODER = msgspec.json.Encoder()

Redact = Callable[[str], str]


class RedactText(Transform, frozen=True):
    """Replaces what regular expressions match in texts, tool arguments and tool outputs."""

    patterns: tuple[str, ...]
    replacement: str = "[redacted]"
    # Whether requests and replies are searched.
    requests: bool = True
    replies: bool = True

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            try:
                matches_nothing = re.search(pattern, "")
            except re.error as error:
                message = f"patterns must be regular expressions, not {pattern!r}: {error}"
                raise ValueError(message) from None
            if matches_nothing:
                raise ValueError(f"patterns must not match an empty text, as {pattern!r} does")

    @property
    def changes_requests(self) -> bool:
        """Whether requests are searched."""
        return self.requests

    @property
    def changes_replies(self) -> bool:
        """Whether replies are searched."""
        return self.replies

    def request(self, request: Request, losses: TransformLosses) -> Request:
        """Return the request without the matches."""
        redactor = _Redactor(self.patterns, self.replacement)
        instructions = request.instructions
        if instructions is not None:
            instructions = redactor.text(instructions)
            if instructions != request.instructions:
                losses.changed("instructions", _REDACTED)
        items: list[Item] = []
        for item, path in request.items_with_paths():
            redacted = redactor.item(item)
            if redacted != item:
                losses.changed(path, _REDACTED)
            items.append(redacted)
        return replace(request, instructions=instructions, items=tuple(items))

    def reply(self, losses: TransformLosses) -> ItemTransform:
        """Return the transform of one reply."""
        return _RedactedReply(_Redactor(self.patterns, self.replacement), losses)


@lru_cache(maxsize=64)
def _compile(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, patterns))


class _Redactor:
    """Replaces the matches of some patterns."""

    def __init__(self, patterns: tuple[str, ...], replacement: str) -> None:
        self._patterns = _compile(patterns)
        # A literal text, not a template with groups.
        self._template = replacement.replace("\\", r"\\")

    def text(self, text: str) -> str:
        """Return a text of whole lines without the matches."""
        return "\n".join(map(self._line, text.split("\n")))

    def _line(self, line: str) -> str:
        for pattern in self._patterns:
            line = pattern.sub(self._template, line)
        return line

    def json_or_text(self, text: str) -> str:
        """Return a JSON object or array without the matches in its strings, or any other text."""
        if not is_complete_json(text):
            return self.text(text)
        try:
            return self._json(text.encode()).decode()
        except DECODE_ERRORS:
            return self.text(text)

    def _json(self, value: bytes) -> bytes:
        """Return a JSON value; one without matches keeps its bytes."""
        match value.lstrip()[:1]:
            case b'"':
                text = _STRING.decode(value)
                redacted = self.text(text)
                return value if redacted == text else _ENCODER.encode(redacted)
            case b"{":
                fields = _OBJECT.decode(value)
                new = {name: Raw(self._json(bytes(inner))) for name, inner in fields.items()}
                return value if new == fields else _ENCODER.encode(new)
            case b"[":
                elements = _LIST.decode(value)
                changed = [Raw(self._json(bytes(inner))) for inner in elements]
                return value if changed == elements else _ENCODER.encode(changed)
            case _:
                return value

    def item(self, item: Item) -> Item:
        """Return an item of a request."""
        match item:
            case Message():
                return replace(item, content=tuple(map(self._part, item.content)))
            case ToolCall():
                return self.call(item)
            case ToolOutput(output=str() as output):
                return replace(item, output=self.json_or_text(output))
            case ToolOutput(output=tuple() as parts):
                return replace(item, output=tuple(map(self._part, parts)))
            case Reasoning():
                return self._reasoning(item)
            case _:
                return item

    def call(self, call: ToolCall) -> ToolCall:
        """Return a call."""
        return replace(call, arguments=self.json_or_text(call.arguments))

    def _part(self, part: Part) -> Part:
        if not isinstance(part, Text | Refusal):
            return part
        text = self.text(part.text)
        if text == part.text:
            return part
        if isinstance(part, Text):
            # The positions and tokens belong to the text with the matches.
            return replace(part, text=text, annotations=(), logprobs=())
        return replace(part, text=text)

    def _reasoning(self, item: Reasoning) -> Reasoning:
        summary, content = tuple(map(self.text, item.summary)), tuple(map(self.text, item.content))
        if (summary, content) == (item.summary, item.content):
            return item
        # Some servers repeat the text in a list of details.
        return replace(item, summary=summary, content=content, extras=())


class _RedactedReply(ItemTransform):
    """Redacts one reply: texts line by line, and calls when they are complete."""

    def __init__(self, redactor: _Redactor, losses: TransformLosses) -> None:
        super().__init__()
        self._redactor = redactor
        self._losses = losses
        # The open messages and reasoning items.
        self._texts: dict[BlockId, _RedactedText] = {}

    @property
    def passes_deltas(self) -> bool:
        """Whether neither a text nor a call is open."""
        return not self._texts and super().passes_deltas

    def holds(self, item: Item) -> bool:
        """Whether an item is a call."""
        return isinstance(item, ToolCall)

    def item(self, item: Item) -> list[Item]:
        """Return a call without the matches."""
        if not isinstance(item, ToolCall):
            return [item]
        redacted = self._redactor.call(item)
        if redacted != item:
            self._losses.changed(item.path, _REDACTED)
        return [redacted]

    def feed(self, event: Event) -> list[Event]:
        """Return the events that replace one event."""
        events: list[Event] = []
        for redacted in self._redact(event):
            events += super().feed(redacted)
        return events

    def flush(self) -> list[Event]:
        """Return what is still held, because the reply failed."""
        events: list[Event] = []
        for text in self._texts.values():
            for delta in text.end():
                events += super().feed(delta)
        return [*events, *super().flush()]

    def _redact(self, event: Event) -> list[Event]:
        match event:
            case Opened(item=Message() | Reasoning() as item):
                self._texts[event.index] = _RedactedText(
                    event.index, item.path, self._redactor.text, self._losses
                )
            case Delta() if event.index in self._texts:
                return self._texts[event.index].feed(event)
            case Closed() if event.index in self._texts:
                return self._texts.pop(event.index).close(event)
            case _:
                pass
        return [event]


class _RedactedText:
    """A message or reasoning, of which the last line is held until it is complete."""

    def __init__(self, index: BlockId, path: str, redact: Redact, losses: TransformLosses) -> None:
        self._index = index
        self._path = path
        self._redact = redact
        self._losses = losses
        # The latest part, and whether it has a match; None before the first part.
        self._part: tuple[int, Channel] | None = None
        self._has_match = False
        # Whether any part has a match.
        self._is_changed = False
        # The line that is held, and the details of the part, which are sent at its end.
        self._held: list[str] = []
        self._logprobs: list[Logprob] = []
        self._annotations: list[Annotation] = []

    def feed(self, delta: Delta) -> list[Event]:
        """Return the lines that a delta completes."""
        part = (delta.part, delta.channel)
        events = [] if self._part in (None, part) else self.end()
        self._part = part
        self._logprobs += delta.logprobs
        self._annotations += delta.annotations
        lines, newline, rest = delta.text.rpartition("\n")
        if not newline:
            self._held.append(delta.text)
            return events
        text = "".join((*self._held, lines, newline))
        self._held = [rest]
        return [*events, Delta(self._index, delta.channel, self._redacted(text), delta.part)]

    def _redacted(self, text: str) -> str:
        redacted = self._redact(text)
        if redacted != text:
            self._has_match = self._is_changed = True
            self._losses.changed(self._path, _REDACTED)
        return redacted

    def end(self) -> list[Event]:
        """Return the rest of the part."""
        if self._part is None:
            return []
        part, channel = self._part
        text, self._held = self._redacted("".join(self._held)), []
        if self._has_match and (self._logprobs or self._annotations):
            # Their positions and tokens belong to the text with the matches.
            self._losses.dropped(self._path, _DETAILS)
            self._logprobs, self._annotations = [], []
        logprobs, annotations = tuple(self._logprobs), tuple(self._annotations)
        self._part, self._has_match, self._logprobs, self._annotations = None, False, [], []
        return [Delta(self._index, channel, text, part, logprobs, annotations)]

    def close(self, closed: Closed) -> list[Event]:
        """Return the rest of the text, and the end of its block."""
        events = self.end()
        if self._is_changed and closed.extras:
            # Some servers repeat the text in a list of details.
            self._losses.dropped(self._path, _DETAILS)
            closed = replace(closed, extras=())
        return [*events, closed]
