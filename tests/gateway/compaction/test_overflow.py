"""A request for a summary that is too long itself is shortened until it fits."""

import json

import pytest

from gateway.pytest_plugin.scripted_backend import (
    ReceivedRequest,
    Script,
    ScriptFactory,
    json_reply,
)
from tests.gateway.backend_replies import Turn, reply_script
from tests.gateway.compaction.requests import HISTORY, SUMMARY, TRIGGER, message, validated
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT
from tests.judges.reading import JsonObject, objects_in
from tests.judges.samples import encoded

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
OVERFLOW: JsonObject = {
    "message": "This model's maximum context length is 4096 tokens.",
    "type": "invalid_request_error",
    "param": "messages",
    "code": "context_length_exceeded",
}
# The errors of servers that do not send the code.
ERRORS: list[tuple[int, JsonObject]] = [
    (400, OVERFLOW),
    (400, {**OVERFLOW, "code": None}),
    (413, {**OVERFLOW, "code": None, "message": "prompt is too long"}),
]


def step(number: int, size: int = 4000) -> list[JsonObject]:
    """Return a call and its long result."""
    call_id = f"call_{number}"
    arguments = json.dumps({"cmd": f"step {number}"})
    call: JsonObject = {"type": "function_call", "name": "exec_command", "arguments": arguments}
    text = f"begin {number} " + "x" * size + f" end {number}"
    output: JsonObject = {"type": "function_call_output", "output": text}
    return [{**call, "call_id": call_id}, {**output, "call_id": call_id}]


LONG: list[JsonObject] = [*HISTORY, *step(10), *step(11), message("user", "Go on."), *step(12)]


def limited(
    dialect: str, limit: int, status: int = 400, error: JsonObject = OVERFLOW
) -> ScriptFactory:
    """Return a backend that refuses long requests."""

    def reply(received: ReceivedRequest) -> Script:
        if len(received.body) > limit:
            return json_reply(encoded({"error": error}), status=status)
        return reply_script(dialect, Turn(SUMMARY), received.json())

    return reply


def serve(harness: Harness, dialect: str, script: ScriptFactory) -> str:
    model = harness.new_model(dialect)
    harness.backend.respond_with(model, script)
    return model


@STREAMED_OR_NOT
@pytest.mark.parametrize(("status", "error"), ERRORS)
@every_dialect
def test_oldest_results_are_shortened(
    dialect: str, status: int, error: JsonObject, *, streamed: bool, harness: Harness
) -> None:
    model = serve(harness, dialect, limited(dialect, 9000, status, error))
    body = {"model": model, "store": False, "input": [*LONG, TRIGGER], "stream": streamed}
    received = harness.post(body)
    [item] = objects_in(validated(received, streamed=streamed), "output")
    assert item["type"] == "compaction"
    assert "shortened" in received.headers["dragoman-loss"]
    sent = harness.sent(model)
    for text in ("begin 10", "end 10", "characters omitted", "begin 12 " + "x" * 4000):
        assert text in sent
    assert "x" * 4000 not in sent[: sent.index("end 10")]


@every_dialect
def test_endpoint_shortens_results(dialect: str, harness: Harness) -> None:
    model = serve(harness, dialect, limited(dialect, 6000))
    received = harness.post({"model": model, "input": LONG}, "/v1/responses/compact")
    assert received.status == 200, received.body
    assert "input[" in received.headers["dragoman-loss"]


@every_dialect
def test_long_context_is_summarized_although_the_request_for_it_is_too_long(
    dialect: str, harness: Harness
) -> None:
    model = serve(harness, dialect, limited(dialect, 9000))
    management = [{"type": "compaction", "compact_threshold": 1000}]
    items = [*LONG, message("assistant", "Well."), message("user", "And now?")]
    body: JsonObject = {"model": model, "store": False, "input": items}
    response = validated(harness.post({**body, "context_management": management}))
    assert [one["type"] for one in objects_in(response, "output")] == ["compaction", "message"]


@every_dialect
def test_error_of_a_request_that_never_fits(dialect: str, harness: Harness) -> None:
    model = serve(harness, dialect, limited(dialect, 100))
    body = {"model": model, "store": False, "input": [*LONG, TRIGGER]}
    received = harness.post(body)
    assert (received.status, received.error["code"]) == (400, "context_length_exceeded")
    sizes = [len(one.body) for one in harness.backend.received(model)]
    assert 1 < len(sizes) <= 5
    assert sizes == sorted(set(sizes), reverse=True)


def test_request_without_results_is_sent_once(harness: Harness) -> None:
    model = serve(harness, "chat", limited("chat", 100))
    body = {"model": model, "store": False, "input": [message("user", "x" * 9000), TRIGGER]}
    assert harness.post(body).error["code"] == "context_length_exceeded"
    assert len(harness.backend.received(model)) == 1


def test_other_requests_are_not_shortened(harness: Harness) -> None:
    model = serve(harness, "chat", limited("chat", 100))
    body = {"model": model, "store": False, "input": LONG}
    assert harness.post(body).error["code"] == "context_length_exceeded"
    assert len(harness.backend.received(model)) == 1


@pytest.mark.parametrize(
    "output",
    [
        [{"type": "input_text", "text": "y" * 20_000}],
        [{"type": "input_image", "image_url": "data:image/png;base64," + "A" * 20_000}],
    ],
)
def test_parts_of_results_are_shortened(output: list[JsonObject], harness: Harness) -> None:
    call, result = step(1)
    model = serve(harness, "chat", limited("chat", 9000))
    items = [message("user", "Go."), call, {**result, "output": output}, TRIGGER]
    validated(harness.post({"model": model, "store": False, "input": items}))
    assert "omitted" in harness.sent(model)
