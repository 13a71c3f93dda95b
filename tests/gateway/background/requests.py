"""Nodes that run background responses on one database, and the streams of these responses."""

import signal
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from openai.types.responses import Response

from adapters.responses.conformance import check_stream
from gateway.pytest_plugin.scripted_backend import Gate, Script, ScriptedBackend, stream_reply
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import backend_tables, state_table
from tests.gateway.gateway_process import assert_no_errors_logged, is_stopped, run_gateway
from tests.gateway.rows import LOCK_ERRORS, execute
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.stores import new_url
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.judges import open_responses
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject, object_in, read_object, text_in

TEXT = "One two three four five six."
TURN = Turn(TEXT)
RUNNING = ("queued", "in_progress")
# So many events of a reply contain some of its text.
SOME = {"chat": 3, "legacy": 3, "responses": 6}
# In a stream that contains some text.
DELTA = b"output_text.delta"

# Leases outlast any delay of the machine; a test that needs expired ones changes the database.
QUICK = "[background]\nlease_duration = 60\n[server]\nshutdown_timeout = 0.2\n"
# One job at a time.
ALONE = QUICK.replace("[background]", "[background]\nconcurrency = 1")


@dataclass(frozen=True)
class Node(Harness):
    """A gateway that shares a database with others, and requests for background responses."""

    database: str

    def create(self, model: str, **fields: object) -> str:
        """Create a background response and return its id."""
        reply = self.post({"model": model, "input": "Count.", "background": True, **fields})
        assert reply.status == 200, reply.body
        return text_in(reply.json(), "id")

    def start(self, backend_name: str = "chat", **fields: object) -> tuple[str, str, Gate]:
        """Create a response; return its id, its model and the gate before the rest of its reply."""
        gate = Gate()
        model = self.enqueue(backend_name, halved(backend_name, gate))
        response_id = self.create(model, **fields)
        self.backend.wait_for_request(model)
        return response_id, model, gate

    def show(self, response_id: str) -> JsonObject:
        """Return a response as it is now."""
        reply = raw_http.get(self.gateway.port, f"/v1/responses/{response_id}")
        assert reply.status == 200, reply.body
        open_responses.assert_response(reply.json(), allow=open_responses.EVERYTHING)
        return reply.json()

    def cancel(self, response_id: str) -> raw_http.RawResponse:
        return self.post(b"", f"/v1/responses/{response_id}/cancel")

    def follow(self, response_id: str, after: int | None = None) -> raw_http.StreamedResponse:
        """Read the events of a response as they arrive."""
        return raw_http.StreamedResponse(self.gateway.port, events_path(response_id, after), None)

    def replay(self, response_id: str, after: int | None = None) -> bytes:
        """Read the events of a response to their end."""
        with self.follow(response_id, after) as streamed:
            data = streamed.read_all()
        assert streamed.status == 200, data
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert streamed.headers["x-accel-buffering"] == "no"
        return data

    def last_response(self, response_id: str) -> JsonObject:
        """Validate the stream of a response, and return the response at its end."""
        return judge_stream(self.replay(response_id))

    def assert_completed(self, response_id: str) -> None:
        """Raise unless a response is completed at the end of its stream."""
        assert self.last_response(response_id)["status"] == "completed"

    def retrieve_finished(self, response_id: str) -> Response:
        """Wait for the end of a response, and return it as the SDK reads it."""
        self.replay(response_id)
        return self.sdk.responses.retrieve(response_id)

    def wait_for(self, response_id: str, status: str) -> JsonObject:
        """Poll, as clients do, until a response has a status."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while (shown := self.show(response_id))["status"] != status:
            assert time.monotonic() < end, f"not {status}: {shown}\n{self.gateway.log}"
            time.sleep(0.02)
        return shown

    def assert_closed(self, model: str) -> None:
        """Raise unless the first request for a model is cancelled at the backend."""
        assert self.backend.received(model)[0].closed.wait(TIMEOUT_SECONDS)

    def expire_leases(self, lock_seconds: float = TIMEOUT_SECONDS) -> None:
        execute(self.database, "UPDATE jobs SET lease = 0", lock_seconds)

    @contextmanager
    def suspended(self) -> Generator[None]:
        """Stop the process until its leases have expired, and longer."""
        wait_until(self._suspend)
        try:
            yield
        finally:
            self.gateway.process.send_signal(signal.SIGCONT)

    def _suspend(self) -> bool:
        """Stop the process; return whether it holds no lock that others would wait for."""
        self.gateway.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(self.gateway))
        try:
            self.expire_leases(lock_seconds=0.5)
        except LOCK_ERRORS:
            self.gateway.process.send_signal(signal.SIGCONT)
            return False
        return True


@contextmanager
def run_nodes(
    backend: ScriptedBackend,
    folder: Path,
    *settings: str,
    kind: str = "sqlite",
    database_fails: bool = False,
) -> Generator[tuple[Node, ...]]:
    """Run a gateway with each of these settings, all on one database.

    If the database fails, its driver logs tracebacks.
    """
    url = new_url(kind, folder)
    with ExitStack() as stack:
        nodes: list[Node] = []
        for number, extra in enumerate(settings):
            own = folder / str(number)
            own.mkdir(exist_ok=True)
            config = state_table(url, extra) + backend_tables(backend.address)
            gateway = stack.enter_context(run_gateway(config, own))
            sdk = stack.enter_context(sdk_client(gateway, "sk-test"))
            nodes.append(Node(gateway, backend, sdk, url))
        yield tuple(nodes)
    for node in nodes:
        if not database_fails:
            assert_no_errors_logged(node.gateway)


def halved(dialect: str, gate: Gate, turn: Turn = TURN) -> Script:
    """Return a stream that stops after some of its text until the gate opens.

    The first part comes in one read and is saved in one write: once some of it is visible, nothing
    more is being written.
    """
    events = stream_events(dialect, turn)
    some = SOME[dialect]
    return stream_reply(b"".join(events[:some]), gate, *events[some:])


def events_path(response_id: str, after: int | None = None) -> str:
    more = "" if after is None else f"&starting_after={after}"
    return f"/v1/responses/{response_id}?stream=true{more}"


def events_of(data: bytes) -> list[JsonObject]:
    lines = (line for line in data.split(b"\n") if line.startswith(b"data: {"))
    return [read_object(line.removeprefix(b"data: ")) for line in lines]


def kinds_of(data: bytes) -> list[str]:
    return [text_in(event, "type") for event in events_of(data)]


def judge_stream(data: bytes) -> JsonObject:
    """Validate a stream by every known rule, and return the response at its end."""
    assert check_stream(data) == []
    judge.judge_responses_stream(data)
    open_responses.assert_stream(data, allow=open_responses.EVERYTHING)
    assert kinds_of(data)[:2] == ["response.created", "response.queued"]
    return object_in(events_of(data)[-1], "response")
