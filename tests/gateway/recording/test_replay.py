"""`dragoman replay` as a backend: which recorded reply a client receives, and how."""

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion

from gateway.recording.format import (
    Client,
    Exchange,
    Recording,
    make_body,
    read_recording,
    write_recording,
)
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.gateway_config import DIALECTS, EVERY_PAIR, STREAMED_OR_NOT
from tests.gateway.gateway_process import Gateway, assert_no_errors_logged
from tests.gateway.recording.replays import (
    CALLING,
    async_client,
    question,
    question_in,
    record,
    replaying,
)
from tests.gateway.sdk_clients import (
    chat_reply,
    create_completion,
    create_response,
    join_chunks,
    responses_reply,
    sdk_client,
)
from tests.judges.samples import encoded

MODE = {False: "unary", True: "raw"}
LONG = Turn("one two three four five six")


def dated(day: int) -> str:
    """Return a text with a date, a time and a random id."""
    return (
        f"It is 2026-01-0{day}T10:00:0{day}Z in session 1f2e3d4c-aaaa-4bbb-8ccc-00000000000{day}."
    )


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("recordings")
    for dialect, streamed in product(DIALECTS, (False, True)):
        model = f"{dialect}-{MODE[streamed]}"
        request = question(model=model, stream=streamed)
        record(folder / model, dialect, CALLING, request, streamed=streamed)
    for number in (1, 2):
        record(folder / f"again-{number}", turn=Turn(f"Reply {number}"), request=question("Again?"))
    record(folder / "oslo")
    record(folder / "rome", request=question("What is the capital of Italy?", temperature=1))
    both = [question("Both?", stream=streamed) for streamed in (False, True)]
    record(folder / "both-1", turn=Turn("whole"), request=both[0])
    record(folder / "both-2", turn=Turn("streamed"), request=both[1], streamed=True)
    record(folder / "other", "responses", Turn("From Responses."), question("Another dialect?"))
    for number, day in enumerate((2, 3)):
        turn = Turn(("First.", "Second.")[number])
        record(folder / f"dated-{number}", turn=turn, request=question(dated(day)))
    record(folder / "key", request=question("My key is [redacted:1]."))
    record(folder / "alias", request=question(model="backend-name"))
    exchange = folder / "alias/exchange.json"
    exchange.write_text(exchange.read_text().replace('"model": "backend-', '"model": "alias[1]-'))
    record(
        folder / "limited",
        "responses",
        request=question(model="limited"),
        body=b'{"error":{"message":"slow down","type":"rate_limit_error","code":"slow"}}',
        status=429,
        reply_headers={"retry-after": "7"},
    )
    broken = b'data: {"choices":[]}\n\ndata: [DONE]\n\n'
    record(folder / "broken", request=question(model="broken"), body=broken)
    with replaying(folder) as gateway:
        yield gateway
        assert_no_errors_logged(gateway)


def ask(gateway: Gateway, request: dict[str, Any], mode: str = "unary") -> Turn:
    """Send a request of any dialect with the SDK."""
    with sdk_client(gateway) as sdk:
        if "input" in request:
            return responses_reply(create_response(sdk, mode, request)).turn
        return chat_reply(create_completion(sdk, mode, request)).turn


@EVERY_PAIR
@STREAMED_OR_NOT
@pytest.mark.parametrize("recorded", ["unary", "raw"])
def test_reply_is_translated_to_the_dialect_and_mode_of_the_client(
    replay: Gateway, client: str, dialect: str, recorded: str, *, streamed: bool
) -> None:
    request = question_in(client, model=f"{dialect}-{recorded}")
    assert ask(replay, request, MODE[streamed]) == CALLING


