"""Queued responses, and recorded streams that end with an error."""

import pytest

from adapters.errors import InvalidRequestError
from adapters.ids import deterministic_ids
from adapters.ir.types import Error
from adapters.responses.conformance import check_stream
from adapters.responses.reply_writer import write_queued_response
from adapters.responses.stream_repair import failure_events
from tests.judges import open_responses, sdk
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.sample_streams import numbered, responses_events, responses_stream
from tests.judges.samples import call, custom_call, encoded, message, reasoning, response

REQUEST = encoded({"model": "m", "input": "hi", "instructions": "Be brief.", "temperature": 0.5})
OVERRIDES: JsonObject = {"id": "resp_1", "background": True, "store": True, "created_at": 7}
ERROR = Error("it broke", "server_error", "server_error")
SNAPSHOT = encoded(response("in_progress"))
ITEMS = (reasoning(), message(), call(), custom_call())
EVENTS = responses_events(ITEMS)


def test_queued_response_repeats_the_request() -> None:
    body = write_queued_response(REQUEST, OVERRIDES, deterministic_ids())
    queued = read_object(body)
    open_responses.assert_response(queued)
    sdk.judge_responses_reply(body)
    assert {name: queued[name] for name in OVERRIDES} == OVERRIDES
    assert (queued["status"], queued["model"], queued["output"]) == ("queued", "m", [])
    assert (queued["instructions"], queued["temperature"]) == ("Be brief.", 0.5)


def test_invalid_request_is_not_queued() -> None:
    with pytest.raises(InvalidRequestError, match="tools"):
        write_queued_response(
            encoded({"model": "m", "input": "hi", "tools": 1}), OVERRIDES, deterministic_ids()
        )


@pytest.mark.parametrize("length", range(2, len(EVENTS)))
def test_stream_can_be_ended_after_any_event(length: int) -> None:
    queued: JsonObject = {"type": "response.queued", "response": response("queued")}
    begun = [EVENTS[0], queued, *EVENTS[1:length]]
    recorded = responses_stream(begun, end=b"")
    added = [read_object(body) for body in failure_events(recorded, ERROR, SNAPSHOT)]
    whole = responses_stream(numbered([*begun, *added]))
    assert check_stream(whole) == []
    sdk.judge_responses_stream(whole)
    open_responses.assert_stream(whole, allow=open_responses.EVERYTHING)
    final = object_in(added[-1], "response")
    assert final["error"] == {"code": "server_error", "message": "it broke"}
    done = sum(event["type"] == "response.output_item.done" for event in EVENTS[:length])
    assert objects_in(final, "output")[:done] == list(ITEMS[:done])
