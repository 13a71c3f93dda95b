"""A malformed detail of a reply costs that detail, which is reported, and never the answer."""

from copy import deepcopy
from itertools import product
from typing import Any, cast

import pytest

import adapters
from adapters.ir.events import Finished
from adapters.ir.types import Message, Text
from tests.adapters.laws import common
from tests.judges.reading import JsonObject, objects_in, read_object
from tests.judges.samples import encoded

ANSWER = "It rains."
CITATION: JsonObject = {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}
LOGPROB: JsonObject = {
    "token": "It",
    "logprob": -0.5,
    "bytes": [73],
    "top_logprobs": [{"token": "It", "logprob": -0.5, "bytes": [73]}],
}
ANNOTATION: JsonObject = {"type": "url_citation", "url_citation": CITATION}
CHAT_USAGE: JsonObject = {
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
CHAT_LOGPROBS: JsonObject = {"content": [LOGPROB, LOGPROB], "refusal": None}
CHAT: JsonObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "system_fingerprint": "fp",
    "service_tier": "default",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": ANSWER, "annotations": [ANNOTATION]},
            "logprobs": CHAT_LOGPROBS,
        }
    ],
    "usage": CHAT_USAGE,
}
PART: JsonObject = {
    "type": "output_text",
    "text": ANSWER,
    "annotations": [{"type": "url_citation", **CITATION}],
    "logprobs": [LOGPROB, LOGPROB],
}
MESSAGE: JsonObject = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [PART],
}
REASONING: JsonObject = {
    "id": "rs_1",
    "type": "reasoning",
    "status": "completed",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "content": [{"type": "reasoning_text", "text": "Hm"}],
    "encrypted_content": "x",
}
RESPONSE: JsonObject = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "service_tier": "default",
    "output": [REASONING, MESSAGE],
    "usage": {
        "input_tokens": 3,
        "output_tokens": 4,
        "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens_details": {"reasoning_tokens": 2},
    },
}
WHOLE: dict[str, JsonObject] = {"chat": CHAT, "legacy": CHAT, "responses": RESPONSE}

CHUNK_HEAD: JsonObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "system_fingerprint": "fp",
    "service_tier": "default",
}


def chunk(delta: JsonObject, finish: str | None = None, **fields: object) -> JsonObject:
    choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish}
    if "logprobs" in fields:
        choice["logprobs"] = fields.pop("logprobs")
    return {**CHUNK_HEAD, "choices": [choice], **fields}


