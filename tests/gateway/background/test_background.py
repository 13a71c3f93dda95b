"""Background responses, over backends of every dialect and on both databases."""

from collections.abc import Iterator

import openai
import pytest
from openai.types.responses import Response

from tests.gateway import raw_http
from tests.gateway.backend_replies import (
    Call,
    Turn,
    error_events,
    reply_script,
    stream_events,
)
from tests.gateway.background.requests import (
    AUTHORIZED,
    KEY,
    RUNNING,
    SOME,
    TEXT,
    TURN,
    cancel,
    configured,
    create,
    events_of,
    events_path,
    halved,
    judge_response,
    judge_stream,
    kinds_of,
    replay,
    show,
    wait_for,
)
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway, assert_no_errors_logged, run_gateway
from tests.gateway.scripted_backend import (
    Gate,
    ScriptedBackend,
    json_reply,
    stream_reply,
    truncated_reply,
)
from tests.gateway.sdk_clients import WEATHER_TOOL, sdk_client
from tests.gateway.stores import DATABASES, new_url
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import object_in, objects_in, text_in


@pytest.fixture(scope="module", params=DATABASES)
def node(
    request: pytest.FixtureRequest,
    backend: ScriptedBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """Run a gateway on either database."""
    folder = tmp_path_factory.mktemp("background")
    url = new_url(str(request.param), folder)
    with run_gateway(configured(backend, url), folder) as gateway:
        yield gateway
    assert_no_errors_logged(gateway)


@pytest.fixture
def client(node: Gateway) -> Iterator[openai.OpenAI]:
    with sdk_client(node) as sdk:
        yield sdk


def ended(node: Gateway, name: str) -> Response:
    """Wait for the end; give the response as the SDK reads it."""
    replay(node, name)
    with sdk_client(node) as sdk:
        return sdk.responses.retrieve(name)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_response_is_polled(
    dialect: str,
    client: openai.OpenAI,
    node: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model, gate = new_model(dialect), Gate()
    backend.enqueue(model, halved(dialect, gate))
    queued = client.responses.create(
        model=model, input="Count.", background=True, metadata={"a": "b"}, tools=[WEATHER_TOOL]
    )
    assert (queued.status, queued.background, queued.metadata) == ("queued", True, {"a": "b"})
    backend.wait_for_request(model)
    shown = client.responses.retrieve(queued.id)
    assert (shown.status, shown.created_at) == ("in_progress", queued.created_at)
    judge_response(show(node, queued.id))
    gate.open()
    done = wait_for(node, queued.id, "completed")
    assert (done["created_at"], done["background"]) == (queued.created_at, True)
    final = client.responses.retrieve(queued.id)
    assert final.output_text == TEXT
    assert final.usage is not None
    assert final.usage.output_tokens == 5
    [received] = backend.received(model)
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert "background" not in received.json()
    said = judge_stream(replay(node, queued.id))
    assert said == done


@pytest.mark.parametrize("dialect", DIALECTS)
def test_events_are_streamed_as_they_arrive(
    dialect: str,
    client: openai.OpenAI,
    node: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model, gate = new_model(dialect), Gate()
    backend.enqueue(model, halved(dialect, gate))
    told: list[tuple[str, int]] = []
    name, opened = "", False
    with client.responses.create(
        model=model, input="Count.", background=True, stream=True
    ) as events:
        for event in events:
            told.append((event.type, event.sequence_number))
            if event.type == "response.created":
                name = event.response.id
            if event.type == "response.output_text.delta" and not opened:
                # The rest is only said when the beginning has been heard.
                gate.open()
                opened = True
    assert [number for _, number in told] == list(range(len(told)))
    data = replay(node, name)
    assert kinds_of(data) == [kind for kind, _ in told]
    assert kinds_of(data)[:3] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert text_in(judge_stream(data), "status") == "completed"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tool_calls_and_outputs(
    dialect: str,
    client: openai.OpenAI,
    node: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    turns = iter((Turn(None, (Call("weather", '{"city": "Oslo"}'),)), Turn("Sunny.")))
    backend.respond_with(
        model, lambda received: reply_script(dialect, next(turns), received.json())
    )
    first = client.responses.create(
        model=model, input="Oslo?", background=True, tools=[WEATHER_TOOL]
    )
    [made] = ended(node, first.id).output
    assert made.type == "function_call"
    assert made.arguments == '{"city": "Oslo"}'
    judge_stream(replay(node, first.id))
    second = client.responses.create(
        model=model,
        input=[{"type": "function_call_output", "call_id": made.call_id, "output": "18"}],
        previous_response_id=first.id,
        background=True,
        tools=[WEATHER_TOOL],
    )
    final = ended(node, second.id)
    assert (final.output_text, final.previous_response_id) == ("Sunny.", first.id)
    assert "Oslo?" in backend.received(model)[-1].body.decode()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_disconnect_does_not_stop_a_response(
    dialect: str, node: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model(dialect), Gate()
    backend.enqueue(model, halved(dialect, gate))
    body = {"model": model, "input": "Count.", "background": True, "stream": True}
    with raw_http.StreamedResponse(node.port, "/v1/responses", body, AUTHORIZED) as streamed:
        assert streamed.headers["x-accel-buffering"] == "no"
        seen = streamed.read_until(b"response.created")
    name = text_in(object_in(events_of(seen)[0], "response"), "id")
    backend.wait_for_request(model)
    gate.open()
    assert ended(node, name).output_text == TEXT


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stream_is_resumed(
    dialect: str,
    client: openai.OpenAI,
    node: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model, gate = new_model(dialect), Gate()
    backend.enqueue(model, halved(dialect, gate))
    name = client.responses.create(model=model, input="Count.", background=True).id
    with raw_http.StreamedResponse(node.port, events_path(name), None, AUTHORIZED) as streamed:
        seen = streamed.read_until(b"output_text.delta")
    seen = seen[: seen.rindex(b"\n\n") + 2]
    last = len(events_of(seen)) - 1
    gate.open()
    with client.responses.retrieve(name, stream=True, starting_after=last) as events:
        numbers = [event.sequence_number for event in events]
    assert numbers == list(range(last + 1, last + 1 + len(numbers)))
    judge_stream(seen + replay(node, name, last))
    with client.responses.stream(response_id=name, starting_after=last) as stream_:
        resumed = [event.sequence_number for event in stream_]
        assert stream_.get_final_response().output_text == TEXT
    assert resumed == numbers
    assert events_of(replay(node, name, 10**17)) == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("status", "code"), [(429, "rate_limit_exceeded"), (400, "server_error"), (500, "server_error")]
)
def test_backend_refuses(
    dialect: str,
    status: int,
    code: str,
    node: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    refusal = b'{"error":{"message":"not now","type":"x","param":null,"code":null}}'
    backend.enqueue(model, json_reply(refusal, status=status))
    name = text_in(create(node, model), "id")
    data = replay(node, name)
    assert kinds_of(data)[-2:] == ["error", "response.failed"]
    assert judge_stream(data)["error"] == {"code": code, "message": "not now"}
    assert wait_for(node, name, "failed")["error"] == {"code": code, "message": "not now"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_backend_fails_in_the_middle(
    dialect: str, node: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    failing = error_events(dialect, "out of memory")
    backend.enqueue(model, stream_reply(*stream_events(dialect, TURN)[:6], *failing))
    name = text_in(create(node, model), "id")
    data = replay(node, name)
    # Of what a Responses backend leaves open, nothing is closed in its place.
    if dialect != "responses":
        judge_stream(data)
    assert kinds_of(data)[-1] == "response.failed"
    assert "out of memory" in str(wait_for(node, name, "failed")["error"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_backend_disconnects(
    dialect: str, node: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    backend.enqueue(model, truncated_reply(*stream_events(dialect, TURN)[: SOME[dialect]]))
    name = text_in(create(node, model), "id")
    data = replay(node, name)
    assert kinds_of(data)[-2:] == ["error", "response.failed"]
    said = judge_stream(data)
    # What had come of the answer is there.
    [message] = objects_in(said, "output")
    assert message["status"] == "incomplete"
    assert wait_for(node, name, "failed") == said


@pytest.mark.parametrize("dialect", DIALECTS)
def test_response_is_cancelled(
    dialect: str,
    client: openai.OpenAI,
    node: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    backend.enqueue(model, halved(dialect, Gate()))
    name = client.responses.create(model=model, input="Count.", background=True).id
    with raw_http.StreamedResponse(node.port, events_path(name), None, AUTHORIZED) as streamed:
        seen = streamed.read_until(b"output_text.delta")
        cancelled = client.responses.cancel(name)
        assert (cancelled.status, cancelled.output, cancelled.error) == ("cancelled", [], None)
        assert backend.received(model)[0].closed.wait(TIMEOUT_SECONDS)
        said = judge_stream(seen + streamed.read_all())
    assert said["error"] == {"code": "server_error", "message": "The response was cancelled."}
    assert "error" not in kinds_of(replay(node, name))
    assert client.responses.cancel(name) == cancelled
    assert client.responses.retrieve(name) == cancelled
    judge_response(show(node, name))


def test_finished_response_cannot_be_cancelled(
    client: openai.OpenAI, node: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.respond_with(model, lambda received: reply_script("chat", TURN, received.json()))
    name = text_in(create(node, model), "id")
    assert ended(node, name).status == "completed"
    refused = cancel(node, name)
    assert (refused.status, refused.error["message"]) == (
        400,
        "Cannot cancel a completed response.",
    )
    assert refused.error["type"] == "invalid_request_error"
    plain = client.responses.create(model=model, input="Count.")
    refused = cancel(node, plain.id)
    assert (refused.status, refused.error["message"]) == (
        400,
        "Cannot cancel a synchronous response.",
    )
    for other in ("resp_unknown", name):
        stranger = {"Authorization": "Bearer sk-other"}
        path = f"/v1/responses/{other}"
        assert raw_http.post(node.port, f"{path}/cancel", b"", stranger).status == 404
        assert raw_http.get(node.port, f"{path}?stream=true", stranger).status == 404
    with pytest.raises(openai.NotFoundError):
        client.responses.cancel("resp_unknown")


def test_invalid_stream_parameters_are_refused(
    client: openai.OpenAI, node: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.respond_with(model, lambda received: reply_script("chat", TURN, received.json()))
    name = text_in(create(node, model), "id")
    for query, param in (
        ("stream=true&starting_after=-1", "starting_after"),
        ("stream=true&starting_after=1.5", "starting_after"),
        ("stream=true&starting_after=", "starting_after"),
        ("stream=perhaps", "stream"),
    ):
        refused = raw_http.get(node.port, f"/v1/responses/{name}?{query}", AUTHORIZED)
        assert (refused.status, refused.error["param"]) == (400, param)
    more = "&include[]=reasoning.encrypted_content&include_obfuscation=false"
    assert judge_stream(raw_http.get(node.port, events_path(name) + more, AUTHORIZED).body)
    plain = client.responses.create(model=model, input="Count.")
    with pytest.raises(openai.BadRequestError, match="not created with background=true"):
        client.responses.retrieve(plain.id, stream=True)


def test_deleting_a_response_stops_it(
    client: openai.OpenAI, node: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(model, halved("chat", Gate()))
    name = text_in(create(node, model), "id")
    with raw_http.StreamedResponse(node.port, events_path(name), None, AUTHORIZED) as streamed:
        streamed.read_until(b"output_text.delta")
        client.responses.delete(name)
        assert kinds_of(streamed.read_all())[-2:] == ["error", "response.failed"]
    assert backend.received(model)[0].closed.wait(TIMEOUT_SECONDS)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(name)


def test_unfinished_response_cannot_be_continued(
    client: openai.OpenAI, node: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("chat"), Gate()
    backend.enqueue(model, halved("chat", gate))
    backend.respond_with(model, lambda received: reply_script("chat", TURN, received.json()))
    name = text_in(create(node, model), "id")
    assert show(node, name)["status"] in RUNNING
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=model, input="More.", previous_response_id=name)
    assert refused.value.code == "previous_response_not_completed"
    assert refused.value.param == "previous_response_id"
    gate.open()
    assert ended(node, name).status == "completed"
    again = client.responses.create(model=model, input="More.", previous_response_id=name)
    assert again.output_text == TEXT


def test_invalid_request_is_refused_at_once(node: Gateway, new_model: NewModel) -> None:
    for body, status, param in (
        ({"model": new_model("chat"), "input": "x", "store": False}, 400, "background"),
        ({"model": new_model("chat"), "input": "x", "tools": "many"}, 400, "tools"),
        ({"model": "nobody-serves-this", "input": "x"}, 404, "model"),
    ):
        refused = raw_http.post(
            node.port, "/v1/responses", {**body, "background": True}, AUTHORIZED
        )
        assert (refused.status, refused.error["param"]) == (status, param), refused.body
