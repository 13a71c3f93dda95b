"""Corrections and properties of items and replies that all dialects share."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from adapters.ids import numbered_call_id
from adapters.ir.types import (
    Choice,
    Finish,
    FinishReason,
    Item,
    Message,
    Reasoning,
    Reply,
    Request,
    ToolCall,
)
from adapters.json_text import is_complete_json
from adapters.losses import Losses

T = TypeVar("T")

# The arguments of a call without arguments: clients and servers fail to parse an empty string
# (https://github.com/openai/openai-agents-js/issues/664).
EMPTY_ARGUMENTS = "{}"

# Reasons for losses
EMPTY_ARGUMENTS_REASON = "empty arguments are replaced with {}"
STRING_BREAKPOINT_REASON = "strings do not support cache breakpoints"
EMPTY_REPLY_REASON = "the reply is empty; an empty text was added"
ONLY_REASONING_REASON = "the reply is only reasoning, without text and calls; reported as completed"
SUMMARY_REASON = "only the text of the reasoning is sent, and not its summary"
MISSING_USAGE_REASON = "the backend reported no usage; reported as 0"
MERGED_CHOICES_REASON = "the backend sent several choices; merged into one"
INCOMPLETE_USAGE_REASON = "token counts are missing or invalid; added, or the usage is removed"
MISSING_CALL_ID_REASON = "the backend sent no call id; an id was generated"
REPEATED_CALL_ID_REASON = "the call id is not unique; replaced"
MISSING_NAME_REASON = "the call has no name"
REFUSAL_AS_TEXT_REASON = "a refusal is supported only in assistant messages; sent as text"
FILE_ID_BESIDE_URL_REASON = "an image can have only one source; the URL is sent"


# Items


def is_assistant_item(item: Item) -> bool:
    """Whether an item belongs to an assistant's turn."""
    if isinstance(item, Message):
        return item.role == "assistant"
    return isinstance(item, ToolCall | Reasoning)


def has_calls(items: tuple[Item, ...]) -> bool:
    """Whether any of the items is a call."""
    return any(isinstance(item, ToolCall) for item in items)


def without_content(item: Item) -> Item:
    """Return the item of an `Opened` event, without the content that deltas contain."""
    match item:
        case Message():
            return replace(item, content=(), status=None)
        case ToolCall():
            return replace(item, arguments="", status=None)
        case Reasoning():
            return replace(item, summary=(), content=(), encrypted=None, status=None)
        case _:
            return item


