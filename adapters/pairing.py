"""Pairs the calls of a history with their outputs before it crosses to another dialect.

Servers refuse a call without its output and an output without its call, and then refuse every later
turn too, for the history stays (P039, P040). So nothing unpaired goes out: an unanswered call gets
a short output, an output without a call becomes what it most nearly is, something the user says.
Ids that repeat across turns (P056) are made unique, each output following its own call.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from adapters.conversation import Call, Item, Message, Output, Part, Reasoning, Request, Text
from adapters.items import NO_ARGUMENTS_WHY, lacks_arguments, with_arguments
from adapters.loss import Losses

NO_OUTPUT = "No output was recorded for this call."

Placed = tuple[Item, str]


def paired(request: Request, losses: Losses, *, ends_open: bool = False) -> Request:
    """Give the request with every call answered once and every output to a call.

    One that `ends_open` may end with calls: in an example for training they are the answer.
    """
    if not any(isinstance(item, Call | Output) for item in request.items):
        return request
    pairs = _Pairs(losses)
    placed = [pairs.place(item, path) for item, path in _placed(request)]
    answered = list(_answer(placed, pairs, losses, ends_open=ends_open))
    return replace(
        request,
        items=tuple(item for item, _ in answered),
        paths=tuple(path for _, path in answered),
    )


def _placed(request: Request) -> Iterator[Placed]:
    """Give each item with its path; a request made by hand has no paths."""
    paths = request.paths or tuple(f"items[{i}]" for i in range(len(request.items)))
    return zip(request.items, paths, strict=True)


class _Pairs:
    """Who waits for an output, and who got one."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        # Each waiting call under the id that the history uses, oldest first.
        self._waiting: list[tuple[str, Call]] = []
        self._used: set[str] = set()

    def place(self, item: Item, path: str) -> Placed:
        """Give the item as it goes out."""
        match item:
            case Call():
                return self._place_call(item, path), path
            case Output():
                return self._place_output(item, path), path
            case _:
                return item, path

    def is_waiting(self, call: Call) -> bool:
        """Tell whether the call never got its output."""
        return any(waiting is call for _, waiting in self._waiting)

    def _place_call(self, call: Call, path: str) -> Call:
        if lacks_arguments(call):
            call = with_arguments(call)
            self._losses.changed(f"{path}.arguments", NO_ARGUMENTS_WHY)
        spoken = call.call_id
        if spoken in self._used:
            call = replace(call, call_id=self._unused(spoken))
            self._losses.changed(path, f"the call id {spoken} was used before; it is made unique")
        self._used.add(call.call_id)
        self._waiting.append((spoken, call))
        return call

    def _unused(self, call_id: str) -> str:
        number = 2
        while f"{call_id}_{number}" in self._used:
            number += 1
        return f"{call_id}_{number}"

    def _place_output(self, output: Output, path: str) -> Item:
        call = self._take(output)
        if call is None:
            self._losses.changed(
                path,
                "the call that this output answers is not here; it becomes user text",
                "capability",
            )
            return _said_by_user(output)
        return replace(output, call_id=call.call_id, kind=call.kind)

    def _take(self, output: Output) -> Call | None:
        """Find the call: by its id the oldest that waits, by its name the latest."""
        if output.call_id is not None:
            found = [one for one in self._waiting if one[0] == output.call_id][:1]
        elif output.name is not None:
            found = [one for one in self._waiting if one[1].name == output.name][-1:]
        else:
            # Some servers give only one of the two ids (P064).
            ids = {output.item_id} - {None}
            found = [one for one in self._waiting if {one[0], one[1].item_id} & ids][:1]
        for one in found:
            self._waiting.remove(one)
            return one[1]
        return None


def _said_by_user(output: Output) -> Message:
    """Turn an output into a user message."""
    name = f" of {output.name}" if output.name else ""
    label = f"Output{name}, from a tool call that is no longer in this conversation:\n"
    if isinstance(output.output, str):
        return Message("user", (Text(label + output.output),))
    label_part: tuple[Part, ...] = (Text(label),)
    return Message("user", label_part + output.output)


def _answer(
    placed: list[Placed], pairs: _Pairs, losses: Losses, *, ends_open: bool
) -> Iterator[Placed]:
    """Put a short output behind the turn of each call that got none."""
    unanswered: list[tuple[Call, str]] = []
    for item, path in placed:
        if unanswered and not _is_of_assistant(item):
            yield from _invented(unanswered, losses)
            unanswered = []
        yield item, path
        if isinstance(item, Call) and pairs.is_waiting(item):
            unanswered.append((item, path))
    if not ends_open:
        yield from _invented(unanswered, losses)


def _is_of_assistant(item: Item) -> bool:
    match item:
        case Message(role="assistant") | Call() | Reasoning():
            return True
        case _:
            return False


def _invented(unanswered: list[tuple[Call, str]], losses: Losses) -> Iterator[Placed]:
    for call, path in unanswered:
        losses.invented(
            path, "this call has no output; a short one is put in its place", "capability"
        )
        yield Output(call.call_id, NO_OUTPUT, call.kind), path
