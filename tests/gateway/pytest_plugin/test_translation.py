"""Translations and their assertions."""

import pytest

from adapters import TransformError
from gateway.pytest_plugin.bodies import JsonObject
from gateway.pytest_plugin.translation import translate
from tests.gateway.sample_transforms import Fail
from tests.judges.reading import object_in, objects_in, text_in

MESSAGE: JsonObject = {"role": "user", "content": "Hi"}
HELLO: JsonObject = {"model": "m", "messages": [MESSAGE]}
CHOICE: JsonObject = {"index": 0, "message": {"role": "assistant", "content": "Hi"}}
REPLY: JsonObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{**CHOICE, "finish_reason": "stop"}],
}


def test_losses_must_be_those_that_are_listed() -> None:
    named = {**MESSAGE, "name": "Ada"}
    request = {**HELLO, "seed": 1, "messages": [named]}
    translation = translate("chat", "responses", request=request)
    translation.assert_losses("seed", "messages[0].name")
    with pytest.raises(AssertionError) as raised:
        translation.assert_losses("messages[0].name", "top_k")
    assert str(raised.value).splitlines() == [
        "chat to responses: the losses are not those that were expected",
        "  not expected: dropped seed: the Responses API does not support this field (hint)",
        "  did not occur: top_k",
        'the losses are those of assert_losses("messages[0].name", "seed")',
    ]


def test_adapted_values_are_not_lost() -> None:
    translation = translate("chat", "responses", request=HELLO)
    assert [loss.path for loss in translation.losses] == ["store"]
    translation.assert_lossless()
    translation.assert_losses("store")


def test_one_path_stands_for_all_indices() -> None:
    message = {**MESSAGE, "name": "Ada"}
    translation = translate("chat", "responses", request={**HELLO, "messages": [message, message]})
    translation.assert_losses("messages[*].name")
    translation.assert_losses("messages[0].name", "messages[1].name")


def test_reply_is_that_to_its_request() -> None:
    request: JsonObject = {"model": "m", "input": "Hi", "instructions": "Be brief."}
    reply = translate("chat", "responses", request=request, reply=REPLY)
    assert (reply.kind, reply.status) == ("reply", 200)
    assert reply.json()["instructions"] == "Be brief."


def test_error_keeps_its_status() -> None:
    error = translate("chat", "responses", error="overloaded", status=503)
    assert (error.status, error.kind) == (503, "error")
    assert str(error).startswith('{\n  "status": 503,\n  "body": {\n    "error": {')


def test_events_are_encoded_in_their_dialect() -> None:
    chunks: list[JsonObject] = [
        {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}}]},
        {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    responses = translate("chat", "responses", stream=chunks)
    assert responses.events()[-1]["type"] == "response.completed"
    chat = translate("responses", "chat", stream=responses.events())
    deltas = [object_in(choice, "delta") for choice in _choices(chat.events())]
    assert "".join(text_in(delta, "content") for delta in deltas if "content" in delta) == "Hi"
    assert chat.body.endswith(b"data: [DONE]\n\n")


def _choices(chunks: list[JsonObject]) -> list[JsonObject]:
    return [choice for chunk in chunks for choice in objects_in(chunk, "choices")]


def test_fault_of_a_transform_is_raised() -> None:
    with pytest.raises(TransformError):
        translate("chat", "chat", request=HELLO, transforms=[Fail("request")])
    with pytest.raises(TransformError):
        translate("chat", "chat", reply=REPLY, transforms=[Fail("start")])
    with pytest.raises(TransformError):
        translate("chat", "chat", stream=[REPLY], transforms=[Fail("start")])


def test_transform_is_found_by_its_import_path() -> None:
    path = "adapters.transforms:RenameTools"
    with pytest.raises(ValueError, match=r"options\.names: key is required"):
        translate("chat", "chat", request=HELLO, transforms=[path])


def test_invalid_arguments_are_errors() -> None:
    with pytest.raises(TypeError, match="one of request, reply, stream and error is required"):
        translate("chat", "responses")
    with pytest.raises(TypeError, match="is required"):
        translate("chat", "responses", reply=REPLY, stream=[REPLY])
    with pytest.raises(TypeError, match=r"use json\(\) instead of events"):
        translate("chat", "responses", request=HELLO).events()
    with pytest.raises(TypeError, match=r"use events\(\) instead of json"):
        translate("chat", "responses", stream=[REPLY]).json()
    with pytest.raises(ValueError, match="profile must be one of"):
        translate("chat", "responses", request=HELLO, profile="none")
    with pytest.raises(ValueError, match="unknown field `none`"):
        translate("chat", "responses", request=HELLO, capabilities={"none": True})
