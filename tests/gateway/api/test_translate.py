"""Dry runs: translations and their losses, without a backend."""

import pytest

from tests.gateway.backend_replies import Turn, reply_body, stream_events
from tests.gateway.gateway_process import Gateway
from tests.gateway.raw_http import Body, encode_body, send
from tests.judges.reading import JsonObject, object_in, read_object

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "seed": 7}
TO_RESPONSES = {"from": "chat", "to": "responses"}
STREAM = b"".join(stream_events("chat", Turn("Hello"))).decode()


def _translate(gateway: Gateway, **fields: object) -> JsonObject:
    response = send(gateway, "POST", "/v1/translate", encode_body(fields))
    assert response.status == 200, response.body
    return response.json()


def _error(gateway: Gateway, body: Body) -> JsonObject:
    response = send(gateway, "POST", "/translate", encode_body(body))
    assert response.status == 400
    return response.error


def test_request_is_translated(gateway: Gateway) -> None:
    result = _translate(gateway, **TO_RESPONSES, body=REQUEST)
    assert result["kind"] == "request"
    assert result["status"] == 200
    assert object_in(result, "body")["model"] == "m"
    why = "the Responses API does not support this field"
    seed = {"action": "dropped", "path": "seed", "why": why, "severity": "hint"}
    why = "the Responses API stores replies by default; sent as false"
    store = {"action": "invented", "path": "store", "why": why, "severity": "adapted"}
    assert result["losses"] == [store, seed]


def test_stream_is_translated(gateway: Gateway) -> None:
    result = _translate(gateway, **TO_RESPONSES, stream=STREAM, deterministic=True)
    assert result["kind"] == "stream"
    events = str(result["stream"])
    assert events.startswith("event: response.created\n")
    assert "event: response.completed\n" in events
    assert result == _translate(gateway, **TO_RESPONSES, stream=STREAM, deterministic=True)


def test_reply_is_translated_with_its_request(gateway: Gateway) -> None:
    request = {"model": "m", "input": "hi", "metadata": {"a": "b"}}
    reply = read_object(reply_body("chat", Turn("x")))
    body = object_in(_translate(gateway, **TO_RESPONSES, body=reply, request=request), "body")
    assert body["object"] == "response"
    assert body["metadata"] == {"a": "b"}


def test_error_is_translated(gateway: Gateway) -> None:
    error = {"error": {"message": "slow down", "code": 429}}
    fields = {"from": "chat", "to": "legacy", "kind": "error", "status": 429, "body": error}
    result = _translate(gateway, **fields)
    assert result["status"] == 429
    fields = {"type": "rate_limit_error", "param": None, "code": None}
    assert object_in(result, "body")["error"] == {"message": "slow down", **fields}


def test_profile_sets_the_capabilities_of_the_backend(gateway: Gateway) -> None:
    body = {"model": "m", "input": [{"role": "developer", "content": "x"}]}
    fields = {"from": "responses", "to": "chat", "body": body}
    assert _translate(gateway, **fields)["losses"]
    assert _translate(gateway, **fields, profile="openai")["losses"] == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is not valid JSON"),
        (b"nothing", "the body is not valid JSON: invalid character (byte 4)"),
        (b"[]", "the body must be an object, not an array"),
        (b'{"to":"chat","body":{}}', 'from is required and must be one of "chat", "legacy"'),
        (b'{"from":"chat","to":"responses"}', "or `stream` is required, not both"),
        (b'{"from":"chat","to":"responses","body":{},"stream":""}', "not both"),
        (
            b'{"from":"chat","to":"responses","body":{},"x":1}',
            "x is not a known field; known fields: from, to, kind, ",
        ),
        (b'{"from":"chat","to":"responses","body":{},"profile":"x"}', "profile must be one of"),
        (b'{"from":"chat","to":"responses","kind":"stream","body":{}}', "stream is required"),
        (b'{"from":"chat","to":"responses","body":[]}', "must be an object"),
        (b'{"from":"chat","to":"responses","body":{},"request":[]}', "must be an object"),
    ],
)
def test_invalid_body_is_rejected(gateway: Gateway, body: bytes, message: str) -> None:
    assert message in str(_error(gateway, body)["message"])


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("from", "latin", 'must be one of "chat", "legacy", "responses", not "latin"'),
        ("from", 1, 'must be one of "chat", "legacy", "responses", not 1'),
        ("to", None, 'must be one of "chat", "legacy", "responses", not null'),
        ("kind", "x", 'must be one of "error", "reply", "request", "stream", not "x"'),
        ("loss_policy", "gain", 'must be one of "refuse", "report", not "gain"'),
        ("status", 99, "must be an integer from 100 to 599, not 99"),
        ("deterministic", "yes", 'must be true or false, not "yes"'),
        ("stream", {}, "must be a string, not an object"),
        ("profile", 1, "must be a string, not 1"),
    ],
)
def test_error_names_the_field_and_its_valid_values(
    gateway: Gateway, field: str, value: object, expected: str
) -> None:
    error = _error(gateway, {**TO_RESPONSES, "body": REQUEST, field: value})
    assert error["param"] == field
    assert error["message"] == f"{field} {expected}"


@pytest.mark.parametrize("kind", ["request", "reply", "error"])
def test_stream_has_no_other_kind(gateway: Gateway, kind: str) -> None:
    error = _error(gateway, {**TO_RESPONSES, "kind": kind, "stream": STREAM})
    assert error["param"] == "kind"
    assert error["message"] == f'kind must be "stream" with `stream`, not "{kind}"'


def test_refused_field_is_named(gateway: Gateway) -> None:
    error = _error(gateway, {**TO_RESPONSES, "body": REQUEST | {"logit_bias": {"1": 1}}})
    assert error["param"] == "logit_bias"
