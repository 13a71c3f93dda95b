"""Turns that continue a response which is deleted meanwhile."""

import openai
import pytest

from tests.gateway.background.requests import halved
from tests.gateway.conftest import Fresh
from tests.gateway.keeping import client_of, heard
from tests.gateway.process import Gateway
from tests.gateway.scripted import Gate, ScriptedBackend, stream
from tests.gateway.speech import Turn, frames


def list_input(client: openai.OpenAI, response_id: str) -> str:
    items = client.responses.input_items.list(response_id)
    return "".join(item.model_dump_json() for item in items)


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_turn_keeps_its_history_if_the_parent_is_deleted_while_it_runs(
    *, background: bool, kept: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model, gate = fresh("chat"), Gate()
    backend.play(
        model,
        stream(*frames("chat", Turn("the first answer"))),
        stream(*frames("chat", Turn("the second answer"))),
        halved("chat", gate, Turn("the third answer, which takes a while")),
        stream(*frames("chat", Turn("the fourth answer"))),
    )
    with client_of(kept) as client:
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
        sent = heard(backend, model)
        assert sent.index("the beginning") < sent.index("the second") < sent.index("the third")
        assert client.responses.retrieve(fourth).previous_response_id == third


def create(client: openai.OpenAI, model: str, text: str, previous: str | None) -> str:
    with client.responses.create(
        model=model, input=text, previous_response_id=previous, stream=True
    ) as events:
        (response,) = [event.response for event in events if event.type == "response.completed"]
    return response.id
