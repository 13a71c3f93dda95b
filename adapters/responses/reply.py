"""Whole replies of the Responses API, read and written."""

import msgspec
from msgspec.structs import replace

from adapters.conversation import (
    Call,
    Choice,
    Error,
    Extras,
    Finish,
    Item,
    Message,
    Reasoning,
    Reply,
)
from adapters.dialect import Surroundings
from adapters.envelope import normalized, read_error_value
from adapters.errors import InvalidInput
from adapters.extras import Carrier, left_over
from adapters.fields import Fields, read_body
from adapters.items import has_calls, settled
from adapters.loss import Losses
from adapters.replies import merged, one_choice_asked, renamed, settled_calls
from adapters.responses.items import read_answer
from adapters.responses.output import LABEL, OutputWriter, Wire, mint_item_id
from adapters.responses.response import Outcome, Response
from adapters.responses.usage import read_usage, usage_or_zeros
from adapters.responses.wire import READ_INCOMPLETE, WRITE_INCOMPLETE

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


def read_reply(body: bytes, around: Surroundings) -> Reply:
    """Read a whole reply."""
    return read_response(read_body(body), around)


def read_response(fields: Fields, around: Surroundings) -> Reply:
    """Read a response object."""
    if fields.has("choices") and not fields.has("output"):
        raise InvalidInput("output", "this is a reply of Chat Completions: it has `choices`")
    status = fields.text("status")
    error = read_failure(fields, status)
    items = _read_output(fields, around)
    finish = read_finish(status, fields.fields("incomplete_details"), around.losses)
    created = fields.number("created_at")
    return Reply(
        id=fields.text("id") or "",
        model=fields.text("model") or "",
        created=None if created is None else int(created),
        choices=(Choice(items, None if error else finish),) if items or not error else (),
        usage=read_usage(fields.fields("usage")),
        service_tier=fields.text("service_tier"),
        error=error,
        extras=read_unknown(fields),
    )


def read_failure(fields: Fields, status: str | None) -> Error | None:
    """Read why there is no answer, if there is none."""
    raw = fields.raw("error")
    if raw is not None:
        return with_status(normalized(read_error_value(raw, None)))
    if status == "failed":
        return Error("the backend's response failed without a reason", status=500)
    return _NO_ANSWER.get(status or "")


def with_status(error: Error) -> Error:
    """Give a failed response the HTTP status that its code stands for."""
    code = error.code or ""
    if code == "rate_limit_exceeded":
        return replace(error, status=429, type="rate_limit_error")
    if code in ("invalid_prompt", "context_length_exceeded") or "image" in code:
        return replace(error, status=400, type="invalid_request_error")
    return replace(error, status=500)


def read_finish(status: str | None, details: Fields | None, losses: Losses) -> Finish:
    """Read how it ended; what is incomplete for no reason was cut off."""
    if status != "incomplete":
        return Finish("stop", status or "completed")
    word = details.text("reason") if details else None
    reason = READ_INCOMPLETE.get(word or "", "length")
    if word is None or WRITE_INCOMPLETE.get(reason) != word:
        losses.changed("incomplete_details", f"{word} is taken for {reason}")
    return Finish(reason, word or "")


def _read_output(fields: Fields, around: Surroundings) -> tuple[Item, ...]:
    def mint_call(_name: str, _arguments: str) -> str:
        return around.mint.id("call_")

    items = (
        read_answer(raw, f"output[{number}]", mint_call)
        for number, raw in enumerate(fields.raws("output"))
    )
    return settled_calls(tuple(_completed(item) for item in items), around.losses)


def _completed(item: Item) -> Item:
    """Say what silence means: an item of a whole reply is complete."""
    if isinstance(item, Message | Call | Reasoning) and item.status is None:
        return replace(item, status="completed")
    return item


def read_unknown(fields: Fields) -> Extras:
    """Take what a response says besides; that it repeats the request matters to nobody."""
    extras = left_over(fields, "responses")
    return tuple(extra for extra in extras if extra.name not in _ECHO)


# Writing


def write_reply(reply: Reply, around: Surroundings) -> bytes:
    """Write a whole reply."""
    if not one_choice_asked(around.request):
        around.losses.changed("choices", SEVERAL_ANSWERS)
    reply = merged(reply)
    response = begin(reply.id, reply.model, reply.created, reply.service_tier, around)
    Carrier("responses", LABEL, around.losses).carry(reply.extras, {})
    items = reply.choices[0].items if reply.choices else ()
    finish = reply.choices[0].finish if reply.choices else None
    writer = OutputWriter(around.preferences, around.losses)
    output = [
        writer.write(
            item, mint_item_id(item, around.mint), getattr(item, "status", None) or "completed"
        )
        for item in items
    ]
    outcome = make_outcome(finish, items, around)
    outcome.output = list(output)
    outcome.usage = usage_or_zeros(reply.usage, around.losses)
    return _ENCODER.encode(response.write(outcome))


def begin(
    reply_id: str, model: str, created: int | None, service_tier: str | None, around: Surroundings
) -> Response:
    """Begin a response: its id, its time and all that it repeats."""
    return Response(
        renamed(reply_id, "resp_") or around.mint.id("resp_"),
        around.mint.now() if created is None else created,
        model or around.request.model or "unknown",
        service_tier,
        around.request,
    )


def make_outcome(finish: Finish | None, items: tuple[Item, ...], around: Surroundings) -> Outcome:
    """Say how an answer ended."""
    reason = settled(finish or Finish("stop", ""), has_calls=has_calls(items))
    why = WRITE_INCOMPLETE.get(reason)
    if why is None:
        return Outcome("completed", completed_at=around.mint.now())
    details: Wire = {"reason": why}
    if around.preferences.complete_truncated:
        return Outcome("completed", completed_at=around.mint.now(), incomplete_details=details)
    return Outcome("incomplete", incomplete_details=details)
