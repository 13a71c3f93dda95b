"""The installed openai package as judge of what we write.

Its types judge every request, reply and frame, and its own stream helpers put our streams together
again, as they would in a client. Where the package lags behind the service, the exception stands
here with its reason.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar, cast, get_args

from openai import BaseModel, omit
from openai._streaming import ServerSentEvent, SSEDecoder
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses import (
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseStreamState,
    ResponseTextDeltaEvent,
)
from openai.types import responses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat import completion_create_params as chat_params
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
from openai.types.responses import response_create_params as responses_params
from openai.types.shared import ErrorObject

from tests.judges.reading import JsonObject, as_list, as_object, object_in, objects_in, read_object
from tests.judges.validation import check_exactly, exact_validator, validate

Model = TypeVar("Model", bound=BaseModel)
# Output index, and content index where the text is a message's and not a call's arguments.
Place = tuple[int, int | None]

CHAT_REQUESTS = {
    False: exact_validator(chat_params.CompletionCreateParamsNonStreaming),
    True: exact_validator(chat_params.CompletionCreateParamsStreaming),
}
RESPONSES_REQUESTS = {
    False: exact_validator(responses_params.ResponseCreateParamsNonStreaming),
    True: exact_validator(responses_params.ResponseCreateParamsStreaming),
}

# The package's Literal for ResponseError.code lacks these, but the service sends them, and Codex
# decides by them whether to compact, to give up or to try again.
CODES_BEYOND_SDK = frozenset({"context_length_exceeded", "insufficient_quota"})

TERMINAL = (
    responses.ResponseCompletedEvent,
    responses.ResponseFailedEvent,
    responses.ResponseIncompleteEvent,
)


def _event_classes() -> dict[str, type[BaseModel]]:
    """Sort the members of ResponseStreamEvent by type: the bare union prints 208 errors."""
    union, *_ = get_args(responses.ResponseStreamEvent)
    members = cast("tuple[type[BaseModel], ...]", get_args(union))
    return {get_args(member.model_fields["type"].annotation)[0]: member for member in members}


EVENT_CLASSES = _event_classes()


def judge_chat_request(body: bytes, *, beyond: Collection[str] = ()) -> None:
    """Judge a Chat Completions request.

    `beyond` has fields that a backend is known to take although the package lacks them, such as
    `reasoning_content`; they are ignored at any depth.
    """
    request = as_object(_without(read_object(body), beyond), "body")
    check_exactly("chat request", CHAT_REQUESTS[request.get("stream") is True], request)


def judge_responses_request(body: bytes, *, beyond: Collection[str] = ()) -> None:
    """Judge a Responses request; `beyond` as for a chat request."""
    request = as_object(_without(read_object(body), beyond), "body")
    if isinstance(request.get("input"), list):
        request["input"] = [_with_ids(item) for item in objects_in(request, "input")]
    check_exactly("responses request", RESPONSES_REQUESTS[request.get("stream") is True], request)


def _without(value: object, names: Collection[str]) -> object:
    if isinstance(value, list):
        return [_without(element, names) for element in cast("list[object]", value)]
    if isinstance(value, dict):
        members = cast("JsonObject", value).items()
        return {name: _without(member, names) for name, member in members if name not in names}
    return value


def _with_ids(item: JsonObject) -> JsonObject:
    # The package demands an id of an assistant's parts and of reasoning. The service takes both
    # without one, and refuses an id that it did not give: a translated history has none to send.
    if item.get("type") == "reasoning":
        return {"id": "rs_judge", **item}
    if item.get("role") == "assistant" and isinstance(item.get("content"), list):
        return {"id": "msg_judge", "status": "completed", **item, "type": "message"}
    return item


def judge_chat_reply(body: bytes) -> ChatCompletion:
    """Judge an unstreamed Chat Completions reply, and return it as a client would see it."""
    return validate(ChatCompletion, json.dumps(read_object(body)))


def judge_responses_reply(body: bytes) -> responses.Response:
    """Judge an unstreamed Responses reply, and return it as a client would see it."""
    reply = read_object(body)
    validate(responses.Response, json.dumps(_with_known_code(reply)))
    return _construct(responses.Response, reply)


def judge_error(body: bytes | str) -> None:
    """Judge an error envelope: the body of an HTTP error, or the last frame of a chat stream."""
    error = object_in(read_object(body), "error")
    validate(ErrorObject, json.dumps(error))
    absent = {"message", "type", "param", "code"} - error.keys()
    assert not absent, f"error lacks {sorted(absent)}: a client reads them without asking"


def _with_known_code(response: JsonObject) -> JsonObject:
    error = response.get("error")
    if error is None or as_object(error, "error").get("code") not in CODES_BEYOND_SDK:
        return response
    return {**response, "error": {**as_object(error, "error"), "code": "server_error"}}


def _construct(model: type[Model], payload: JsonObject) -> Model:
    """Build a model unvalidated, as the client does it."""
    # Any: the signature mixes one private parameter with the fields of the model.
    return model.construct(**cast("dict[str, Any]", payload))


def judge_chat_stream(data: bytes) -> ChatCompletion | None:
    """Judge a chat stream frame by frame, and return what the package's helper makes of it.

    Returns None where there is nothing to rebuild: after an error frame, and for custom tool
    calls, on which the Python helper crashes although they are legal.
    """
    frames = _frames(data)
    chunks: list[ChatCompletionChunk] = []
    for number, frame in enumerate(frames):
        assert frame.event is None, f"frame {number}: a chat frame has no event line"
        payload = read_object(frame.data)
        if payload.get("error"):
            judge_error(frame.data)
            assert number == len(frames) - 1, f"{len(frames) - 1 - number} frames after an error"
            _rebuild_chat(chunks)  # what came before must be sound as well
            return None
        chunks.append(validate(ChatCompletionChunk, json.dumps(_with_known_calls(payload))))
    assert data.rstrip(b"\r\n").endswith(b"data: [DONE]"), "the stream does not end with [DONE]"
    assert len({chunk.id for chunk in chunks}) == 1, "the id is not the same in all chunks"
    state = _rebuild_chat(chunks)
    if state is None:
        return None
    # Not get_final_completion(), which raises on a truncated reply, although it is legal.
    completion = state.current_completion_snapshot
    _compare_calls(chunks, completion)
    # Once more through the types: a repeated role comes out as "assistantassistant", and a choice
    # without a finish reason as None.
    return validate(ChatCompletion, completion.to_json(warnings=False))


def _frames(data: bytes) -> list[ServerSentEvent]:
    """Split a stream with the package's own decoder, less the closing [DONE]."""
    assert data.endswith((b"\n\n", b"\r\n\r\n")), f"the last frame is not ended: {data[-80:]!r}"
    frames = list(SSEDecoder().iter_bytes(iter([data])))
    if frames and frames[-1].data == "[DONE]":
        frames.pop()
    assert frames, "the stream is empty"
    return frames


