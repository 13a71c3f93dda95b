"""Background responses: secrets, settings, losses, heartbeats, conversations."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

from gateway.background.queued_request import decode_request, encode_request, open_authorization
from gateway.crypto import SealingKeys, api_key_digest
from gateway.errors import DecryptionError
from gateway.http.auth import Principal
from gateway.http.request_body import parse_request
from gateway.pytest_plugin.scripted_backend import ScriptedBackend, json_reply, stream_reply
from gateway.store import JSON_NULL, Conversation, Item, Page, Response
from gateway.turns.turn import Turn
from tests.gateway.backend_replies import reply_body, stream_events
from tests.gateway.background.requests import (
    ALONE,
    QUICK,
    TEXT,
    TURN,
    events_of,
    kinds_of,
    run_nodes,
)
from tests.gateway.gateway_config import backend_table, capability_table
from tests.gateway.stores import opened_store
from tests.judges.reading import JsonObject, integer_in, object_in, objects_in, text_in

KEY = "sk-test"
SECRET = b"xyzzy-of-the-client"
TOOL: JsonObject = {
    "type": "mcp",
    "server_label": "tides",
    "server_url": "https://tides.example/sse",
    "require_approval": "never",
    "authorization": SECRET.decode(),
    "headers": {"X-Key": SECRET.decode()},
}


# Secrets


def stored(folder: Path) -> bytes:
    """Return all bytes of the database."""
    return b"".join(file.read_bytes() for file in folder.glob("state.db*"))


def test_key_of_a_client_is_not_stored(backend: ScriptedBackend, tmp_path: Path) -> None:
    with run_nodes(backend, tmp_path, ALONE) as (node,):
        running, _, _ = node.start()
        waiting = node.create(node.new_model("chat"))
        # One of them is running, the other waits: what both need is in the database.
        for text in (running, waiting, "dragoman-job-"):
            assert text.encode() in stored(tmp_path)
        assert KEY.encode() not in stored(tmp_path)
    assert KEY not in node.gateway.log


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_credentials_are_neither_stored_nor_shown(
    dialect: str, *, streamed: bool, backend: ScriptedBackend, tmp_path: Path
) -> None:
    with run_nodes(backend, tmp_path, QUICK) as (node,):
        model = node.script(dialect, "Low.")
        reply = node.request("responses", model, streamed=streamed, tools=[TOOL])
        assert reply.status == 200
        assert SECRET not in reply.body
        assert b'"server_label":"tides"' in reply.body.replace(b'": ', b'":')
        assert b"resp_" in stored(tmp_path)
        assert SECRET not in stored(tmp_path)
    if dialect == "responses":
        # Only the backend that uses the server gets them.
        assert objects_in(node.sent_json(model), "tools") == [TOOL]


def test_queued_request_is_sealed(backend: ScriptedBackend, tmp_path: Path) -> None:
    with run_nodes(backend, tmp_path, ALONE) as (first,):
        first.start("responses", tools=[TOOL])
        model = first.script_always("responses", TURN)
        name = first.create(model, tools=[TOOL])
        assert first.show(name)["status"] == "queued"
        assert SECRET not in stored(tmp_path)
        first.gateway.process.kill()
    first.expire_leases()
    with run_nodes(backend, tmp_path, QUICK) as (second,):
        second.assert_completed(name)
        assert SECRET not in stored(tmp_path)
    assert objects_in(second.sent_json(model), "tools") == [TOOL]


# Settings, losses and heartbeats


def test_settings_of_the_gateway_key_apply(backend: ScriptedBackend, tmp_path: Path) -> None:
    cut = stream_events("chat", TURN)[:-3]
    finish = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
    keys = (
        f'[[access.keys]]\nname = "mine"\nsha256 = "{api_key_digest(KEY)}"\n'
        "[access.keys.replies]\nincomplete_as_completed = true\n"
    )
    with run_nodes(backend, tmp_path, QUICK + keys) as (node,):
        model = node.enqueue("chat", stream_reply(*cut, finish, b"data: [DONE]\n\n"))
        name = node.create(model)
        node.assert_completed(name)
        assert node.show(name)["incomplete_details"] == {"reason": "max_output_tokens"}
    assert "authorization" not in backend.received(model)[0].headers
    lines = node.gateway.lines
    assert any('"key_name":"mine"' in line and '"backend":"chat"' in line for line in lines)


def test_losses_are_logged(backend: ScriptedBackend, tmp_path: Path) -> None:
    with run_nodes(backend, tmp_path, QUICK) as (node,):
        name = node.create(node.script("chat", TURN), truncation="auto")
        node.last_response(name)
        node.wait_for(name, "completed")
    lines = [json.loads(line) for line in node.gateway.lines if '"event":"request"' in line]
    [line] = [line for line in lines if line["backend"] == "chat"]
    assert any("truncation" in loss for loss in line["losses"])
    assert line["path"] == "/v1/responses"
    assert line["output_tokens"] is not None


def test_heartbeat_repeats_the_status(backend: ScriptedBackend, tmp_path: Path) -> None:
    lively = ALONE.replace("[server]", "[server]\nheartbeat_interval = 0.1")
    with run_nodes(backend, tmp_path, lively) as (node,):
        running, _, gate = node.start()
        waiting = node.create(node.script_always("chat", TURN))
        with node.follow(running, 2) as streamed, node.follow(waiting, 1) as other:
            first = streamed.read_until(b"response.in_progress")
            heartbeat = events_of(other.read_until(b"response.queued"))[0]
            assert integer_in(heartbeat, "sequence_number") == 1
            gate.open()
            rest = other.read_all()
            first += streamed.read_all()
        for data in (first, rest):
            numbers = [integer_in(event, "sequence_number") for event in events_of(data)]
            assert numbers == sorted(numbers)
            assert kinds_of(data)[-1] == "response.completed"
        # Heartbeats are not stored.
        node.last_response(running)
        node.last_response(waiting)


def test_unreachable_backend(backend: ScriptedBackend, tmp_path: Path) -> None:
    gone = backend_table("http://127.0.0.1:9", "gone", "chat", "retries = { max_retries = 0 }\n")
    with run_nodes(backend, tmp_path, QUICK + gone) as (node,):
        name = node.create(node.new_model("gone"))
        failed = node.last_response(name)
        assert "cannot connect" in text_in(object_in(failed, "error"), "message")
        assert node.wait_for(name, "failed") == failed


def test_backend_without_streaming(backend: ScriptedBackend, tmp_path: Path) -> None:
    slow = backend_table(backend.address, "slow", "chat", capability_table('streaming = "never"'))
    with run_nodes(backend, tmp_path, QUICK + slow) as (node,):
        model = node.enqueue("slow", json_reply(reply_body("chat", TURN)))
        node.assert_completed(node.create(model))


def test_only_finished_responses_are_added_to_a_conversation(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    owner = api_key_digest(f"Bearer {KEY}")

    async def begin(url: str) -> None:
        async with opened_store(url) as store:
            await store.conversations.create(Conversation("conv_1", owner, 1))

    async def load_items(url: str) -> tuple[Item, ...]:
        async with opened_store(url) as store:
            listing = await store.conversations.list_items(owner, "conv_1", Page())
        assert listing is not None
        return listing.data

    with run_nodes(backend, tmp_path, QUICK) as (node,):
        asyncio.run(begin(node.database))
        name = node.create(node.script("chat", TURN), conversation="conv_1")
        assert node.show(name)["conversation"] == {"id": "conv_1"}
        node.replay(name)
        question, reply = asyncio.run(load_items(node.database))
        assert b"Count." in bytes(question.body)
        assert TEXT.encode() in bytes(reply.body)
        name, _, _ = node.start(conversation="conv_1")
        assert node.cancel(name).status == 200
        assert asyncio.run(load_items(node.database)) == (question, reply)


def test_several_workers_serve_one_port(backend: ScriptedBackend, tmp_path: Path) -> None:
    workers = QUICK.replace("[server]", "[server]\nworkers = 2")
    with run_nodes(backend, tmp_path, workers) as (node,):
        name, _, _ = node.start()
        # Each connection may be accepted by another process.
        for _ in range(4):
            assert node.show(name)["status"] == "in_progress"
        assert node.sdk.responses.cancel(name).status == "cancelled"
        assert objects_in(node.last_response(name), "output")


def test_authorization_opens_only_for_its_own_job() -> None:
    keys, other_keys = SealingKeys(b"1" * 32), SealingKeys(b"2" * 32)
    turn = Turn(
        owner="me",
        request=parse_request(b'{"model":"m","input":"hi"}', "/responses"),
        store=True,
        background=True,
        stream=False,
        response_id="resp_1",
        created=1,
        parent=None,
        conversation=None,
        input=(),
        history=(),
        overrides={},
    )
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
