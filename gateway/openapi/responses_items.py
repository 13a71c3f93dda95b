"""The Responses API: the items of a conversation that every backend can take part in."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from gateway.openapi.common import ApiModel, Arguments, Opaque
from gateway.openapi.responses_parts import (
    InputPart,
    MessagePart,
    ReasoningText,
    SummaryText,
)
from gateway.openapi.responses_tools import AnyResponsesTool

CallId = Annotated[str, Meta(description="Pairs a call with its output.")]
Status = Literal["in_progress", "completed", "incomplete", "failed"]
ToolOutput = str | list[InputPart]


class Item(ApiModel, tag_field="type"):
    """One item of a conversation."""

    id: str | None = None
    status: Status | None = None


class MessageItem(Item, tag="message", kw_only=True):
    """A message. The `type` may be left out."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[MessagePart]
    phase: str | None = None


class FunctionCallItem(Item, tag="function_call", kw_only=True):
    """A call of a function."""

    call_id: CallId
    name: str
    arguments: Arguments
    namespace: str | None = None
    caller: Opaque | None = None
    is_async: bool | None = field(default=None, name="async")


class FunctionOutputItem(Item, tag="function_call_output", kw_only=True):
    """What a function gave back; the call is known by its id, or else by its name."""

    output: ToolOutput
    call_id: CallId | None = None
    name: str | None = None
    namespace: str | None = None
    caller: Opaque | None = None


class CustomCallItem(Item, tag="custom_tool_call", kw_only=True):
    """A call of a custom tool, with plain text."""

    call_id: CallId
    name: str
    input: str
    namespace: str | None = None
    caller: Opaque | None = None
    is_async: bool | None = field(default=None, name="async")


class CustomOutputItem(Item, tag="custom_tool_call_output", kw_only=True):
    """What a custom tool gave back."""

    call_id: CallId
    output: ToolOutput
    caller: Opaque | None = None


class ReasoningItem(Item, tag="reasoning", kw_only=True):
    """What the model thought."""

    summary: list[SummaryText]
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None


class ReferenceItem(Item, tag="item_reference", kw_only=True):
    """An item that the server keeps. The `type` may be left out."""


class CompactionItem(Item, tag="compaction", kw_only=True):
    """A conversation in short, sealed by the server that made it."""

    encrypted_content: str


class CompactionTriggerItem(Item, tag="compaction_trigger"):
    """Asks for the conversation in short."""


class ToolSearchCallItem(Item, tag="tool_search_call", kw_only=True):
    """A search for tools."""

    arguments: Any
    call_id: CallId | None = None
    execution: Literal["server", "client"] | None = None


class ToolSearchOutputItem(Item, tag="tool_search_output", kw_only=True):
    """The tools that were found."""

    tools: list[AnyResponsesTool]
    call_id: CallId | None = None
    execution: Literal["server", "client"] | None = None


class AdditionalToolsItem(Item, tag="additional_tools", kw_only=True):
    """Tools that are declared in mid-conversation."""

    role: str
    tools: list[AnyResponsesTool]


class ConfigurationItem(Item, tag="configuration_update", kw_only=True):
    """Settings that change in mid-conversation."""

    reasoning: Opaque | None = None
    text: Opaque | None = None
