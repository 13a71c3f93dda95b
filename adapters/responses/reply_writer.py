"""Writer of complete replies for Responses clients, and of the response object in any state."""

from collections.abc import Container, Mapping, Sequence

from msgspec import Raw, Struct

from adapters.dialect import ReplyContext
from adapters.ids import IdSource, short_call_id
from adapters.ir import types as ir
from adapters.ir.events import Started
from adapters.ir.normalize import (
    MERGED_CHOICES_REASON,
    ONLY_REASONING_REASON,
    call_path,
    content_path,
    merge_choices,
    part_path,
    reply_model,
    with_id_prefix,
)
from adapters.losses import Losses
from adapters.responses.client_tools import write_arguments
from adapters.responses.item_writer import write_annotations, write_logprobs
from adapters.responses.request_reader import read_request
from adapters.responses.request_writer import echo_format, echo_tool, write_tool_choice
from adapters.responses.wire import (
    ALL_CALL_NAMES,
    CALLS,
    FAMILY,
    IMAGE_CALL,
    IMAGE_PREFIX,
    LABEL,
    READ_INCOMPLETE,
    WRITE_INCOMPLETE,
    Wire,
    finish_reason_change,
    usage_or_zeros,
)
from adapters.sse import encode
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.images import image_of, split_data_url
from adapters.wire.json_object import parse_body

# Output items, complete or not

# The formats that the field `output_format` can name.
_IMAGE_FORMATS = frozenset(("png", "webp", "jpeg", "gif", "svg"))

_ID_PREFIXES: dict[type[ir.Item], str] = {ir.Message: "msg_", ir.Reasoning: "rs_"}


def output_item_id(item: ir.Item, ids: IdSource, used_ids: Container[str]) -> str:
    """Return the backend's id of the item, or a new one with the prefix that OpenAI requires.

    An id in `used_ids` belongs to another item, and clients mix up items with the same id.
    Histories with other prefixes work until a client sends them to OpenAI
    (https://github.com/BerriAI/litellm/issues/37946).
    """
    if not isinstance(item, ir.ItemReference) and item.item_id and item.item_id not in used_ids:
        return item.item_id
    if isinstance(item, ir.ToolCall):
        return ids.id(ALL_CALL_NAMES[item.kind].prefix)
    prefix = _ID_PREFIXES.get(type(item))
    if prefix is None:
        prefix = "item_" if image_of(item) is None else IMAGE_PREFIX
    return ids.id(prefix)


def image_link(item: ir.Item, losses: Losses) -> str | None:
    """Return a link to an image that is not in base64, the only form of images in this API."""
    url = image_of(item)
    if url is None or split_data_url(url) is not None:
        return None
    losses.changed(
        getattr(item, "path", ""),
        f"{LABEL} has no addresses of images; sent as a link in a message",
    )
    return f"![image]({url})"


def _with_link(item: ir.Item, losses: Losses) -> ir.Item:
    link = image_link(item, losses)
    path = getattr(item, "path", "")
    return item if link is None else ir.Message("assistant", (ir.Text(link),), path=path)


def write_image(item: ir.OpaqueItem, item_id: str, status: ir.Status) -> Wire:
    """Write an image of another family."""
    image_format, base64 = split_data_url(item.image or "") or ("", None)
    wire: Wire = {"id": item_id, "type": IMAGE_CALL, "status": status, "result": base64}
    if image_format in _IMAGE_FORMATS:
        wire["output_format"] = image_format
    return wire