def mark_incomplete(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Mark the incomplete items of a truncated reply: the last one, and truncated calls."""
    last = len(items) - 1
    return tuple(
        replace(item, status="incomplete")
        if isinstance(item, Message | ToolCall | Reasoning)
        and (number == last or (isinstance(item, ToolCall) and has_truncated_arguments(item)))
        else item
        for number, item in enumerate(items)
    )


def split_paths(pairs: Sequence[tuple[T, str]]) -> tuple[tuple[T, ...], tuple[str, ...]]:
    """Return the items and their paths as two tuples."""
    return tuple([value for value, _ in pairs]), tuple([path for _, path in pairs])


def without_paths(request: Request) -> Request:
    """Return the request without paths, so that requests can be compared."""
    return replace(request, paths=(), tool_paths=())


# Calls


def call_path(call: ToolCall) -> str:
    """Return the path of a call in a reply, for losses."""
    return call.path or f"call {call.name} ({call.call_id})"


def part_path(message: Message, number: int) -> str:
    """Return the path of a part of a message in a reply, for losses.

    In Chat, the fields of the parts are in the message itself.
    """
    path = message.path
    if not path:
        return "content"
    return path if path.endswith("message") else f"{path}.content[{number}]"


def content_path(message: Message, number: int) -> str:
    """Return the path of a part of a message as such, and not of one of its fields."""
    path = part_path(message, number)
    return f"{path}.content" if path.endswith("message") else path


def lacks_arguments(call: ToolCall) -> bool:
    """Whether a complete function call has blank arguments, which cannot be parsed."""
    return call.kind == "function" and call.status != "incomplete" and not call.arguments.strip()


def with_empty_arguments(call: ToolCall) -> ToolCall:
    """Return a call with blank arguments with `{}` appended to them."""
    return replace(call, arguments=call.arguments + EMPTY_ARGUMENTS)


def has_truncated_arguments(call: ToolCall) -> bool:
    """Whether the arguments of a function call are not complete JSON."""
    return call.kind == "function" and not is_complete_json(call.arguments)


class UniqueCallIds:
    """Makes call ids unique: clients fail at two calls with the same id.

    Some servers use the same ids in each reply, so the ids in the history are in use too.
    """

    def __init__(self, losses: Losses, in_history: frozenset[str] = frozenset()) -> None:
        self.losses = losses
        self._used = set(in_history)

    def unique(self, call_id: str, name: str, path: str = "") -> str:
        """Return the id, with a number if it is already in use."""
        unique, number = call_id, 1
        while unique in self._used:
            number += 1
            unique = numbered_call_id(call_id, number)
        if unique != call_id:
            self.losses.changed(path or f"call {name} ({unique})", REPEATED_CALL_ID_REASON)
        self._used.add(unique)
        return unique


def normalize_calls(items: tuple[Item, ...], ids: UniqueCallIds) -> tuple[Item, ...]:
    """Return items whose calls have a name, a unique id and arguments that can be parsed."""
    losses = ids.losses
    normalized: list[Item] = []
    for item in items:
        if not isinstance(item, ToolCall):
            normalized.append(item)
        elif item.name:
            normalized.append(_normalize_call(item, ids))
        else:
            losses.dropped(item.path or "call", MISSING_NAME_REASON, "capability")
    return tuple(normalized)


def _normalize_call(call: ToolCall, ids: UniqueCallIds) -> ToolCall:
    if lacks_arguments(call):
        ids.losses.changed(call_path(call), EMPTY_ARGUMENTS_REASON)
        call = with_empty_arguments(call)
    return replace(call, call_id=ids.unique(call.call_id, call.name, call.path))


class _PendingCall(Struct, eq=False):
    call: ToolCall
    history_id: str
    batch: int


class PendingCalls:
    """The calls of a history that have no output yet, in batches.

    A batch is a series of calls without an output or a user message in between. An output without
    an id belongs to the oldest call of its name in the latest batch with such a call. So outputs of
    the same function are assigned in order, and a call that never got an output does not take the
    output of a later call.
    """

    def __init__(self) -> None:
        self._pending: list[_PendingCall] = []
        self._batch = 0
        self._batch_ended = False

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, call: ToolCall, history_id: str | None = None) -> None:
        """Add a call; `history_id` is its call id in the history, if `call` has another."""
        if self._batch_ended:
            self._batch_ended = False
            self._batch += 1
        history_id = call.call_id if history_id is None else history_id
        self._pending.append(_PendingCall(call, history_id, self._batch))

    def end_batch(self) -> None:
        """Begin a new batch with the next call."""
        self._batch_ended = True

    def has(self, call: ToolCall) -> bool:
        """Whether this call object has no output yet."""
        return any(pending.call is call for pending in self._pending)

    def take_by_id(self, history_id: str) -> ToolCall | None:
        """Remove and return the call with this call id, or else item id, which some servers use."""
        matching = [p for p in self._pending if p.history_id == history_id]
        return self._take(matching or [p for p in self._pending if p.call.item_id == history_id])

    def take_by_name(self, name: str | None) -> ToolCall | None:
        """Remove and return the call of an output without an id; None matches any name."""
        return self._take([p for p in self._pending if name in (None, p.call.name)])

    def _take(self, matching: list[_PendingCall]) -> ToolCall | None:
        """Remove and return the oldest call of the latest batch."""
        for pending in matching:
            if pending.batch == matching[-1].batch:
                self._pending.remove(pending)
                self._batch_ended = True
                return pending.call
        return None


# Replies

# The finish reasons of merged choices: the first one that any of the choices has applies to all.
_BY_PRECEDENCE: tuple[FinishReason, ...] = ("length", "filter", "calls", "stop")

_ID_PREFIXES = ("chatcmpl-", "resp_")
_MAX_ID_LENGTH = 55


def wants_one_choice(request: Request) -> bool:
    """Whether the client requested one choice."""
    return (request.choices or 1) == 1


def reply_model(model: str, request: Request, losses: Losses) -> str:
    """Return the model of a reply; the requested one if the backend names none."""
    name = model or request.model
    if not name:
        losses.invented("model", "the backend sent no model name in time; reported as unknown")
    return name or "unknown"


def merge_choices(reply: Reply) -> Reply:
    """Merge all choices into one.

    Some servers put the text and the calls of one reply into separate choices
    (https://github.com/ericc-ch/copilot-api/issues/81).
    """
    if len(reply.choices) <= 1:
        return reply
    items = tuple(item for choice in reply.choices for item in choice.items)
    finishes = tuple(choice.finish for choice in reply.choices if choice.finish is not None)
    extras = tuple(extra for choice in reply.choices for extra in choice.extras)
    return replace(reply, choices=(Choice(items, merged_finish(finishes), extras),))


def merged_finish(finishes: tuple[Finish, ...]) -> Finish | None:
    """Return the finish that applies to all choices when they are merged."""
    return min(finishes, key=lambda finish: _BY_PRECEDENCE.index(finish.reason), default=None)


def effective_finish(finish: Finish, *, has_calls: bool) -> FinishReason:
    """Return the finish reason to write: calls override `stop`, truncation overrides calls.

    Clients do not run calls after `stop`, and must not run calls that may be truncated.
    """
    if finish.reason in ("length", "filter"):
        return finish.reason
    return "calls" if has_calls else "stop"


def with_id_prefix(reply_id: str, prefix: str) -> str | None:
    """Return the id of a reply with the prefix of another dialect, so that both logs match.

    Return None if some server would reject the id.
    """
    name = reply_id
    for known in _ID_PREFIXES:
        name = name.removeprefix(known)
    letters = name.replace("-", "").replace("_", "")
    valid = 0 < len(name) <= _MAX_ID_LENGTH and letters.isascii() and letters.isalnum()
    return prefix + name if valid else None
