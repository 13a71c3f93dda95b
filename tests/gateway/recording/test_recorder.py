"""Exchanges of a running gateway are recorded."""

import gzip
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapters import PROFILES, Violation
from adapters.model_rules import BackendCapabilities
from gateway.recording.format import Recording, find_recordings, read_recording
from tests.gateway.addresses import refusing_address
from tests.gateway.backend_replies import Turn, reply_body, stream_events
from tests.gateway.background.requests import QUICK
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import (
    DIALECTS,
    EVERY_PAIR,
    STREAMED_OR_NOT,
    backend_table,
    backend_tables,
    capability_table,
)
from tests.gateway.gateway_process import Gateway
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.scripted_backend import (
    Gate,
    ScriptedBackend,
    json_reply,
    stream_reply,
    truncated_reply,
)
from tests.gateway.waiting import wait_until
from tests.gateway.websocket_client import WebSocketClient

FOLDER = "recordings"
RECORDING = f'[recording]\ndirectory = "{FOLDER}"\n'
TURN = Turn("Hello.")
KEY = "backend-key-0123456789"
LONG = "What is the weather in Oslo? " * 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recording")


@pytest.fixture(scope="module")
def recorded(backend: ScriptedBackend, folder: Path) -> Iterator[Harness]:
    """Run a gateway that records, with a backend that has a key, and one that is not reachable."""
    address = backend.address
    retries = "retries = { max_retries = 2, initial_backoff = 0.02, status_codes = [503] }\n"
    with refusing_address() as refusing:
        config = (
            RECORDING
            + QUICK
            + backend_tables(address, ["again"])
            + backend_table(
                address, "keyed-chat", "chat", 'api_key_env = "KEY"\nprofile = "vllm"\n'
            )
            + backend_table(
                address, "one-chat", "chat", capability_table('unsupported_fields = ["n"]')
            )
            + backend_table(
                address, "stop-chat", "chat", capability_table('unsupported_fields = ["stop"]')
            )
            + backend_table(refusing, "down-chat", "chat", "retries.max_retries = 0\n")
            + backend_table(address, "up-chat", "chat", retries).replace("up-chat-*", "down-chat*")
        )
        with run_harness(backend, config, folder, {"KEY": KEY}) as harness:
            yield harness


@pytest.fixture
def find(folder: Path) -> Callable[..., list[Recording]]:
    """Return a function that waits for the recordings with a model, and returns them in order."""

    def find_all(model: str, count: int = 1) -> list[Recording]:
        found: list[Recording] = []

        def are_written() -> bool:
            everything = map(read_recording, find_recordings(folder / FOLDER))
            found[:] = [one for one in everything if one.exchange.model == model]
            return len(found) >= count

        wait_until(are_written)
        assert len(found) == count
        return found

    return find_all


Find = Callable[..., list[Recording]]


def data(recording: Recording, name: str) -> bytes:
    return recording.bodies[name].data


@STREAMED_OR_NOT
@EVERY_PAIR
def test_recording_has_what_all_sides_sent_and_received(
    client: str, dialect: str, *, streamed: bool, recorded: Harness, find: Find
) -> None:
    model = recorded.script(dialect, TURN)
    body = json.dumps(request_body(client, model, streamed=streamed)).encode()
    received = recorded.post(body, request_path(client))
    [recording] = find(model)
    exchange, [call] = recording.exchange, recording.exchange.calls
    assert exchange.client.dialect == client
    assert (exchange.client.transport, exchange.client.path) == ("http", request_path(client))
    assert (exchange.client.status, exchange.outcome) == (200, "ok")
    assert exchange.duration_ms >= exchange.first_byte_ms >= call.sent_ms  # type: ignore[operator]
    assert (call.backend, call.dialect, call.model) == (dialect, dialect, model)
    assert (call.status, call.error) == (200, None)
    assert exchange.client.violations == call.violations == ()
    assert data(recording, "client-request") == body
    assert data(recording, "backend-request") == recorded.backend.received(model)[-1].body
    reply = data(recording, "backend-reply")
    usage = b"include_usage" in data(recording, "backend-request")
    events = b"".join(stream_events(dialect, TURN, usage=usage))
    assert reply == (events if streamed else reply_body(dialect, TURN))
    assert sum(size for _, size in call.reads) == len(reply)
    assert data(recording, "client-reply") == received.body
    streams = (recording.bodies[name].streamed for name in ("backend-reply", "client-reply"))
    assert [*streams] == [streamed, streamed]