PLACE: JsonObject = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
OPENED: JsonObject = {**MESSAGE, "status": "in_progress", "content": []}
STARTED: JsonObject = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
STREAMS: dict[str, list[JsonObject]] = {
    "chat": [
        chunk({"role": "assistant", "content": "It "}),
        chunk({"content": "rains."}, logprobs=CHAT_LOGPROBS),
        chunk({"annotations": [ANNOTATION]}),
        chunk({}, "stop", usage=CHAT_USAGE),
    ],
    "responses": [
        {"type": "response.created", "response": STARTED},
        {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
        {"type": "response.output_item.added", "output_index": 1, "item": OPENED},
        {
            "type": "response.output_text.delta",
            "delta": "It rains.",
            "logprobs": [LOGPROB, LOGPROB],
            **PLACE,
        },
        {
            "type": "response.output_text.annotation.added",
            "annotation_index": 0,
            "annotation": {"type": "url_citation", **CITATION},
            **PLACE,
        },
        {"type": "response.output_item.done", "output_index": 1, "item": MESSAGE},
        {"type": "response.completed", "response": RESPONSE},
    ],
}
STREAMS["legacy"] = STREAMS["chat"]

# The details of a whole reply, and those of each event, by their paths.
WHOLE_DETAILS = {
    "chat": [
        *("created", "system_fingerprint", "service_tier", "usage.prompt_tokens"),
        *("usage.prompt_tokens_details", "usage.completion_tokens_details.reasoning_tokens"),
        *("choices.0.logprobs", "choices.0.logprobs.content", "choices.0.logprobs.content.1"),
        *("choices.0.logprobs.content.0.token", "choices.0.logprobs.content.1.top_logprobs"),
        *("choices.0.message.annotations", "choices.0.message.annotations.0"),
        "choices.0.message.annotations.0.type",
        "choices.0.message.annotations.0.url_citation.start_index",
    ],
    "responses": [
        *("created_at", "service_tier", "usage.input_tokens", "usage.output_tokens_details"),
        *("usage.total_tokens", "output.1.content.0.annotations", "output.1.content.0.logprobs"),
        *("output.1.content.0.annotations.0", "output.1.content.0.annotations.0.type"),
        *("output.1.content.0.annotations.0.url", "output.1.content.0.logprobs.1"),
        *("output.1.content.0.logprobs.0.token", "output.1.status", "output.1.role"),
        *("output.0.summary", "output.0.summary.0", "output.0.content", "output.0.content.0.text"),
        "output.0.encrypted_content",
    ],
}
EVENT_DETAILS = {
    "chat": [
        *("0.created", "0.system_fingerprint", "0.service_tier", "1.choices.0.logprobs"),
        *("1.choices.0.logprobs.content", "1.choices.0.logprobs.content.1"),
        *("1.choices.0.logprobs.content.0.token", "1.choices.0.logprobs.content.0.bytes"),
        *("2.choices.0.delta.annotations", "2.choices.0.delta.annotations.0"),
        "2.choices.0.delta.annotations.0.type",
        "2.choices.0.delta.annotations.0.url_citation.url",
        *("3.usage.prompt_tokens", "3.usage.prompt_tokens_details"),
    ],
    "responses": [
        *("0.response.created_at", "0.response.service_tier", "1.item.summary", "1.item.content.0"),
        *("1.item.encrypted_content", "2.item.status", "2.item.role", "3.item_id"),
        *("3.output_index", "3.content_index", "3.logprobs", "3.logprobs.1", "3.logprobs.0.token"),
        *("4.annotation", "4.annotation.type", "4.annotation.end_index", "5.item.status"),
        *("5.item.content.0.annotations.0", "5.item.content.0.logprobs.0", "5.output_index"),
        *("6.response.usage.input_tokens", "6.response.usage.output_tokens_details"),
        *("6.response.created_at", "6.response.output.1.content.0.annotations.0.url"),
    ],
}
EMPTY: JsonObject = {}
WRONG: list[object] = [7, "odd", ["odd", 7], {"odd": 7}, True, [[7]], [EMPTY]]


def _key(parent: object, step: str) -> int | str:
    return int(step) if isinstance(parent, list) else step


def spoiled(value: object, path: str, wrong: object) -> object:
    """Return a copy of a value with another value at a path."""
    copy = deepcopy(value)
    *steps, last = path.split(".")
    parent: object = copy
    for step in steps:
        parent = cast("Any", parent)[_key(parent, step)]
    cast("Any", parent)[_key(parent, last)] = wrong
    return copy


def rows(details: dict[str, list[str]]) -> list[tuple[str, str, object]]:
    return [
        (dialect, path, wrong)
        for dialect, paths in details.items()
        for path, wrong in product(paths, WRONG)
    ]


def answer_of(client: str, body: bytes) -> str:
    [choice] = common.read_reply(client, body).choices
    messages = [item for item in choice.items if isinstance(item, Message)]
    return "".join(part.text for one in messages for part in one.content if isinstance(part, Text))


@pytest.mark.parametrize(("backend", "path", "wrong"), rows(WHOLE_DETAILS))
def test_malformed_detail_of_a_whole_reply(backend: str, path: str, wrong: object) -> None:
    body = encoded(cast("JsonObject", spoiled(WHOLE[backend], path, wrong)))
    for client in adapters.DIALECTS.keys() - {backend}:
        end = common.exchange(client, backend).reply(body)
        assert end.status == 200
        assert answer_of(client, end.body) == ANSWER


@pytest.mark.parametrize(("backend", "path", "wrong"), rows(EVENT_DETAILS))
def test_malformed_detail_of_an_event(backend: str, path: str, wrong: object) -> None:
    events = cast("list[JsonObject]", spoiled(STREAMS[backend], path, wrong))
    stream = b"".join(b"data: %b\n\n" % encoded(event) for event in events)
    for client in adapters.DIALECTS.keys() - {backend}:
        collector = common.exchange(client, backend).collect()
        collector.feed(stream)
        end = collector.finish()
        assert end.status == 200, end.body
        assert answer_of(client, end.body) == ANSWER
        translated = common.translate_stream(client, backend, [stream])
        assert adapters.check(client, translated) == []
        assert isinstance(common.read_stream(client, [translated])[-1], Finished)


REPORTED: list[tuple[str, str, object, str]] = [
    ("chat", "choices.0.logprobs.content.1", {"logprob": -1}, "choices[0].logprobs.content[1]"),
    ("chat", "choices.0.message.annotations.0", "odd", "choices[0].message.annotations[0]"),
    ("chat", "usage.prompt_tokens", "many", "usage.prompt_tokens"),
    ("responses", "output.1.content.0.logprobs.0", EMPTY, "output[1].content[0].logprobs[0]"),
    ("responses", "output.1.role", "wizard", "output[1].role"),
]


@pytest.mark.parametrize(("backend", "path", "wrong", "reported"), REPORTED)
def test_malformed_detail_is_reported_with_its_path(
    backend: str, path: str, wrong: object, reported: str
) -> None:
    body = encoded(cast("JsonObject", spoiled(WHOLE[backend], path, wrong)))
    client = "responses" if backend == "chat" else "chat"
    losses = common.exchange(client, backend).reply(body).losses
    assert reported in [loss.path for loss in losses if "the backend's value" in loss.reason]


def test_other_log_probabilities_are_kept() -> None:
    odd: JsonObject = {"logprob": -1}
    logprobs = [LOGPROB, odd, odd, LOGPROB]
    body = encoded(cast("JsonObject", spoiled(CHAT, "choices.0.logprobs.content", logprobs)))
    end = common.exchange("responses", "chat").reply(body)
    response = read_object(end.body)
    part = objects_in(objects_in(response, "output")[0], "content")[0]
    assert [one["token"] for one in objects_in(part, "logprobs")] == ["It", "It"]
    paths = [loss.path for loss in end.losses if "the backend's value" in loss.reason]
    assert paths == ["choices[0].logprobs.content[1]", "choices[0].logprobs.content[2]"]


def test_long_list_of_malformed_details_is_removed() -> None:
    body = encoded(cast("JsonObject", spoiled(CHAT, "choices.0.logprobs.content", [EMPTY] * 5000)))
    end = common.exchange("responses", "chat").reply(body)
    assert end.status == 200
    reported = [loss.path for loss in end.losses if "the backend's value" in loss.reason]
    assert reported[-1] == "choices[0].logprobs.content"
    assert len(reported) < 20