def _with_known_calls(chunk: JsonObject) -> JsonObject:
    """Remove `custom` from streamed calls, because the published chunk type has only `function`."""
    known = cast("JsonObject", json.loads(json.dumps(chunk)))
    for choice in objects_in(known, "choices"):
        for call in as_list(object_in(choice, "delta").get("tool_calls") or [], "tool_calls"):
            _judge_custom_call(as_object(call, "tool_calls[]"))
    return known


def _judge_custom_call(call: JsonObject) -> None:
    if call.get("type") == "custom":
        del call["type"]
        assert isinstance(object_in(call, "custom").get("name"), str), "a custom call has no name"
    if "custom" in call:
        custom = object_in(call, "custom")
        assert custom.keys() <= {"name", "input"}, f"unknown fields in custom: {custom}"
        assert all(isinstance(value, str) for value in custom.values()), f"not strings: {custom}"


def _tool_calls(chunks: Iterable[ChatCompletionChunk]) -> Iterator[tuple[int, ChoiceDeltaToolCall]]:
    """Yield the entries of calls, each with the index of its choice."""
    for choice in chain.from_iterable(chunk.choices for chunk in chunks):
        yield from ((choice.index, call) for call in choice.delta.tool_calls or ())


def _rebuild_chat(
    chunks: Collection[ChatCompletionChunk],
) -> ChatCompletionStreamState[None] | None:
    if any("custom" in (call.model_extra or {}) for _, call in _tool_calls(chunks)):
        return None
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for number, chunk in enumerate(chunks):
        try:
            state.handle_chunk(chunk)
        except Exception as error:
            raise AssertionError(f"the SDK's helper fails on chunk {number}: {error!r}") from error
    return state


