"""Pair the calls of a history with their outputs before it is written in another dialect.

Servers reject a call without its output and an output without its call, and with them every later
turn (https://github.com/router-for-me/CLIProxyAPI/issues/2368,
https://github.com/continuedev/continue/issues/11785). So a call without an output gets a short one,
and an output without a call becomes a message of the user. Call ids that repeat across turns
(https://github.com/fw-ai/fireconnect/issues/16) are made unique, together with their outputs.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from adapters.capabilities import CallIdFormat
from adapters.ids import mistral_call_id, short_call_id
from adapters.ir.normalize import (
    EMPTY_ARGUMENTS,
    EMPTY_ARGUMENTS_REASON,
    PendingCalls,
    is_assistant_item,
    unzip,
)
from adapters.ir.types import Item, Message, Part, Request, Text, ToolCall, ToolOutput
from adapters.losses import Losses

NO_OUTPUT = "No output was recorded for this call."

ItemWithPath = tuple[Item, str]

# How call ids are made valid, and the reason to report for those that were not.
_ID_FORMS: dict[CallIdFormat, tuple[Callable[[str], str], str]] = {
    "any": (short_call_id, "call ids are limited to 64 characters; hashed"),
    "alphanumeric_9": (
        mistral_call_id,
        "call ids must have 9 letters or digits; hashed",
    ),
}


def pair_tool_calls(
    request: Request,
    losses: Losses,
    *,
    ends_open: bool = False,
    ids_matter: bool = True,
    call_ids: CallIdFormat = "any",
) -> Request:
    """Return the request with one output for each call and a call for each output.

    With `ends_open`, the calls at the end get no outputs: in a training example they are the reply.
    Without `ids_matter`, because the target has no call ids, changed ids are not reported.
    """
    if _is_paired(request, call_ids):
        return request
    pairing = _Pairing(losses, call_ids, ids_matter=ids_matter)
    paired = [(pairing.convert(item, path), path) for item, path in request.items_with_paths()]
    if pairing.pending:
        paired = list(_add_outputs(paired, pairing.pending, losses, ends_open=ends_open))
    items, paths = unzip(paired)
    return replace(request, items=items, paths=paths)


def _is_paired(request: Request, call_ids: CallIdFormat) -> bool:
    """Whether nothing needs to change, as in most histories.

    This check saves 6 % of the translation of a 5 kB request with two calls.
    """
    valid_id = _ID_FORMS[call_ids][0]
    used: set[str] = set()
    pending: dict[str, ToolCall] = {}
    for item in request.items:
        if isinstance(item, ToolCall):
            call_id = item.call_id
            if call_id in used or valid_id(call_id) != call_id:
                return False
            if item.kind == "function" and not item.arguments.strip():
                return False
            used.add(call_id)
            pending[call_id] = item
        elif isinstance(item, ToolOutput):
            call = pending.pop(item.call_id, None) if item.call_id is not None else None
            if call is None or call.kind != item.kind:
                return False
    return not pending


class _Pairing:
    """Converts the items of a history one after the other."""

    def __init__(self, losses: Losses, call_ids: CallIdFormat, *, ids_matter: bool) -> None:
        self._losses = losses
        self._valid_id, self._invalid_id_reason = _ID_FORMS[call_ids]
        self._ids_matter = ids_matter
        # The calls without an output so far, under the ids that the history uses.
        self.pending = PendingCalls()
        self._used: set[str] = set()
        # How often each id was repeated: the next number to try.
        self._repeats: Counter[str] = Counter()

    def convert(self, item: Item, path: str) -> Item:
        """Return one item as it is written."""
        if isinstance(item, ToolCall):
            return self._convert_call(item, path)
        if isinstance(item, ToolOutput):
            return self._convert_output(item, path)
        if not is_assistant_item(item):
            self.pending.end_batch()
        return item

    def _convert_call(self, call: ToolCall, path: str) -> ToolCall:
        if call.kind == "function" and not call.arguments.strip():
            call = replace(call, arguments=EMPTY_ARGUMENTS)
            self._losses.changed(f"{path}.arguments", EMPTY_ARGUMENTS_REASON)
        history_id = call.call_id
        call_id = self._unique_id(history_id, path)
        if call_id != history_id:
            call = replace(call, call_id=call_id)
        self._used.add(call_id)
        self.pending.add(call, history_id)
        return call

    def _unique_id(self, history_id: str, path: str) -> str:
        """Return an id that the backend accepts and that no other call has."""
        call_id = self._valid_id(history_id)
        if call_id != history_id:
            self._report_id(path, self._invalid_id_reason)
        if call_id in self._used:
            self._report_id(path, f"the call id {history_id} is not unique; replaced")
        while call_id in self._used:
            self._repeats[history_id] += 1
            call_id = self._valid_id(f"{history_id}_{self._repeats[history_id] + 1}")
        return call_id

    def _report_id(self, path: str, reason: str) -> None:
        if self._ids_matter:
            self._losses.changed(path, reason)

    def _convert_output(self, output: ToolOutput, path: str) -> Item:
        call = self._take_call(output)
        if call is not None:
            if output.call_id == call.call_id and output.kind == call.kind:
                return output
            return replace(output, call_id=call.call_id, kind=call.kind)
        reason = "the output has no call id" if output.call_id is None else "the call is missing"
        self._losses.changed(path, f"{reason}; sent as a user message", "capability")
        return _as_user_message(output)

    def _take_call(self, output: ToolOutput) -> ToolCall | None:
        """Take the call of an output: by its call id, its name, or the only id that it has."""
        if output.call_id is not None:
            return self.pending.take_by_id(output.call_id)
        if output.name is not None:
            return self.pending.take_by_name(output.name)
        return None if output.item_id is None else self.pending.take_by_id(output.item_id)


def _as_user_message(output: ToolOutput) -> Message:
    missing = "" if output.call_id is None else ", whose call is no longer in this conversation"
    label = f"Output of {output.name or 'a tool'}{missing}:\n"
    if isinstance(output.output, str):
        return Message("user", (Text(label + output.output),))
    label_part: tuple[Part, ...] = (Text(label),)
    return Message("user", label_part + output.output)


def _add_outputs(
    paired: list[ItemWithPath], pending: PendingCalls, losses: Losses, *, ends_open: bool
) -> Iterator[ItemWithPath]:
    """Add a short output for each call without one, after the assistant's turn."""
    without_output: list[tuple[ToolCall, str]] = []
    for item, path in paired:
        if without_output and not is_assistant_item(item):
            yield from _short_outputs(without_output, losses)
            without_output = []
        yield item, path
        if isinstance(item, ToolCall) and pending.has(item):
            without_output.append((item, path))
    if not ends_open:
        yield from _short_outputs(without_output, losses)


def _short_outputs(calls: list[tuple[ToolCall, str]], losses: Losses) -> Iterator[ItemWithPath]:
    for call, path in calls:
        losses.invented(path, "the call has no output; a placeholder was added", "capability")
        yield ToolOutput(call.call_id, NO_OUTPUT, call.kind), path
