"""Recorded parallel calls, for clients that receive one call at a time.

A legacy client receives the first of parallel calls, and its next request has the output of this
call only. A replay replies with the calls that are left, until the client has made all of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby

import msgspec
from msgspec.structs import replace

from adapters import DragomanError
from adapters.conformance import Json, Object
from adapters.ir.types import ToolCall
from adapters.json_text import DECODE_ERRORS
from gateway.recording.documents import encode_reply, read_document, read_reply
from gateway.recording.format import Body
from gateway.recording.replay_index import RecordedReply, ReplayIndex
from gateway.recording.request_meaning import RequestMeaning


class SingleCallIndex:
    """Finds the recorded reply of a request in which parallel calls were made one by one."""

    def __init__(self, replies: Sequence[RecordedReply]) -> None:
        self._index = ReplayIndex(
            [replace(reply, request=_with_calls_first(reply.request)) for reply in replies]
        )

    def find(self, request: RequestMeaning) -> RecordedReply | None:
        """Return the reply to send now; None if no recording has these calls."""
        if not any(map(_is_call, request.items)):
            return None
        return self._index.find(_with_calls_first(request)) or next(self._find_left(request), None)

    def _find_left(self, request: RequestMeaning) -> Iterator[RecordedReply]:
        """Yield the recorded replies whose first calls end the conversation, with those left."""
        for begin, calls in _last_calls(request.items):
            before = request.with_items(range(begin))
            for reply in self._index.matches(_with_calls_first(before)):
                left = _without_calls(reply, calls)
                if left is not None:
                    yield left


def _is_call(item: Json) -> bool:
    return isinstance(item, dict) and item.get("type") == "call"


def _is_output(item: Json) -> bool:
    return isinstance(item, dict) and item.get("type") == "output"


def _belongs_to_call(item: Json) -> bool:
    return _is_call(item) or _is_output(item)


def _is_reply_text(item: Json) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant"


def _with_calls_first(request: RequestMeaning) -> RequestMeaning:
    """Return a request in which the outputs of successive calls follow all of these calls."""
    items = request.items
    order: list[int] = []
    for of_calls, run in groupby(range(len(items)), key=lambda i: _belongs_to_call(items[i])):
        places = [*run]
        # The sort is stable: outputs stay in the order of their calls.
        order += sorted(places, key=lambda i: _is_output(items[i])) if of_calls else places
    return request.with_items(order)


def _last_calls(items: Sequence[Json]) -> Iterator[tuple[int, list[Json]]]:
    """Yield the calls at the end of a conversation, and where the reply with them may begin."""
    calls: list[Json] = []
    for place in reversed(range(len(items))):
        if not _belongs_to_call(items[place]):
            return
        if _is_call(items[place]):
            calls.insert(0, items[place])
            begin = place
            while begin and _is_reply_text(items[begin - 1]):
                begin -= 1
            yield begin, [*calls]


def _without_calls(reply: RecordedReply, calls: Sequence[Json]) -> RecordedReply | None:
    """Return a reply with the calls that follow the given ones; None if there are none."""
    try:
        read = read_reply(read_document(reply.body.data, reply.dialect.name))
    except DragomanError:
        return None
    if read.error is not None or len(read.choices) != 1:
        return None
    [choice] = read.choices
    recorded = [item for item in choice.items if isinstance(item, ToolCall)]
    made, left = recorded[: len(calls)], recorded[len(calls) :]
    if not left or [_key(msgspec.to_builtins(call)) for call in made] != [*map(_key, calls)]:
        return None
    rest = replace(read, choices=(replace(choice, items=tuple(left)),))
    body = Body(encode_reply(rest, reply.dialect), ".json")
    headers = {key: one for key, one in reply.headers.items() if key.lower() != "content-type"}
    return replace(reply, body=body, headers=headers, reads=())


def _key(call: Json) -> tuple[Json, ...]:
    """Return what identifies a call: its kind, its name and its arguments."""
    fields: Object = call if isinstance(call, dict) else {}
    arguments = fields.get("arguments")
    # Other text than JSON is compared as it is.
    with suppress(*DECODE_ERRORS):
        arguments = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    return fields.get("kind"), fields.get("name"), arguments
