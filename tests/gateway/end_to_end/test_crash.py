"""A gateway is killed under load: replies that clients received to their end are stored."""

import http.client
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gateway.pytest_plugin.scripted_backend import ScriptedBackend
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_script
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import backend_tables, state_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.stores import ON_BOTH_DATABASES, new_url
from tests.gateway.waiting import wait_until
from tests.judges.reading import JsonObject, object_in, objects_in, read_object, text_in

ROUNDS = 3
WRITERS = 6
# The gateway is killed after this many complete replies.
REPLIES_PER_ROUND = 40


# The texts of the responses that clients received to their end, by id.
Replies = dict[str, str]


@ON_BOTH_DATABASES
def test_complete_replies_survive_a_kill(
    kind: str, tmp_path: Path, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    texts = map("reply {}".format, itertools.count())
    backend.respond_with(model, lambda it: reply_script("chat", Turn(next(texts)), it.json()))
    config = state_table(new_url(kind, tmp_path)) + backend_tables(backend.address)
    complete: Replies = {}
    for _ in range(ROUNDS):
        with run_gateway(config, tmp_path) as gateway:
            check(gateway, model, complete)
            with ThreadPoolExecutor(WRITERS) as pool:
                conversations = [
                    pool.submit(converse, gateway, model, complete, streamed=number % 2 == 0)
                    for number in range(WRITERS)
                ]
                wait_for_replies(complete, len(complete) + REPLIES_PER_ROUND)
                gateway.process.kill()
            for one in conversations:
                one.result()
    with run_gateway(config, tmp_path) as gateway:
        check(gateway, model, complete)
    assert len(complete) >= ROUNDS * REPLIES_PER_ROUND


def wait_for_replies(complete: Replies, count: int) -> None:
    wait_until(lambda: len(complete) >= count)


def converse(gateway: Gateway, model: str, complete: Replies, *, streamed: bool) -> None:
    """Continue a conversation until the gateway is killed."""
    previous: str | None = None
    while True:
        request = {"model": model, "input": "and?", "previous_response_id": previous}
        try:
            response = raw_http.post(gateway.port, "/v1/responses", {**request, "stream": streamed})
        except http.client.IncompleteRead as error:
            # The last event may have arrived without what follows it.
            body = completed_response(error.partial) if streamed else None
            if body is not None:
                complete[text_in(body, "id")] = text_of(body)
            return
        except (OSError, http.client.HTTPException):
            return
        assert response.status == 200, response.body
        body = completed_response(response.body) if streamed else response.json()
        assert body is not None, response.body
        previous = text_in(body, "id")
        complete[previous] = text_of(body)


def completed_response(stream: bytes) -> JsonObject | None:
    """Return the response of the last event of a stream, if it arrived."""
    for block in stream.split(b"\n\n"):
        if block.startswith(b"event: response.completed\ndata: ") and block.endswith(b"}"):
            return object_in(read_object(block.partition(b"data: ")[2]), "response")
    return None


def text_of(response: JsonObject) -> str:
    items = objects_in(response, "output")
    return "".join(text_in(part, "text") for item in items for part in objects_in(item, "content"))


def check(gateway: Gateway, model: str, complete: Replies) -> None:
    """Check that every complete response can be retrieved and continued."""
    for name, text in complete.items():
        stored = raw_http.get(gateway.port, f"/v1/responses/{name}")
        assert stored.status == 200, name
        assert text_of(stored.json()) == text
    for name in [*complete][-WRITERS:]:
        request = {"model": model, "input": "still there?", "previous_response_id": name}
        response = raw_http.post(gateway.port, "/v1/responses", request)
        assert response.status == 200