class OutputWriter:
    """Writes output items."""

    def __init__(self, context: ReplyContext) -> None:
        self._reply_options = context.reply_options
        self._losses = losses = context.losses
        self._extras = ExtrasWriter(FAMILY, LABEL, losses)
        # Ids and the form of reasoning are the backend's in a repaired reply, of which the client
        # may have received a part.
        self._repairs = context.repairs

    def write(self, item: ir.Item, item_id: str, status: ir.Status) -> Wire | Raw:
        """Write one item."""
        match item:
            case ir.Message():
                wire = self._write_message(item, item_id, status)
            case ir.ToolCall():
                wire = _write_call(item, item_id, status)
                if self._repairs:
                    wire["call_id"] = item.call_id
                elif wire["call_id"] != item.call_id:
                    reason = "call ids are limited to 64 characters; hashed"
                    self._losses.changed(call_path(item), reason)
            case ir.Reasoning():
                wire = self._write_reasoning(item, item_id, status)
            case ir.OpaqueItem(family=family):
                return item.value if family == FAMILY else write_image(item, item_id, status)
            case _:
                raise AssertionError(f"a reply cannot contain {item!r}")
        path = item.path
        if isinstance(item, ir.Reasoning):
            # Chat has reasoning in a field beside which its extra fields are.
            path = path.rpartition(".")[0] or path
        self._extras.carry(item.extras, wire, path)
        return wire

    def _write_message(self, message: ir.Message, item_id: str, status: ir.Status) -> Wire:
        parts: list[Wire] = []
        for number, part in enumerate(message.content):
            path = part_path(message, number)
            if isinstance(part, ir.Text | ir.Refusal):
                parts.append(self.write_part(part, path))
            else:
                path = content_path(message, number)
                self._losses.dropped(path, f"{LABEL} supports only text", "capability")
        return {
            "id": item_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": parts,
        }

    def write_part(self, part: ir.Text | ir.Refusal, path: str) -> Wire:
        """Write a part of a message."""
        if isinstance(part, ir.Refusal):
            return {"type": "refusal", "refusal": part.text}
        return {
            "type": "output_text",
            "text": part.text,
            "annotations": list(write_annotations(part.annotations, path, self._losses)),
            "logprobs": write_logprobs(part.logprobs),
        }

    def _write_reasoning(self, item: ir.Reasoning, item_id: str, status: ir.Status) -> Wire:
        """Write reasoning without empty fields: Open Responses rejects null."""
        summary, content = item.summary, item.content
        if not (self._reply_options.reasoning_text or self._repairs):
            summary, content = summary + content, ()
        wire: Wire = {
            "id": item_id,
            "type": "reasoning",
            "status": status,
            "summary": [{"type": "summary_text", "text": text} for text in summary],
        }
        if content:
            wire["content"] = [{"type": "reasoning_text", "text": text} for text in content]
        if item.encrypted is not None:
            wire["encrypted_content"] = item.encrypted
        return wire


def _write_call(call: ir.ToolCall, item_id: str, status: ir.Status) -> Wire:
    names = CALLS.get(call.kind)
    wire: Wire = {
        "id": item_id,
        "type": ALL_CALL_NAMES[call.kind].item,
        "status": status,
        "call_id": short_call_id(call.call_id),
    }
    if names is None:
        if call.kind == "apply_patch" and status == "incomplete":
            # This type of item has no status `incomplete`.
            wire["status"] = "in_progress"
        return wire | write_arguments(call.arguments, call.kind)
    wire |= {"name": call.name, names.field: call.arguments}
    if call.namespace is not None:
        wire["namespace"] = call.namespace
    return wire


# The response object

_TOO_MANY_REQUESTS = 429
# The valid codes of the error of a failed response. The last two are not in the published list, but
# OpenAI sends them, and Codex does not retry after them.
_ERROR_CODES = frozenset(
    (
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        "data_residency_mismatch",
        "bio_policy",
        "misalignment_policy_violation",
        "vector_store_timeout",
        "context_length_exceeded",
        "insufficient_quota",
    )
)


class ResponseState(Struct):
    """The fields of a response that change while it is generated."""

    status: str
    output: list[Wire | Raw] = []
    completed_at: int | None = None
    incomplete_details: Wire | None = None
    error: Wire | None = None
    usage: Wire | None = None


class ResponseWriter:
    """Writes one response object, once or in several states.

    Every event with the object has all of its fields: the SDKs and Open Responses require them.
    """

    def __init__(self, started: Started, context: ReplyContext) -> None:
        request, ids = context.request, context.ids
        own_id = started.id if context.repairs else with_id_prefix(started.id, "resp_")
        self._id = own_id or ids.id("resp_")
        self._created_at = ids.now() if started.created is None else started.created
        self._model = reply_model(started.model, request, context.losses)
        self.service_tier = started.service_tier or request.service_tier
        self._constant_fields = _request_fields(request) | dict(context.response_overrides)
        self._extras = ExtrasWriter(FAMILY, LABEL, context.losses)
        # The extra fields of a response of this API.
        self._kept: Wire = {}

    def keep(self, extras: ir.Extras) -> None:
        """Add the extra fields of the reply to the response; report those of other families."""
        self._extras.carry(extras, self._kept)

    def write(self, state: ResponseState) -> Wire:
        """Write the response in a state."""
        completed_at = state.completed_at
        if completed_at is not None:
            # The clock of the backend, which set `created_at`, may be ahead of the gateway's.
            completed_at = max(completed_at, self._created_at)
        tier = "default" if self.service_tier in (None, "auto") else self.service_tier
        written: Wire = {
            "id": self._id,
            "object": "response",
            "created_at": self._created_at,
            "completed_at": completed_at,
            "status": state.status,
            "error": state.error,
            "incomplete_details": state.incomplete_details,
            "model": self._model,
            "output": state.output,
            **self._constant_fields,
            "service_tier": tier,
            "usage": state.usage,
        }
        return self._kept | written if self._kept else written


