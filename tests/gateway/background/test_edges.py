"""Background responses: secrets, losses, heartbeats, conversations."""

import asyncio
import json
from pathlib import Path

import openai
import pytest
from msgspec import Raw
from msgspec.structs import replace

from gateway.background.queued_request import (
    decode_request,
    encode_request,
    open_authorization,
)
from gateway.crypto import SealingKeys, api_key_digest
from gateway.errors import DecryptionError
from gateway.http.auth import Principal
from gateway.http.request_body import parse_request
from gateway.store import JSON_NULL, Conversation, Item, Page, Response, open_store
from gateway.turns.turn import Turn
from tests.gateway import raw_http
from tests.gateway.backend_replies import reply_body, reply_script, stream_events
from tests.gateway.background.requests import (
    ALONE,
    AUTHORIZED,
    KEY,
    QUICK,
    TEXT,
    TURN,
    cancel,
    configured,
    create,
    events_of,
    events_path,
    halved,
    judge_stream,
    kinds_of,
    replay,
    show,
    wait_for,
)
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import backend_table
from tests.gateway.gateway_process import run_gateway
from tests.gateway.scripted_backend import Gate, ScriptedBackend, json_reply, stream_reply
from tests.judges.reading import integer_in, object_in, objects_in, text_in

STATE = "sqlite:state.db"


