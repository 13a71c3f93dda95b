"""A gateway is killed under load, again and again: what a client saw the end of is there."""

import http.client
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import IncompleteRead
from pathlib import Path

from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_script
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import backend_tables
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.scripted_backend import ScriptedBackend
from tests.gateway.stores import ON_BOTH_DATABASES, new_url
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import object_in, objects_in, read_object, text_in

ROUNDS = 3
WRITERS = 6
# After so many ends that clients have seen, the gateway is killed.
ENOUGH = 40
GONE = (OSError, http.client.HTTPException)


class Ends:
    """The responses of which clients saw the end, each with what it said."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self._news = threading.Condition()

    def see(self, name: str, text: str) -> None:
        with self._news:
            self.seen[name] = text
            self._news.notify_all()

    def wait_for(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.seen) >= count, TIMEOUT_SECONDS)


@ON_BOTH_DATABASES
def test_no_end_that_was_seen_is_lost(
    kind: str, tmp_path: Path, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    numbers = itertools.count()
    backend.respond_with(
        model,
        lambda received: reply_script("chat", Turn(f"answer {next(numbers)}"), received.json()),
    )
    config = f'[state]\nurl = "{new_url(kind, tmp_path)}"\n' + backend_tables(backend.address)
    ends = Ends()
    for _ in range(ROUNDS):
        with run_gateway(config, tmp_path) as gateway:
            check(gateway, model, ends)
            with ThreadPoolExecutor(WRITERS) as pool:
                talks = [
                    pool.submit(talk, gateway, model, ends, streamed=number % 2 == 0)
                    for number in range(WRITERS)
                ]
                ends.wait_for(len(ends.seen) + ENOUGH)
                gateway.process.kill()
            for one in talks:
                one.result()
    with run_gateway(config, tmp_path) as gateway:
        check(gateway, model, ends)
    assert len(ends.seen) >= ROUNDS * ENOUGH


def talk(gateway: Gateway, model: str, ends: Ends, *, streamed: bool) -> None:
    """Go on with a conversation until the gateway is gone."""
    previous: str | None = None
    while True:
        asked = {"model": model, "input": "and?", "stream": streamed}
        try:
            answer = raw_http.post(
                gateway.port, "/v1/responses", {**asked, "previous_response_id": previous}
            )
        except IncompleteRead as cut:
            # The end may have come, and only what follows it not.
            body = completed(cut.partial) if streamed else None
            if body is not None:
                ends.see(text_in(read_object(body), "id"), said(body))
            return
        except GONE:
            return
        assert answer.status == 200, answer.body
        body = completed(answer.body) if streamed else answer.body
        assert body is not None, answer.body
        previous = text_in(read_object(body), "id")
        ends.see(previous, said(body))


def completed(stream: bytes) -> bytes | None:
    """Give the response that a stream ends with, if that came."""
    for block in stream.split(b"\n\n"):
        if block.startswith(b"event: response.completed\ndata: ") and block.endswith(b"}"):
            event = read_object(block.partition(b"data: ")[2])
            return raw_http.encode_body(object_in(event, "response"))
    return None


def said(body: bytes) -> str:
    """Give what a response says."""
    items = objects_in(read_object(body), "output")
    return "".join(text_in(part, "text") for item in items for part in objects_in(item, "content"))


def check(gateway: Gateway, model: str, ends: Ends) -> None:
    """See that every end that was seen can be read again, and gone on from."""
    for name, text in ends.seen.items():
        found = raw_http.get(gateway.port, f"/v1/responses/{name}")
        assert found.status == 200, name
        assert said(found.body) == text
    for name in [*ends.seen][-WRITERS:]:
        asked = {"model": model, "input": "still there?", "previous_response_id": name}
        answer = raw_http.post(gateway.port, "/v1/responses", asked)
        assert answer.status == 200
