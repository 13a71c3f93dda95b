"""Backends that refuse fields by name: the request is sent again without them."""

from collections.abc import Callable

import pytest

from gateway.pytest_plugin.scripted_backend import ReceivedRequest, Script, json_reply
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body, reply_script
from tests.gateway.conftest import Harness
from tests.judges.samples import encoded

TURN = Turn("One END two.")


def refusal(message: str, status: int = 400) -> Script:
    return json_reply(encoded({"error": {"message": message}}), status=status)


def strict_backend(dialect: str, *refused: str) -> Callable[[ReceivedRequest], Script]:
    """Return the replies of a backend that refuses some fields, one at a time."""

    def reply(received: ReceivedRequest) -> Script:
        request = received.json()
        for field in refused:
            if field in request:
                return refusal(
                    f"Unsupported parameter: '{field}' is not supported with this model."
                )
        return reply_script(dialect, TURN, request)

    return reply


def losses(response: raw_http.RawResponse) -> str:
    return response.headers.get("dragoman-loss", "")


@pytest.mark.parametrize(
    ("client", "dialect"), [("chat", "chat"), ("legacy", "legacy"), ("chat", "responses")]
)
@pytest.mark.parametrize("status", [400, 422])
def test_field_is_left_out_and_remembered(
    client: str, dialect: str, status: int, harness: Harness
) -> None:
    model = harness.enqueue(
        dialect,
        refusal("Extra inputs are not permitted, field: 'temperature'", status),
        json_reply(reply_body(dialect, TURN)),
        json_reply(reply_body(dialect, TURN)),
    )
    for count in (2, 3):
        response = harness.request(client, model, temperature=0.5)
        assert response.status == 200
        assert 'dropped;path="temperature";severity=hint' in losses(response)
        assert len(harness.backend.received(model)) == count
    sent = [received.json() for received in harness.backend.received(model)]
    assert ["temperature" in body for body in sent] == [True, False, False]
    del sent[0]["temperature"]
    assert sent[0] == sent[1] == sent[2]
    metrics = harness.get("/metrics").body.decode()
    assert f'dragoman_refused_fields_total{{backend="{dialect}",field="temperature"}}' in metrics


def test_fields_that_are_refused_one_after_the_other(harness: Harness) -> None:
    model = harness.new_model("chat")
    harness.backend.respond_with(model, strict_backend("chat", "store", "user", "seed"))
    response = harness.request("chat", model, user="u", seed=1, temperature=0.5)
    assert response.status == 200
    assert len(harness.backend.received(model)) == 3
    assert harness.sent_json(model).keys() & {"user", "seed", "temperature"} == {"temperature"}
    assert 'path="user"' in losses(response)
    assert 'path="seed"' in losses(response)


def test_stream_is_sent_after_the_second_attempt(harness: Harness) -> None:
    model = harness.new_model("responses")
    harness.backend.respond_with(model, strict_backend("responses", "top_p"))
    with harness.stream("chat", model, top_p=0.5) as response:
        assert b"[DONE]" in response.read_all()
        assert 'path="top_p"' in response.headers["dragoman-loss"]


def test_refused_stop_sequences_are_applied_by_the_gateway(harness: Harness) -> None:
    model = harness.new_model("chat")
    harness.backend.respond_with(model, strict_backend("chat", "stop"))
    for _ in range(2):
        response = harness.request("chat", model, stop="END")
        assert b'"content":"One "' in response.body.replace(b'": "', b'":"')
        assert 'changed;path="stop";severity=hint' in losses(response)
    assert len(harness.backend.received(model)) == 3
    # Requests without stop sequences are forwarded unchanged.
    assert harness.request("chat", model).body == reply_body("chat", TURN)


@pytest.mark.parametrize(
    "message",
    [
        "Unsupported parameter: 'messages' is not supported with this model.",
        "Unknown parameter: 'invented'.",
        "Unknown parameter: 'seed'.",
        "Invalid value for 'temperature'.",
    ],
)
def test_other_errors_are_forwarded(message: str, harness: Harness) -> None:
    model = harness.enqueue("chat", refusal(message))
    response = harness.request("chat", model, temperature=3, invented=1)
    assert response.status == 400
    assert response.error["message"] == message
    assert len(harness.backend.received(model)) == 1


@pytest.mark.parametrize("status", [200, 401, 404, 429, 500])
def test_other_statuses_are_forwarded(status: int, harness: Harness) -> None:
    model = harness.enqueue("chat", refusal("Unknown parameter: 'temperature'.", status))
    harness.request("chat", model, temperature=0.5)
    assert len(harness.backend.received(model)) == 1


def test_field_is_not_remembered_if_the_request_fails_without_it(harness: Harness) -> None:
    refused = refusal("Unknown parameter: 'temperature'.")
    accepted = json_reply(reply_body("chat", TURN))
    model = harness.enqueue("chat", refused, refusal("no", status=400), accepted)
    response = harness.request("chat", model, temperature=0.5)
    assert response.error["message"] == "no"
    assert harness.request("chat", model, temperature=0.5).status == 200
    assert "temperature" in harness.sent_json(model)


def test_backend_that_refuses_a_field_without_getting_it(harness: Harness) -> None:
    refused = refusal("Unknown parameter: 'temperature'.")
    model = harness.enqueue("chat", refused, refused)
    assert harness.request("chat", model, temperature=0.5).status == 400
    assert len(harness.backend.received(model)) == 2


def test_second_attempt_has_an_idempotency_key_of_its_own(harness: Harness) -> None:
    model = harness.new_model("chat")
    harness.backend.respond_with(model, strict_backend("chat", "temperature", "seed"))
    headers = {"Idempotency-Key": "key"}
    assert harness.request("chat", model, headers, temperature=0.5, seed=1).status == 200
    keys = [received.headers["idempotency-key"] for received in harness.backend.received(model)]
    assert keys == ["key", "key-2", "key-3"]