@pytest.mark.parametrize("client", DIALECTS)
def test_error_for_another_request_names_the_difference(replay: Gateway, client: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        ask(replay, question_in(client, "How is Bergen?"))
    assert caught.value.code == "no_matching_recording"
    message = 'messages[0].content is "How is Bergen?", recorded "How is Oslo?"'
    assert f"oslo is the nearest: {message}" in str(caught.value)


def test_error_for_another_model_names_the_model(replay: Gateway) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        ask(replay, question(model="unknown"))
    assert 'is the nearest: model is "unknown", recorded "' in str(caught.value)


def test_replies_to_equal_requests_are_sent_in_their_order(replay: Gateway) -> None:
    texts = [ask(replay, question_in("chat", "Again?")).text for _ in range(3)]
    assert texts == ["Reply 1", "Reply 2", "Reply 2"]


def test_recording_in_the_mode_of_the_client_is_preferred(replay: Gateway) -> None:
    assert ask(replay, question_in("chat", "Both?"), "raw").text == "streamed"
    assert ask(replay, question_in("responses", "Both?")).text == "whole"


@pytest.mark.parametrize("name", ["alias[1]-name", "backend-name"])
def test_model_has_the_name_of_the_client_or_of_the_backend(replay: Gateway, name: str) -> None:
    assert ask(replay, question(model=name)) == CALLING
    with sdk_client(replay) as sdk:
        assert name in {model.id for model in sdk.models.list()}


@pytest.mark.parametrize("client", DIALECTS)
def test_recordings_of_several_dialects_are_searched(replay: Gateway, client: str) -> None:
    assert ask(replay, question_in(client, "Another dialect?")).text == "From Responses."


def test_dates_and_ids_in_texts_are_ignored_unless_one_recording_has_them(
    replay: Gateway,
) -> None:
    for day, text in ((2, "First."), (3, "Second."), (4, "First.")):
        assert ask(replay, question_in("responses", dated(day))).text == text
    with pytest.raises(openai.NotFoundError):
        ask(replay, question_in("chat", dated(4).replace("session", "another session")))


def test_redacted_values_match_any_value(replay: Gateway) -> None:
    assert ask(replay, question("My key is sk-12345678.")) == CALLING


def test_recorded_errors_are_sent(replay: Gateway) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        ask(replay, question(model="limited"))
    assert caught.value.response.headers["retry-after"] == "7"
    assert "slow down" in str(caught.value)


def test_violations_of_recorded_streams_are_printed(replay: Gateway) -> None:
    assert "warning: broken: line 1 of the backend's stream: id is missing" in replay.log
    assert "warning: oslo" not in replay.log


def test_async_clients_receive_recorded_replies(replay: Gateway) -> None:
    async def receive() -> list[ChatCompletion]:
        async with async_client(replay) as sdk:
            completions: Any = sdk.chat.completions
            request = question(model="responses-raw")
            chunks = [chunk async for chunk in await completions.create(**request, stream=True)]
            return [await completions.create(**request), join_chunks(chunks)]

    assert [chat_reply(one).turn for one in asyncio.run(receive())] == [CALLING, CALLING]


def test_recorded_ids_of_responses_stand_for_their_history(tmp_path: Path) -> None:
    """The replay stores responses under ids of its own, and sends backends the whole history."""
    texts = ["Hello, Ada.", "You are Ada."]
    for number, text in enumerate(texts):
        request = {"model": "m", "input": f"Question {number}"}
        if number:
            request["previous_response_id"] = f"resp_{number - 1}"
        reply = json.loads(reply_body("responses", Turn(text)))
        bodies = {
            "client-request": make_body(encoded({**request})),
            "client-reply": make_body(encoded({**reply, "id": f"resp_{number}"})),
        }
        exchange = Exchange(1, client=Client("responses", status=200))
        write_recording(tmp_path / str(number), Recording(exchange, bodies))
    with replaying(tmp_path) as gateway, sdk_client(gateway) as sdk:
        first = sdk.responses.create(model="m", input="Question 0")
        second = sdk.responses.create(model="m", input="Question 1", previous_response_id=first.id)
    assert [first.output_text, second.output_text] == texts


TEXT_CALL = '<tool_call>{"name": "weather", "arguments": {"city":"Oslo"}}</tool_call>'


def test_recorded_capabilities_are_used_unless_replies_are_raw(tmp_path: Path) -> None:
    capabilities = {"text_calls": ["hermes"]}
    record(tmp_path / "1", turn=Turn(TEXT_CALL), capabilities=capabilities)
    record(tmp_path / "2", turn=Turn("Plain."), request=question("Without capabilities?"))
    with replaying(tmp_path) as gateway:
        for client in DIALECTS:
            assert ask(gateway, question_in(client)).calls[0].name == "weather"
            assert ask(gateway, question_in(client, "Without capabilities?")) == Turn("Plain.")
    with replaying(tmp_path, "--raw") as gateway:
        assert ask(gateway, question_in("chat")) == Turn(TEXT_CALL)


def test_cut_stream_ends_with_an_error_after_its_events(tmp_path: Path) -> None:
    record(tmp_path / "1", turn=LONG, streamed=True)
    with replaying(tmp_path, "--cut", "3") as gateway:
        for client in DIALECTS:
            with pytest.raises(openai.APIError, match="before the reply was complete"):
                ask(gateway, question_in(client), "raw")
        with pytest.raises(openai.APIError, match="before the reply was complete"):
            ask(gateway, question_in("chat"))


@pytest.mark.parametrize(("pace", "factor"), [("recorded", 1), ("4", 4)])
def test_recorded_pace_is_kept(tmp_path: Path, pace: str, factor: float) -> None:
    """A slow machine makes the stream slower, but nothing makes it faster."""
    record(tmp_path / "1", turn=LONG, streamed=True)
    recorded = read_recording(tmp_path / "1").exchange.calls[0].reads[-1][0] / 1000
    with replaying(tmp_path, "--pace", pace) as gateway, sdk_client(gateway) as sdk:
        completions: Any = sdk.chat.completions
        begin = time.monotonic()
        for _ in completions.create(**question(stream=True)):
            pass
        assert (time.monotonic() - begin) * factor / recorded > 0.9
