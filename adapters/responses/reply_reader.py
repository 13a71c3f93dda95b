"""Reader of complete replies of Responses backends."""

from msgspec import Raw
from msgspec.structs import replace

from adapters.dialect import ReplyContext
from adapters.errors import InvalidRequestError, missing_field
from adapters.ir import types as ir
from adapters.ir.normalize import MISSING_CALL_ID_REASON, UniqueCallIds, normalize_calls
from adapters.losses import Losses
from adapters.responses.item_reader import read_item, read_typical
from adapters.responses.wire import (
    ALL_CALL_NAMES,
    FAMILY,
    IMAGE_CALL,
    READ_INCOMPLETE,
    WRITE_INCOMPLETE,
    finish_reason_change,
    read_usage,
)
from adapters.wire.error_body import infer_status, is_error, read_error_value
from adapters.wire.extra_fields import unread_fields
from adapters.wire.images import data_url
from adapters.wire.json_object import JsonObject, read_body, read_fields
from adapters.wire.malformed_values import read_tolerantly

# Fields that repeat the request, or that no other dialect needs: they are ignored.
_REPEATED_FIELDS = frozenset(
    (
        "object",
        "background",
        "completed_at",
        "conversation",
        "frequency_penalty",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "output_text",
        "parallel_tool_calls",
        "presence_penalty",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
        "image",
        "access_programs",
        "billing",
    )
)

# The statuses of items that servers forgot to end.
_UNENDED = (None, "in_progress")
# The error for a response without output, by its status.
_STATUS_ERRORS = {
    "cancelled": ir.Error("the response was cancelled", code="cancelled"),
    "queued": ir.Error("the response has not started yet", code="not_finished"),
    "in_progress": ir.Error("the response is not finished yet", code="not_finished"),
}


def read_reply(body: bytes, context: ReplyContext) -> ir.Reply:
    """Read a complete reply."""
    reply = read_tolerantly(
        lambda raw: read_response(read_body(bytes(raw)), context), Raw(body), "", context.losses
    )
    if not reply.choices:
        return reply
    [choice] = reply.choices
    items = normalize_calls(choice.items, UniqueCallIds(context.losses, context.call_ids))
    return replace(reply, choices=(replace(choice, items=items),))


def read_response(fields: JsonObject, context: ReplyContext, ended: str | None = None) -> ir.Reply:
    """Read a response object; `ended` is the status that its event implies."""
    if fields.has("choices") and not fields.has("output"):
        raise InvalidRequestError(
            "output", "is required; a body with `choices` is a Chat Completions reply"
        )
    if not (ended or fields.has("output") or fields.has("status") or fields.has("error")):
        raise missing_field("output")
    status = fields.string("status") or ended
    error = _read_error(fields, status, context.losses)
    finish = _read_finish(status, fields.nested("incomplete_details"), context.losses)
    items = _read_output(fields, finish, context)
    created = fields.number("created_at")
    for name in _REPEATED_FIELDS:
        fields.raw(name)
    return ir.Reply(
        id=fields.string("id") or "",
        model=fields.string("model") or "",
        created=None if created is None else int(created),
        choices=(ir.Choice(items, None if error else finish),) if items or not error else (),
        usage=read_usage(fields.nested("usage")),
        service_tier=fields.string("service_tier"),
        error=error,
        extras=unread_fields(fields, FAMILY),
    )


def _read_error(fields: JsonObject, status: str | None, losses: Losses) -> ir.Error | None:
    raw = fields.raw("error")
    if raw is not None and is_error(raw):
        return infer_status(read_error_value(raw, None))
    if status == "failed":
        losses.invented("error", "the backend sent no error; a generic error was added")
        return ir.Error(
            "the backend's response failed without an error", code="server_error", status=500
        )
    return _STATUS_ERRORS.get(status or "")


def _read_finish(status: str | None, details: JsonObject | None, losses: Losses) -> ir.Finish:
    """Read the finish reason; `incomplete` without a known reason counts as truncated."""
    if status != "incomplete":
        return ir.Finish("stop", status or "completed")
    word = details.string("reason") if details else None
    reason = READ_INCOMPLETE.get(word or "", "length")
    if WRITE_INCOMPLETE.get(reason) != word:
        losses.changed("finish_reason", finish_reason_change(word or "", reason))
    return ir.Finish(reason, word or "")


def _read_output(
    fields: JsonObject, finish: ir.Finish, context: ReplyContext
) -> tuple[ir.Item, ...]:
    """Read the items; those without an end are complete, except the last one if truncated."""
    items: list[ir.Item] = []
    raws, path = fields.array("output"), fields.at("output")
    for number, raw in enumerate(raws):
        item = read_output_item(raw, f"{path}[{number}]", context)
        if isinstance(item, ir.Message | ir.ToolCall | ir.Reasoning) and item.status in _UNENDED:
            truncated = finish.reason in ("length", "filter") and number == len(raws) - 1
            item = replace(item, status="incomplete" if truncated else "completed")
        items.append(item)
    return tuple(items)


def _read_image(raw: Raw, path: str) -> str | None:
    """Return the URL of a generated image; None if there is no image, as after an error."""
    fields = read_fields(raw, path)
    result = fields.string("result")
    return data_url(result, fields.string("output_format")) if result else None


def read_output_item(raw: Raw, path: str, context: ReplyContext) -> ir.Item:
    """Read an output item; a call without an id gets a new one, which is reported."""
    item = read_typical(raw) or read_item(raw, path)
    match item:
        case ir.OpaqueItem(kind=kind) if kind == IMAGE_CALL:
            return replace(item, image=_read_image(raw, path), path=path)
        case ir.ToolCall(call_id=""):
            context.losses.invented(path, MISSING_CALL_ID_REASON)
            return replace(item, call_id=context.ids.id("call_"), path=path)
        case ir.ToolOutput():
            # The backend itself ran the tool.
            kind = ALL_CALL_NAMES[item.kind].output
            return ir.OpaqueItem(FAMILY, kind, raw, item.item_id, path)
        case ir.ItemReference():
            return ir.OpaqueItem(FAMILY, "item_reference", raw, item.item_id, path)
        case _:
            return replace(item, path=path)
