"""Apply the transforms of a backend to one exchange, and report their faults.

Requests pass the transforms in their order, and replies in the reverse order.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import cast

from msgspec.structs import replace

from adapters.errors import DragomanError, TransformError
from adapters.ir.event_order import EventOrder, EventOrderError
from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.normalize import UniqueCallIds
from adapters.ir.types import Item, Message, Reasoning, Request, Tool, ToolCall
from adapters.losses import Losses
from adapters.stages.stage import Stage
from adapters.transforms.transform import EventTransform, Transform, TransformLosses
from adapters.wire.error_body import to_error

Transforms = tuple[Transform, ...]

# What the code of a user may raise: also `SystemExit`, for example, must not end the process.
_ANY = BaseException


def _name(transform: Transform) -> str:
    return type(transform).__name__


def _fault(transform: Transform, reason: str | BaseException) -> TransformError:
    """Return the error for a fault of a transform.

    The client does not receive the message of an exception, which may contain anything.
    """
    if isinstance(reason, BaseException) and not isinstance(reason, EventOrderError):
        reason = f"raised {type(reason).__name__}"
    return TransformError(None, f"the transform {_name(transform)} failed: {reason}")


# Requests


def begin_exchange(transforms: Transforms) -> Transforms:
    """Return the transforms for one exchange."""
    return tuple(map(_begin, transforms))


def _begin(transform: Transform) -> Transform:
    try:
        begun = cast("object", transform.for_exchange())
    except (DragomanError, KeyboardInterrupt):
        raise
    except _ANY as error:
        raise _fault(transform, error) from error
    if not isinstance(begun, Transform):
        raise _fault(transform, "for_exchange must return a Transform")
    return begun


def transform_request(
    request: Request, transforms: Transforms, losses: Losses, names: Mapping[str, str]
) -> Request:
    """Return the request as the transforms change it; `names` are the client's names of fields."""
    for transform in transforms:
        if transform.changes_requests:
            changed = _changed_request(transform, request, losses)
            request = _with_paths(request, changed, names)
    return request


def _changed_request(transform: Transform, request: Request, losses: Losses) -> Request:
    try:
        reported = TransformLosses(_name(transform), losses)
        changed = cast("object", transform.request(request, reported))
    except (DragomanError, KeyboardInterrupt):
        raise
    except _ANY as error:
        raise _fault(transform, error) from error
    if not isinstance(changed, Request):
        raise _fault(transform, "request must return a Request")
    if changed.stream != request.stream:
        raise _fault(transform, "stream cannot be changed")
    if other := _other_type(changed.items, Item):
        raise _fault(transform, f"{other} is not an item")
    if other := _other_type(changed.tools, Tool):
        raise _fault(transform, f"{other} is not a tool")
    return changed


def _other_type(values: Iterable[object], expected: type | UnionType) -> str | None:
    """Return the type of the first value that does not have the expected one."""
    others = (type(one).__name__ for one in values if not isinstance(one, expected))
    return next(others, None)


def _with_paths(request: Request, changed: Request, names: Mapping[str, str]) -> Request:
    """Return a changed request with a path for each item and tool, whether they are new or not."""
    if changed is request:
        return request
    return replace(
        changed,
        paths=_paths(
            changed.items, changed.paths, request.items, request.paths, names.get("items", "items")
        ),
        tool_paths=_paths(
            changed.tools, changed.tool_paths, request.tools, request.tool_paths, "tools"
        ),
    )


def _paths(
    changed: Sequence[object],
    given: tuple[str, ...],
    former: Sequence[object],
    former_paths: tuple[str, ...],
    name: str,
) -> tuple[str, ...]:
    """Return the paths of values: those before the change, or the name of the field for new ones.

    If their number is the same, each value has the place of a former one.
    """
    if changed is former or not former_paths:
        return former_paths if changed is former else ()
    if len(given) == len(changed) and given is not former_paths:
        return given
    known = {id(value): path for value, path in zip(former, former_paths, strict=True)}
    places = former_paths if len(changed) == len(former) else (name,) * len(changed)
    return tuple(known.get(id(value), place) for value, place in zip(changed, places, strict=True))


# Replies