def _compare_calls(chunks: Iterable[ChatCompletionChunk], completion: ChatCompletion) -> None:
    # The helper joins repeats: an id or a name that is sent twice comes out doubled.
    first: dict[tuple[int, int], tuple[str | None, str | None]] = {}
    for choice_index, call in _tool_calls(chunks):
        name = call.function.name if call.function else None
        first.setdefault((choice_index, call.index), (call.id, name))
    for whole in completion.choices:
        for index, rebuilt in enumerate(whole.message.tool_calls or ()):
            assert rebuilt.type == "function", f"call {index}: its first chunk has no type"
            said, made = first[whole.index, index], (rebuilt.id, rebuilt.function.name)
            assert made == said, f"call {index}: {said} became {made}"


def judge_responses_stream(data: bytes) -> responses.Response:
    """Judge a Responses stream event by event, and return what the package's helper makes of it."""
    state: ResponseStreamState[None] = ResponseStreamState(input_tools=omit, text_format=omit)
    rebuilt: dict[Place, str] = {}
    final: responses.Response | None = None
    for number, frame in enumerate(_frames(data)):
        assert final is None, f"event {number} comes after the terminal event"
        payload = read_object(frame.data)
        assert frame.event in {None, payload.get("type")}, f"event {number}: {frame.event!r}"
        event = _judge_event(payload)
        if event.type != "error":
            final = _feed(state, event, number, rebuilt)
    assert final is not None, "the stream has no terminal event"
    if final.status != "failed":
        _compare_texts(rebuilt, final)
    return final


def _judge_event(payload: JsonObject) -> responses.ResponseStreamEvent:
    kind = payload.get("type")
    assert isinstance(kind, str), f"an event without type: {payload}"
    assert kind in EVENT_CLASSES, f"the SDK knows no event {kind!r}; its JavaScript helper throws"
    known = payload
    if "response" in payload:
        known = {**payload, "response": _with_known_code(object_in(payload, "response"))}
    validate(EVENT_CLASSES[kind], json.dumps(known))
    # Flat errors are what the package types; nested ones are what makes its clients raise.
    if kind == "error" and "error" in payload:
        judge_error(json.dumps(payload))
    return cast("responses.ResponseStreamEvent", _construct(EVENT_CLASSES[kind], payload))


def _feed(
    state: ResponseStreamState[None],
    event: responses.ResponseStreamEvent,
    number: int,
    rebuilt: dict[Place, str],
) -> responses.Response | None:
    """Pass one event to the helper, and return the response if the event was terminal."""
    try:
        fired = state.handle_event(event)
    except Exception as error:
        raise AssertionError(f"the SDK's helper fails on event {number}: {error!r}") from error
    for seen in fired:
        if isinstance(seen, ResponseTextDeltaEvent):
            rebuilt[seen.output_index, seen.content_index] = seen.snapshot
        elif isinstance(seen, ResponseFunctionCallArgumentsDeltaEvent):
            rebuilt[seen.output_index, None] = seen.snapshot
        elif isinstance(seen, TERMINAL):
            return seen.response
    return None


def _compare_texts(rebuilt: dict[Place, str], final: responses.Response) -> None:
    """Compare what the helper accumulated from deltas with the final response."""
    output = objects_in(final.to_dict(warnings=False), "output")
    for (output_index, content_index), text in rebuilt.items():
        assert output_index < len(output), f"output[{output_index}] is missing at the end"
        item = output[output_index]
        whole = item.get("arguments")
        if content_index is not None:
            whole = objects_in(item, "content")[content_index].get("text")
        assert whole == text, f"output[{output_index}]: deltas say {text!r}, the end {whole!r}"
