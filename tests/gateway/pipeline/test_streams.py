"""How streams go over the wire: at once, in whole events, alive in silence, honest in the head."""

import asyncio
import gzip
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import openai
import pytest

import adapters
from tests.gateway import raw_http
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.gateway.backend_requests import ENDPOINT_PATHS
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.scripted_backend import (
    Gate,
    Pause,
    ScriptedBackend,
    json_reply,
    reply_until_close,
    stream_reply,
)
from tests.gateway.sdk_clients import PARAMETERS, make_client
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject

PAIRS = [*product(DIALECTS, DIALECTS)]
EVERY_PAIR = [pytest.param(*pair, id="{}-to-{}".format(*pair)) for pair in PAIRS]
Answers = dict[tuple[str, str], raw_http.RawResponse]
TURN = Turn("Grüezi ☃ mitenand.")


def asked(client: str, model: str) -> JsonObject:
    """Ask plainly for a stream."""
    question = [{"role": "user", "content": "hi"}]
    body: JsonObject = {"model": model, "stream": True}
    match client:
        case "responses":
            return {**body, "input": question}
        case "legacy":
            functions = [{"name": "get_time", "parameters": PARAMETERS}]
            return {**body, "messages": question, "functions": functions}
        case _:
            return {**body, "messages": question}


def open_stream(gateway: Gateway, client: str, model: str) -> raw_http.StreamedResponse:
    return raw_http.StreamedResponse(
        gateway.port, f"/v1{ENDPOINT_PATHS[client]}", asked(client, model)
    )


def judged(client: str, body: bytes) -> None:
    """Hold a whole stream to the rules of a dialect."""
    without_comments = re.sub(rb"(?m)^:.*\n\n", b"", body)
    if client == "responses":
        judge.judge_responses_stream(without_comments)
    else:
        judge.judge_chat_stream(without_comments)
    assert adapters.check(client, body) == []


