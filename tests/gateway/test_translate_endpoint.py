"""The dry run: what would become of a body, and what would be lost."""

from typing import cast

import msgspec
import pytest

from tests.gateway.calling import post
from tests.gateway.process import Gateway
from tests.judges.reading import JsonObject

REQUEST = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "seed": 7,
}
STREAM = (
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    '[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}\n\n'
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    '[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def _translate(gateway: Gateway, **errand: object) -> JsonObject:
    answered = post(gateway, "/v1/translate", msgspec.json.encode(errand))
    assert answered.status == 200, answered.body
    return answered.json()


def _refuse(gateway: Gateway, body: bytes) -> JsonObject:
    answered = post(gateway, "/translate", body)
    assert answered.status == 400
    return answered.error


def test_a_request(gateway: Gateway) -> None:
    result = _translate(gateway, **{"from": "chat", "to": "responses", "body": REQUEST})
    assert result["kind"] == "request"
    assert result["status"] == 200
    assert cast("JsonObject", result["body"])["model"] == "m"
    assert result["losses"] == [
        {
            "action": "dropped",
            "path": "seed",
            "why": "the Responses API has no place for it",
            "severity": "hint",
        }
    ]


def test_a_stream(gateway: Gateway) -> None:
    errand = {"from": "chat", "to": "responses", "stream": STREAM, "deterministic": True}
    result = _translate(gateway, **errand)
    assert result["kind"] == "stream"
    told = str(result["stream"])
    assert told.startswith("event: response.created\n")
    assert "event: response.completed\n" in told
    assert result == _translate(gateway, **errand)


def test_a_reply_that_answers_a_request(gateway: Gateway) -> None:
    reply = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
        ],
    }
    asked = {"model": "m", "input": "hi", "metadata": {"a": "b"}}
    errand = {"from": "chat", "to": "responses", "body": reply, "asked": asked}
    body = cast("JsonObject", _translate(gateway, **errand)["body"])
    assert body["object"] == "response"
    assert body["metadata"] == {"a": "b"}


def test_an_error(gateway: Gateway) -> None:
    error = {"error": {"message": "slow down", "code": 429}}
    errand = {"from": "chat", "to": "legacy", "kind": "error", "status": 429, "body": error}
    result = _translate(gateway, **errand)
    assert result["status"] == 429
    assert cast("JsonObject", result["body"])["error"] == {
        "message": "slow down",
        "type": "rate_limit_error",
        "param": None,
        "code": None,
    }


def test_a_profile_says_what_the_backend_takes(gateway: Gateway) -> None:
    body = {"model": "m", "input": [{"role": "developer", "content": "x"}]}
    plain = _translate(gateway, **{"from": "responses", "to": "chat", "body": body})
    known = _translate(
        gateway, **{"from": "responses", "to": "chat", "body": body, "profile": "openai"}
    )
    assert plain["losses"]
    assert known["losses"] == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "malformed JSON"),
        (b'{"from":"chat","to":"latin","body":{}}', "Invalid enum value 'latin'"),
        (b'{"from":"chat","to":"responses"}', "give either `body` or `stream`"),
        (b'{"from":"chat","to":"responses","body":{},"stream":""}', "give either"),
        (b'{"from":"chat","to":"responses","body":{},"x":1}', "unknown field `x`"),
        (b'{"from":"chat","to":"responses","body":{},"profile":"x"}', "profile: it is none of"),
        (b'{"from":"chat","to":"responses","kind":"stream","body":{}}', "a stream is given"),
        (b'{"from":"chat","to":"responses","body":[]}', "expected object"),
        (b'{"from":"chat","to":"responses","body":{},"asked":[]}', "expected object"),
    ],
)
def test_an_errand_that_makes_no_sense(gateway: Gateway, body: bytes, message: str) -> None:
    assert message in str(_refuse(gateway, body)["message"])


def test_what_is_refused_is_named(gateway: Gateway) -> None:
    body = msgspec.json.encode(
        {"from": "chat", "to": "responses", "body": REQUEST | {"stop": ["x"]}}
    )
    assert _refuse(gateway, body)["param"] == "stop"
