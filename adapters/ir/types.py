"""IR types of requests and replies.

Items are a flat list in the order of the conversation; a dialect that groups them does so when it
writes. A call has two ids: `call_id` pairs it with its output everywhere, `item_id` is the id that
one server gave to the item. Arguments are opaque text and never parsed. Schemas and other JSON that
is forwarded unchanged stay `Raw`, byte for byte.

Values that only one family of dialects knows are an `ExtraField`, `OtherPart`, `OpaqueItem` or
`HostedTool`: their own family writes them unchanged, every other family reports them as losses.

The items of a reply have a `path` for losses, their place in the backend's complete reply. Those of
a request have none, because `Request.paths` has their places in the client's request.

Values are frozen and contain no cycles, so they are exempt from garbage collection (`gc=False`).
"""

from typing import Literal

from msgspec import Raw, Struct

from adapters.losses import Severity

# The name of a group of dialects (`Dialect.family`) that share all fields except those about tools.
Family = str
Role = Literal["system", "developer", "user", "assistant"]
Status = Literal["in_progress", "completed", "incomplete"]
# The kind of the called tool. All but the first two exist in one family only and name the tool by
# its kind; `adapters.tool_emulation` converts them to functions for other families.
CallKind = Literal[
    "function", "custom", "shell", "local_shell", "apply_patch", "computer", "tool_search"
]


# The key `why` is part of the reasoning that clients have stored encrypted.
class ExtraField(Struct, frozen=True, gc=False, rename={"drop_reason": "why"}):
    """A field that only one family knows, unchanged."""

    family: Family
    name: str
    value: Raw
    # None if dropping it changes nothing (`n: 1`, `truncation: "disabled"`).
    severity: Severity | None = "hint"
    # The reason to report when it is dropped, if not the usual one.
    drop_reason: str | None = None


Extras = tuple[ExtraField, ...]


# Content parts of messages and tool outputs


class Citation(Struct, frozen=True, gc=False, tag="url_citation"):
    """The source of a range of the text."""

    url: str
    title: str
    start_index: int
    end_index: int


class OtherAnnotation(Struct, frozen=True, gc=False, tag="annotation"):
    """An annotation that only one family knows."""

    family: Family
    value: Raw


Annotation = Citation | OtherAnnotation


class TopLogprob(Struct, frozen=True, gc=False):
    """The log probability of an alternative token."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None


class Logprob(Struct, frozen=True, gc=False):
    """The log probability of a token, in the form that all dialects share."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None
    top_logprobs: tuple[TopLogprob, ...] | None = None


class Text(Struct, frozen=True, gc=False, tag="text"):
    """Text of any role."""

    text: str
    annotations: tuple[Annotation, ...] = ()
    logprobs: tuple[Logprob, ...] = ()
    cache_breakpoint: Raw | None = None
    extras: Extras = ()


class Refusal(Struct, frozen=True, gc=False, tag="refusal"):
    """The text with which a model refuses a request."""

    text: str
    extras: Extras = ()


class Image(Struct, frozen=True, gc=False, tag="image"):
    """An image: a URL (or data URL), or the id of an uploaded file."""

    url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    cache_breakpoint: Raw | None = None
    extras: Extras = ()


class File(Struct, frozen=True, gc=False, tag="file"):
    """A document: its data, its URL, or the id of an uploaded file."""

    data: str | None = None
    file_id: str | None = None
    url: str | None = None
    filename: str | None = None
    detail: str | None = None
    cache_breakpoint: Raw | None = None
    extras: Extras = ()


class Audio(Struct, frozen=True, gc=False, tag="audio"):
    """Audio in base64."""

    data: str
    format: str
    cache_breakpoint: Raw | None = None
    extras: Extras = ()


class OtherPart(Struct, frozen=True, gc=False, tag="other_part"):
    """A part that only one family knows."""

    family: Family
    kind: str
    value: Raw


Part = Text | Refusal | Image | File | Audio | OtherPart


# Items of a conversation


class Message(Struct, frozen=True, gc=False, tag="message"):
    """Content by a user, a developer or the model."""

    role: Role
    content: tuple[Part, ...] = ()
    # Whether its text continues the text of the previous message, without a separator.
    continues: bool = False
    item_id: str | None = None
    status: Status | None = None
    extras: Extras = ()
    path: str = ""


class ToolCall(Struct, frozen=True, gc=False, tag="call"):
    """A tool call with JSON arguments. For a custom tool, `arguments` is the raw input."""

    call_id: str
    name: str
    arguments: str = ""
    kind: CallKind = "function"
    namespace: str | None = None
    item_id: str | None = None
    status: Status | None = None
    extras: Extras = ()
    path: str = ""


class ToolOutput(Struct, frozen=True, gc=False, tag="output"):
    """The output of a tool. Without a `call_id`, its position and name identify the call.

    The output of a built-in tool is JSON in the form of its family, or a screenshot.
    """

    call_id: str | None
    output: str | tuple[Part, ...] = ""
    kind: CallKind = "function"
    name: str | None = None
    item_id: str | None = None
    status: Status | None = None
    extras: Extras = ()


class Reasoning(Struct, frozen=True, gc=False, omit_defaults=True, tag="reasoning"):
    """The reasoning of a model: a summary, the text itself, or encrypted by its server."""

    summary: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    encrypted: str | None = None
    item_id: str | None = None
    status: Status | None = None
    extras: Extras = ()
    # The field of a message in which it was received, if its dialect has no items for it.
    field: str | None = None
    path: str = ""


