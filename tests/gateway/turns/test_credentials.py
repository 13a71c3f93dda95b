"""Credentials of MCP servers are passed on to the backend and never stored."""

from pathlib import Path

import pytest

from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_script
from tests.gateway.background.requests import (
    AUTHORIZED,
    QUICK,
    configured,
    create,
    halved,
    judge_stream,
    replay,
    run_out,
    show,
)
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_process import run_gateway
from tests.gateway.scripted_backend import Gate, ScriptedBackend
from tests.judges.reading import JsonObject, objects_in, text_in

STATE = "sqlite:state.db"
ALONE = QUICK.replace("[background]", "[background]\nconcurrency = 1")
WORD = "xyzzy-of-the-client"
TOOL: JsonObject = {
    "type": "mcp",
    "server_label": "tides",
    "server_url": "https://tides.example/sse",
    "require_approval": "never",
    "authorization": WORD,
    "headers": {"X-Key": WORD},
}


def stored(folder: Path) -> bytes:
    """Give all that is in the database, as it lies on the disk."""
    return b"".join(file.read_bytes() for file in folder.glob("state.db*"))


@pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_credentials_are_neither_stored_nor_shown(
    dialect: str, *, streamed: bool, backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model(dialect)
    backend.respond_with(model, lambda asked: reply_script(dialect, Turn("Low."), asked.json()))
    with run_gateway(configured(backend, STATE), tmp_path) as node:
        body: JsonObject = {"model": model, "input": "Tide?", "tools": [TOOL], "stream": streamed}
        told = raw_http.post(node.port, "/v1/responses", body, AUTHORIZED)
        assert told.status == 200
        assert WORD.encode() not in told.body
        assert b'"server_label":"tides"' in told.body.replace(b'": ', b'":')
        assert b"resp_" in stored(tmp_path)
        assert WORD.encode() not in stored(tmp_path)
    if dialect == "responses":
        # Whoever is to use the server gets it.
        assert objects_in(backend.received(model)[0].json(), "tools") == [TOOL]


def test_queued_request_is_sealed(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    busy, model = new_model("responses"), new_model("responses")
    backend.enqueue(busy, halved("responses", Gate()))
    backend.respond_with(model, lambda asked: reply_script("responses", Turn("Low."), asked.json()))
    with run_gateway(configured(backend, STATE, ALONE), tmp_path) as first:
        create(first, busy, tools=[TOOL])
        backend.wait_for_request(busy)
        name = text_in(create(first, model, tools=[TOOL]), "id")
        assert show(first, name)["status"] == "queued"
        assert WORD.encode() not in stored(tmp_path)
        first.process.kill()
    run_out(f"sqlite:{tmp_path / 'state.db'}")
    with run_gateway(configured(backend, STATE), tmp_path) as second:
        said = judge_stream(replay(second, name))
        assert text_in(said, "status") == "completed"
        assert WORD.encode() not in stored(tmp_path)
    assert objects_in(backend.received(model)[0].json(), "tools") == [TOOL]
