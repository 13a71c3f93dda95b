"""Readers and writers of whole replies and of errors."""

from msgspec import to_builtins
from msgspec.json import Decoder, encode

from adapters.dialect import ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.normalize import effective_finish, has_calls, merge_choices, reply_model
from adapters.ir.types import Choice, Error, Finish, Reply, Usage
from adapters.wire import error_body
from adapters.wire.json_object import JsonObject, decode, read_body
from tests.fourth_dialect.dialogue import wire

_REPLY = Decoder(wire.ReplyWire)
_ERROR = Decoder(wire.ErrorWire)


def read_reply(body: bytes, _context: ReplyContext) -> Reply:
    """Read a whole reply, or an error that came in place of one."""
    if read_body(body).has("error"):
        return Reply(error=error_body.infer_status(read_error(None, body)))
    given = decode(body, _REPLY, "")
    choice = Choice(tuple(map(wire.read_entry, given.dialogue)), Finish(given.end, given.end))
    return Reply(given.id, given.model, given.created, (choice,), wire.read_tokens(given.tokens))


def write_reply(reply: Reply, context: ReplyContext) -> dict[str, object]:
    choice = (merge_choices(reply).choices or (Choice(),))[0]
    finish = choice.finish or Finish("stop", "")
    reply_wire = wire.ReplyWire(
        [*wire.write_entries([(item, "reply") for item in choice.items], context.losses)],
        reply.id or context.ids.id("dialogue-"),
        reply_model(reply.model, context.request, context.losses),
        context.ids.now() if reply.created is None else reply.created,
        effective_finish(finish, has_calls=has_calls(choice.items)),
        wire.write_tokens(reply.usage),
    )
    written: dict[str, object] = to_builtins(reply_wire)
    return written


def read_usage(fields: JsonObject | None) -> Usage | None:
    if fields is None:
        return None
    read, written, total = (fields.integer(name) or 0 for name in ("input", "output", "total"))
    return Usage(read, written, total)


def read_error(status: int | None, body: bytes) -> Error:
    """Read an error, in the form of the dialect or in that of a proxy."""
    try:
        details = decode(body, _ERROR, "").error
    except InvalidRequestError:
        return error_body.read_error(status, body)
    return Error(details.reason, details.category, details.code, details.field, status)


def write_error(error: Error) -> bytes:
    details = wire.ErrorDetails(error.message, error.type, error.code, error.param)
    return encode(wire.ErrorWire(details))
