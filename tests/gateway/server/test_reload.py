"""Reload of the configuration: it applies to new requests on every worker, or not at all."""

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gateway.crypto import api_key_digest
from gateway.pytest_plugin.scripted_backend import Gate, ScriptedBackend, stream_reply
from gateway.recording.format import find_recordings, read_recording
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.cli.command_line import error_of, run
from tests.gateway.cli.test_serve import serve
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import backend_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.gateway.websocket_client import WebSocketClient
from tests.judges import sdk as judge
from tests.reload_under_load import run as run_load

TURN = Turn("One two three four five six.")
RELOADED, REFUSED = '"configuration reloaded"', '"configuration not reloaded"'
EACH_NUMBER_OF_WORKERS = pytest.mark.parametrize("workers", [1, 2])
Run = Callable[[str], AbstractContextManager[Harness]]


@pytest.fixture
def run_with(backend: ScriptedBackend, tmp_path: Path) -> Run:
    return lambda config: run_harness(backend, config, tmp_path)


def reload(gateway: Gateway, folder: Path, config: str, event: str = RELOADED) -> list[str]:
    """Write another configuration and reload it; return the new lines with this event."""
    (folder / "dragoman.toml").write_text(config)
    before = len(gateway.lines)
    gateway.process.send_signal(signal.SIGHUP)
    # An invalid file is refused by the parent of several workers.
    workers = 2 if "workers = 2" in config and event == RELOADED else 1
    wait_until(lambda: sum(event in line for line in gateway.lines[before:]) == workers)
    return [line for line in gateway.lines[before:] if event in line]


def server(workers: int) -> str:
    return f"[server]\nworkers = {workers}\n"


@EACH_NUMBER_OF_WORKERS
def test_valid_file_applies_to_new_requests(workers: int, run_with: Run, tmp_path: Path) -> None:
    gate, events = Gate(), stream_events("chat", TURN)
    with ScriptedBackend() as other:
        before, after = (
            server(workers) + backend_table(address, "chat", "chat")
            for address in (other.address, "{}")
        )
        with run_with(before) as harness:
            new = after.format(harness.backend.address)
            other.enqueue("chat-old", stream_reply(*events[:3], gate, *events[3:]))
            with harness.stream("responses", "chat-old") as running:
                other.wait_for_request("chat-old")
                reload(harness.gateway, tmp_path, new)
                # Each connection may be accepted by another worker.
                for _ in range(6):
                    model = harness.script("chat", TURN)
                    assert harness.ask("chat", model).text == TURN.text
                gate.open()
                assert judge.judge_responses_stream(running.read_all()).output_text == TURN.text
            # The connection is not kept for further requests.
            assert other.received("chat-old")[0].closed.wait(TIMEOUT_SECONDS)


@EACH_NUMBER_OF_WORKERS
def test_invalid_file_is_refused(workers: int, run_with: Run, tmp_path: Path) -> None:
    with ScriptedBackend() as backend:
        config = server(workers) + backend_table(backend.address, "chat", "chat")
        with run_with(config) as harness:
            invalid = config.replace('"chat"\nmodels', '"klingon"\nprofile = "none"\nmodels')
            [line] = reload(harness.gateway, tmp_path, invalid, REFUSED)
            assert "klingon" in line
            assert "profile" in line
            [line] = reload(harness.gateway, tmp_path, "[server", REFUSED)
            assert "invalid TOML" in line
            backend.enqueue("chat-1", stream_reply(*stream_events("chat", TURN)))
            assert harness.request("chat", "chat-1", streamed=True).status == 200


