"""A continued turn reaches the backend as if the client had sent the whole history."""

import json
import re
from typing import Any, cast

import pytest

from gateway.pytest_plugin.scripted_backend import json_reply
from tests.corpus import REPLIES, REQUESTS, ReplyCase, RequestCase, on_wire
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.background.requests import RUNNING
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.judges.reading import JsonObject

FOLLOWING: JsonObject = {"type": "message", "role": "user", "content": "And then?"}
# Fields that depend on stored state or change the form of the reply.
LEFT_OUT = {
    *("background", "context_management", "conversation", "previous_response_id"),
    *("prompt", "store", "stream", "stream_options"),
}
# Fields of every stored item.
DEFAULTS: JsonObject = {"id": "made", "status": "completed"}
# Ids that were generated for items without one.
_MADE = re.compile(rb'"[a-z]{2,8}_[0-9a-f]{32}"')


def first_request(body: bytes, model: str) -> JsonObject | None:
    """Return a request that can be continued in both ways, or None if the case has none."""
    request = cast("JsonObject", json.loads(body))
    if not isinstance(request.get("input"), list | str):
        return None
    return {name: request[name] for name in request if name not in LEFT_OUT} | {"model": model}


def whole_history(first: JsonObject, reply: JsonObject) -> list[Any]:
    """Return the input of a client that sends the whole history."""
    given = first["input"]
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    return [*cast("list[Any]", given), *cast("list[Any]", reply["output"] or []), FOLLOWING]


def assert_continued_alike(harness: Harness, dialect: str, first: JsonObject, body: bytes) -> None:
    """Raise unless the backend gets the same second turn, whether stored or sent as a whole."""
    model = cast("str", first["model"])
    good = json_reply(reply_body(dialect, Turn("fine")))
    harness.backend.enqueue(model, json_reply(body), good, good)
    reply = post(harness, first)
    if reply.status != 200 or reply.json()["status"] in RUNNING:
        return
    continued = {**first, "input": [FOLLOWING], "previous_response_id": reply.json()["id"]}
    history = {**first, "input": whole_history(first, reply.json()), "store": False}
    for request in (continued, history):
        second = post(harness, request)
        assert second.status == 200, second.body
    _, one, other = harness.backend.received(model)
    assert normalized(one.body) == normalized(other.body)


def post(harness: Harness, body: JsonObject) -> raw_http.RawResponse:
    """Post JSON without spaces, which reaches the backend unchanged."""
    return harness.post(json.dumps(body, separators=(",", ":")).encode())


def normalized(body: bytes) -> JsonObject:
    """Return a request without what may differ: generated ids, and whether it is stored."""
    request = cast("JsonObject", json.loads(_MADE.sub(b'"made"', body)))
    request.pop("store", None)
    if "input" in request:
        request["input"] = [_item(item) for item in cast("list[JsonObject]", request["input"])]
    return request


def _item(item: JsonObject) -> JsonObject:
    """Return the stored form of an item."""
    settled = {name: value for name, value in item.items() if value or name not in DEFAULTS}
    if "role" not in item:
        return {**DEFAULTS, **settled}
    content = item.get("content")
    parts = [_part(item["role"], content)] if isinstance(content, str) else content or []
    return {**DEFAULTS, "type": "message", **settled, "content": parts}


def _part(role: object, text: str) -> JsonObject:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "case", [case for case in REQUESTS if case.dialect == "responses"], ids=lambda case: case.name
)
def test_stored_requests_reach_the_backend_as_if_sent_again(
    case: RequestCase, dialect: str, harness: Harness
) -> None:
    first = first_request(on_wire(case.body), harness.new_model(dialect))
    if first is not None:
        assert_continued_alike(harness, dialect, first, reply_body(dialect, Turn("the answer")))


def replies() -> list[ReplyCase]:
    """Return the replies for Responses clients, without those that replace the history."""
    cases = [case for case in REPLIES if "responses" in (case.client, case.dialect)]
    return [case for case in cases if b'"compaction"' not in bytes(case.body)]


@pytest.mark.parametrize("case", replies(), ids=lambda case: case.name)
def test_stored_replies_reach_the_backend_as_if_sent_again(
    case: ReplyCase, harness: Harness
) -> None:
    model = harness.new_model(case.dialect)
    first = first_request(on_wire(case.request), model) if bytes(case.request) else None
    first = first or {"model": model, "input": "Go on."}
    assert_continued_alike(harness, case.dialect, first, on_wire(case.body))