def test_key_of_a_client_is_not_stored(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    busy, model = new_model("chat"), new_model("chat")
    backend.enqueue(busy, halved("chat", Gate()))
    with run_gateway(configured(backend, STATE, ALONE), tmp_path) as node:
        begun = text_in(create(node, busy), "id")
        backend.wait_for_request(busy)
        waiting = text_in(create(node, model), "id")
        files = [*tmp_path.glob("state.db*")]
        assert files
        # One of them is at work, the other waits: what both need is in the database.
        stored = b"".join(file.read_bytes() for file in files)
        assert begun.encode() in stored
        assert waiting.encode() in stored
        assert b"dragoman-job-" in stored
        assert KEY.encode() not in stored
    assert KEY not in node.log


def test_settings_of_the_gateway_key_apply(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("chat")
    cut = stream_events("chat", TURN)[:-3]
    finish = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
    backend.enqueue(model, stream_reply(*cut, finish, b"data: [DONE]\n\n"))
    keys = (
        f'[[access.keys]]\nname = "mine"\nsha256 = "{api_key_digest(KEY)}"\n'
        "[access.keys.replies]\nincomplete_as_completed = true\n"
    )
    with run_gateway(configured(backend, STATE, QUICK + keys), tmp_path) as node:
        name = text_in(create(node, model), "id")
        assert text_in(judge_stream(replay(node, name)), "status") == "completed"
        assert show(node, name)["incomplete_details"] == {"reason": "max_output_tokens"}
    assert "authorization" not in backend.received(model)[0].headers
    assert any('"key_name":"mine"' in line and '"backend":"chat"' in line for line in node.lines)


def test_losses_are_logged(backend: ScriptedBackend, new_model: NewModel, tmp_path: Path) -> None:
    model = new_model("legacy")
    backend.enqueue(model, stream_reply(*stream_events("legacy", TURN)))
    with run_gateway(configured(backend, STATE), tmp_path) as node:
        name = text_in(create(node, model, truncation="auto"), "id")
        judge_stream(replay(node, name))
        wait_for(node, name, "completed")
    lines = [json.loads(line) for line in node.lines if '"event":"request"' in line]
    [line] = [line for line in lines if line["backend"] == "legacy"]
    assert any("truncation" in loss for loss in line["losses"])
    assert line["path"] == "/v1/responses"
    assert line["output_tokens"] is not None


def test_heartbeat_repeats_the_status(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    busy, model, gate = new_model("chat"), new_model("chat"), Gate()
    backend.enqueue(busy, halved("chat", gate))
    backend.respond_with(model, lambda received: reply_script("chat", TURN, received.json()))
    lively = ALONE.replace("[server]", "[server]\nheartbeat_interval = 0.1")
    with run_gateway(configured(backend, STATE, lively), tmp_path) as node:
        name, waiting = (text_in(create(node, one), "id") for one in (busy, model))
        with raw_http.StreamedResponse(
            node.port, events_path(name, 2), None, AUTHORIZED
        ) as streamed:
            said = streamed.read_until(b"response.in_progress")
            with raw_http.StreamedResponse(
                node.port, events_path(waiting, 1), None, AUTHORIZED
            ) as other:
                pulse = events_of(other.read_until(b"response.queued"))[0]
                assert integer_in(pulse, "sequence_number") == 1
                gate.open()
                rest = other.read_all()
            said += streamed.read_all()
        for data in (said, rest):
            numbers = [integer_in(event, "sequence_number") for event in events_of(data)]
            assert numbers == sorted(numbers)
            assert kinds_of(data)[-1] == "response.completed"
        # What is kept has no repetitions in it.
        judge_stream(replay(node, name))
        judge_stream(replay(node, waiting))


def test_unreachable_backend(backend: ScriptedBackend, new_model: NewModel, tmp_path: Path) -> None:
    gone = backend_table("http://127.0.0.1:9", "gone", "chat", "retries = { max_retries = 0 }\n")
    with run_gateway(configured(backend, STATE) + gone, tmp_path) as node:
        name = text_in(create(node, new_model("gone")), "id")
        said = judge_stream(replay(node, name))
        assert "cannot connect" in text_in(object_in(said, "error"), "message")
        assert wait_for(node, name, "failed") == said


def test_backend_without_streaming(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    more = '[backends.capabilities]\nstreaming = "never"\n'
    table = backend_table(backend.address, "slow", "chat", more)
    model = new_model("slow")
    backend.enqueue(model, json_reply(reply_body("chat", TURN)))
    with run_gateway(configured(backend, STATE) + table, tmp_path) as node:
        name = text_in(create(node, model), "id")
        said = judge_stream(replay(node, name))
        assert text_in(said, "status") == "completed"


def test_only_finished_responses_are_added_to_a_conversation(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model, stuck = new_model("chat"), new_model("chat")
    backend.enqueue(model, stream_reply(*stream_events("chat", TURN)))
    backend.enqueue(stuck, halved("chat", Gate()))
    owner = api_key_digest(f"Bearer {KEY}")

    async def begin() -> None:
        store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
        await store.conversations.create(Conversation("conv_1", owner, 1))
        await store.close()

    async def said() -> tuple[Item, ...]:
        store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
        listing = await store.conversations.list_items(owner, "conv_1", Page())
        await store.close()
        assert listing is not None
        return listing.data

    asyncio.run(begin())
    with run_gateway(configured(backend, STATE), tmp_path) as node:
        made = create(node, model, conversation="conv_1")
        assert made["conversation"] == {"id": "conv_1"}
        replay(node, text_in(made, "id"))
        question, reply = asyncio.run(said())
        assert b"Count." in bytes(question.body)
        assert TEXT.encode() in bytes(reply.body)
        name = text_in(create(node, stuck, conversation="conv_1"), "id")
        backend.wait_for_request(stuck)
        assert cancel(node, name).status == 200
        assert asyncio.run(said()) == (question, reply)


def test_several_workers_serve_one_port(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("chat")
    backend.enqueue(model, halved("chat", Gate()))
    workers = QUICK.replace("[server]", "[server]\nworkers = 2")
    with run_gateway(configured(backend, STATE, workers), tmp_path) as node:
        name = text_in(create(node, model), "id")
        backend.wait_for_request(model)
        # Each connection may meet another process.
        for _ in range(4):
            shown = show(node, name)
            assert shown["status"] == "in_progress"
        with openai.OpenAI(base_url=node.url, api_key=KEY, max_retries=0) as sdk:
            assert sdk.responses.cancel(name).status == "cancelled"
        assert objects_in(judge_stream(replay(node, name)), "output")


def test_authorization_opens_only_for_its_own_job() -> None:
    keys, other_keys = SealingKeys(b"1" * 32), SealingKeys(b"2" * 32)
    turn = _turn("resp_1")
    encoded = encode_request(turn, Principal(authorization="Bearer sk"), {"cookie": "c"}, keys)
    request = decode_request(encoded)
    assert request is not None
    assert request.headers == {}
    response = Response("resp_1", turn.owner, 1, "queued", JSON_NULL)
    assert open_authorization(request, response, keys) == "Bearer sk"
    for wrong, opening_keys in (
        (replace(response, id="resp_2"), keys),
        (replace(response, owner="somebody"), keys),
        (response, other_keys),
    ):
        with pytest.raises(DecryptionError):
            open_authorization(request, wrong, opening_keys)


def test_request_of_an_incompatible_version_is_not_decoded() -> None:
    assert decode_request(Raw(b'{"another": "version"}')) is None


def _turn(response_id: str) -> Turn:
    return Turn(
        owner="me",
        request=parse_request(b'{"model":"m","input":"hi"}', "/responses"),
        store=True,
        background=True,
        stream=False,
        response_id=response_id,
        created=1,
        parent=None,
        conversation=None,
        input=(),
        history=(),
        overrides={},
    )
