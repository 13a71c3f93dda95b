"""Whole replies of the Responses API, read and written."""

import msgspec
from msgspec.structs import replace

from adapters.dialect import ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.normalize import (
    effective_finish,
    has_calls,
    merge_choices,
    normalize_calls,
    reply_model,
    wants_one_choice,
    with_id_prefix,
)
from adapters.ir.types import (
    Choice,
    Error,
    Extras,
    Finish,
    Item,
    Message,
    Reasoning,
    Reply,
    Status,
    ToolCall,
)
from adapters.losses import Losses
from adapters.responses.item_reader import read_output_item
from adapters.responses.output_writer import LABEL, OutputWriter, Wire, new_item_id
from adapters.responses.response import Response, ResponseSnapshot
from adapters.responses.wire import READ_INCOMPLETE, WRITE_INCOMPLETE, read_usage, usage_or_zeros
from adapters.wire.error_body import infer_status, is_error, read_error_value
from adapters.wire.extra_fields import ExtrasWriter, unread_fields
from adapters.wire.json_object import JsonObject, read_body

_ENCODER = msgspec.json.Encoder()

# What a response repeats of its request: nobody misses it in another dialect.
_ECHO = frozenset(
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
        "prompt_cache_diagnostics",
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

SEVERAL_ANSWERS = f"{LABEL} gives one answer; several are put together"

_NO_ANSWER = {
    "cancelled": Error("the response was cancelled", code="cancelled"),
    "queued": Error("the response has not begun yet", code="not_finished"),
    "in_progress": Error("the response is not finished yet", code="not_finished"),
}


# Reading


def read_reply(body: bytes, around: ReplyContext) -> Reply:
    """Read a whole reply."""
    reply = read_response(read_body(body), around)
    return replace(
        reply,
        choices=tuple(
            replace(choice, items=normalize_calls(choice.items, around.losses))
            for choice in reply.choices
        ),
    )


def read_response(fields: JsonObject, around: ReplyContext, ended: str | None = None) -> Reply:
    """Read a response object; `ended` is what the event that carries it says of its end."""
    if fields.has("choices") and not fields.has("output"):
        raise InvalidRequestError("output", "this is a reply of Chat Completions: it has `choices`")
    if not (ended or fields.has("output") or fields.has("status") or fields.has("error")):
        raise InvalidRequestError("output", "it is missing")
    status = fields.string("status") or ended
    error = _read_failure(fields, status, around.losses)
    finish = read_finish(status, fields.nested("incomplete_details"), around.losses)
    items = _read_output(fields, finish, around)
    created = fields.number("created_at")
    return Reply(
        id=fields.string("id") or "",
        model=fields.string("model") or "",
        created=None if created is None else int(created),
        choices=(Choice(items, None if error else finish),) if items or not error else (),
        usage=read_usage(fields.nested("usage")),
        service_tier=fields.string("service_tier"),
        error=error,
        extras=_read_unknown(fields),
    )


def _read_failure(fields: JsonObject, status: str | None, losses: Losses) -> Error | None:
    """Read why there is no answer, if there is none."""
    raw = fields.raw("error")
    if raw is not None and is_error(raw):
        return infer_status(read_error_value(raw, None))
    if status == "failed":
        losses.invented("error", "the backend does not say what failed")
        return Error(
            "the backend's response failed without a reason", code="server_error", status=500
        )
    return _NO_ANSWER.get(status or "")


def read_finish(status: str | None, details: JsonObject | None, losses: Losses) -> Finish:
    """Read how it ended; what is incomplete for no reason was cut off."""
    if status != "incomplete":
        return Finish("stop", status or "completed")
    word = details.string("reason") if details else None
    reason = READ_INCOMPLETE.get(word or "", "length")
    if WRITE_INCOMPLETE.get(reason) != word:
        said = (
            f"{word} is taken for {reason}"
            if word
            else f"nobody says why; it is taken for {reason}"
        )
        losses.changed("incomplete_details", said)
    return Finish(reason, word or "")


def _read_output(fields: JsonObject, finish: Finish, around: ReplyContext) -> tuple[Item, ...]:
    def new_call_id(name: str, _arguments: str) -> str:
        around.losses.invented(f"call {name}", "the backend gave the call no id; it gets one")
        return around.ids.id("call_")

    raws = fields.array("output")
    items = [read_output_item(raw, f"output[{i}]", new_call_id) for i, raw in enumerate(raws)]
    cut = finish.reason in ("length", "filter")
    last = len(items) - 1
    return tuple(
        _ended(item, "incomplete" if cut and number == last else "completed")
        for number, item in enumerate(items)
    )


def _ended(item: Item, status: Status) -> Item:
    """Say what silence means: an item is complete, but for the last of what was cut off."""
    if isinstance(item, Message | ToolCall | Reasoning) and item.status is None:
        return replace(item, status=status)
    return item


def _read_unknown(fields: JsonObject) -> Extras:
    """Take what a response says besides; that it repeats the request matters to nobody."""
    extras = unread_fields(fields, "responses")
    return tuple(extra for extra in extras if extra.name not in _ECHO)


# Writing


def write_reply(reply: Reply, around: ReplyContext) -> Wire:
    """Write a whole reply."""
    if len(reply.choices) > 1 and not wants_one_choice(around.request):
        around.losses.changed("choices", SEVERAL_ANSWERS)
    reply = merge_choices(reply)
    response = new_response(
        reply.id, reply.model, reply.created, reply.service_tier, around, often=False
    )
    carrier = ExtrasWriter("responses", LABEL, around.losses)
    carrier.report_dropped(reply.extras)
    for number, choice in enumerate(reply.choices):
        carrier.report_dropped(choice.extras, f"choices[{number}]")
    items = reply.choices[0].items if reply.choices else ()
    finish = reply.choices[0].finish if reply.choices else None
    writer = OutputWriter(around.reply_options, around.losses)
    output = [
        writer.write(
            item, new_item_id(item, around.ids), getattr(item, "status", None) or "completed"
        )
        for item in items
    ]
    outcome = make_outcome(finish, items, around)
    outcome.output = list(output)
    outcome.usage = usage_or_zeros(reply.usage, around.losses)
    return response.write(outcome)


def new_response(
    reply_id: str,
    model: str,
    created: int | None,
    service_tier: str | None,
    around: ReplyContext,
    *,
    often: bool = True,
) -> Response:
    """Begin a response: its id, its time and all that it repeats, be it often or once."""
    return Response(
        with_id_prefix(reply_id, "resp_") or around.ids.id("resp_"),
        around.ids.now() if created is None else created,
        reply_model(model, around.request, around.losses),
        service_tier,
        around.request,
        around.response_overrides,
        often=often,
    )


def make_outcome(
    finish: Finish | None, items: tuple[Item, ...], around: ReplyContext
) -> ResponseSnapshot:
    """Say how an answer ended."""
    reason = effective_finish(finish or Finish("stop", ""), has_calls=has_calls(items))
    why = WRITE_INCOMPLETE.get(reason)
    if why is None:
        return ResponseSnapshot("completed", completed_at=around.ids.now())
    details: Wire = {"reason": why}
    if around.reply_options.incomplete_as_completed:
        return ResponseSnapshot(
            "completed", completed_at=around.ids.now(), incomplete_details=details
        )
    return ResponseSnapshot("incomplete", incomplete_details=details)
