"""Readers and writers of whole replies and of errors."""

from msgspec import to_builtins
from msgspec.json import Decoder, encode

from adapters.dialect import ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.normalize import effective_finish, has_calls, merge_choices, reply_model
from adapters.ir.types import Choice, Error, Finish, Reply, Usage
from adapters.wire import error_body
from adapters.wire.json_object import JsonObject, decode, read_body
from tests.fourth_dialect.dialogue.wire import (
    ErrorDetails,
    ErrorWire,
    ReplyWire,
    read_entry,
    read_tokens,
    write_entries,
    write_tokens,
)

_REPLY = Decoder(ReplyWire)
_ERROR = Decoder(ErrorWire)


def read_reply(body: bytes, _context: ReplyContext) -> Reply:
    """Read a whole reply, or an error that came in place of one."""
    if read_body(body).has("error"):
        return Reply(error=error_body.infer_status(read_error(None, body)))
    wire = decode(body, _REPLY, "")
    choice = Choice(tuple(map(read_entry, wire.dialogue)), Finish(wire.end, wire.end))
    return Reply(wire.id, wire.model, wire.created, (choice,), read_tokens(wire.tokens))


def write_reply(reply: Reply, context: ReplyContext) -> dict[str, object]:
    """Write a whole reply."""
    choice = (merge_choices(reply).choices or (Choice(),))[0]
    finish = choice.finish or Finish("stop", "")
    wire = ReplyWire(
        [*write_entries([(item, "reply") for item in choice.items], context.losses)],
        reply.id or context.ids.id("dialogue-"),
        reply_model(reply.model, context.request, context.losses),
        context.ids.now() if reply.created is None else reply.created,
        effective_finish(finish, has_calls=has_calls(choice.items)),
        write_tokens(reply.usage),
    )
    written: dict[str, object] = to_builtins(wire)
    return written


def read_usage(fields: JsonObject | None) -> Usage | None:
    """Read the token counts."""
    if fields is None:
        return None
    counts = [fields.integer(name) or 0 for name in ("input", "output", "total")]
    return Usage(counts[0], counts[1], counts[2])


def read_error(status: int | None, body: bytes) -> Error:
    """Read an error, in the form of the dialect or in that of a proxy."""
    try:
        details = decode(body, _ERROR, "").error
    except InvalidRequestError:
        return error_body.read_error(status, body)
    return Error(details.reason, details.category, details.code, details.field, status)


def write_error(error: Error) -> bytes:
    """Write an error."""
    details = ErrorDetails(error.message, error.type, error.code, error.param)
    return encode(ErrorWire(details))