@pytest.mark.parametrize(("client", "spoken"), EVERY_PAIR)
def test_events_leave_as_soon_as_they_come(
    client: str, spoken: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model(spoken), Gate()
    said = stream_events(spoken, TURN)
    # The first words are there, and the rest does not come before they have been seen.
    place = 1 + next(number for number, frame in enumerate(said) if b"Gr" in frame)
    backend.enqueue(model, stream_reply(*said[:place], gate, *said[place:]))
    with open_stream(gateway, client, model) as answered:
        begun = answered.read_until(b"Gr")
        assert begun.endswith(b"\n\n"), "an event is cut in two"
        gate.open()
        body = begun + answered.read_all()
    judged(client, body)
    assert answered.headers["content-type"].startswith("text/event-stream")
    assert answered.headers["x-accel-buffering"] == "no"
    assert "no-transform" in answered.headers["cache-control"]
    assert not {"connection", "content-length"} & answered.headers.keys()


@pytest.mark.parametrize(("client", "spoken"), EVERY_PAIR)
def test_events_of_one_read_are_one_write(
    client: str, spoken: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(spoken)
    said = stream_events(spoken, Turn("word " * 100))
    # All in one burst, cut where no event ends.
    raw = b"".join(said)
    half = raw.index(b"word") + 2
    backend.enqueue(model, stream_reply(raw[:half], Pause(0.05), raw[half:]))
    path = f"/v1{ENDPOINT_PATHS[client]}"
    pieces = asyncio.run(raw_http.fetch_chunks(gateway.port, path, asked(client, model)))
    assert all(piece.endswith(b"\n\n") for piece in pieces), "an event is cut in two"
    # The socket may cut what is large; but nobody writes event by event.
    assert len(pieces) < len(said) / 2
    judged(client, b"".join(pieces))


def at_once(ask: Callable[[str, str], raw_http.RawResponse]) -> Answers:
    """Ask for every pair at the same time: what takes long takes long only once."""
    with ThreadPoolExecutor(len(PAIRS)) as pool:
        return dict(zip(PAIRS, pool.map(ask, *zip(*PAIRS, strict=True)), strict=True))


def test_status_is_that_of_the_backend_even_if_it_takes_long(
    heartbeat_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    def ask(client: str, spoken: str) -> raw_http.RawResponse:
        model = new_model(spoken)
        # Longer than our pulse: a client must not get a head before the backend's own (P158).
        backend.enqueue(model, (Pause(0.5), *json_reply(b'{"error":{"message":"no"}}', status=429)))
        return raw_http.post(
            heartbeat_gateway.port, f"/v1{ENDPOINT_PATHS[client]}", asked(client, model)
        )

    assert {answered.status for answered in at_once(ask).values()} == {429}


# Keep-alives


def pulses(client: str, body: bytes) -> int:
    """Count what a client takes for a sign of life."""
    if client == "responses":
        # Codex does not count comments (P147); one such event is there in any case.
        return body.count(b"event: response.in_progress\n") - 1
    return len(re.findall(rb"(?m)^:.*\n\n", body))


@pytest.fixture(scope="module")
def filled(heartbeat_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel) -> Answers:
    """Give streams with silence before anything is said, in the middle, and inside of an event."""

    def ask(client: str, spoken: str) -> raw_http.RawResponse:
        model, gates = new_model(spoken), [Gate(), Gate(), Gate()]
        said = stream_events(spoken, TURN)
        half = len(said[3]) // 2
        torn = (said[3][:half], gates[1], said[3][half:])
        backend.enqueue(model, stream_reply(gates[0], *said[:3], *torn, gates[2], *said[4:]))
        with open_stream(heartbeat_gateway, client, model) as answered:
            # Nothing is said before each silence is filled; the first of them with anything.
            body = answered.read_some()
            gates[0].open()
            for number, gate in enumerate(gates[1:], 2):
                while pulses(client, body) < number:
                    piece = answered.read_some()
                    assert piece, body
                    body += piece
                gate.open()
            body += answered.read_all()
        return raw_http.RawResponse(answered.status, answered.headers, body)

    return at_once(ask)


@pytest.mark.parametrize(("client", "spoken"), EVERY_PAIR)
def test_silence_is_filled(client: str, spoken: str, filled: Answers) -> None:
    answered = filled[client, spoken]
    assert answered.status == 200
    assert pulses(client, answered.body) >= 3
    if client == spoken == "responses":
        # The backend numbers its events itself, so what we put between has no number of its own.
        _, *rest = re.split(rb"(?=event: response.in_progress\n)", answered.body)
        first, others = rest[0], [piece.partition(b"\n\n")[2] for piece in rest[1:]]
        judged(client, b"".join([_, first, *others]))
    else:
        judged(client, answered.body)


@pytest.mark.parametrize("client", DIALECTS)
def test_sdk_reads_a_stream_with_pulses(
    client: str, heartbeat_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    said = stream_events("chat", TURN, usage=False)
    backend.enqueue(model, stream_reply(Pause(0.3), *said[:3], Pause(0.3), *said[3:]))
    with openai.OpenAI(
        base_url=heartbeat_gateway.url, api_key="k", max_retries=0, timeout=TIMEOUT_SECONDS
    ) as sdk:
        assert make_client(client, sdk, model, "raw").send_question().turn == TURN


PULSE = {"chat": b": ", "legacy": b": ", "responses": b"response.in_progress"}


@pytest.mark.parametrize("client", DIALECTS)
def test_client_that_leaves_after_a_pulse(
    client: str, heartbeat_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(model, stream_reply(Gate()))
    with open_stream(heartbeat_gateway, client, model) as answered:
        answered.read_until(PULSE[client])
    assert backend.wait_for_request(model).closed.wait(TIMEOUT_SECONDS), (
        "the backend works on for nobody"
    )


@pytest.mark.parametrize("client", DIALECTS)
def test_timeout_after_pulses(
    client: str, heartbeat_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("steady-chat")
    backend.enqueue(model, stream_reply(Gate()))
    with open_stream(heartbeat_gateway, client, model) as answered:
        assert answered.status == 200
        body = answered.read_all()
    assert PULSE[client] in body
    assert b"5 seconds" in body
    judged(client, body)


def test_quick_streams_have_no_pulses(
    gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(model, stream_reply(*stream_events("chat", TURN)))
    with open_stream(gateway, "responses", model) as answered:
        assert pulses("responses", answered.read_all()) == 0


# Odd bytes


@pytest.mark.parametrize(("client", "spoken"), EVERY_PAIR)
def test_characters_cut_by_borders_are_whole_again(
    client: str, spoken: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(spoken)
    turn = Turn("☃🦜東", (Call("get_time", '{"city":"東🦜"}'),))
    raw = _unescaped(b"".join(stream_events(spoken, turn)))
    backend.enqueue(model, reply_until_close(*_cut_in_characters(raw)))
    with open_stream(gateway, client, model) as answered:
        body = answered.read_all()
    judged(client, body)
    assert "\ufffd" not in body.decode()


def _unescaped(raw: bytes) -> bytes:
    """Write characters as they are, where JSON has them escaped."""
    escapes = re.compile(rb"(?:\\u[0-9a-f]{4})+")
    return escapes.sub(lambda found: str(json.loads(b'"%s"' % found[0])).encode(), raw)


def _cut_in_characters(raw: bytes) -> Iterator[bytes | Pause]:
    """Cut inside of every character of several bytes, with time between (P153)."""
    begun = 0
    for place in (number for number, byte in enumerate(raw) if byte & 0xC0 == 0x80):
        yield raw[begun:place]
        yield Pause(0.002)
        begun = place
    yield raw[begun:]


@pytest.mark.parametrize(("client", "spoken"), EVERY_PAIR)
def test_very_long_event(
    client: str, spoken: str, sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(spoken)
    # Ten times the limit on which others gave up (P152), in one event and one line.
    long = '{"city":"' + "Zürich " * 100_000 + '"}'
    turn = Turn(None, (Call("get_weather", long),))
    raw = b"".join(_in_one_event(spoken, turn))
    backend.enqueue(
        model, stream_reply(*(raw[at : at + 50_000] for at in range(0, len(raw), 50_000)))
    )
    assert make_client(client, sdk, model, "raw").send_question().turn == turn


def _in_one_event(spoken: str, turn: Turn) -> list[bytes]:
    if spoken == "responses":
        return stream_events(spoken, turn)
    said = stream_events(spoken, Turn(None, (Call("get_weather", "@"),)))
    arguments = raw_http.encode_body({"a": turn.calls[0].arguments})[len(b'{"a": "') : -len(b'"}')]
    return [frame.replace(b"@", arguments) for frame in said]


# Backends that answer in another way than they were asked


@pytest.mark.parametrize(("client", "spoken"), EVERY_PAIR)
def test_whole_answer_to_who_wants_a_stream(
    client: str, spoken: str, sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(spoken)
    turn = Turn("Here.", (Call("get_time", '{"city":"Bern"}'),))
    backend.enqueue(model, json_reply(reply_body(spoken, turn)))
    assert make_client(client, sdk, model, "raw").send_question().turn == turn


@pytest.mark.parametrize(("client", "spoken"), EVERY_PAIR)
def test_stream_to_who_wants_a_whole_answer(
    client: str, spoken: str, sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(spoken)
    turn = Turn("Here.", (Call("get_time", '{"city":"Bern"}'),))
    backend.enqueue(model, stream_reply(*stream_events(spoken, turn)))
    assert make_client(client, sdk, model, "unary").send_question().turn == turn


@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("spoken", DIALECTS)
def test_compressed_although_nobody_asked(
    spoken: str, mode: str, sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, squeezed = new_model(spoken), {"Content-Encoding": "gzip"}
    said = gzip.compress(b"".join(stream_events(spoken, TURN)))
    streamed = stream_reply(said[:50], said[50:], headers=squeezed)
    played = json_reply(gzip.compress(reply_body(spoken, TURN)), headers=squeezed)
    backend.respond_with(model, lambda _: played if mode == "unary" else streamed)
    for client in DIALECTS:
        assert make_client(client, sdk, model, mode).send_question().turn == TURN


@pytest.mark.parametrize(("client", "spoken"), EVERY_PAIR)
def test_error_under_200_to_who_wants_a_stream(
    client: str, spoken: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(spoken)
    error = b'{"error":{"message":"slow down","type":"x","code":"rate_limit_exceeded"}}'
    backend.enqueue(model, json_reply(error))
    with open_stream(gateway, client, model) as answered:
        assert answered.status == 429
        assert b"slow down" in answered.read_all()


@pytest.mark.parametrize(("client", "spoken"), EVERY_PAIR)
def test_stream_with_nothing_in_it_is_an_error(
    client: str, spoken: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(spoken)
    backend.enqueue(
        model, stream_reply(), stream_reply(b": ping\n\n"), stream_reply(b"data: [DONE]\n\n")
    )
    for _ in range(3):
        with open_stream(gateway, client, model) as answered:
            # Empty answers end no turn in silence (P164).
            assert answered.status == 502
            judge.judge_error(answered.read_all())
