"""A response before its answer is there: for who keeps it until somebody works at it."""

from collections.abc import Mapping

from adapters.dialect import ReplyContext
from adapters.ids import IdSource
from adapters.losses import Losses
from adapters.responses.reply import new_response
from adapters.responses.request_reader import read_request
from adapters.responses.response import ResponseSnapshot
from adapters.sse import encode
from adapters.wire.json_object import parse_body


def queued_response(request: bytes, stamp: Mapping[str, object], ids: IdSource) -> bytes:
    """Write the whole object of a response at which nobody works yet.

    Raises `InvalidInput` if the request cannot be read.
    """
    # That something is lost by repeating it, who really answers tells.
    asked = read_request(parse_body(request), Losses(None))
    around = ReplyContext(asked, ids, Losses(None), response_overrides=stamp)
    return encode(new_response("", "", None, None, around).write(ResponseSnapshot("queued")))
