"""Transforms of a user, which the gateway imports by their paths."""

from typing import Literal

from msgspec.structs import replace

from adapters import EventTransform, InvalidRequestError, Request, Transform, TransformLosses
from adapters.ir.events import Delta, Event, Failed
from adapters.ir.types import Message, Text


class AddNote(Transform, frozen=True):
    """Adds a message to requests only."""

    text: str

    def request(self, request: Request, losses: TransformLosses) -> Request:
        losses.invented("items", "a note was added")
        return replace(request, items=(*request.items, Message("user", (Text(self.text),))))


class ReplaceText(Transform, frozen=True):
    """Replaces a character in the texts of replies."""

    old: str
    new: str

    def reply(self, losses: TransformLosses) -> EventTransform:
        return _ReplacedText(self, losses)


class _ReplacedText(EventTransform):
    def __init__(self, options: ReplaceText, losses: TransformLosses) -> None:
        self._options = options
        self._losses = losses

    def feed(self, event: Event) -> list[Event]:
        if not isinstance(event, Delta) or self._options.old not in event.text:
            return [event]
        self._losses.changed("content", "text was replaced")
        return [replace(event, text=event.text.replace(self._options.old, self._options.new))]


class Fail(Transform, frozen=True):
    """Fails where its option says."""

    at: Literal["request", "rejected", "start", "delta", "order"]

    def request(self, request: Request, _losses: TransformLosses) -> Request:
        if self.at == "request":
            raise KeyError("a fault in a request")
        if self.at == "rejected":
            raise InvalidRequestError("model", "is not for you")
        return request

    def reply(self, _losses: TransformLosses) -> EventTransform:
        if self.at == "start":
            raise KeyError("a fault in a reply")
        return _Failing(self.at)


class _Failing(EventTransform):
    def __init__(self, at: str) -> None:
        self._at = at
        self._deltas = 0

    def feed(self, event: Event) -> list[Event]:
        if isinstance(event, Delta):
            self._deltas += 1
            if self._deltas > 1 and self._at == "delta":
                raise KeyError("a fault in a reply")
        if self._at == "order" and not isinstance(event, Failed):
            return [event, event]
        return [event]