def test_replaced_worker_has_the_new_configuration(tmp_path: Path) -> None:
    with run_gateway(server(2), tmp_path) as gateway:
        config = f'{server(2)}[[access.keys]]\nname = "ci"\nsha256 = "{api_key_digest("one")}"\n'
        reload(gateway, tmp_path, config)
        children = Path(f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children")
        for worker in children.read_text().split()[1:]:
            os.kill(int(worker), signal.SIGKILL)
        wait_until(lambda: gateway.log.count(" exited with code -9") == 2)
        statuses = [raw_http.get(gateway.port, "/v1/models").status for _ in range(4)]
    assert statuses == [401] * 4


def test_keys_that_require_a_restart_are_logged(tmp_path: Path) -> None:
    with run_gateway("", tmp_path) as gateway:
        reload(gateway, tmp_path, "[server]\nwebsocket = false\n[state]\nretention_days = 1\n")
        wait_until(lambda: "require a restart" in gateway.log)
        assert '"keys":["server.websocket","state.retention_days"]' in gateway.log
        assert raw_http.get(gateway.port, "/health").status == 200


def test_level_of_the_log_changes(tmp_path: Path) -> None:
    with run_gateway('[logging]\nlevel = "error"\n', tmp_path) as gateway:
        reload(gateway, tmp_path, "")
        raw_http.post(gateway.port, "/v1/chat/completions", {"model": "demo"})
        wait_until(lambda: '"event":"request"' in gateway.log)


def test_demo_is_replaced_by_backends_and_back(run_with: Run, tmp_path: Path) -> None:
    with run_with("") as harness:
        reload(harness.gateway, tmp_path, backend_table(harness.backend.address, "chat", "chat"))
        assert harness.ask("chat", harness.script("chat", TURN)).text == TURN.text
        reload(harness.gateway, tmp_path, "")
        assert harness.request("chat", "demo").status == 200


def test_unchanged_backend_keeps_its_connections(run_with: Run, tmp_path: Path) -> None:
    with ScriptedBackend() as backend:
        config = backend_table(backend.address, "chat", "chat")
        with run_with(config) as harness:
            for number in range(2):
                backend.enqueue(f"chat-{number}", stream_reply(*stream_events("chat", TURN)))
                harness.request("chat", f"chat-{number}", streamed=True)
                reload(harness.gateway, tmp_path, f"{config}timeouts = {{ connect = 5 }}\n")
            assert backend.connection_count == 1


# The command


def test_command_reloads_the_gateway_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.pid"
    with run_gateway(f'[server]\npid_file = "{file}"\n', tmp_path) as gateway:
        assert file.read_text() == f"{gateway.process.pid}\n"
        for options in (f"--pid-file {file}", f"--config {tmp_path / 'dragoman.toml'}"):
            before = len(gateway.lines)
            result = run(f"reload {options}")
            assert result.exit_code == 0, result.stderr
            assert str(gateway.process.pid) in result.stdout
            wait_until(lambda: RELOADED in "".join(gateway.lines[before:]))  # noqa: B023 - called at once
        gateway.terminate()
        assert gateway.wait() == 0
    assert not file.exists()


def test_two_gateways_cannot_have_one_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.pid"
    config = f'[server]\npid_file = "{file}"\n'
    with run_gateway(config, tmp_path):
        other = tmp_path / "other"
        other.mkdir()
        (other / "dragoman.toml").write_text(config)
        result = serve("--config", str(other / "dragoman.toml"), "--port", "0")
        message = "another gateway is running with this process id file"
        assert (result.stderr, result.returncode) == (f"dragoman: {file}: {message}\n", 1)


def test_file_without_a_gateway_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "gateway.pid"
    file.write_text(f"{os.getpid()}\n")
    result = run(f"reload --pid-file {file}")
    assert error_of(result) == f"dragoman: {file}: no gateway is running with this file"
    missing = run(f"reload --pid-file {tmp_path / 'none'}")
    assert error_of(missing) == f"dragoman: {tmp_path / 'none'}: No such file or directory"


def test_command_requires_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("reload").exit_code == 2
    (tmp_path / "dragoman.toml").write_text("[server")
    assert run("reload").exit_code == 78


# WebSockets and recordings


def test_turn_after_a_reload_requires_a_key_that_is_still_known(tmp_path: Path) -> None:
    key = '[[access.keys]]\nname = "{}"\nsha256 = "{}"\n'
    one, two = (key.format(name, api_key_digest(name)) for name in ("one", "two"))
    with (
        run_gateway(one + two, tmp_path) as gateway,
        WebSocketClient(gateway, {"Authorization": "Bearer one"}) as socket,
    ):
        assert socket.create_response(model="demo", input="Hi").status == "completed"
        reload(gateway, tmp_path, two)
        error = socket.create_error(model="demo", input="Hi")
        assert "no longer known" in str(error["message"])


def test_keys_of_reloaded_backends_are_redacted_in_recordings(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    config = '[recording]\ndirectory = "recordings"\n' + backend_table(
        backend.address, "chat", "chat"
    )
    hidden = "backend-key-0123456789"
    with run_harness(backend, config, tmp_path, {"KEY": hidden}) as harness:
        reload(harness.gateway, tmp_path, config + 'api_key_env = "KEY"\n')
        model = harness.script("chat", Turn(f"The key is {hidden}."))
        assert hidden in harness.request("responses", model).body.decode()
    [recording] = map(read_recording, find_recordings(tmp_path / "recordings"))
    assert b"The key is [redacted:1]." in recording.bodies["client-reply"].data


def test_key_of_a_backend_is_read_again_from_its_file(run_with: Run, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-first\n")
    with ScriptedBackend() as backend:
        table = backend_table(backend.address, "chat", "chat")
        config = f'{table}api_key_file = "{file}"\n'
        with run_with(config) as harness:
            for key in ("sk-first", "sk-second"):
                file.write_text(f"{key}\n")
                reload(harness.gateway, tmp_path, config)
                backend.enqueue(f"chat-{key}", stream_reply(*stream_events("chat", TURN)))
                harness.request("chat", f"chat-{key}", streamed=True)
                [request] = backend.received(f"chat-{key}")
                assert request.headers["authorization"] == f"Bearer {key}"
            # The key is part of the client only, not of its connections.
            assert backend.connection_count == 1


def test_streams_are_complete_while_files_are_reloaded() -> None:
    result = run_load(seconds=3, clients=8, workers=2)
    assert result.failures == []
    assert result.streams
    assert result.reloaded
    assert result.refused
