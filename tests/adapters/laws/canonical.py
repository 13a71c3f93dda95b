"""Canonical forms: requests and replies without what dialects necessarily express differently."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from adapters.chat.parts import TEXT_SEPARATOR
from adapters.ir import types as ir
from adapters.ir.normalize import merge_choices, without_paths
from adapters.losses import Losses
from adapters.translation.fit import pair_tool_calls
from adapters.wire.json_schema import EMPTY_SCHEMA, is_strict


def canonical_request(request: ir.Request) -> ir.Request:
    """Return a request without these differences:

    - paths, ids and statuses of items, and the name of an output;
    - the grouping of a turn: Chat has one message for the reasoning, texts and calls of an
      assistant, with an empty line between texts, and then the outputs in the order of the calls;
    - boundaries of text parts, empty texts and empty messages;
    - instructions or a leading system message; system or developer;
    - defaults: no penalties, one choice, no stream, a schema without properties, images of any
      detail, strict if the schema allows it;
    - usage, which is always requested, and settings of tools without tools;
    - "required" and the name of the only tool;
    - extra fields without a severity.
    """
    request = without_paths(pair_tool_calls(request, Losses(None)))
    system = (
        [ir.Message("system", (ir.Text(request.instructions),))] if request.instructions else []
    )
    names = [tool.name for tool in request.tools if isinstance(tool, ir.FunctionTool)]
    choice = request.tool_choice
    if choice == ir.ToolChoiceMode("required") and len(names) == len(request.tools) == 1:
        choice = ir.NamedToolChoice(names[0])
    options, form = request.prompt_cache_options, request.format
    if form is not None and form.kind == "json_schema":
        form = replace(form, name=form.name or "response")
    return replace(
        request,
        instructions=None,
        items=tuple(_grouped([*system, *map(_canonical_item, request.items)])),
        tools=tuple(map(_canonical_tool, request.tools)),
        tool_choice=choice if request.tools else None,
        parallel_tool_calls=request.parallel_tool_calls if request.tools else None,
        presence_penalty=request.presence_penalty or None,
        frequency_penalty=request.frequency_penalty or None,
        choices=None if request.choices == 1 else request.choices,
        logprobs=request.logprobs or None,
        top_logprobs=request.top_logprobs or None,
        format=form,
        stream=request.stream or None,
        include_usage=None,
        include_obfuscation=request.include_obfuscation if request.stream else None,
        store=request.store or None,
        prompt_cache_options=None if options == ir.CacheOptions() else options,
        extras=_relevant(request.extras),
    )


def canonical_reply(reply: ir.Reply) -> ir.Reply:
    """Return a reply without these differences:

    - the prefix of its id, and the ids of its items;
    - the grouping of a turn, as in a request, and several choices;
    - the raw finish reason, and calls as a reason;
    - the default service tier, and extra fields without a severity.
    """
    reply = merge_choices(reply)
    return replace(
        reply,
        id=reply.id.removeprefix("chatcmpl-").removeprefix("resp_"),
        choices=tuple(map(_canonical_choice, reply.choices)),
        usage=reply.usage and replace(reply.usage, extras=_relevant(reply.usage.extras)),
        service_tier=None if reply.service_tier in ("default", "auto") else reply.service_tier,
        extras=_relevant(reply.extras),
    )


def _canonical_choice(choice: ir.Choice) -> ir.Choice:
    reason = choice.finish.reason if choice.finish else "stop"
    items = tuple(_merged_turn([*map(_canonical_item, choice.items)]))
    return ir.Choice(items, ir.Finish("stop" if reason == "calls" else reason, ""))


def renumber_calls(items: Sequence[ir.Item]) -> Iterator[ir.Item]:
    """Replace the ids of calls and outputs by numbers, because legacy has no ids."""
    ids: dict[str | None, str] = {}
    for item in items:
        match item:
            case ir.ToolCall():
                ids[item.call_id] = f"call {len(ids)}"
                yield replace(item, call_id=ids[item.call_id])
            case ir.ToolOutput():
                yield replace(item, call_id=ids.get(item.call_id))
            case _:
                yield item


def renumber_reply_calls(reply: ir.Reply) -> ir.Reply:
    choices = (
        replace(choice, items=tuple(renumber_calls(choice.items))) for choice in reply.choices
    )
    return replace(reply, choices=tuple(choices))


def _relevant(extras: ir.Extras) -> ir.Extras:
    relevant = [extra for extra in extras if extra.severity is not None]
    return tuple(sorted(relevant, key=lambda extra: extra.name))


def _canonical_item(item: ir.Item) -> ir.Item:
    match item:
        case ir.Message():
            role = "system" if item.role == "developer" else item.role
            extras = _relevant(item.extras)
            return ir.Message(role, _merged_parts(item.content), item.continues, extras=extras)
        case ir.ToolCall():
            return replace(item, item_id=None, status=None, extras=_relevant(item.extras))
        case ir.ToolOutput():
            parts = (ir.Text(item.output),) if isinstance(item.output, str) else item.output
            output = _merged_parts(parts)
            return ir.ToolOutput(item.call_id, output, item.kind, extras=_relevant(item.extras))
        case ir.Reasoning():
            text = (*item.summary, *item.content)
            return ir.Reasoning(text, (), item.encrypted, extras=_relevant(item.extras))
        case _:
            return item


def _merged_parts(parts: Sequence[ir.Part]) -> tuple[ir.Part, ...]:
    """Join neighboring texts and refusals, and leave out empty ones."""
    merged: list[ir.Part] = []
    for part in parts:
        match merged[-1] if merged else None, part:
            case ir.Text() as last, ir.Text() if not last.cache_breakpoint:
                merged[-1] = replace(
                    part,
                    text=last.text + part.text,
                    annotations=last.annotations + _shifted(part.annotations, len(last.text)),
                    logprobs=last.logprobs + part.logprobs,
                    extras=_relevant(last.extras + part.extras),
                )
            case ir.Refusal(text=text), ir.Refusal():
                merged[-1] = ir.Refusal(text + part.text)
            case _, ir.Image():
                merged.append(replace(part, detail=part.detail or "auto"))
            case _:
                merged.append(part)
    return tuple(part for part in merged if part not in (ir.Text(""), ir.Refusal("")))


def _shifted(annotations: Sequence[ir.Annotation], offset: int) -> tuple[ir.Annotation, ...]:
    """Move the ranges of citations to their place in a longer text."""
    return tuple(
        replace(one, start_index=one.start_index + offset, end_index=one.end_index + offset)
        if isinstance(one, ir.Citation)
        else one
        for one in annotations
    )


def _grouped(items: Sequence[ir.Item]) -> Iterator[ir.Item]:
    """Merge each turn of the assistant, and put the outputs of its calls behind it."""
    outputs = {item.call_id: item for item in items if isinstance(item, ir.ToolOutput)}
    turn: list[ir.Item] = []
    for item in (
        item for item in [*items, ir.Message("user")] if not isinstance(item, ir.ToolOutput)
    ):
        match item:
            case ir.Message(role="assistant") | ir.ToolCall() | ir.Reasoning() | ir.OpaqueItem():
                turn.append(item)
            case _:
                yield from _merged_turn(turn)
                call_ids = [call.call_id for call in turn if isinstance(call, ir.ToolCall)]
                yield from (outputs[call_id] for call_id in call_ids if call_id in outputs)
                turn = []
                yield item


def _merged_turn(items: Sequence[ir.Item]) -> Iterator[ir.Item]:
    """Yield the reasoning of a turn, its texts as one message, its calls, and other items."""
    yield from (item for item in items if isinstance(item, ir.Reasoning))
    messages = [
        item for item in items if isinstance(item, ir.Message) and _merged_parts(item.content)
    ]
    if messages:
        yield _merged_message(messages)
    yield from (item for item in items if isinstance(item, ir.ToolCall))
    yield from (
        item for item in items if not isinstance(item, ir.Reasoning | ir.Message | ir.ToolCall)
    )


def _merged_message(messages: Sequence[ir.Message]) -> ir.Message:
    parts: list[ir.Part] = []
    for message in messages:
        has_text = any(isinstance(part, ir.Text) and part.text for part in message.content)
        if has_text and not message.continues and any(isinstance(part, ir.Text) for part in parts):
            parts.append(ir.Text(TEXT_SEPARATOR))
        parts += message.content
    texts = [part for part in parts if isinstance(part, ir.Text)]
    others = [part for part in parts if not isinstance(part, ir.Text)]
    extras = _relevant(tuple(extra for message in messages for extra in message.extras))
    content = _merged_parts([*texts, *others])
    return replace(messages[0], content=content, continues=False, extras=extras)


def _canonical_tool(tool: ir.Tool) -> ir.Tool:
    if not isinstance(tool, ir.FunctionTool):
        return tool
    strict = is_strict(tool.parameters) if tool.strict is None else tool.strict
    if tool.parameters is None or bytes(tool.parameters) == b"{}":
        return replace(tool, parameters=EMPTY_SCHEMA, strict=strict)
    return replace(tool, strict=strict)
