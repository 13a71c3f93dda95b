"""Turns that continue stored responses, over backends without state."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal

import openai
import pytest
from openai.types.responses import Response, ResponseInputItemParam
from openai.types.responses.response_input_item_param import FunctionCallOutput

from tests.gateway import raw_http
from tests.gateway.backend_replies import Call, Turn, reply_script, script_turns
from tests.gateway.backend_requests import received_body
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.scripted_backend import ReceivedRequest, Script, ScriptedBackend
from tests.gateway.sdk_clients import WEATHER_TOOL, sdk_client
from tests.gateway.waiting import wait_until
from tests.judges.reading import JsonObject, objects_in, text_in


@pytest.fixture
def client(storing_gateway: Gateway) -> Iterator[openai.OpenAI]:
    with sdk_client(storing_gateway) as sdk:
        yield sdk


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_turn_with_only_a_tool_output_continues_a_response(
    dialect: str,
    *,
    streamed: bool,
    client: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    call = Call("weather", '{"city": "Oslo"}')
    script_turns(
        backend, dialect, model, Turn("Let me see.", (call,)), Turn("Sunny."), Turn("Yes.")
    )

    def create(given: str | list[ResponseInputItemParam], previous: str | None) -> Response:
        if not streamed:
            return client.responses.create(
                model=model, input=given, tools=[WEATHER_TOOL], previous_response_id=previous
            )
        with client.responses.stream(
            model=model, input=given, tools=[WEATHER_TOOL], previous_response_id=previous
        ) as stream:
            return stream.get_final_response()

    first = create("What is the weather in Oslo?", None)
    made = next(item for item in first.output if item.type == "function_call")
    output = FunctionCallOutput(
        type="function_call_output", call_id=made.call_id, output="18 degrees"
    )
    second = create([output], first.id)
    assert second.previous_response_id == first.id
    assert second.output_text == "Sunny."
    for words in ("What is the weather", "Let me see.", "Oslo", "18 degrees"):
        assert words in received_body(backend, model)
    third = create("Really?", second.id)
    assert third.output_text == "Yes."
    for words in ("What is the weather", "18 degrees", "Sunny.", "Really?"):
        assert words in received_body(backend, model)
    shown = client.responses.retrieve(third.id)
    assert shown.output_text == "Yes."
    assert shown.previous_response_id == second.id


def test_instructions_are_not_inherited_but_the_model_is(
    client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, Turn("Aye."), Turn("Yes."))
    first = client.responses.create(model=model, input="Hello?", instructions="Be a pirate.")
    assert "pirate" in received_body(backend, model)
    second = client.responses.create(input="Hello again?", previous_response_id=first.id)
    assert second.model == first.model
    assert "Hello?" in received_body(backend, model)
    assert "pirate" not in received_body(backend, model)
    assert second.instructions is None


def test_response_is_continued_twice(
    client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, *(Turn(text) for text in ("one", "two", "three")))
    first = client.responses.create(model=model, input="begin")
    for said, other in (("left", "right"), ("right", "left")):
        client.responses.create(model=model, input=said, previous_response_id=first.id)
        assert said in received_body(backend, model)
        assert other not in received_body(backend, model)


def test_input_items_are_listed_with_earlier_turns(
    client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, Turn("one"), Turn("two"))
    first = client.responses.create(model=model, input="a")
    said: list[ResponseInputItemParam] = [{"role": "user", "content": text} for text in "bcd"]
    second = client.responses.create(model=model, input=said, previous_response_id=first.id)

    def listed(order: Literal["asc", "desc"], limit: int) -> list[str]:
        # The SDK asks for page after page.
        items = [*client.responses.input_items.list(second.id, order=order, limit=limit)]
        return [spoken(item.to_dict()) for item in items]

    assert listed("asc", 2) == ["a", "one", "b", "c", "d"]
    assert listed("desc", 3) == ["d", "c", "b", "one", "a"]
    newest_first = client.responses.input_items.list(second.id)
    assert newest_first.has_more is False
    assert [spoken(item.to_dict()) for item in newest_first.data] == ["d", "c", "b", "one", "a"]


def spoken(item: JsonObject) -> str:
    """Give the text of a message."""
    return "".join(text_in(part, "text") for part in objects_in(item, "content"))


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 20])
def test_list_with_a_repeated_item_ends(
    order: Literal["asc", "desc"],
    limit: int,
    client: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, Turn("one"), Turn("two"))
    first = client.responses.create(model=model, input="again and again")
    (item,) = client.responses.input_items.list(first.id).data
    repeated: list[ResponseInputItemParam] = [
        {"type": "item_reference", "id": str(item.id)},
        {"role": "user", "content": "and now?"},
    ]
    second = client.responses.create(model=model, input=repeated, previous_response_id=first.id)
    pages = client.responses.input_items.list(second.id, order=order, limit=limit)
    listed = [str(one.id) for one in islice(pages, 10)]
    assert listed.count(str(item.id)) == 2
    assert len(listed) == 4


@pytest.mark.parametrize(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=msg_1", "after")],
)
def test_invalid_list_parameter_is_refused(
    query: str, param: str, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, Turn("one"))
    made = client.responses.create(model=model, input="a")
    with pytest.raises(openai.BadRequestError) as refused:
        client.get(f"/responses/{made.id}/input_items?{query}", cast_to=object)
    assert refused.value.param == param


def test_item_references_are_resolved(
    client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, Turn("the answer is 42"), Turn("indeed"))
    first = client.responses.create(model=model, input="the question")
    (question,) = client.responses.input_items.list(first.id).data
    (answer,) = first.output
    assert question.id
    assert answer.id
    again: list[ResponseInputItemParam] = [
        {"type": "item_reference", "id": question.id},
        {"id": answer.id},
        {"role": "user", "content": "really?"},
    ]
    client.responses.create(model=model, input=again)
    for words in ("the question", "the answer is 42", "really?"):
        assert words in received_body(backend, model)


@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("kind", ['"type": "item_reference", ', '"type": null, ', ""])
def test_item_reference_needs_no_type(
    kind: str,
    *,
    store: bool,
    storing_gateway: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, Turn("the answer is 42"), Turn("indeed"))
    asked: JsonObject = {"model": model, "input": "the question"}
    (answer,) = objects_in(
        raw_http.post(storing_gateway.port, "/v1/responses", asked).json(), "output"
    )
    body = f'{{"model": "{model}", "store": {str(store).lower()}, "input": [{{{kind}"id": '
    body += f'"{answer["id"]}"}}, {{"role": "user", "content": "really?"}}]}}'
    again = raw_http.post(storing_gateway.port, "/v1/responses", body.encode())
    assert again.status == 200, again.body
    assert "the answer is 42" in received_body(backend, model)


def test_tool_output_without_a_type_is_no_reference(
    storing_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, Turn("", (Call("weather", "{}"),)), Turn("Sunny."))
    asked: JsonObject = {"model": model, "input": "Oslo?", "tools": [WEATHER_TOOL]}
    first = raw_http.post(storing_gateway.port, "/v1/responses", asked).json()
    (call,) = objects_in(first, "output")
    output = {"id": "fco_1", "call_id": call["call_id"], "output": "18 degrees"}
    more = {"previous_response_id": first["id"], "input": [output]}
    second = raw_http.post(storing_gateway.port, "/v1/responses", {**asked, **more})
    assert second.status == 200, second.body
    assert "18 degrees" in received_body(backend, model)


def test_unknown_item_reference_is_refused(client: openai.OpenAI, new_model: NewModel) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.responses.create(
            model=new_model("chat"), input=[{"type": "item_reference", "id": "msg_nobody"}]
        )
    assert refused.value.code == "item_not_found"
    assert refused.value.param == "input[0]"


# What is not there


def test_deleting_a_response_keeps_those_that_continue_it(
    client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, Turn("one"), Turn("two"), Turn("three"))
    first = client.responses.create(model=model, input="the beginning")
    second = client.responses.create(model=model, input="more", previous_response_id=first.id)
    client.responses.delete(first.id)
    assert_missing(client, model, first.id)
    client.responses.create(model=model, input="and more", previous_response_id=second.id)
    assert "the beginning" in received_body(backend, model)
    client.responses.delete(second.id)
    assert_missing(client, model, second.id)


def assert_missing(client: openai.OpenAI, model: str, name: str) -> None:
    """See that nothing can be done with a response, and that each says so in the same words."""
    said: set[str] = set()
    for ask in (
        client.responses.retrieve,
        client.responses.delete,
        client.responses.input_items.list,
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            ask(name)
        said.add(refused.value.message.replace(name, "…"))
    assert len(said) == 1
    with pytest.raises(openai.BadRequestError) as not_continued:
        client.responses.create(model=model, input="go on", previous_response_id=name)
    assert not_continued.value.code == "previous_response_not_found"
    assert not_continued.value.param == "previous_response_id"


def test_responses_of_others_and_missing_ones_get_the_same_error(
    storing_gateway: Gateway, client: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, *[Turn("mine")] * 3)
    mine = client.responses.create(model=model, input="secret")
    unkept = client.responses.create(model=model, input="secret", store=False)
    forged = mine.id[:-1] + ("0" if mine.id[-1] != "0" else "1")
    with openai.OpenAI(base_url=storing_gateway.url, api_key="sk-you", max_retries=0) as other:
        assert_missing(other, model, mine.id)
        (item,) = client.responses.input_items.list(mine.id).data
        with pytest.raises(openai.NotFoundError):
            other.responses.create(
                model=model, input=[{"type": "item_reference", "id": str(item.id)}]
            )
    for name in (unkept.id, forged, "resp_", "x" * 5000, "résp", "resp_%00", "' OR 1=1 --"):
        assert_missing(client, model, name)
    assert client.responses.retrieve(mine.id).output_text == "mine"
    # None of those requests was carried anywhere.
    assert len(backend.received(model)) == 2


def test_previous_response_and_conversation_exclude_each_other(
    client: openai.OpenAI, new_model: NewModel
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(
            model=new_model("chat"), input="go on", previous_response_id="a", conversation="b"
        )
    assert refused.value.param == "previous_response_id"


@pytest.mark.parametrize("how", [{}, {"stream": True}, {"background": True}])
def test_running_status_at_the_end_is_stored_as_completed(
    how: JsonObject,
    storing_gateway: Gateway,
    client: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model("responses")
    turns = iter((Turn("hey"), Turn("on")))

    def say(received: ReceivedRequest) -> Script:
        told = reply_script("responses", next(turns), received.json())
        # As long as before, for the length of what is told has been said.
        said, odd = b'"completed", "incomplete_', b'"queued",    "incomplete_'
        return tuple(step.replace(said, odd) if type(step) is bytes else step for step in told)

    backend.respond_with(model, say)
    asked: JsonObject = {"model": model, "input": "hi", **how}
    told = raw_http.post(
        storing_gateway.port, "/v1/responses", asked, {"Authorization": "Bearer sk-me"}
    ).body
    name = str(re.findall(rb'"id": ?"(resp_[0-9a-f]+)"', told)[-1], "ascii")
    wait_until(lambda: client.responses.retrieve(name).status == "completed")
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(name)
    second = client.responses.create(model=model, input="go on", previous_response_id=name)
    assert second.output_text == "on"


# What was said in its own words


def test_losses_have_the_paths_of_the_client(
    storing_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    script_turns(backend, "chat", model, Turn("one"), Turn("two"))
    first = raw_http.post(
        storing_gateway.port, "/v1/responses", {"model": model, "input": "hello"}
    ).json()
    asked = {
        "model": model,
        "previous_response_id": first["id"],
        "input": [{"role": "user", "content": "and?"}, {"type": "web_search_call", "id": "ws_1"}],
    }
    second = raw_http.post(storing_gateway.port, "/v1/responses", asked)
    assert second.status == 200
    assert "input[1]" in second.headers["dragoman-loss"]
    bad = {**asked, "input": [{"role": "user", "content": [{"type": "input_hologram"}]}]}
    assert str(raw_http.post(storing_gateway.port, "/v1/responses", bad).error["param"]).startswith(
        "input[0]"
    )
