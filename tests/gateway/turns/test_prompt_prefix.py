"""Prompt caches keep working: a request with a stored history continues the request before it."""

import json
from itertools import pairwise
from typing import cast

import pytest

from gateway.pytest_plugin.scripted_backend import ReceivedRequest, Script
from tests.gateway.backend_replies import Turn, reply_script
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.judges.reading import JsonObject, objects_in, text_in

TOOL: JsonObject = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
INPUTS: list[object] = [
    "Begin.",
    [{"role": "user", "content": "Go on."}],
    [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Hm."}]}],
    [
        {"role": "user", "content": [{"type": "input_text", "text": "One."}]},
        {"role": "user", "content": "Two."},
    ],
]


def reply(dialect: str, received: ReceivedRequest) -> Script:
    return reply_script(dialect, Turn("Well."), received.json())


def items_of(sent: JsonObject) -> list[JsonObject]:
    """Return the messages of a request, without what the gateway adds to the items it stores."""
    if "messages" in sent:
        return objects_in(sent, "messages")
    items = sent["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    return [_bare(item) for item in cast("list[JsonObject]", items)]


def _bare(item: JsonObject) -> JsonObject:
    content = item["content"]
    if isinstance(content, str):
        kind = "output_text" if item["role"] == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    added = {"id", "status", "type"}
    return {name: value for name, value in item.items() if name not in added} | {"content": content}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("how", ["previous_response_id", "conversation"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_stored_history_continues_the_request_before(
    dialect: str, how: str, storing: Harness, *, streamed: bool
) -> None:
    model = storing.new_model(dialect)
    storing.backend.respond_with(model, lambda received: reply(dialect, received))
    link: JsonObject = {}
    if how == "conversation":
        link = {how: text_in(storing.post({}, "/v1/conversations").json(), "id")}
    for text in INPUTS:
        body = {"model": model, "input": text, "tools": [TOOL], **link}
        made = storing.respond(streamed=streamed, **body)
        if how != "conversation":
            link = {how: made.id}
    sent = [received.json() for received in storing.backend.received(model)]
    for before, after in pairwise(sent):
        earlier, later = items_of(before), items_of(after)
        assert len(later) > len(earlier)
        assert json.dumps(later[: len(earlier)]) == json.dumps(earlier)
        names = "functions" if dialect == "legacy" else "tools"
        assert json.dumps(objects_in(after, names)) == json.dumps(objects_in(before, names))