def _request_fields(request: ir.Request) -> Wire:
    """Return the fields that repeat the request, or their defaults."""
    # Losses are reported when the request is translated for the backend.
    ignored = Losses(None)
    extras = ExtrasWriter(FAMILY, LABEL, ignored)
    text: Wire = {"format": echo_format(request.format, extras, ignored)}
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    choice = request.tool_choice
    fields: Wire = {
        "background": False,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.find_extra(FAMILY, "max_tool_calls"),
        "metadata": request.metadata or {},
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": request.find_extra(FAMILY, "previous_response_id"),
        "prompt_cache_key": request.prompt_cache_key,
        "reasoning": {
            "effort": request.effort,
            "summary": request.find_extra(FAMILY, "reasoning.summary"),
        },
        "safety_identifier": request.safety_identifier,
        # A gateway that stores the response overrides this.
        "store": False,
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "text": text,
        "tool_choice": "auto" if choice is None else write_tool_choice(choice),
        "tools": [echo_tool(tool, extras, ignored) for tool in request.tools],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": 1.0 if request.top_p is None else request.top_p,
        "presence_penalty": request.presence_penalty or 0.0,
        "frequency_penalty": request.frequency_penalty or 0.0,
        "truncation": "disabled",
    }
    if request.user is not None:
        fields["user"] = request.user
    return fields


def finished_state(
    finish: ir.Finish | None, items: Sequence[ir.Item], context: ReplyContext
) -> ResponseState:
    """Return the final state of a response without an error."""
    has_stopped = finish is not None and finish.reason == "stop"
    if has_stopped and items and all(map(_is_of_message, items)):
        context.losses.changed("status", ONLY_REASONING_REASON)
    reason = None if finish is None else _incomplete_reason(finish, context.losses)
    details: Wire | None = None if reason is None else {"reason": reason}
    if details and not context.reply_options.incomplete_as_completed:
        return ResponseState("incomplete", incomplete_details=details)
    completed_at = context.ids.now()
    return ResponseState("completed", completed_at=completed_at, incomplete_details=details)


def _incomplete_reason(finish: ir.Finish, losses: Losses) -> str | None:
    """Return why a response is incomplete, in the backend's word if it is one of this API."""
    if READ_INCOMPLETE.get(finish.raw) != finish.reason:
        return WRITE_INCOMPLETE.get(finish.reason)
    losses.withdraw("finish_reason", [finish_reason_change(finish.raw, finish.reason)])
    return finish.raw


def _is_of_message(item: ir.Item) -> bool:
    """Whether an item is the reasoning of a message, which should have more than that."""
    return isinstance(item, ir.Reasoning) and item.field is not None


def write_response_error(error: ir.Error) -> Wire:
    """Write the error of a failed response."""
    code = error.code or ""
    if code not in _ERROR_CODES:
        limited = error.status == _TOO_MANY_REQUESTS or "rate_limit" in error.type
        code = "rate_limit_exceeded" if limited else "server_error"
    return {"code": code, "message": error.message}


def write_reply(reply: ir.Reply, context: ReplyContext) -> Wire:
    """Write a complete reply."""
    losses = context.losses
    if len(reply.choices) > 1:
        losses.changed("choices", MERGED_CHOICES_REASON)
    reply = merge_choices(reply)
    started = Started(reply.id, reply.model, reply.created, reply.service_tier)
    response = ResponseWriter(started, context)
    response.keep(reply.extras)
    extras = ExtrasWriter(FAMILY, LABEL, losses)
    finish, items, output = None, list[ir.Item](), list[Wire | Raw]()
    writer, item_ids = OutputWriter(context), set[str]()
    for number, choice in enumerate(reply.choices):
        extras.report_dropped(choice.extras, f"choices[{number}]")
        finish = choice.finish
        items += choice.items
        for given in choice.items:
            item = _with_link(given, losses) if isinstance(given, ir.OpaqueItem) else given
            losses.place(getattr(item, "path", ""), f"output[{len(output)}]")
            status: ir.Status = getattr(item, "status", None) or "completed"
            item_id = output_item_id(item, context.ids, item_ids)
            item_ids.add(item_id)
            output.append(writer.write(item, item_id, status))
    state = finished_state(finish, items, context)
    state.output = output
    # The usage of a reply that is repaired stays as it is.
    state.usage = usage_or_zeros(reply.usage, Losses(None) if context.repairs else losses)
    return response.write(state)


def write_queued_response(request: bytes, overrides: Mapping[str, object], ids: IdSource) -> bytes:
    """Write the response to a request that is not processed yet.

    Raises `InvalidRequestError` if the request cannot be read.
    """
    # Losses are reported when the request is processed.
    losses = Losses(None)
    read = read_request(parse_body(request), losses)
    context = ReplyContext(read, ids, losses, response_overrides=overrides)
    return encode(ResponseWriter(Started(), context).write(ResponseState("queued")))
