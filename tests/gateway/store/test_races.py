"""Turns that continue a response which is deleted meanwhile."""

import openai
import pytest

from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.backend_requests import received_body
from tests.gateway.background.requests import halved
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_process import Gateway
from tests.gateway.scripted_backend import Gate, ScriptedBackend, stream_reply
from tests.gateway.sdk_clients import sdk_client


def list_input(client: openai.OpenAI, response_id: str) -> str:
    items = client.responses.input_items.list(response_id)
    return "".join(item.model_dump_json() for item in items)


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_turn_keeps_its_history_if_the_parent_is_deleted_while_it_runs(
    *, background: bool, storing_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("chat"), Gate()
    backend.enqueue(
        model,
        stream_reply(*stream_events("chat", Turn("the first answer"))),
        stream_reply(*stream_events("chat", Turn("the second answer"))),
        halved("chat", gate, Turn("the third answer, which takes a while")),
        stream_reply(*stream_events("chat", Turn("the fourth answer"))),
    )
    with sdk_client(storing_gateway) as client:
        first = create(client, model, "the beginning", None)
        second = create(client, model, "the middle", first)
        with client.responses.create(
            model=model,
            input="more",
            previous_response_id=second,
            stream=True,
            background=background,
        ) as events:
            deleted, third = False, ""
            for event in events:
                if event.type == "response.output_text.delta" and not deleted:
                    deleted = True
                    client.responses.delete(second)
                    client.responses.delete(first)
                    gate.open()
                if event.type == "response.completed":
                    third = event.response.id
        assert client.responses.retrieve(third).output_text.startswith("the third")
        listed = list_input(client, third)
        assert "the beginning" in listed
        assert "the second answer" in listed
        fourth = create(client, model, "and more", third)
        sent = received_body(backend, model)
        assert sent.index("the beginning") < sent.index("the second") < sent.index("the third")
        assert client.responses.retrieve(fourth).previous_response_id == third


def create(client: openai.OpenAI, model: str, text: str, previous: str | None) -> str:
    with client.responses.create(
        model=model, input=text, previous_response_id=previous, stream=True
    ) as events:
        (response,) = [event.response for event in events if event.type == "response.completed"]
    return response.id
