"""What happens at the same time: turns that go on from what somebody deletes meanwhile."""

import openai
import pytest

from tests.gateway.background.requests import halved
from tests.gateway.conftest import Fresh
from tests.gateway.keeping import client_of, heard
from tests.gateway.process import Gateway
from tests.gateway.scripted import Gate, ScriptedBackend, stream
from tests.gateway.speech import Turn, frames


def texts(client: openai.OpenAI, name: str) -> str:
    """Give all that a response was made from, as it is listed."""
    return "".join(item.model_dump_json() for item in client.responses.input_items.list(name))


@pytest.mark.parametrize("background", [False, True], ids=["at once", "in the background"])
def test_a_turn_stands_on_what_is_deleted_while_it_runs(
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
        first = _ask(client, model, "the beginning", None)
        second = _ask(client, model, "the middle", first)
        with client.responses.create(
            model=model,
            input="more",
            previous_response_id=second,
            stream=True,
            background=background,
        ) as events:
            name = ""
            for event in events:
                if event.type == "response.output_text.delta" and not name:
                    name = "begun"
                    client.responses.delete(second)
                    client.responses.delete(first)
                    gate.open()
                if event.type == "response.completed":
                    name = event.response.id
        assert client.responses.retrieve(name).output_text.startswith("the third")
        listed = texts(client, name)
        assert "the beginning" in listed
        assert "the second answer" in listed
        last = _ask(client, model, "and more", name)
        sent = heard(backend, model)
        assert sent.index("the beginning") < sent.index("the second") < sent.index("the third")
        assert client.responses.retrieve(last).previous_response_id == name


def _ask(client: openai.OpenAI, model: str, text: str, previous: str | None) -> str:
    with client.responses.create(
        model=model, input=text, previous_response_id=previous, stream=True
    ) as events:
        (name,) = [event.response.id for event in events if event.type == "response.completed"]
    return name
