"""A client of WebSocket mode that validates every message."""

import json
from socket import SHUT_RDWR
from typing import Self, cast, get_args

import pytest
from openai import BaseModel
from openai.types.responses import Response, ResponseFunctionToolCall, ResponsesServerEvent
from openai.types.responses.responses_server_event import ResponseWsError
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.gateway.gateway_process import Gateway
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges import open_responses, sdk
from tests.judges.reading import JsonObject, integer_in, object_in, read_object, text_in
from tests.judges.validation import validate

FINAL_EVENT_TYPES = ("response.completed", "response.incomplete", "response.failed", "error")
AUTHORIZATION = {"Authorization": "Bearer sk-test"}
Events = list[JsonObject]


class WebSocketClient:
    """A connection; a context manager that closes it."""

    def __init__(
        self,
        gateway: Gateway,
        headers: dict[str, str] | None = None,
        path: str = "/v1/responses",
        *,
        buffer: int = 16,
    ) -> None:
        self.connection: ClientConnection = connect(
            f"ws://127.0.0.1:{gateway.port}{path}",
            additional_headers={**AUTHORIZATION, **(headers or {})},
            open_timeout=TIMEOUT_SECONDS,
            close_timeout=TIMEOUT_SECONDS,
            max_size=None,
            max_queue=buffer,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def abort(self) -> None:
        """Close the connection without reading the rest of the events."""
        self.connection.socket.shutdown(SHUT_RDWR)

    def send(self, message: object) -> None:
        self.connection.send(json.dumps(message))

    def create(self, **fields: object) -> None:
        self.send({"type": "response.create", **fields})

    def receive(self) -> JsonObject:
        message = self.connection.recv(TIMEOUT_SECONDS)
        assert isinstance(message, str), "events are text"
        return read_object(message)

    def receive_until(self, *event_types: str) -> Events:
        """Return the events up to the first one of these types."""
        events = [self.receive()]
        while events[-1]["type"] not in event_types:
            events.append(self.receive())
        return events

    def receive_turn(self) -> Events:
        """Return the events up to one after which the next request may be sent."""
        return self.receive_until(*FINAL_EVENT_TYPES)

    def receive_close(self) -> int:
        """Return the code with which the gateway closes the connection."""
        with pytest.raises(ConnectionClosed) as closed:
            self.receive()
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code

    def create_turn(self, **fields: object) -> Events:
        self.create(**fields)
        return self.receive_turn()

    def create_response(self, stream_id: str | None = None, /, **fields: object) -> Response:
        """Request a turn, validate its events and return the response."""
        return validate_turn(self.create_turn(**fields, **_stream(stream_id)), stream_id)

    def create_error(self, stream_id: str | None = None, /, **fields: object) -> JsonObject:
        """Request a turn that fails, and return the error."""
        (event,) = self.create_turn(**fields, **_stream(stream_id))
        return validate_error(event, stream_id)


def _stream(stream_id: str | None) -> JsonObject:
    return {} if stream_id is None else {"stream_id": stream_id}


def _server_events() -> dict[str, type[BaseModel]]:
    union, *_ = get_args(ResponsesServerEvent)
    members = cast("tuple[type[BaseModel], ...]", get_args(union))
    return {get_args(member.model_fields["type"].annotation)[0]: member for member in members}


SERVER_EVENTS = _server_events()


def validate_turn(events: Events, stream_id: str | None = None) -> Response:
    """Validate the events of a turn, also as a stream over HTTP, and return the response."""
    for event in events:
        validate_event(event, stream_id)
    plain = [{name: event[name] for name in event if name != "stream_id"} for event in events]
    blocks = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in plain]
    stream = "".join([*blocks, "data: [DONE]\n\n"]).encode()
    open_responses.assert_stream(stream)
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    return sdk.judge_responses_stream(stream)


def validate_event(event: JsonObject, stream_id: str | None = None) -> None:
    validate(SERVER_EVENTS[text_in(event, "type")], json.dumps(event))
    _validate_stream_id(event, stream_id)
    open_responses.assert_event(event)


def validate_error(event: JsonObject, stream_id: str | None = None) -> JsonObject:
    """Validate an error event by the SDK and by Open Responses, and return the error."""
    assert event["type"] == "error", event
    validate(ResponseWsError, json.dumps(event))
    _validate_stream_id(event, stream_id)
    error = object_in(event, "error")
    assert text_in(error, "code")
    assert text_in(error, "message")
    return {**error, "status": integer_in(event, "status")}


def _validate_stream_id(event: JsonObject, stream_id: str | None) -> None:
    assert event.get("stream_id") == stream_id
    assert ("stream_id" in event) == (stream_id is not None)


def tool_output(call_id: str) -> list[JsonObject]:
    """Return the input of a turn with only a tool output."""
    return [{"type": "function_call_output", "call_id": call_id, "output": "18 degrees"}]


def function_call(response: Response) -> ResponseFunctionToolCall:
    return next(item for item in response.output if item.type == "function_call")
