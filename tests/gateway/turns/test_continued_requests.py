"""A continued turn reaches the backend as if the client had sent the whole history."""

import json
import re
from typing import Any, cast

import pytest

from tests.corpus import REPLIES, REQUESTS, ReplyCase, RequestCase, on_wire
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.background.requests import RUNNING
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.scripted_backend import ScriptedBackend, json_reply
from tests.judges.reading import JsonObject

FOLLOWING: JsonObject = {"type": "message", "role": "user", "content": "And then?"}
# What asks for memory, or for another way of telling, is asked here in one way only.
OTHERWISE = (
    "background",
    "context_management",
    "conversation",
    "previous_response_id",
    "prompt",
    "store",
    "stream",
    "stream_options",
)
# What every item has that is kept.
DEFAULTS: JsonObject = {"id": "made", "status": "completed"}
# Each way makes ids of its own for what came without.
_MADE = re.compile(rb'"[a-z]{2,8}_[0-9a-f]{32}"')


def asked(body: bytes, model: str) -> JsonObject | None:
    """Give a request that can be sent in both ways; None if there is none in the case."""
    request = cast("JsonObject", json.loads(body))
    if not isinstance(request.get("input"), list | str):
        return None
    return {name: value for name, value in request.items() if name not in OTHERWISE} | {
        "model": model
    }


def carried(first: JsonObject, told: JsonObject) -> list[Any]:
    """Give all that a client carries after a turn."""
    given = first["input"]
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    return [*cast("list[Any]", given), *cast("list[Any]", told["output"] or []), FOLLOWING]


def both_ways(
    gateway: Gateway, backend: ScriptedBackend, dialect: str, first: JsonObject, reply: bytes
) -> tuple[JsonObject, JsonObject] | None:
    """Hold two turns; give the second as the backend gets it from the memory, and carried."""
    model = cast("str", first["model"])
    good = json_reply(reply_body(dialect, Turn("fine")))
    backend.enqueue(model, json_reply(reply), good, good)
    told = ask(gateway, first)
    if told.status != 200 or told.json()["status"] in RUNNING:
        return None
    said = {**first, "input": [FOLLOWING], "previous_response_id": told.json()["id"]}
    remembered = ask(gateway, said)
    sent = ask(gateway, {**first, "input": carried(first, told.json()), "store": False})
    assert (remembered.status, sent.status) == (200, 200), (remembered.body, sent.body)
    _, one, other = backend.received(model)
    return plain(one.body), plain(other.body)


def ask(gateway: Gateway, body: JsonObject) -> raw_http.RawResponse:
    """Ask in the fewest bytes: what is spelled so comes to the backend as it was."""
    spelled = json.dumps(body, separators=(",", ":")).encode()
    return raw_http.post(gateway.port, "/v1/responses", spelled)


def plain(body: bytes) -> JsonObject:
    """Read a request without what may differ: made ids, and whether it is to be stored."""
    request = cast("JsonObject", json.loads(_MADE.sub(b'"made"', body)))
    request.pop("store", None)
    if "input" in request:
        request["input"] = [_item(item) for item in cast("list[JsonObject]", request["input"])]
    return request


def _item(item: JsonObject) -> JsonObject:
    """Spell an item in the one shape in which it is kept."""
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
    case: RequestCase, dialect: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    first = asked(on_wire(case.body), new_model(dialect))
    if first is None:
        return
    found = both_ways(gateway, backend, dialect, first, reply_body(dialect, Turn("the answer")))
    if found is not None:
        assert found[0] == found[1]


def replies() -> list[ReplyCase]:
    """Give the answers to a Responses client, but for one that replaces all before it."""
    told = [case for case in REPLIES if "responses" in (case.client, case.dialect)]
    return [case for case in told if b'"compaction"' not in bytes(case.body)]


@pytest.mark.parametrize("case", replies(), ids=lambda case: case.name)
def test_stored_replies_reach_the_backend_as_if_sent_again(
    case: ReplyCase, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(case.dialect)
    first = asked(on_wire(case.request), model) if bytes(case.request) else None
    first = first or {"model": model, "input": "Go on."}
    found = both_ways(gateway, backend, case.dialect, first, on_wire(case.body))
    if found is not None:
        assert found[0] == found[1]
