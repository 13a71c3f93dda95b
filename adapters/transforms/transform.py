"""The base classes of transforms: what users override to change requests and replies.

A transform is a class of the user. The gateway makes one object of it for each backend, and the
library takes such objects as `transforms`:

    class RenameModel(Transform, frozen=True):
        model: str

        def request(self, request: Request, losses: TransformLosses) -> Request:
            losses.changed("model", f"sent as {self.model}", "adapted")
            return replace(request, model=self.model)

`Transform.reply` returns the object that changes one reply: an `ItemTransform`, which receives
complete items, or an `EventTransform`, which receives the events of the stream.
"""

from collections.abc import Sequence
from typing import get_args

from msgspec import Struct

from adapters.ir.events import Event
from adapters.ir.types import Request
from adapters.losses import Losses, Severity


class TransformLosses:
    """The losses that one transform reports; each reason begins with the name of the transform."""

    def __init__(self, transform: str, losses: Losses) -> None:
        self._transform = transform
        self._losses = losses

    def dropped(self, path: str, reason: str, severity: Severity = "hint") -> None:
        """Report that something was dropped."""
        _check(path, reason, severity)
        self._losses.dropped(path, f"{self._transform}: {reason}", severity)

    def changed(self, path: str, reason: str, severity: Severity = "hint") -> None:
        """Report that something was changed."""
        _check(path, reason, severity)
        self._losses.changed(path, f"{self._transform}: {reason}", severity)

    def invented(self, path: str, reason: str, severity: Severity = "hint") -> None:
        """Report that something was added."""
        _check(path, reason, severity)
        self._losses.invented(path, f"{self._transform}: {reason}", severity)


def _check(path: object, reason: object, severity: object) -> None:
    """Raise an exception for a loss that could not be written later."""
    if not isinstance(path, str) or not isinstance(reason, str):
        raise TypeError("the path and the reason of a loss must be strings")
    if severity not in get_args(Severity):
        raise ValueError(f"severity must be one of {', '.join(get_args(Severity))}")


class EventTransform:
    """A change to one reply, which is fed with its events; by default nothing is changed.

    The events must be in the order that `adapters.ir.events` describes. The last one is `Finished`
    or `Failed`.
    """

    @property
    def passes_deltas(self) -> bool:
        """Whether deltas are not changed until an event of another type is fed.

        Deltas are the most frequent events; they skip a transform that returns true.
        """
        return False

    def feed(self, event: Event) -> Sequence[Event]:
        """Return the events that replace one event."""
        return [event]

    def flush(self) -> Sequence[Event]:
        """Return the events that are still held; called before the last event is fed."""
        return []


class Transform(Struct, frozen=True, forbid_unknown_fields=True):
    """A change to the requests and replies of a backend; override what it changes.

    The fields of the class are the options of the transform. Both methods see the conversation in
    the terms of the client: `request` is called before tools are emulated for the backend, and the
    reply contains the calls of the client's own tools. An object serves many exchanges at the same
    time and cannot be changed; `for_exchange` returns one that may keep values.

    To reject a request or a reply, raise `InvalidRequestError` or `UnsupportedRequestError`. Any
    other exception is a fault of the transform, and fails the exchange with `TransformError`.
    """

    @property
    def changes_requests(self) -> bool:
        """Whether `request` is called; requests in the backend's dialect are then translated."""
        return type(self).request is not Transform.request

    @property
    def changes_replies(self) -> bool:
        """Whether `reply` is called; replies in the client's dialect are then translated."""
        return type(self).reply is not Transform.reply

    def for_exchange(self) -> "Transform":
        """Return the transform for one exchange, which may keep values of its request."""
        return self

    def request(self, request: Request, _losses: TransformLosses, /) -> Request:
        """Return the request for the backend."""
        return request

    def reply(self, _losses: TransformLosses, /) -> EventTransform | None:
        """Return the change to a reply; None if it is not changed.

        It is called several times if the request is sent once for each choice.
        """
        return None