def transform_stages(transforms: Transforms, losses: Losses) -> list["TransformStage"]:
    """Return the stages of the transforms that change replies, in their order."""
    changing = [transform for transform in reversed(transforms) if transform.changes_replies]
    return [TransformStage(one, losses, number) for number, one in enumerate(changing)]


class TransformStage(Stage):
    """The stage of one transform, which ends the reply if the transform fails."""

    def __init__(self, transform: Transform, losses: Losses, number: int) -> None:
        super().__init__()
        self._transform = transform
        self._losses = losses
        # Added to the ids of new blocks, because two transforms may choose the same ones.
        self._prefix = f"{number}:"
        # None before the reply begins, or if the transform does not change it.
        self._inner: EventTransform | None = None
        self._begun = False
        self._order = EventOrder()
        # The ids of the blocks of the reply.
        self._blocks: set[BlockId] = set()
        # The ids of the items, and those of the calls of each choice.
        self._item_ids: set[str] = set()
        self._call_ids: dict[int, UniqueCallIds] = {}
        # The faults of all transforms of the reply, which the translator shares.
        self.faults: list[TransformError] = []

    @property
    def passes_deltas(self) -> bool:
        """Whether the transform does not change deltas until an event of another type is fed."""
        inner = self._inner
        return self._order.phase == "running" and (inner is None or inner.passes_deltas)

    def feed(self, event: Event) -> list[Event]:
        """Return the events that replace one event; none after the end."""
        if self._order.phase == "ended":
            return []
        try:
            return self._feed(event)
        except KeyboardInterrupt:
            raise
        except DragomanError as error:
            return self._end(event, error)
        except _ANY as error:
            fault = _fault(self._transform, error)
            fault.__cause__ = error
            self.faults.append(fault)
            return self._end(event, fault)

    def _feed(self, event: Event) -> list[Event]:
        if not self._begun:
            self._begun = True
            losses = TransformLosses(_name(self._transform), self._losses)
            self._inner = inner = self._transform.reply(losses)
            if inner is None or type(inner).passes_deltas is not EventTransform.passes_deltas:
                self._order.sees_deltas = False
        if isinstance(event, Opened):
            self._blocks.add(event.index)
        inner, is_last = self._inner, isinstance(event, Finished | Failed)
        if inner is None:
            given: list[Event] = [event]
        else:
            given = [*inner.flush(), *inner.feed(event)] if is_last else [*inner.feed(event)]
        changed = list(map(self._checked, given))
        if is_last and self._order.phase != "ended":
            raise EventOrderError("the reply has no Finished or Failed")
        return changed

    def _checked(self, event: Event) -> Event:
        """Return an event with unique ids; raise `EventOrderError` if it is not legal."""
        if isinstance(event, Opened | Delta | Closed) and event.index not in self._blocks:
            event = replace(event, index=f"{self._prefix}{event.index}")
        if isinstance(event, Delta) and not isinstance(cast("object", event.text), str):
            raise EventOrderError(f"Delta of block {event.index}: the text is not a string")
        if isinstance(event, Opened):
            if other := _other_type([event.item], Item):
                raise EventOrderError(f"{other} is not an item")
            event = replace(event, item=self._with_unique_ids(event.item, event.choice))
        self._order.check(event)
        return event

    def _with_unique_ids(self, item: Item, choice: int) -> Item:
        """Return an item whose ids no other one has, as the parts of an item that was split do."""
        if isinstance(item, Message | ToolCall | Reasoning):
            item_id = item.item_id
            if item_id is not None and item_id in self._item_ids:
                item = replace(item, item_id=None)
            elif item_id is not None:
                self._item_ids.add(item_id)
        if isinstance(item, ToolCall):
            ids = self._call_ids.setdefault(choice, UniqueCallIds(self._losses))
            call_id = ids.unique(item.call_id, item.name, item.path)
            return item if call_id == item.call_id else replace(item, call_id=call_id)
        return item

    def _end(self, event: Event, error: DragomanError) -> list[Event]:
        """End the reply with an error."""
        self._order.phase = "ended"
        if isinstance(event, Failed):
            # The backend's error is the first one.
            return [event]
        return [Failed(to_error(error), origin="gateway")]
