"""Helpers for tests of background responses: gateways on one database, and their streams."""

import signal
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from adapters.responses.conformance import check_stream
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.gateway_config import backend_tables, state_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.rows import LOCK_ERRORS, execute
from tests.gateway.scripted_backend import Gate, Script, ScriptedBackend, stream_reply
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.judges import open_responses
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject, object_in, read_object, text_in

KEY = "sk-me"
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
TEXT = "One two three four five six."
TURN = Turn(TEXT)
RUNNING = ("queued", "in_progress")
# So many frames of an answer are enough for some of its text to be told.
SOME = {"chat": 3, "legacy": 3, "responses": 6}


# Nothing is waited for in the end. Leases are longer than any machine stalls: that they have run
# out is for a test to say.
QUICK = "[background]\nlease_duration = 60\n[server]\nshutdown_timeout = 0.2\n"
# One at a time.
ALONE = QUICK.replace("[background]", "[background]\nconcurrency = 1")


def configured(backend: ScriptedBackend, url: str, more: str = QUICK) -> str:
    """Configure a gateway on this database."""
    return state_table(url, more) + backend_tables(backend.address)


@contextmanager
def nodes(
    url: str, backend: ScriptedBackend, folder: Path, *more: str
) -> Generator[tuple[Gateway, ...]]:
    """Run gateways on one database, each configured in its own way."""
    with ExitStack() as stack:
        started: list[Gateway] = []
        for number, extra in enumerate(more):
            own = folder / str(number)
            own.mkdir()
            started.append(stack.enter_context(run_gateway(configured(backend, url, extra), own)))
        yield tuple(started)


def run_out(url: str, patience: float = TIMEOUT_SECONDS) -> None:
    """Have all leases run out at once."""
    execute(url, "UPDATE jobs SET lease = 0", patience)


@contextmanager
def asleep(gateway: Gateway, url: str) -> Generator[None]:
    """Stop a process where it stands until its leases have run out, and longer."""
    wait_until(lambda: _fell_asleep(gateway, url))
    try:
        yield
    finally:
        gateway.process.send_signal(signal.SIGCONT)


def _fell_asleep(gateway: Gateway, url: str) -> bool:
    """Stop a process; tell whether it stands where it holds nothing that others would wait for."""
    gateway.process.send_signal(signal.SIGSTOP)
    wait_until(gateway.is_stopped)
    try:
        run_out(url, patience=0.5)
    except LOCK_ERRORS:
        gateway.process.send_signal(signal.SIGCONT)
        return False
    return True


def halved(dialect: str, gate: Gate, turn: Turn = TURN) -> Script:
    """Say some of a turn, and the rest when the gate opens.

    What is said before comes with one read and is kept with one write: who has seen some of it
    knows that nothing more is being written.
    """
    said = stream_events(dialect, turn)
    some = SOME[dialect]
    return stream_reply(b"".join(said[:some]), gate, *said[some:])


def create(gateway: Gateway, model: str, **more: object) -> JsonObject:
    """Ask for a response in the background; give what is answered at once."""
    body: JsonObject = {"model": model, "input": "Count.", "background": True, **more}
    answer = raw_http.post(gateway.port, "/v1/responses", body, AUTHORIZED)
    assert answer.status == 200, answer.body
    return answer.json()


def show(gateway: Gateway, name: str) -> JsonObject:
    """Ask for a response as it is now."""
    answer = raw_http.get(gateway.port, f"/v1/responses/{name}", AUTHORIZED)
    assert answer.status == 200, answer.body
    return answer.json()


def cancel(gateway: Gateway, name: str) -> raw_http.RawResponse:
    return raw_http.post(gateway.port, f"/v1/responses/{name}/cancel", b"", AUTHORIZED)


def events_path(name: str, after: int | None = None) -> str:
    more = "" if after is None else f"&starting_after={after}"
    return f"/v1/responses/{name}?stream=true{more}"


def replay(gateway: Gateway, name: str, after: int | None = None) -> bytes:
    """Read the events to their end, whenever that comes."""
    answer = raw_http.get(gateway.port, events_path(name, after), AUTHORIZED)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    return answer.body


def wait_for(gateway: Gateway, name: str, status: str) -> JsonObject:
    """Poll, as clients do, until a response has a status."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while (shown := show(gateway, name))["status"] != status:
        assert time.monotonic() < end, f"it is not {status}: {shown}\n{gateway.log}"
        time.sleep(0.02)
    judge_response(shown)
    return shown


def judge_response(shown: JsonObject) -> None:
    open_responses.assert_response(shown, allow=open_responses.EVERYTHING)


def events_of(data: bytes) -> list[JsonObject]:
    lines = (line for line in data.split(b"\n") if line.startswith(b"data: {"))
    return [read_object(line.removeprefix(b"data: ")) for line in lines]


def kinds_of(data: bytes) -> list[str]:
    return [text_in(event, "type") for event in events_of(data)]


def judge_stream(data: bytes) -> JsonObject:
    """Hold a stream to every rule that we know; give the response that it ends with."""
    assert check_stream(data) == []
    judge.judge_responses_stream(data)
    open_responses.assert_stream(data, allow=open_responses.EVERYTHING)
    assert kinds_of(data)[:2] == ["response.created", "response.queued"]
    return object_in(events_of(data)[-1], "response")
