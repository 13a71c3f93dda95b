"""Replies and streams in which a value of the openai package's types makes sense."""

from collections.abc import Iterator
from copy import deepcopy

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from adapters.conformance import Json, Object
from tests.adapters.laws.unreported import PLACES, REPEATED_FIELDS
from tests.judges.sdk import EVENT_CLASSES
from tests.judges.walk import Path, Sample, Walk

REPLIES: dict[str, type] = {"chat": ChatCompletion, "responses": Response}

PREPARED: dict[str, Json] = {"Choice.index": 0, "Summary.text": "a summary"}
APART = {
    "ChatCompletionMessage.function_call",
    "ChoiceDelta.function_call",
    "ChoiceDelta.refusal",
    "Choice.finish_reason",
}
WALKS = (Walk(PREPARED), Walk(PREPARED, complete=True, apart=APART))
EVENT_WALK = Walk(PREPARED)

# The items of events, by the beginning of the event's type after `response.`.
_MESSAGE: Object = {"type": "message", "role": "assistant", "content": []}
_REASONING: Object = {"type": "reasoning", "summary": []}
_CALL: Object = {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}
_CUSTOM_CALL: Object = {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": ""}
ITEMS: dict[str, Object] = {
    "content_part": _MESSAGE,
    "output_text": _MESSAGE,
    "refusal": _MESSAGE,
    "reasoning": _REASONING,
    "function_call": _CALL,
    "custom_tool_call": _CUSTOM_CALL,
}


def replies(dialect: str) -> Iterator[tuple[Sample, Object]]:
    """Yield whole replies, each with a field of interest."""
    for walk in WALKS:
        for sample in walk.samples(REPLIES[dialect]):
            assert isinstance(sample.value, dict)
            field = sample.path[0]
            if dialect == "chat" or field == "status":
                yield sample, sample.value
            elif field not in REPEATED_FIELDS:
                status = "incomplete" if field == "incomplete_details" else "completed"
                yield sample, {**sample.value, "status": status}


def chat_streams() -> Iterator[tuple[Sample, list[Json]]]:
    """Yield streams of chunks, the first of which has a field of interest."""
    for walk in WALKS:
        for sample in walk.samples(ChatCompletionChunk):
            chunk = _with_content(sample.value, sample.path)
            rest = (
                []
                if sample.field == "finish_reason"
                else [_chunk("more", None), _chunk(None, "stop")]
            )
            yield sample, [chunk, *rest]


def _chunk(content: str | None, finish_reason: str | None) -> Json:
    choice: Object = {"index": 0, "delta": {"content": content}, "finish_reason": finish_reason}
    return {"id": "some", "created": 3, "model": "some", "choices": [choice]}


def _with_content(chunk: Json, path: Path) -> Json:
    """Return a chunk whose log probabilities have a text, and whose calls have a name."""
    copy = deepcopy(chunk)
    assert isinstance(copy, dict)
    choices = copy.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        assert isinstance(choice, dict)
        delta = choice.setdefault("delta", {})
        assert isinstance(delta, dict)
        if "logprobs" in path:
            delta["refusal" if "refusal" in path else "content"] = "text"
        if "function_call" in path:
            delta.pop("tool_calls", None)
            _name(delta, "function_call")
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            assert isinstance(call, dict)
            _name(call, "function")
    return copy


def _name(parent: Object, field: str) -> None:
    call = parent.setdefault(field, {})
    assert isinstance(call, dict)
    call.setdefault("name", "f")


def response_streams() -> Iterator[tuple[Sample, list[Json], int]]:
    """Yield streams in which one event has a field of interest, with the number of that event.

    No other event has the same information. Events with whole responses are left out, because they
    are read like whole replies, and those of parts, because they repeat other events.
    """
    for kind, event_class in EVENT_CLASSES.items():
        item = next((v for k, v in ITEMS.items() if kind.startswith(f"response.{k}")), None)
        is_part = kind.endswith(("_part.added", "_part.done"))
        if is_part or (item is None and kind != "response.output_item.done"):
            continue
        for sample in EVENT_WALK.samples(event_class):
            event = _placed(sample)
            events: list[Json] = [
                {"type": "response.created", "response": _response("in_progress")}
            ]
            if item is not None:
                events.append(_added(item, event))
            number = len(events)
            events += [event, {"type": "response.completed", "response": _response("completed")}]
            yield sample, events, number


def _placed(sample: Sample) -> Object:
    """Return an event at the beginning of a reply."""
    assert isinstance(sample.value, dict)
    others = (name for name in PLACES if name not in ("item_id", sample.field))
    return sample.value | {name: 0 for name in others if name in sample.value}


def _added(item: Object, event: Object) -> Json:
    place = {"output_index": event.get("output_index", 0)}
    added: Object = {"id": event.get("item_id", "some"), "status": "in_progress", **item}
    return {"type": "response.output_item.added", "item": added, **place}


def _response(status: str) -> Json:
    return {"id": "resp_1", "created_at": 1, "model": "m", "status": status, "output": []}
