"""Credentials of MCP servers are passed on to the backend and never stored."""

from pathlib import Path

import pytest

from tests.gateway.backend_replies import Turn
from tests.gateway.background.requests import ALONE, QUICK, run_nodes
from tests.gateway.scripted_backend import ScriptedBackend
from tests.judges.reading import JsonObject, objects_in

SECRET = b"xyzzy-of-the-client"
TOOL: JsonObject = {
    "type": "mcp",
    "server_label": "tides",
    "server_url": "https://tides.example/sse",
    "require_approval": "never",
    "authorization": SECRET.decode(),
    "headers": {"X-Key": SECRET.decode()},
}


def stored(folder: Path) -> bytes:
    """Return all bytes of the database."""
    return b"".join(file.read_bytes() for file in folder.glob("state.db*"))


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
        model = first.script_always("responses", Turn("Low."))
        name = first.create(model, tools=[TOOL])
        assert first.show(name)["status"] == "queued"
        assert SECRET not in stored(tmp_path)
        first.gateway.process.kill()
    first.expire_leases()
    with run_nodes(backend, tmp_path, QUICK) as (second,):
        second.assert_completed(name)
        assert SECRET not in stored(tmp_path)
    assert objects_in(second.sent_json(model), "tools") == [TOOL]
