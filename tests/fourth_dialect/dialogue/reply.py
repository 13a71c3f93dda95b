"""Whole replies and errors.

{"id": "…", "model": "m", "created": 1, "dialogue": […], "end": "stop", "tokens": {"input": 1, …}}
{"error": {"reason": "…", "category": "…", "code": "…", "field": "…"}}
"""

import msgspec

from adapters.dialect import ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.normalize import (
    effective_finish,
    has_calls,
    merge_choices,
    normalize_calls,
    reply_model,
    unzip,
)
from adapters.ir.types import Choice, Error, Finish, FinishReason, Reply, Usage
from adapters.wire import error_body
from adapters.wire.extra_fields import unread_fields
from adapters.wire.json_object import JsonObject, read_body
from tests.fourth_dialect.dialogue.wire import FAMILY, Wire, extras_writer, read_items, write_items

_FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "calls": "calls",
    "length": "length",
    "filter": "filter",
}
_COUNTS = [name for name in Usage.__struct_fields__ if name.endswith("_tokens")]


def read_reply(body: bytes, context: ReplyContext) -> Reply:
    """Read a whole reply, or an error that came in place of one."""
    fields = read_body(body)
    if fields.has("error"):
        return Reply(error=error_body.infer_status(read_error(None, body)))
    if not fields.has("dialogue"):
        raise InvalidRequestError("dialogue", "it is missing")
    items, _ = unzip([*read_items(fields.array("dialogue"), "dialogue")])
    finish = read_finish(fields)
    return Reply(
        id=fields.string("id") or "",
        model=fields.string("model") or "",
        created=fields.integer("created"),
        choices=(Choice(normalize_calls(items, context.losses), finish),),
        usage=read_usage(fields.nested("tokens")),
        extras=unread_fields(fields, FAMILY),
    )


def read_finish(fields: JsonObject) -> Finish:
    """Read why the model stopped."""
    end = fields.string("end") or ""
    return Finish(_FINISHES.get(end, "stop"), end)


def read_usage(fields: JsonObject | None) -> Usage | None:
    """Read the token counts."""
    if fields is None:
        return None
    return Usage(*(fields.integer(name.removesuffix("_tokens")) or 0 for name in _COUNTS))


def write_usage(usage: Usage) -> Wire:
    """Write the token counts."""
    return {name.removesuffix("_tokens"): getattr(usage, name) for name in _COUNTS}


def write_reply(reply: Reply, context: ReplyContext) -> Wire:
    """Write a whole reply."""
    losses = context.losses
    choices = merge_choices(reply).choices or (Choice(),)
    items, finish = choices[0].items, choices[0].finish or Finish("stop", "")
    wire: Wire = {
        "id": reply.id or context.mint.id("dialogue-"),
        "model": reply_model(reply.model, context.request, losses),
        "created": context.mint.now() if reply.created is None else reply.created,
        "dialogue": write_items([(item, "reply") for item in items], losses),
        "end": effective_finish(finish, has_calls=has_calls(items)),
    }
    if reply.usage is not None:
        wire["tokens"] = write_usage(reply.usage)
    extras_writer(losses).carry(reply.extras, wire)
    return wire


def read_error(status: int | None, body: bytes) -> Error:
    """Read an error, in our own form or in that of a proxy."""
    try:
        fields = read_body(body).nested("error")
    except InvalidRequestError:
        fields = None
    if fields is None or not fields.has("reason"):
        return error_body.read_error(status, body)
    return Error(
        fields.string("reason") or "",
        fields.string("category") or "server_error",
        fields.string("code"),
        fields.string("field"),
        status=status,
    )


def write_error(error: Error) -> bytes:
    """Write the body of an error."""
    inside = {"reason": error.message, "category": error.type, "code": error.code}
    return msgspec.json.encode({"error": inside | {"field": error.param}})
