"""Reader of requests to `/responses`."""

import msgspec
from msgspec import Raw

from adapters.errors import InvalidRequestError
from adapters.ir.normalize import split_paths
from adapters.ir.types import ExtraField, Extras, Message, Request, Text
from adapters.losses import Losses
from adapters.responses.item_reader import ItemWithPath, read_items
from adapters.responses.wire import FAMILY, INCLUDE_LOGPROBS, RESPONSES_ONLY_FIELDS
from adapters.wire.extra_fields import read_cache_options, unread_fields
from adapters.wire.json_object import InputItem, JsonObject, RequestBody
from adapters.wire.tools import read_format, read_tool_choice, read_tools


def read_request(body: RequestBody, losses: Losses) -> Request:
    """Convert a `/responses` request to the IR."""
    fields = body.reader()
    if fields.has("messages") and not fields.has("input") and body.items is None:
        raise InvalidRequestError(
            "input", "is required; a body with `messages` is a Chat Completions request"
        )
    items, paths = split_paths(_read_input(body, fields, losses))
    tools = read_tools(fields.array("tools"), "tools", FAMILY, losses)
    text = fields.nested("text") or JsonObject({}, "text")
    reasoning = fields.nested("reasoning") or JsonObject({}, "reasoning")
    options = fields.nested("stream_options") or JsonObject({}, "stream_options")
    include = fields.texts("include")
    top_logprobs = fields.integer("top_logprobs")
    logprobs = INCLUDE_LOGPROBS in include or bool(top_logprobs)
    if logprobs:
        losses.rename({"logprobs": "include" if INCLUDE_LOGPROBS in include else "top_logprobs"})
    return Request(
        model=fields.string("model"),
        instructions=fields.string("instructions"),
        items=items,
        paths=paths,
        tools=tools,
        tool_paths=tuple(f"tools[{number}]" for number in range(len(tools))),
        tool_choice=read_tool_choice(fields.raw("tool_choice"), "tool_choice", tools, losses),
        parallel_tool_calls=fields.boolean("parallel_tool_calls"),
        max_output_tokens=fields.integer("max_output_tokens"),
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        presence_penalty=fields.number("presence_penalty"),
        frequency_penalty=fields.number("frequency_penalty"),
        logprobs=True if logprobs else None,
        # Remove zero without `logprobs`: Chat servers reject it.
        top_logprobs=top_logprobs if logprobs else None,
        format=read_format(text.nested("format"), FAMILY),
        verbosity=text.string("verbosity"),
        effort=reasoning.string("effort"),
        stream=fields.boolean("stream"),
        include_obfuscation=options.boolean("include_obfuscation"),
        metadata=fields.raw("metadata"),
        user=fields.string("user"),
        safety_identifier=fields.string("safety_identifier"),
        prompt_cache_key=fields.string("prompt_cache_key"),
        prompt_cache_retention=fields.string("prompt_cache_retention"),
        prompt_cache_options=read_cache_options(fields, FAMILY),
        service_tier=fields.string("service_tier"),
        moderation=fields.raw("moderation"),
        extras=_read_include(include)
        + unread_fields(fields, FAMILY, RESPONSES_ONLY_FIELDS)
        + unread_fields(text, FAMILY, prefix="text.")
        + unread_fields(reasoning, FAMILY, prefix="reasoning.")
        + unread_fields(options, FAMILY, prefix="stream_options."),
    )


def _read_input(body: RequestBody, fields: JsonObject, losses: Losses) -> list[ItemWithPath]:
    """Read the input, in which a string stands for a message of the user."""
    if body.items is not None:
        # Take the replaced field, so that it does not become an extra field.
        fields.raw("input")
        return list(read_items(body.items, losses))
    content = fields.text_or_raws("input")
    if isinstance(content, str):
        return [(Message("user", (Text(content),)), "input")]
    return list(read_items(_to_input_items(content or []), losses))


def _to_input_items(raws: list[Raw]) -> tuple[InputItem, ...]:
    return tuple(InputItem(raw, f"input[{number}]") for number, raw in enumerate(raws))


def input_items(body: RequestBody) -> tuple[InputItem, ...]:
    """Return the input of a request as items; a string becomes a message of the user."""
    if body.items is not None:
        return body.items
    content = body.reader().text_or_raws("input") or []
    if isinstance(content, str):
        message = {"type": "message", "role": "user", "content": content}
        return (InputItem(Raw(msgspec.json.encode(message)), "input[0]"),)
    return _to_input_items(content)


def _read_include(include: tuple[str, ...]) -> Extras:
    """Return `include` as an extra field, without log probabilities, which are in the IR."""
    others = [name for name in include if name != INCLUDE_LOGPROBS]
    return (ExtraField(FAMILY, "include", Raw(msgspec.json.encode(others))),) if others else ()
