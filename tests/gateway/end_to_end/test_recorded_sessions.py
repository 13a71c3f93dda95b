"""Sessions of agents are recorded, and replayed to clients of every dialect in every mode."""

import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

import adapters
from gateway.pytest_plugin.scripted_backend import Pause, ScriptedBackend, Step, stream_reply
from gateway.recording.format import Recording, find_recordings, read_recording
from tests.gateway.agents_sdk import MODELS, run_agent
from tests.gateway.agents_sdk import TURNS as AGENT_TURNS
from tests.gateway.backend_replies import Call, Turn, script_turns, stream_events
from tests.gateway.cli import command_line as cli
from tests.gateway.gateway_config import DIALECTS, EVERY_PAIR, STREAMED_OR_NOT, backend_tables
from tests.gateway.gateway_process import Gateway, assert_no_errors_logged, run_gateway
from tests.gateway.recording.replays import replaying
from tests.gateway.sdk_clients import MODES, create_completion, make_client, sdk_client
from tests.judges.sdk import (
    judge_chat_reply,
    judge_chat_stream,
    judge_responses_reply,
    judge_responses_stream,
)

ZURICH = Call("get_weather", '{"city": "Z\\u00fcrich",  "n": 12345678901234567890}')
TOKYO = Call("get_time", '{"city":"東京 \\"☃\\""}')
# One call at a time, which all dialects support.
TURNS = (Turn("Let me see…", (ZURICH,)), Turn(None, (TOKYO,)), Turn("All is well ✅."))
PARALLEL = Turn("First both.", (ZURICH, TOKYO))
RESULTS = ("rain", "noon")
WITH_PARALLEL_CALLS = ("chat", "responses")
JUDGES = {
    ("chat", False): judge_chat_reply,
    ("chat", True): judge_chat_stream,
    ("responses", False): judge_responses_reply,
    ("responses", True): judge_responses_stream,
    ("legacy", False): judge_chat_reply,
    ("legacy", True): judge_chat_stream,
}
# Seconds after the first events of a slow stream.
PAUSES = (0.05, 0.5, 0.05)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record sessions of all kinds, and return the folder with the recordings."""
    folder = tmp_path_factory.mktemp("sessions")
    with ScriptedBackend() as backend:
        config = '[recording]\ndirectory = "recordings"\n' + backend_tables(backend.address)
        with run_gateway(config, folder) as gateway:
            record_sessions(backend, gateway)
            # The shutdown waits until everything is written.
        assert_no_errors_logged(gateway)
    return folder / "recordings"


def record_sessions(backend: ScriptedBackend, gateway: Gateway) -> None:
    for dialect in DIALECTS:
        script_turns(backend, dialect, f"{dialect}-session", *TURNS)
        run_session(gateway, "chat", f"{dialect}-session", "raw")
    for dialect in WITH_PARALLEL_CALLS:
        script_turns(backend, dialect, f"{dialect}-parallel", PARALLEL, TURNS[-1])
        with sdk_client(gateway) as sdk:
            client = make_client("chat", sdk, f"{dialect}-parallel", "raw")
            client.send_question()
            client.send_results(RESULTS)
        script_turns(backend, dialect, f"{dialect}-agent", *AGENT_TURNS)
        asyncio.run(run_agent("responses", f"{dialect}-agent", gateway.url, streamed=True))
    events = stream_events("chat", Turn("one two three four"))
    pauses = map(Pause, [*PAUSES, *[0] * (len(events) - len(PAUSES))])
    steps: list[Step] = [step for pair in zip(events, pauses, strict=True) for step in pair]
    backend.enqueue("chat-slow", stream_reply(*steps))
    with sdk_client(gateway) as sdk:
        messages = [{"role": "user", "content": "Slowly."}]
        create_completion(sdk, "raw", {"model": "chat-slow", "messages": messages})


def run_session(gateway: Gateway, dialect: str, model: str, mode: str) -> list[Turn]:
    """Run a loop with tools, and return the turns of the model."""
    with sdk_client(gateway) as sdk:
        client = make_client(dialect, sdk, model, mode)
        replies = [client.send_question()]
        replies += [client.send_results([result]) for result in RESULTS]
    return [reply.turn for reply in replies]


@pytest.fixture(scope="module")
def recordings(folder: Path) -> list[Recording]:
    return [read_recording(one) for one in find_recordings(folder)]


@pytest.fixture(scope="module")
def replay(folder: Path) -> Iterator[Gateway]:
    with replaying(folder) as gateway:
        yield gateway
        assert_no_errors_logged(gateway)
        assert "warning" not in gateway.log


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("client", "mode"), [(client, mode) for client in DIALECTS for mode in MODES[client]]
)
def test_session_is_replayed(replay: Gateway, client: str, mode: str, dialect: str) -> None:
    assert run_session(replay, client, f"{dialect}-session", mode) == [*TURNS]


@EVERY_PAIR
@STREAMED_OR_NOT
def test_replies_are_legal(
    replay: Gateway, recordings: list[Recording], client: str, dialect: str, *, streamed: bool
) -> None:
    """Each recorded request is sent in the dialect of the client."""
    target = adapters.get_dialect(client)
    requests = [
        one.client_request.data
        for one in recordings
        if one.exchange.model == f"{dialect}-session" and one.client_request is not None
    ]
    assert len(requests) == len(TURNS)
    for request in requests:
        translated = adapters.translate_request(request, client="chat", backend=client).body
        body = adapters.parse_body(translated).encode(stream=streamed)
        response = httpx.post(replay.url + target.path, content=body)
        assert response.status_code == 200, response.text
        JUDGES[client, streamed](response.content)
        if streamed:
            assert adapters.check(client, response.content) == []


@pytest.mark.parametrize("dialect", WITH_PARALLEL_CALLS)
@pytest.mark.parametrize("client", DIALECTS)
@STREAMED_OR_NOT
def test_parallel_calls_are_replayed_to_legacy_clients_one_by_one(
    replay: Gateway, client: str, dialect: str, *, streamed: bool
) -> None:
    mode = "raw" if streamed else "unary"
    if client == "legacy":
        turns = run_session(replay, client, f"{dialect}-parallel", mode)
        assert turns == [PARALLEL.for_legacy(), TURNS[1], TURNS[2]]
        return
    with sdk_client(replay) as sdk:
        one = make_client(client, sdk, f"{dialect}-parallel", mode)
        assert [one.send_question().turn, one.send_results(RESULTS).turn] == [PARALLEL, TURNS[2]]


@pytest.mark.parametrize("dialect", WITH_PARALLEL_CALLS)
@pytest.mark.parametrize("client", MODELS)
@STREAMED_OR_NOT
def test_agents_sdk_runs_its_loop(
    replay: Gateway, client: str, dialect: str, *, streamed: bool
) -> None:
    model = f"{dialect}-agent"
    output, cities = asyncio.run(run_agent(client, model, replay.url, streamed=streamed))
    assert output == AGENT_TURNS[-1].text
    assert sorted(cities) == sorted(["Zürich", "東京", "Oslo"])


def test_gaps_agree_with_the_recorded_pace(folder: Path, recordings: list[Recording]) -> None:
    """A slow machine makes gaps longer, but nothing makes them shorter."""
    [recording] = [one for one in recordings if one.exchange.model == "chat-slow"]
    recorded = [milliseconds / 1000 for milliseconds, _ in recording.exchange.calls[0].reads]
    request = recording.client_request
    assert request is not None
    with replaying(folder, "--pace", "recorded") as gateway:
        begin = time.monotonic()
        url = f"{gateway.url}/chat/completions"
        with httpx.stream("POST", url, content=request.data) as response:
            times = [time.monotonic() - begin for _ in response.iter_raw()]
    assert recorded[-1] > max(PAUSES)
    assert 0.9 < times[-1] / recorded[-1] < 20
    longest = max(after - before for before, after in pairwise(times))
    assert 0.5 < longest / max(PAUSES) < 20


def test_recordings_agree_with_their_replay(folder: Path, replay: Gateway) -> None:
    result = cli.run(f"replay {folder} --against {replay.url} --concurrency 1")
    assert result.exit_code == 0, result.stdout


def test_recordings_of_a_session_are_equal_to_themselves(folder: Path) -> None:
    result = cli.run(f"diff {folder} {folder}")
    assert result.exit_code == 0, result.stdout
