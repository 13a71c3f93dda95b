"""Reads a request on `/responses`."""

import msgspec
from msgspec import Raw

from adapters.errors import InvalidRequestError
from adapters.ir.types import (
    ExtraField,
    Extras,
    Item,
    Message,
    OpaqueItem,
    Request,
    ResponseFormat,
    Text,
)
from adapters.losses import Losses
from adapters.responses.item_reader import Placed, read_items
from adapters.responses.wire import INCLUDE_LOGPROBS, ONLY_HERE
from adapters.wire.extra_fields import read_cache_options, unread_fields
from adapters.wire.json_object import InputItem, JsonObject, RequestBody, read_fields
from adapters.wire.tools import read_format, read_tool_choice, read_tools


class InlineSettings:
    """What stands among the items but is said of the whole: settings from here on."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self.effort: str | None = None
        self.format: ResponseFormat | None = None

    def take(self, item: Item, path: str) -> bool:
        """Take an item that is such a thing; tell whether it was one."""
        match item:
            case OpaqueItem(kind="configuration_update"):
                self._update(read_fields(item.value, path))
                self._losses.changed(path, "its settings hold for the whole request")
            case _:
                return False
        return True

    def _update(self, fields: JsonObject) -> None:
        reasoning, text = fields.nested("reasoning"), fields.nested("text")
        self.effort = (reasoning.string("effort") if reasoning else None) or self.effort
        self.format = (
            read_format(text.nested("format") if text else None, "responses") or self.format
        )


def read_request(body: RequestBody, losses: Losses) -> Request:
    """Read a request."""
    fields = body.reader()
    if fields.has("messages") and not fields.has("input") and body.items is None:
        raise InvalidRequestError(
            "input", "this is a request of Chat Completions: it has `messages`"
        )
    settings = InlineSettings(losses)
    placed = [one for one in _read_input(body, fields, losses) if not settings.take(*one)]
    declared = fields.array("tools")
    tools = read_tools(declared, "tools", "responses")
    text = fields.nested("text") or JsonObject({}, "text")
    reasoning = fields.nested("reasoning") or JsonObject({}, "reasoning")
    options = fields.nested("stream_options") or JsonObject({}, "stream_options")
    include = fields.texts("include")
    top_logprobs = fields.integer("top_logprobs")
    logprobs = INCLUDE_LOGPROBS in include or bool(top_logprobs)
    return Request(
        model=fields.string("model"),
        instructions=fields.string("instructions"),
        items=tuple(item for item, _ in placed),
        paths=tuple(path for _, path in placed),
        tools=tools,
        tool_paths=_places("tools", declared),
        tool_choice=read_tool_choice(fields.raw("tool_choice"), "tool_choice", tools, losses),
        parallel_tool_calls=fields.boolean("parallel_tool_calls"),
        max_output_tokens=fields.integer("max_output_tokens"),
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        presence_penalty=fields.number("presence_penalty"),
        frequency_penalty=fields.number("frequency_penalty"),
        logprobs=True if logprobs else None,
        # Without probabilities, zero of them says nothing, and Chat would refuse it.
        top_logprobs=top_logprobs if logprobs else None,
        format=settings.format or read_format(text.nested("format"), "responses"),
        verbosity=text.string("verbosity"),
        effort=settings.effort or reasoning.string("effort"),
        stream=fields.boolean("stream"),
        include_obfuscation=options.boolean("include_obfuscation"),
        metadata=fields.raw("metadata"),
        user=fields.string("user"),
        safety_identifier=fields.string("safety_identifier"),
        prompt_cache_key=fields.string("prompt_cache_key"),
        prompt_cache_retention=fields.string("prompt_cache_retention"),
        prompt_cache_options=read_cache_options(fields, "responses"),
        service_tier=fields.string("service_tier"),
        moderation=fields.raw("moderation"),
        extras=_read_include(include)
        + unread_fields(fields, "responses", ONLY_HERE)
        + unread_fields(text, "responses", prefix="text.")
        + unread_fields(reasoning, "responses", prefix="reasoning.")
        + unread_fields(options, "responses", prefix="stream_options."),
    )


def _places(path: str, raws: list[Raw]) -> tuple[str, ...]:
    return tuple(f"{path}[{number}]" for number in range(len(raws)))


def _read_input(body: RequestBody, fields: JsonObject, losses: Losses) -> list[Placed]:
    """Read the input: a string is a message of the user."""
    if body.items is not None:
        fields.raw("input")
        return list(read_items(body.items, losses))
    given = fields.text_or_raws("input")
    if isinstance(given, str):
        return [(Message("user", (Text(given),)), "input")]
    return list(read_items(_with_paths(given or []), losses))


def _with_paths(raws: list[Raw]) -> tuple[InputItem, ...]:
    return tuple(InputItem(raw, f"input[{number}]") for number, raw in enumerate(raws))


def input_items(body: RequestBody) -> tuple[InputItem, ...]:
    """Return the input of a request as items; a string becomes a message of the user."""
    if body.items is not None:
        return body.items
    given = body.reader().text_or_raws("input") or []
    if isinstance(given, str):
        message = {"type": "message", "role": "user", "content": given}
        return (InputItem(Raw(msgspec.json.encode(message)), "input[0]"),)
    return _with_paths(given)


def _read_include(include: tuple[str, ...]) -> Extras:
    """Keep what is to be included besides the probabilities, which the hub knows."""
    others = [word for word in include if word != INCLUDE_LOGPROBS]
    if not others:
        return ()
    return (ExtraField("responses", "include", Raw(msgspec.json.encode(others))),)