class ItemReference(Struct, frozen=True, gc=False, tag="reference"):
    """An item that the server looks up by its id."""

    item_id: str


class OpaqueItem(Struct, frozen=True, gc=False, tag="opaque"):
    """An item that only one family knows."""

    family: Family
    kind: str
    value: Raw
    item_id: str | None = None
    path: str = ""
    # The URL of the image, if it is an image of a reply, which other families can write.
    image: str | None = None


Item = Message | ToolCall | ToolOutput | Reasoning | ItemReference | OpaqueItem


# Tools and tool choice


class FunctionTool(Struct, frozen=True, gc=False, tag="function"):
    """A tool with JSON arguments. `strict` is None if the client did not set it."""

    name: str
    description: str | None = None
    parameters: Raw | None = None
    strict: bool | None = None
    extras: Extras = ()


class CustomTool(Struct, frozen=True, gc=False, tag="custom"):
    """A tool with raw text as its input, which a grammar may restrict."""

    name: str
    description: str | None = None
    # None means text.
    format: Literal["text", "grammar"] | None = None
    syntax: str | None = None
    definition: str | None = None
    extras: Extras = ()


class HostedTool(Struct, frozen=True, gc=False, tag="hosted"):
    """Any other tool, in the form of the Responses API. Most of them run on a server."""

    kind: str
    value: Raw


Tool = FunctionTool | CustomTool | HostedTool


class ToolChoiceMode(Struct, frozen=True, gc=False, tag="mode"):
    """Whether the model may or must call tools."""

    mode: Literal["auto", "none", "required"]


class NamedToolChoice(Struct, frozen=True, gc=False, tag="named"):
    """The one tool to call."""

    name: str
    kind: CallKind = "function"
    namespace: str | None = None


class AllowedToolsChoice(Struct, frozen=True, gc=False, tag="allowed"):
    """The tools that may be called; `others` are neither functions nor custom tools."""

    mode: Literal["auto", "required", "none"]
    tools: tuple[NamedToolChoice, ...] = ()
    others: tuple[Raw, ...] = ()


class HostedChoice(Struct, frozen=True, gc=False, tag="hosted_choice"):
    """The one tool to use, if it is a `HostedTool`, in the form of the Responses API."""

    kind: str
    value: Raw


ToolChoice = ToolChoiceMode | NamedToolChoice | AllowedToolsChoice | HostedChoice


# Requests and replies


class ResponseFormat(Struct, frozen=True, gc=False):
    """The format that the text of the reply must have."""

    kind: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema: Raw | None = None
    strict: bool | None = None
    description: str | None = None
    extras: Extras = ()


class CacheOptions(Struct, frozen=True, gc=False):
    """Options of prompt caching."""

    mode: str | None = None
    ttl: str | None = None
    extras: Extras = ()


class Request(Struct, frozen=True, gc=False):
    """A request to a model. None and empty mean that the client did not set it."""

    model: str | None = None
    instructions: str | None = None
    items: tuple[Item, ...] = ()
    # The path of each item in the client's request body, for losses and errors.
    paths: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    # The path of each tool in the client's request body.
    tool_paths: tuple[str, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    choices: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    format: ResponseFormat | None = None
    verbosity: str | None = None
    effort: str | None = None
    stream: bool | None = None
    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    store: bool | None = None
    metadata: Raw | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: CacheOptions | None = None
    service_tier: str | None = None
    moderation: Raw | None = None
    extras: Extras = ()

    def find_extra(self, family: Family, name: str) -> Raw | None:
        """Return the value of an extra field."""
        for extra in self.extras:
            if extra.family == family and extra.name == name:
                return extra.value
        return None

    def items_with_paths(self) -> "list[tuple[Item, str]]":
        """Return each item with its path; a request that was not read from JSON has no paths."""
        paths = self.paths or tuple(f"items[{i}]" for i in range(len(self.items)))
        return list(zip(self.items, paths, strict=True))

    def tools_with_paths(self) -> "list[tuple[Tool, str]]":
        """Return each tool with its path."""
        paths = self.tool_paths or tuple(f"tools[{i}]" for i in range(len(self.tools)))
        return list(zip(self.tools, paths, strict=True))


# Used where the request is not known; requires the reply to be written in full.
EMPTY_REQUEST = Request(include_usage=True)

FinishReason = Literal["stop", "calls", "length", "filter"]


class Finish(Struct, frozen=True, gc=False):
    """The reason why the model stopped; `raw` is the value that its server sent."""

    reason: FinishReason
    raw: str


class Usage(Struct, frozen=True, gc=False):
    """Token counts."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    extras: Extras = ()
    # What its server did not report: only counts of details, which are 0, or others too.
    missing: Literal["details", "counts"] | None = None


class Error(Struct, frozen=True, gc=False):
    """An error, with the fields that all dialects have."""

    message: str
    type: str = "server_error"
    code: str | None = None
    param: str | None = None
    status: int | None = None
    extras: Extras = ()


class Choice(Struct, frozen=True, gc=False):
    """One of the alternative replies."""

    items: tuple[Item, ...] = ()
    finish: Finish | None = None
    extras: Extras = ()


class Reply(Struct, frozen=True, gc=False):
    """A complete reply; it has several choices only if the client requested several."""

    id: str = ""
    model: str = ""
    created: int | None = None
    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    service_tier: str | None = None
    # The error of a failed reply, which may contain items from before the error.
    error: Error | None = None
    extras: Extras = ()
