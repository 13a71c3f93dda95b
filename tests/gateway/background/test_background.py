"""Background responses, over backends of every dialect and on both databases."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import (
    Gate,
    ScriptedBackend,
    json_reply,
    stream_reply,
    truncated_reply,
)
from tests.gateway import raw_http
from tests.gateway.backend_replies import Call, Turn, error_events, reply_body, stream_events
from tests.gateway.background.requests import (
    DELTA,
    QUICK,
    RUNNING,
    SOME,
    TEXT,
    TURN,
    Node,
    events_of,
    events_path,
    halved,
    judge_stream,
    kinds_of,
    run_nodes,
)
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.sdk_clients import WEATHER_TOOL
from tests.gateway.stores import DATABASES
from tests.judges.reading import objects_in


@pytest.fixture(scope="module", params=DATABASES)
def node(
    request: pytest.FixtureRequest,
    backend: ScriptedBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Node]:
    """Run a gateway on either database."""
    folder = tmp_path_factory.mktemp("background")
    with run_nodes(backend, folder, QUICK, kind=request.param) as (started,):
        yield started


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_response_is_polled(dialect: str, node: Node) -> None:
    gate = Gate()
    model = node.enqueue(dialect, halved(dialect, gate))
    queued = node.sdk.responses.create(
        model=model, input="Count.", background=True, metadata={"a": "b"}, tools=[WEATHER_TOOL]
    )
    assert (queued.status, queued.background, queued.metadata) == ("queued", True, {"a": "b"})
    node.backend.wait_for_request(model)
    shown = node.sdk.responses.retrieve(queued.id)
    assert (shown.status, shown.created_at) == ("in_progress", queued.created_at)
    node.show(queued.id)
    gate.open()
    done = node.wait_for(queued.id, "completed")
    assert (done["created_at"], done["background"]) == (queued.created_at, True)
    final = node.sdk.responses.retrieve(queued.id)
    assert final.output_text == TEXT
    assert final.usage is not None
    assert final.usage.output_tokens == 5
    [received] = node.backend.received(model)
    assert received.headers["authorization"] == "Bearer sk-test"
    assert "background" not in received.json()
    assert node.last_response(queued.id) == done


def test_events_are_streamed_as_they_arrive(dialect: str, node: Node) -> None:
    gate = Gate()
    model = node.enqueue(dialect, halved(dialect, gate))
    received: list[tuple[str, int]] = []
    name = ""
    with node.sdk.responses.create(
        model=model, input="Count.", background=True, stream=True
    ) as events:
        for event in events:
            received.append((event.type, event.sequence_number))
            if event.type == "response.created":
                name = event.response.id
            if event.type == "response.output_text.delta" and not gate.is_open:
                # The backend sends the rest only when the beginning has been received.
                gate.open()
    assert [number for _, number in received] == list(range(len(received)))
    data = node.replay(name)
    assert kinds_of(data) == [kind for kind, _ in received]
    assert kinds_of(data)[:3] == ["response.created", "response.queued", "response.in_progress"]
    assert judge_stream(data)["status"] == "completed"


def test_tool_calls_and_outputs(dialect: str, node: Node) -> None:
    model = node.script(dialect, Turn(None, (Call("weather", '{"city": "Oslo"}'),)), "Sunny.")
    first = node.respond(model=model, input="Oslo?", background=True, tools=[WEATHER_TOOL])
    [made] = node.retrieve_finished(first.id).output
    assert made.type == "function_call"
    assert made.arguments == '{"city": "Oslo"}'
    node.last_response(first.id)
    second = node.respond(
        model=model,
        input=[{"type": "function_call_output", "call_id": made.call_id, "output": "18"}],
        previous_response_id=first.id,
        background=True,
        tools=[WEATHER_TOOL],
    )
    final = node.retrieve_finished(second.id)
    assert (final.output_text, final.previous_response_id) == ("Sunny.", first.id)
    node.assert_sent(model, "Oslo?")


def test_stream_is_resumed(dialect: str, node: Node) -> None:
    name, _, gate = node.start(dialect)
    with node.follow(name) as streamed:
        seen = streamed.read_until(DELTA)
    last = len(events_of(seen)) - 1
    gate.open()
    with node.sdk.responses.retrieve(name, stream=True, starting_after=last) as events:
        numbers = [event.sequence_number for event in events]
    assert numbers == list(range(last + 1, last + 1 + len(numbers)))
    judge_stream(seen + node.replay(name, last))
    with node.sdk.responses.stream(response_id=name, starting_after=last) as resumed:
        assert [event.sequence_number for event in resumed] == numbers
        assert resumed.get_final_response().output_text == TEXT
    assert events_of(node.replay(name, 10**17)) == []


@pytest.mark.parametrize(
    ("status", "code"), [(429, "rate_limit_exceeded"), (400, "server_error"), (500, "server_error")]
)
def test_backend_refuses(dialect: str, status: int, code: str, node: Node) -> None:
    refusal = b'{"error":{"message":"not now","type":"x","param":null,"code":null}}'
    name = node.create(node.enqueue(dialect, json_reply(refusal, status=status)))
    data = node.replay(name)
    assert kinds_of(data)[-2:] == ["error", "response.failed"]
    assert judge_stream(data)["error"] == {"code": code, "message": "not now"}
    assert node.wait_for(name, "failed")["error"] == {"code": code, "message": "not now"}


def test_backend_fails_in_the_middle(dialect: str, node: Node) -> None:
    begun, failing = stream_events(dialect, TURN)[:6], error_events(dialect, "out of memory")
    name = node.create(node.enqueue(dialect, stream_reply(*begun, *failing)))
    data = node.replay(name)
    # What a Responses backend leaves open is not closed in its place.
    if dialect != "responses":
        judge_stream(data)
    assert kinds_of(data)[-1] == "response.failed"
    assert "out of memory" in str(node.wait_for(name, "failed")["error"])


def test_backend_disconnects(dialect: str, node: Node) -> None:
    begun = stream_events(dialect, TURN)[: SOME[dialect]]
    name = node.create(node.enqueue(dialect, truncated_reply(*begun)))
    data = node.replay(name)
    assert kinds_of(data)[-2:] == ["error", "response.failed"]
    failed = judge_stream(data)
    # The beginning of the reply is there.
    [message] = objects_in(failed, "output")
    assert message["status"] == "incomplete"
    assert node.wait_for(name, "failed") == failed


def test_response_is_cancelled(dialect: str, node: Node) -> None:
    name, model, _ = node.start(dialect)
    with node.follow(name) as streamed:
        seen = streamed.read_until(DELTA)
        cancelled = node.sdk.responses.cancel(name)
        assert (cancelled.status, cancelled.output, cancelled.error) == ("cancelled", [], None)
        node.assert_closed(model)
        last = judge_stream(seen + streamed.read_all())
    assert last["error"] == {"code": "server_error", "message": "The response was cancelled."}
    assert "error" not in kinds_of(node.replay(name))
    assert node.sdk.responses.cancel(name) == cancelled
    assert node.sdk.responses.retrieve(name) == cancelled
    node.show(name)


def test_finished_response_cannot_be_cancelled(node: Node) -> None:
    model = node.script_always("chat", TURN)
    name = node.create(model)
    assert node.retrieve_finished(name).status == "completed"
    plain = node.respond(model=model, input="Count.")
    for response_id, kind in ((name, "completed"), (plain.id, "synchronous")):
        refused = node.cancel(response_id)
        assert refused.status == 400
        assert refused.error["message"] == f"Cannot cancel a {kind} response."
        assert refused.error["type"] == "invalid_request_error"
    stranger = {"Authorization": "Bearer sk-other"}
    for other in ("resp_unknown", name):
        assert node.post(b"", f"/v1/responses/{other}/cancel", stranger).status == 404
        assert raw_http.get(node.gateway.port, events_path(other), stranger).status == 404
    with pytest.raises(openai.NotFoundError):
        node.sdk.responses.cancel("resp_unknown")


def test_invalid_stream_parameters_are_refused(node: Node) -> None:
    model = node.script_always("chat", TURN)
    name = node.create(model)
    for query, param in (
        ("stream=true&starting_after=-1", "starting_after"),
        ("stream=true&starting_after=1.5", "starting_after"),
        ("stream=true&starting_after=", "starting_after"),
        ("stream=perhaps", "stream"),
    ):
        refused = raw_http.get(node.gateway.port, f"/v1/responses/{name}?{query}")
        assert (refused.status, refused.error["param"]) == (400, param)
    more = "&include[]=reasoning.encrypted_content&include_obfuscation=false"
    assert judge_stream(raw_http.get(node.gateway.port, events_path(name) + more).body)
    plain = node.respond(model=model, input="Count.")
    with pytest.raises(openai.BadRequestError, match="not created with background=true"):
        node.sdk.responses.retrieve(plain.id, stream=True)


def test_deleting_a_response_stops_it(node: Node) -> None:
    name, model, _ = node.start()
    with node.follow(name) as streamed:
        streamed.read_until(DELTA)
        node.sdk.responses.delete(name)
        assert kinds_of(streamed.read_all())[-2:] == ["error", "response.failed"]
    node.assert_closed(model)
    with pytest.raises(openai.NotFoundError):
        node.sdk.responses.retrieve(name)


def test_unfinished_response_cannot_be_continued(node: Node) -> None:
    name, model, gate = node.start()
    node.backend.enqueue(model, json_reply(reply_body("chat", TURN)))
    assert node.show(name)["status"] in RUNNING
    continued: Any = {"model": model, "input": "More.", "previous_response_id": name}
    with pytest.raises(openai.BadRequestError) as refused:
        node.respond(**continued)
    assert refused.value.code == "previous_response_not_completed"
    assert refused.value.param == "previous_response_id"
    gate.open()
    assert node.retrieve_finished(name).status == "completed"
    assert node.respond(**continued).output_text == TEXT


def test_invalid_request_is_refused_at_once(node: Node) -> None:
    for body, status, param in (
        ({"model": node.new_model("chat"), "store": False}, 400, "background"),
        ({"model": node.new_model("chat"), "tools": "many"}, 400, "tools"),
        ({"model": "nobody-serves-this"}, 404, "model"),
    ):
        refused = node.post({**body, "input": "x", "background": True})
        assert (refused.status, refused.error["param"]) == (status, param), refused.body
