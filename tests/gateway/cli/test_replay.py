"""`dragoman replay`: its options, and recorded requests that are sent again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.pytest_plugin.scripted_backend import ScriptedBackend, stream_reply
from gateway.recording.format import Client, Exchange, Recording, make_body, write_recording
from tests.gateway.addresses import refusing_address
from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.cli import command_line as cli
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.recording.replays import MODEL, question, record, replaying
from tests.judges.reading import JsonObject

HELLO_EVENTS = stream_events("chat", Turn("Hello!"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    record(folder / "1")
    record(folder / "2", turn=Turn("Hello!"), request=question("Hi", stream=True), streamed=True)
    return folder


@pytest.fixture(scope="module")
def replay(folder: Path) -> Iterator[Gateway]:
    with replaying(folder) as gateway:
        yield gateway


def test_equal_replies_exit_with_0(folder: Path, replay: Gateway) -> None:
    result = cli.run(f"replay {folder} --against {replay.url} --concurrency 1")
    assert result.stdout.splitlines() == [
        "1: no differences",
        "2: no differences",
        "2 exchanges: 2 equal, 0 different",
    ]
    assert result.exit_code == 0


def test_different_replies_are_printed_and_exit_with_1(tmp_path: Path, replay: Gateway) -> None:
    record(tmp_path / "1")
    record(tmp_path / "2", turn=Turn("Good day!"), request=question("Hi"))
    record(tmp_path / "3", request=question("Unknown"))
    result = cli.run(f"replay {tmp_path} --against {replay.url}")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    at = lines.index("  choices[0].message.content")
    assert lines[at + 1 : at + 3] == ['    - "Good day!"', '    + "Hello!"']
    assert lines[lines.index("  status") + 2] == "    + 404"
    assert lines[-1] == "3 exchanges: 1 equal, 2 different"


def test_key_of_the_environment_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "1")
    monkeypatch.setenv("REPLAY_KEY", "sk-replay\n")
    with ScriptedBackend() as backend:
        cli.run(f"replay {tmp_path} --against {backend.address}/v1 --api-key-env REPLAY_KEY")
        [request] = backend.received(MODEL)
    assert request.headers["authorization"] == "Bearer sk-replay"


def test_requests_continue_the_new_responses(tmp_path: Path) -> None:
    """The server does not know the ids of the recording, also those of calls."""
    tool: JsonObject = {"type": "function", "name": "get_weather", "parameters": {}}
    first: JsonObject = {"model": "demo", "input": "Weather in Oslo and Rome?", "tools": [tool]}
    with run_gateway("", tmp_path) as gateway:
        request = first
        for number in range(3):
            reply = httpx.post(f"{gateway.url}/responses", json=request).content
            bodies = {
                "client-request": make_body(json.dumps(request).encode()),
                "client-reply": make_body(reply),
            }
            exchange = Exchange(1, client=Client("responses", status=200))
            write_recording(tmp_path / f"recordings/{number}", Recording(exchange, bodies))
            response = json.loads(reply)
            outputs = [
                {"type": "function_call_output", "call_id": item["call_id"], "output": "rain"}
                for item in response["output"]
                if item["type"] == "function_call"
            ]
            more = {"input": outputs or "Thanks.", "previous_response_id": response["id"]}
            request = {**first, **more}
        with run_gateway("", tmp_path / "recordings") as other:
            result = cli.run(f"replay {tmp_path}/recordings --against {other.url}")
    assert result.stdout.endswith("3 exchanges: 3 equal, 0 different\n")


def test_unreachable_server_exits_with_2(folder: Path) -> None:
    with refusing_address() as address:
        result = cli.run(f"replay {folder} --against {address}/v1")
    assert result.exit_code == 2
    assert address in cli.one_line(result.stderr)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--pace fast", "expected instant, recorded or a number such as 2, not 'fast'"),
        ("--pace 0", "not '0'"),
        ("--pace nan", "not 'nan'"),
        ("--cut -1", "-1"),
        ("--against h:1", "--against: expected a URL"),
        ("--against http://h/v1 --api-key-env UNSET_KEY", "UNSET_KEY is not set or empty."),
        ("--api-key-env PATH", "--api-key-env requires --against."),
        ("--against http://h/v1 --cut 3", "--cut cannot be used with --against."),
        ("--against http://h/v1 --raw", "--raw cannot be used with --against."),
        ("--against http://h/v1 --pace 2", "--pace cannot be used with --against."),
    ],
)
def test_invalid_options_exit_with_2(folder: Path, options: str, message: str) -> None:
    result = cli.run(f"replay {folder} {options}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.replace("│", "").split())


def test_folder_without_replies_exits_with_2(tmp_path: Path) -> None:
    request = {"client-request": make_body(json.dumps(question()).encode())}
    write_recording(tmp_path / "1", Recording(Exchange(1), request))
    result = cli.run(f"replay {tmp_path}")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "skipped: 1: no whole request and reply of a backend",
        f"dragoman: {tmp_path} contains no replies of backends",
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"profile": "unknown"}, "1: profile: expected one of "),
        ({"capabilities": {"text_calls": 1}}, "1: capabilities: "),
    ],
)
def test_unknown_capabilities_exit_with_2(
    tmp_path: Path, call: dict[str, Any], message: str
) -> None:
    record(tmp_path / "1", **call)
    result = cli.run(f"replay {tmp_path}")
    assert result.exit_code == 2
    assert f"dragoman: {message}" in result.stderr


def test_violations_of_the_new_stream_are_differences(tmp_path: Path) -> None:
    record(tmp_path / "1", turn=Turn("Hello!"), streamed=True)
    events = [event.replace(b'"id": "chatcmpl-1", ', b"") for event in HELLO_EVENTS]
    with ScriptedBackend() as backend:
        backend.enqueue(MODEL, stream_reply(*events))
        result = cli.run(f"replay {tmp_path} --against {backend.address}/v1")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:3] == ["  violations", '    + ["id is missing"]']


def test_models_are_listed_at_the_start(replay: Gateway) -> None:
    assert "2 recorded replies in " in replay.log
    assert f"for {MODEL}, all other models" in replay.log