def test_losses_and_capabilities_are_recorded(recorded: Harness, find: Find) -> None:
    model = recorded.script("keyed-chat", TURN)
    recorded.request("responses", model, truncation="auto")
    [recording] = find(model)
    losses = [loss for loss in recording.exchange.losses if loss.severity != "adapted"]
    assert [loss.path for loss in losses] == ["truncation"]
    [call] = recording.exchange.calls
    assert (call.profile, call.capabilities) == ("vllm", {})
    in_force = BackendCapabilities(call.profile, call.capabilities).for_model(call.model)
    assert in_force == PROFILES["vllm"]


def test_credentials_are_recorded_as_markers(recorded: Harness, folder: Path, find: Find) -> None:
    words = f"{recorded.sdk.api_key}-0123456789 and {KEY}."
    turn = Turn(f"They are {words}")
    model = recorded.script("keyed-chat", turn)
    headers = {"Authorization": f"Bearer {recorded.sdk.api_key}-0123456789", "Cookie": "a=b"}
    received = recorded.request("chat", model, headers, user=words)
    # Redaction changes only what is recorded.
    assert words in received.body.decode()
    assert words in recorded.sent(model)
    [recording] = find(model)
    marked = b"[redacted:1] and [redacted:2]."
    for name in ("client-request", "backend-request", "backend-reply", "client-reply"):
        assert marked in data(recording, name)
    assert recording.exchange.redactions == 8
    assert "cookie" not in recording.exchange.client.headers
    files = [path for path in (folder / FOLDER).rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize("client", DIALECTS)
def test_credentials_that_are_split_over_a_stream_are_recorded_as_markers(
    client: str, recorded: Harness, folder: Path, find: Find
) -> None:
    pieces = ("The key is back", "end-key-0123", "45", "6789", ".")
    chunks = [
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        | {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
        for piece in pieces
    ]
    *_, finish, done = stream_events("chat", TURN, usage=False)
    events = (b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    model = recorded.enqueue("keyed-chat", stream_reply(*events, finish, done))
    received = recorded.request(client, model, streamed=True).body.decode()
    assert all(json.dumps(piece) in received for piece in pieces)
    [recording] = find(model)
    assert recording.exchange.client.violations == ()
    for name in ("backend-reply", "client-reply"):
        assert b'"The key is [redacted:1]"' in data(recording, name)
        assert b"0123" not in data(recording, name)
    files = [path for path in (folder / FOLDER).rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_errors_before_a_backend_is_chosen_are_recorded(recorded: Harness, find: Find) -> None:
    assert recorded.request("chat", "unknown-model").status == 404
    [recording] = find("unknown-model")
    assert recording.exchange.calls == ()
    assert (recording.exchange.outcome, recording.exchange.error_code) == (
        "error",
        "model_not_found",
    )
    assert recording.exchange.client.status == 404
    assert data(recording, "client-reply").startswith(b'{"error":')
    assert recorded.post(b'{"model": unreadable', "/v1/responses").status == 400
    unreadable = b'{"model": unreadable'
    found = [one for one in find("", 1) if data(one, "client-request") == unreadable]
    assert [one.exchange.client.dialect for one in found] == ["responses"]


def test_retries_and_failover_are_recorded(recorded: Harness, find: Find) -> None:
    busy, reply = json_reply(b'{"error":"busy"}', status=503), json_reply(reply_body("chat", TURN))
    model = recorded.enqueue("down-chat", busy, reply)
    assert recorded.request("chat", model).status == 200
    [recording] = find(model)
    calls = [(call.backend, call.status, call.error) for call in recording.exchange.calls]
    assert calls == [
        ("down-chat", None, "ConnectError"),
        ("up-chat", 503, None),
        ("up-chat", 200, None),
    ]
    assert recording.backend_reply(0) is None
    # The response of an attempt that is repeated is not read.
    assert recording.backend_reply(1) is None
    assert data(recording, "backend-reply-3") == reply_body("chat", TURN)


def test_requests_for_each_choice_are_recorded(recorded: Harness, find: Find) -> None:
    model = recorded.script("one-chat", "One.", "Two.")
    assert recorded.request("chat", model, n=2).status == 200
    [recording] = find(model)
    assert len(recording.exchange.calls) == 2
    replies = [data(recording, name) for name in ("backend-reply", "backend-reply-2")]
    assert sorted(replies) == [reply_body("chat", Turn(text)) for text in ("One.", "Two.")]


def test_turns_of_a_websocket_are_recorded(recorded: Harness, find: Find) -> None:
    model = recorded.script("chat", "One.", "Two.")
    with WebSocketClient(recorded.gateway) as socket:
        for _ in range(2):
            socket.create_response(model=model, input="Hi", store=False)
    first, second = find(model, 2)
    for recording, text in ((first, b"One."), (second, b"Two.")):
        assert recording.exchange.client.transport == "websocket"
        assert len(recording.exchange.calls) == 1
        assert text in data(recording, "client-reply")
        assert json.loads(data(recording, "client-request"))["model"] == model


def test_background_response_has_a_recording_of_its_request_and_of_its_job(
    recorded: Harness, find: Find
) -> None:
    model = recorded.script("chat", TURN)
    assert recorded.request("responses", model, background=True).status == 200
    accepted, job = find(model, 2)
    assert [one.exchange.client.transport for one in (accepted, job)] == ["http", "background"]
    assert [len(one.exchange.calls) for one in (accepted, job)] == [0, 1]
    assert b'"status":"queued"' in data(accepted, "client-reply")
    assert b"response.completed" in data(job, "client-reply")


def test_summary_of_a_conversation_has_a_recording_of_its_own(
    recorded: Harness, find: Find
) -> None:
    model = recorded.script("chat", "A summary.", "18 degrees.")
    items = [{"role": "user", "content": LONG}, {"role": "assistant", "content": "Sunny."}]
    management = [{"type": "compaction", "compact_threshold": 100}]
    given = [*items, {"role": "user", "content": "How warm?"}]
    recorded.request("responses", model, input=given, context_management=management)
    whole, summary = find(model, 2)
    assert [one.exchange.client.transport for one in (whole, summary)] == ["http", "summary"]
    assert b"A summary." in data(summary, "backend-reply")
    assert b"18 degrees." in data(whole, "backend-reply")
    assert [len(one.exchange.calls) for one in (whole, summary)] == [1, 1]


def test_violations_of_the_backend_are_recorded(recorded: Harness, find: Find) -> None:
    first, *_ = stream_events("chat", TURN)
    model = recorded.enqueue("chat", truncated_reply(first))
    recorded.request("responses", model, streamed=True)
    [recording] = find(model)
    [call] = recording.exchange.calls
    assert call.violations == (
        Violation(1, "choice 0 has no finish_reason"),
        Violation(1, "the stream ends without [DONE]"),
    )
    assert call.error == "RemoteProtocolError"
    assert recording.exchange.client.violations == ()


def test_stream_that_is_cut_at_a_stop_sequence_is_not_checked(
    recorded: Harness, find: Find
) -> None:
    gate = Gate()
    first, *rest = stream_events("chat", Turn("Hello. Stop here."))
    model = recorded.enqueue("stop-chat", stream_reply(first, *rest[:-2], gate, rest[-1]))
    recorded.request("chat", model, streamed=True, stop=["Stop"])
    gate.open()
    [recording] = find(model)
    [call] = recording.exchange.calls
    assert (call.cut, call.error, call.violations) == (True, None, ())
    assert data(recording, "backend-reply") == b"".join((first, *rest[:-2]))


def test_compressed_replies_are_recorded_decompressed(recorded: Harness, find: Find) -> None:
    reply = reply_body("chat", TURN)
    script = json_reply(gzip.compress(reply), headers={"Content-Encoding": "gzip"})
    model = recorded.enqueue("chat", script)
    recorded.request("chat", model)
    [recording] = find(model)
    assert data(recording, "backend-reply") == reply
    [(_, size)] = recording.exchange.calls[0].reads
    assert size == len(reply)


# Limits and failures


def _metric(gateway: Harness, outcome: str) -> bool:
    return (
        f'dragoman_recordings_total{{outcome="{outcome}"}}' in gateway.get("/metrics").body.decode()
    )


def test_requests_that_are_not_to_be_stored_can_be_left_out(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    config = RECORDING + "skip_store_false = true\n" + backend_tables(backend.address)
    with run_harness(backend, config, tmp_path) as harness:
        models = [harness.script("chat", TURN, TURN, TURN) for _ in range(3)]
        for model, store in zip(models, (False, True, None), strict=True):
            harness.request("responses", model, store=store)
        management = [{"type": "compaction", "compact_threshold": 1}]
        given = [{"role": "user", "content": LONG}, {"role": "user", "content": "Hi"}]
        harness.request(
            "responses", models[0], input=given, store=False, context_management=management
        )
    found = [read_recording(one).exchange.model for one in find_recordings(tmp_path / FOLDER)]
    assert sorted(found) == sorted(models[1:])


def test_long_bodies_are_left_out(backend: ScriptedBackend, tmp_path: Path) -> None:
    config = RECORDING + "max_body_bytes = 1000\n" + backend_tables(backend.address)
    with run_harness(backend, config, tmp_path) as harness:
        model = harness.script("chat", Turn("x" * 2000))
        assert len(harness.request("chat", model).body) > 2000
    [folder] = find_recordings(tmp_path / FOLDER)
    recording = read_recording(folder)
    assert recording.backend_request() is not None
    for body in (recording.backend_reply(), recording.client_reply):
        assert body is not None
        assert body.omitted_bytes > 2000
        assert body.data == b""
    assert recording.exchange.calls[0].reads == ()


@pytest.mark.parametrize("limit", ["max_recordings = 2", "max_total_bytes = 1"])
def test_no_more_is_written_than_the_limits_allow(
    limit: str, backend: ScriptedBackend, tmp_path: Path
) -> None:
    config = f"{RECORDING}{limit}\n" + backend_tables(backend.address)
    with run_harness(backend, config, tmp_path) as harness:
        model = harness.script_always("chat", TURN)
        assert [harness.request("chat", model).status for _ in range(4)] == [200] * 4
        wait_until(lambda: _metric(harness, "dropped"))
        wait_until(lambda: limit.partition(" ")[0] in harness.gateway.log)
    assert len([*find_recordings(tmp_path / FOLDER)]) == (2 if "recordings" in limit else 1)


def test_size_limit_counts_all_files(backend: ScriptedBackend, tmp_path: Path) -> None:
    limit = 10_000
    config = f"{RECORDING}max_total_bytes = {limit}\n" + backend_tables(backend.address)
    with run_harness(backend, config, tmp_path) as harness:
        model = harness.script_always("chat", TURN)
        for _ in range(20):
            harness.request("responses", model)
    folders = [*find_recordings(tmp_path / FOLDER)]
    sizes = sorted(sum(file.stat().st_size for file in folder.iterdir()) for folder in folders)
    assert sum(sizes[:-1]) < limit <= sum(sizes)


def test_unwritable_directory_fails_no_exchange(backend: ScriptedBackend, tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file in place of the directory")
    with run_harness(backend, RECORDING + backend_tables(backend.address), tmp_path) as harness:
        assert harness.request("chat", harness.script("chat", TURN)).status == 200
        wait_until(lambda: _metric(harness, "failed"))
        wait_until(lambda: "exchanges not recorded" in harness.gateway.log)


def test_processes_share_a_directory_and_finish_before_a_shutdown(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    config = f"{RECORDING}[server]\nworkers = 2\n" + backend_tables(backend.address)
    with run_harness(backend, config, tmp_path) as harness:
        model = harness.script_always("chat", TURN)
        for _ in range(20):
            harness.request("chat", model)
    assert len([*find_recordings(tmp_path / FOLDER)]) == 20
    assert not [path for path in (tmp_path / FOLDER).iterdir() if path.name.startswith(".")]


def _writer(gateway: Gateway) -> int:
    """Return the id of the process that writes the recordings of a gateway."""
    [children] = [
        text
        for file in Path(f"/proc/{gateway.process.pid}/task").glob("*/children")
        if (text := file.read_text().split())
    ]
    [child] = children
    return int(child)


def test_exchanges_do_not_wait_for_a_writer_that_hangs_or_dies(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    def are_written(count: int) -> Callable[[], bool]:
        return lambda: len([*find_recordings(tmp_path / FOLDER)]) >= count

    with run_harness(backend, RECORDING + backend_tables(backend.address), tmp_path) as harness:
        model = harness.script_always("chat", TURN)
        writer = _writer(harness.gateway)
        os.kill(writer, signal.SIGSTOP)
        assert [harness.request("chat", model).status for _ in range(5)] == [200] * 5
        assert not are_written(1)()
        os.kill(writer, signal.SIGCONT)
        wait_until(are_written(5))
        os.kill(writer, signal.SIGKILL)
        wait_until(lambda: "the process that writes recordings ended" in harness.gateway.log)

        def is_recorded_again() -> bool:
            assert harness.request("chat", model).status == 200
            return are_written(6)()

        wait_until(is_recorded_again)
