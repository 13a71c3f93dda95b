"""The replies of the scripted model in Chat Completions, with tools or legacy functions."""

import json
from collections.abc import Iterator, Mapping, Sequence

from tests.gateway.migration.code.scripted_model import Answer, IssuedCall
from tests.judges.reading import JsonObject

_PIECE = 7


def chat_call(call: IssuedCall) -> JsonObject:
    """Return a call in a message."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def whole_reply(answer: Answer, model: str, *, is_legacy: bool) -> JsonObject:
    """Return a reply that is not streamed."""
    message: JsonObject = {"role": "assistant", "content": answer.text or None}
    if not is_legacy:
        message |= {"refusal": None, "annotations": []}
    if answer.calls and is_legacy:
        [call] = answer.calls
        message["function_call"] = {"name": call.name, "arguments": call.arguments}
    elif answer.calls:
        message["tool_calls"] = [chat_call(call) for call in answer.calls]
    reason = _finish_reason(answer, is_legacy=is_legacy)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    usage = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}
    return {**_head(answer, model, "chat.completion"), "choices": [choice], "usage": usage}


def _finish_reason(answer: Answer, *, is_legacy: bool) -> str:
    # As at OpenAI, a call that was forced ends with "stop".
    if not answer.calls or answer.is_forced:
        return "stop"
    return "function_call" if is_legacy else "tool_calls"


def _head(answer: Answer, model: str, kind: str) -> JsonObject:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": 1700000000, "model": model}


def stream(
    answer: Answer, model: str, *, is_legacy: bool, split_names: bool
) -> Iterator[JsonObject | str]:
    """Yield the chunks of a stream."""
    head = _head(answer, model, "chat.completion.chunk")
    deltas = _legacy_deltas if is_legacy else _tool_deltas
    for delta in deltas(answer, split_names=split_names):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = _finish_reason(answer, is_legacy=is_legacy)
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield "[DONE]"


def _legacy_deltas(answer: Answer, *, split_names: bool) -> Iterator[JsonObject]:
    if not answer.calls:
        yield from _text_deltas(answer)
    for call in answer.calls:
        first, *others = _name_pieces(call, split_names=split_names)
        function = {"name": first, "arguments": ""}
        yield {"role": "assistant", "content": None, "function_call": function}
        for piece in others:
            yield {"function_call": {"name": piece}}
        for piece in pieces(call.arguments):
            yield {"function_call": {"arguments": piece}}


def _tool_deltas(answer: Answer, *, split_names: bool) -> Iterator[JsonObject]:
    if not answer.calls:
        yield from _text_deltas(answer)
    else:
        yield {"role": "assistant", "content": None}
    for index, call in enumerate(answer.calls):
        first, *others = _name_pieces(call, split_names=split_names)
        function: Mapping[str, object] = {"name": first, "arguments": ""}
        head = {"index": index, "id": call.id, "type": "function", "function": function}
        yield {"tool_calls": [head]}
        for piece in others:
            yield {"tool_calls": [{"index": index, "function": {"name": piece}}]}
        for piece in pieces(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _text_deltas(answer: Answer) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": ""}
    for piece in pieces(answer.text):
        yield {"content": piece}


def _name_pieces(call: IssuedCall, *, split_names: bool) -> Sequence[str]:
    return pieces(call.name) if split_names else [call.name]


def pieces(text: str) -> list[str]:
    """Split a text."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def event(data: JsonObject | str) -> bytes:
    """Return an event of a stream."""
    written = data if isinstance(data, str) else json.dumps(data)
    return f"data: {written}\n\n".encode()
