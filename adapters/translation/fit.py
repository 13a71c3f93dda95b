"""Fit a request to the capabilities of a backend, independently of its dialect.

Servers reject a call without its output and an output without its call, and then every later turn
(https://github.com/router-for-me/CLIProxyAPI/issues/2368,
https://github.com/continuedev/continue/issues/11785). So a call without an output gets a short one,
and an output without a call becomes a message of the user. Call ids that repeat across turns
(https://github.com/fw-ai/fireconnect/issues/16) are made unique, together with their outputs.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.dialect import Dialect
from adapters.ids import numbered_call_id
from adapters.ir.normalize import (
    EMPTY_ARGUMENTS,
    EMPTY_ARGUMENTS_REASON,
    STRING_BREAKPOINT_REASON,
    PendingCalls,
    is_assistant_item,
    split_paths,
)
from adapters.ir.types import (
    AllowedToolsChoice,
    Item,
    Message,
    Part,
    Request,
    ResponseFormat,
    Text,
    ToolCall,
    ToolChoiceMode,
    ToolOutput,
)
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.text_tools.prompt import add_instructions, describe_tools_in_prompt
from adapters.translation.call_ids import ANY_CALL_ID, CallIdRule
from adapters.wire.json_schema import to_strict_schema
from adapters.wire.schema_keywords import fit_format_schema, fit_function_schema

ItemWithPath = tuple[Item, str]

_SEPARATOR: Final = "\n\n"
_JOINED: Final = "text parts are joined to a string"
# In ascending order.
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def fit_to_capabilities(
    request: Request, capabilities: Capabilities, backend: Dialect, losses: Losses
) -> Request:
    """Return the request with only such values as the backend accepts."""
    is_prompted = capabilities.tools == "prompted"
    # Calls that are described in the prompt are text, which must have the format, too.
    if (is_prompted or not capabilities.format_with_tools) and _has_format(request):
        request = _describe_format_beside_tools(request, capabilities, backend, losses)
    if is_prompted:
        request = describe_tools_in_prompt(request, losses)
    if capabilities.system_messages != "anywhere":
        if capabilities.text_parts is False:
            request = _with_plain_system_messages(request, losses)
        request = merge_system_messages(request, capabilities.system_messages, losses)
    if capabilities.reasoning_efforts is not None and request.effort is not None:
        effort = _nearest_effort(request.effort, capabilities.reasoning_efforts, losses)
        request = replace(request, effort=effort)
    if capabilities.json_arguments_required:
        request = replace(request, items=tuple(_with_json_arguments(request, losses)))
    if capabilities.enforce_strict_schemas:
        tools = (to_strict_schema(tool, path, losses) for tool, path in request.tools_with_paths())
        request = replace(request, tools=tuple(tools))
    if capabilities.schema_keywords is not None:
        request = _with_keywords(request, capabilities.schema_keywords, losses)
    if capabilities.json_schema != "native" and request.format is not None:
        request = replace(request, format=_without_schema(request.format, capabilities, losses))
    return request


# System messages


def merge_system_messages(
    request: Request, which: Literal["merge_leading", "single"], losses: Losses
) -> Request:
    """Merge the system messages at the beginning, or all of them, into one.

    Many chat templates accept one system message, and only at the beginning
    (https://github.com/BerriAI/litellm/issues/39282). A message that is moved there is reported,
    because it applies to more of the conversation than before.
    """
    items = request.items_with_paths()
    leading = [*takewhile(_is_system, items)]
    rest = items[len(leading) :]
    late = [item for item in rest if _is_system(item)] if which == "single" else []
    if not late and len(leading) + bool(request.instructions) <= 1:
        return request
    for _, path in late:
        losses.changed(path, "system messages must be at the beginning; moved", "capability")
    system = leading + late
    if len(system) + bool(request.instructions) > 1:
        losses.changed("items", "only one system message is supported; merged")
    instructions, merged = _merge(request.instructions, system, losses)
    others = [item for item in rest if not late or not _is_system(item)]
    items = [*merged, *others]
    return replace(
        request,
        instructions=instructions,
        items=tuple(item for item, _ in items),
        paths=tuple(path for _, path in items),
    )


def _with_plain_system_messages(request: Request, losses: Losses) -> Request:
    """Remove the cache breakpoints of system messages, which are sent as one string.

    They are reported before the messages are merged, because their paths are known only here.
    """
    items: list[Item] = []
    for item, path in request.items_with_paths():
        plain = item
        if isinstance(item, Message) and _is_system((item, path)):
            parts = [
                _without_breakpoint(part, f"{path}.content[{number}]", losses)
                for number, part in enumerate(item.content)
            ]
            plain = replace(item, content=tuple(parts))
        items.append(plain)
    return replace(request, items=tuple(items))


def _without_breakpoint(part: Part, path: str, losses: Losses) -> Part:
    if not isinstance(part, Text) or part.cache_breakpoint is None:
        return part
    losses.dropped(f"{path}.prompt_cache_breakpoint", STRING_BREAKPOINT_REASON)
    return replace(part, cache_breakpoint=None)


def _is_system(item_with_path: ItemWithPath) -> bool:
    item, _ = item_with_path
    return isinstance(item, Message) and item.role in ("system", "developer")


def _merge(
    instructions: str | None, system: list[ItemWithPath], losses: Losses
) -> tuple[str | None, list[ItemWithPath]]:
    """Merge messages into the instructions, or into the first message without instructions."""
    messages = [(item, path) for item, path in system if isinstance(item, Message)]
    parts: list[Part] = [Text(instructions)] if instructions else []
    for message, _ in messages:
        parts += message.content
    plain = all(_is_plain(part) for part in parts)
    texts = [part.text for part in parts if isinstance(part, Text)]
    # Only a message that remains keeps its extra fields.
    for message, path in messages[0 if instructions and plain else 1 :]:
        for extra in message.extras:
            losses.dropped(f"{path}.{extra.name}", "merged into another message", client_path=True)
    if plain and instructions:
        return _SEPARATOR.join(texts), []
    first, path = messages[0]
    content = (Text(_SEPARATOR.join(texts)),) if plain else tuple(parts)
    return None, [(replace(first, content=content), path)]


def _is_plain(part: Part) -> bool:
    return isinstance(part, Text) and part.cache_breakpoint is None and not part.extras


# Text parts


def join_text_parts(request: Request, losses: Losses) -> Request:
    """Return the request with texts instead of lists of texts, which every server accepts.

    Lists with other parts, or with other fields than the text, stay as they are.
    """
    if not any(_has_text_parts(item) for item in request.items):
        return request
    items: list[Item] = []
    for item, path in request.items_with_paths():
        joined = item
        if isinstance(item, Message) and _has_text_parts(item):
            losses.changed(f"{path}.content", _JOINED, "adapted")
            joined = replace(item, content=(_joined(item.content),))
        elif isinstance(item, ToolOutput) and _has_text_parts(item):
            losses.changed(f"{path}.output", _JOINED, "adapted")
            joined = replace(item, output=(_joined(item.output),))
        items.append(joined)
    return replace(request, items=tuple(items))


def _has_text_parts(item: Item) -> bool:
    """Whether the content of an input item consists of several plain texts."""
    match item:
        case (
            Message(role="user" | "system" | "developer", content=parts)
            | ToolOutput(output=tuple(parts))
        ):
            return len(parts) > 1 and all(map(_is_plain, parts))
        case _:
            return False


def _joined(parts: str | tuple[Part, ...]) -> Text:
    """Join texts, each of which begins on a new line."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    lines = (text if text.endswith("\n") else f"{text}\n" for text in texts[:-1])
    return Text("".join(lines) + texts[-1])


# Other capabilities


def _with_json_arguments(request: Request, losses: Losses) -> Iterator[Item]:
    """Yield the items, with function arguments that are not a JSON object wrapped in one."""
    for item, path in request.items_with_paths():
        if isinstance(item, ToolCall) and item.kind == "function" and not _has_object(item):
            losses.changed(f"{path}.arguments", "not a JSON object; wrapped in one")
            arguments = msgspec.json.encode({"arguments": item.arguments}).decode()
            yield replace(item, arguments=arguments)
        else:
            yield item


def _has_object(call: ToolCall) -> bool:
    return call.arguments.lstrip().startswith("{") and is_complete_json(call.arguments)


def _nearest_effort(effort: str, accepted: tuple[str, ...], losses: Losses) -> str | None:
    """Return the nearest effort that the backend accepts, or the higher of two.

    Backends reject other values (https://github.com/NousResearch/hermes-agent/issues/9429). A value
    that is not in `_EFFORTS` is kept, because it may be new.
    """
    if effort in accepted or effort not in _EFFORTS:
        return effort
    wanted = _EFFORTS.index(effort)
    ranks = [_EFFORTS.index(value) for value in accepted if value in _EFFORTS]
    if not ranks:
        losses.dropped("effort", "the backend does not support reasoning effort")
        return None
    nearest = _EFFORTS[min(ranks, key=lambda rank: (abs(rank - wanted), -rank))]
    losses.changed("effort", f"{effort} is not supported; sent as {nearest}")
    return nearest


def _without_schema(
    response_format: ResponseFormat, capabilities: Capabilities, losses: Losses
) -> ResponseFormat:
    """Return the format for a backend that does not support `json_schema`."""
    if response_format.kind != "json_schema":
        return response_format
    extras = response_format.extras
    _report_details(response_format, losses)
    if capabilities.json_schema == "json_object":
        losses.changed("format", "json_schema is not supported; sent as json_object with a schema")
        return ResponseFormat("json_object", schema=response_format.schema, extras=extras)
    reason = "json_schema is not supported; sent as json_object"
    losses.dropped("format.schema", reason, "capability")
    return ResponseFormat("json_object", extras=extras)


_ONLY_SCHEMA: Final = "only the schema of the format is sent"
# The beginning of the instructions that replace a format.
_FORMAT_PROMPT: Final = "A reply that is not a tool call must consist of one JSON object"


def _has_format(request: Request) -> bool:
    """Whether the reply must be JSON."""
    return request.format is not None and request.format.kind != "text"


def _describe_format_beside_tools(
    request: Request, capabilities: Capabilities, backend: Dialect, losses: Losses
) -> Request:
    """Describe the format in the instructions if the backend may call a tool."""
    choice = request.tool_choice
    if isinstance(choice, ToolChoiceMode | AllowedToolsChoice) and choice.mode == "none":
        return request
    if not any(backend.supports_tool(tool, capabilities) for tool in request.tools):
        return request
    return describe_format(request, "the backend cannot call tools with it", losses)


def describe_format(request: Request, reason: str, losses: Losses) -> Request:
    """Describe the format of the reply in the instructions instead."""
    format_ = request.format
    if format_ is None:
        return request
    if format_.kind == "text":
        losses.dropped("format", "text is the default; not sent", "adapted")
        return replace(request, format=None)
    losses.changed("format", f"{reason}; described in the instructions", "capability")
    _report_details(format_, losses)
    prompt = f"{_FORMAT_PROMPT}, without any other text."
    if format_.schema is not None:
        schema = bytes(format_.schema).decode()
        prompt = f"{_FORMAT_PROMPT} that conforms to this JSON Schema, and no other text:\n{schema}"
    return add_instructions(replace(request, format=None), prompt)


def _report_details(format_: ResponseFormat, losses: Losses) -> None:
    """Report the fields of a format of which only the schema is sent."""
    if format_.name is not None:
        # OpenAI requires a name, which has no effect on the reply.
        losses.dropped("format.name", _ONLY_SCHEMA, "adapted")
    for name in ("description", "strict"):
        if getattr(format_, name) is not None:
            losses.dropped(f"format.{name}", _ONLY_SCHEMA)


def _with_keywords(request: Request, keywords: tuple[str, ...], losses: Losses) -> Request:
    """Return the request with schemas that have only these keywords."""
    tools = (
        fit_function_schema(tool, path, keywords, losses)
        for tool, path in request.tools_with_paths()
    )
    format_ = request.format
    if format_ is not None:
        format_ = fit_format_schema(format_, keywords, losses)
    return replace(request, tools=tuple(tools), format=format_)


# Calls and outputs

NO_OUTPUT = "No output was recorded for this call."


def pair_tool_calls(
    request: Request,
    losses: Losses,
    *,
    ends_open: bool = False,
    ids_matter: bool = True,
    call_ids: CallIdRule = ANY_CALL_ID,
) -> Request:
    """Return the request with one output for each call and a call for each output.

    With `ends_open`, the calls at the end get no outputs: in a training example they are the reply.
    Without `ids_matter`, changed ids are not reported, because the dialect has no call ids.
    """
    if _is_paired(request, call_ids):
        return request
    pairing = _Pairing(losses, call_ids, ids_matter=ids_matter)
    paired = [(pairing.convert(item, path), path) for item, path in request.items_with_paths()]
    if pairing.pending:
        paired = list(_add_outputs(paired, pairing.pending, losses, ends_open=ends_open))
    items, paths = split_paths(paired)
    return replace(request, items=items, paths=paths)


def _is_paired(request: Request, call_ids: CallIdRule) -> bool:
    """Whether `_Pairing` would change nothing, as in most histories.

    This check saves 8 % of the CPU time of translating a request of 5 kB (median of 21 alternating
    rounds, 95 % interval 7 to 9 %).
    """
    valid_id = call_ids.valid if call_ids.numbered is None else None
    used: set[str] = set()
    pending: dict[str, ToolCall] = {}
    for item in request.items:
        if isinstance(item, ToolCall):
            call_id = item.call_id
            if call_id in used:
                return False
            if valid_id is None:
                if call_ids.expected(call_id, item.name, len(used)) != call_id:
                    return False
            elif valid_id(call_id) != call_id:
                return False
            if item.kind == "function" and not item.arguments.strip():
                return False
            used.add(call_id)
            pending[call_id] = item
        elif isinstance(item, ToolOutput):
            call = pending.pop(item.call_id, None) if item.call_id is not None else None
            if call is None or call.kind != item.kind:
                return False
    return not pending


class _Pairing:
    """Pairs the calls and outputs of a history, one item after the other."""

    def __init__(self, losses: Losses, call_ids: CallIdRule, *, ids_matter: bool) -> None:
        self._losses = losses
        self._call_ids = call_ids
        self._ids_matter = ids_matter
        # The calls without an output so far, under their ids in the history.
        self.pending = PendingCalls()
        self._used: set[str] = set()
        # How often each id was repeated, for the number in the next new id.
        self._repeats: Counter[str] = Counter()

    def convert(self, item: Item, path: str) -> Item:
        """Return the item, with changes that pair it."""
        if isinstance(item, ToolCall):
            return self._convert_call(item, path)
        if isinstance(item, ToolOutput):
            return self._convert_output(item, path)
        if not is_assistant_item(item):
            self.pending.end_batch()
        return item

    def _convert_call(self, call: ToolCall, path: str) -> ToolCall:
        if call.kind == "function" and not call.arguments.strip():
            call = replace(call, arguments=EMPTY_ARGUMENTS)
            self._losses.changed(f"{path}.arguments", EMPTY_ARGUMENTS_REASON)
        history_id = call.call_id
        call_id = self._unique_id(history_id, call.name, path)
        if call_id != history_id:
            call = replace(call, call_id=call_id)
        self._used.add(call_id)
        self.pending.add(call, history_id)
        return call

    def _unique_id(self, history_id: str, name: str, path: str) -> str:
        """Return a unique id that the backend accepts."""
        call_id = self._call_ids.expected(history_id, name, len(self._used))
        if call_id != history_id:
            self._report_id(path, self._call_ids.reason)
        if call_id in self._used:
            self._report_id(path, f"the call id {history_id} is not unique; replaced")
        while call_id in self._used:
            self._repeats[history_id] += 1
            number = self._repeats[history_id] + 1
            call_id = self._call_ids.valid(numbered_call_id(history_id, number))
        return call_id

    def _report_id(self, path: str, reason: str) -> None:
        if self._ids_matter:
            self._losses.changed(path, reason, "adapted")

    def _convert_output(self, output: ToolOutput, path: str) -> Item:
        call = self._take_call(output)
        if call is not None:
            if output.call_id == call.call_id and output.kind == call.kind:
                return output
            return replace(output, call_id=call.call_id, kind=call.kind)
        reason = "the output has no call id" if output.call_id is None else "the call is missing"
        self._losses.changed(path, f"{reason}; sent as a user message", "capability")
        return _as_user_message(output)

    def _take_call(self, output: ToolOutput) -> ToolCall | None:
        """Take the call of an output by its call id; without one, by its name or its item id."""
        if output.call_id is not None:
            return self.pending.take_by_id(output.call_id)
        if output.name is not None:
            return self.pending.take_by_name(output.name)
        return None if output.item_id is None else self.pending.take_by_id(output.item_id)


def _as_user_message(output: ToolOutput) -> Message:
    missing = "" if output.call_id is None else ", whose call is no longer in this conversation"
    label = f"Output of {output.name or 'a tool'}{missing}:\n"
    if isinstance(output.output, str):
        return Message("user", (Text(label + output.output),))
    return Message("user", (Text(label), *output.output))


def _add_outputs(
    paired: list[ItemWithPath], pending: PendingCalls, losses: Losses, *, ends_open: bool
) -> Iterator[ItemWithPath]:
    """Add a short output for each call without an output, after the assistant's turn."""
    without_output: list[tuple[ToolCall, str]] = []
    for item, path in paired:
        if without_output and not is_assistant_item(item):
            yield from _short_outputs(without_output, losses)
            without_output = []
        yield item, path
        if isinstance(item, ToolCall) and pending.has(item):
            without_output.append((item, path))
    if not ends_open:
        yield from _short_outputs(without_output, losses)


def _short_outputs(calls: list[tuple[ToolCall, str]], losses: Losses) -> Iterator[ItemWithPath]:
    for call, path in calls:
        losses.invented(path, "the call has no output; a placeholder was added", "capability")
        yield ToolOutput(call.call_id, NO_OUTPUT, call.kind), path
