"""A gateway is killed under load, again and again: what a client saw the end of is there."""

import http.client
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.gateway import wire
from tests.gateway.conftest import Fresh, tables
from tests.gateway.process import Gateway, running
from tests.gateway.scripted import PATIENCE, ScriptedBackend
from tests.gateway.speech import Turn, script
from tests.gateway.stores import ON_BOTH_DATABASES, new_url
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
            assert self._news.wait_for(lambda: len(self.seen) >= count, PATIENCE)


@ON_BOTH_DATABASES
def test_no_end_that_was_seen_is_lost(
    kind: str, tmp_path: Path, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    numbers = itertools.count()
    backend.play_always(
        model,
        lambda received: script("chat", Turn(f"answer {next(numbers)}"), received.json()),
    )
    config = f'[state]\nurl = "{new_url(kind, tmp_path)}"\n' + tables(backend.address)
    ends = Ends()
    for _ in range(ROUNDS):
        with running(config, tmp_path) as gateway:
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
    with running(config, tmp_path) as gateway:
        check(gateway, model, ends)
    assert len(ends.seen) >= ROUNDS * ENOUGH


def talk(gateway: Gateway, model: str, ends: Ends, *, streamed: bool) -> None:
    """Go on with a conversation until the gateway is gone."""
    previous: str | None = None
    while True:
        asked = {"model": model, "input": "and?", "stream": streamed}
        try:
            answer = wire.post(
                gateway.port, "/v1/responses", {**asked, "previous_response_id": previous}
            )
        except wire.CutShort as cut:
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
            return wire.encoded(object_in(event, "response"))
    return None


def said(body: bytes) -> str:
    """Give what a response says."""
    items = objects_in(read_object(body), "output")
    return "".join(text_in(part, "text") for item in items for part in objects_in(item, "content"))


def check(gateway: Gateway, model: str, ends: Ends) -> None:
    """See that every end that was seen can be read again, and gone on from."""
    for name, text in ends.seen.items():
        found = wire.get(gateway.port, f"/v1/responses/{name}")
        assert found.status == 200, name
        assert said(found.body) == text
    for name in [*ends.seen][-WRITERS:]:
        asked = {"model": model, "input": "still there?", "previous_response_id": name}
        answer = wire.post(gateway.port, "/v1/responses", asked)
        assert answer.status == 200
