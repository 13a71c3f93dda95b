"""Answers the wish to steer a response that is being made: no backend here can be steered."""

from typing import Final

import msgspec
from msgspec import Raw

from adapters import InvalidRequestError
from adapters.wire.json_object import JsonObject

_ENCODER: Final = msgspec.json.Encoder()


def steer_failed(fields: JsonObject) -> bytes:
    """Write the event that gives the input back; raise `InvalidInput` if there is none."""
    previous, given = fields.string("previous_response_id"), fields.raw("input")
    if previous is None:
        raise InvalidRequestError("previous_response_id", "it is missing")
    if given is None:
        raise InvalidRequestError("input", "it is missing")
    return _ENCODER.encode(
        {
            "type": "response.steer.failed",
            "sequence_number": 0,
            "error": {
                "type": "invalid_request_error",
                "code": "steering_not_supported",
                "message": "Responses cannot be steered here; send the input with the next turn.",
            },
            "steer": {"previous_response_id": previous, "input": Raw(given)},
        }
    )
