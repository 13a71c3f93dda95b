"""The hub, whole: what is asked and what is answered, in nobody's dialect.

Items are flat, as they were spoken; a dialect that groups them does so when it writes. A call has
two ids: `call_id` pairs it with its output everywhere, `item_id` is the name that one server gave
the item. Arguments are opaque text, never parsed. Schemas and other JSON that is only carried stay
`Raw`, byte for byte.

What only one family of dialects knows travels as an `Extra` (a field), an `OtherPart`, an `Opaque`
item or a `Hosted` tool: written again by its own family, reported as a loss by every other.

Values are frozen and hold no cycles, so the garbage collector need not look at them (`gc=False`).
"""

from typing import Literal

from msgspec import Raw, Struct

from adapters.losses import Severity

# Chat and legacy are two forms of one endpoint and share all that is not about tools.
Family = Literal["completions", "responses"]
Role = Literal["system", "developer", "user", "assistant"]
Status = Literal["in_progress", "completed", "incomplete"]
# Of what kind the called tool is. All but the first two are known to one family only, which names
# the tool by its kind; elsewhere they are functions (see `lowering`).
CallKind = Literal[
    "function", "custom", "shell", "local_shell", "apply_patch", "computer", "tool_search"
]


class ExtraField(Struct, frozen=True, gc=False):
    """A field that only its own family knows, as it was spelled."""

    family: Family
    name: str
    value: Raw
    # None: to leave it out changes nothing (`n: 1`, `truncation: "disabled"`).
    severity: Severity | None = "hint"
    # What to tell a caller who loses it, where more can be said than that it has no place.
    why: str | None = None


Extras = tuple[ExtraField, ...]


# Parts: what a message or an output is made of.


class Citation(Struct, frozen=True, gc=False, tag="url_citation"):
    """Where a piece of the text comes from."""

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
    """A token that could have stood here, and how likely it was."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None


class Logprob(Struct, frozen=True, gc=False):
    """How likely a token was; both families spell it this way."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None
    top_logprobs: tuple[TopLogprob, ...] | None = None


class Text(Struct, frozen=True, gc=False, tag="text"):
    """Text, by anyone."""

    text: str
    annotations: tuple[Annotation, ...] = ()
    logprobs: tuple[Logprob, ...] = ()
    cache_breakpoint: Raw | None = None
    extras: Extras = ()


class Refusal(Struct, frozen=True, gc=False, tag="refusal"):
    """The model's words when it declines."""

    text: str
    extras: Extras = ()


class Image(Struct, frozen=True, gc=False, tag="image"):
    """A picture, by address (data addresses too) or by the id of an uploaded file."""

    url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    cache_breakpoint: Raw | None = None
    extras: Extras = ()


class File(Struct, frozen=True, gc=False, tag="file"):
    """A document: its data, its address, or the id under which it was uploaded."""

    data: str | None = None
    file_id: str | None = None
    url: str | None = None
    filename: str | None = None
    detail: str | None = None
    cache_breakpoint: Raw | None = None
    extras: Extras = ()


class Audio(Struct, frozen=True, gc=False, tag="audio"):
    """Sound, as base64."""

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


# Items: the turns of a conversation, flat.


class Message(Struct, frozen=True, gc=False, tag="message"):
    """Something said."""

    role: Role
    content: tuple[Part, ...] = ()
    # It goes on with the text of the message before it, in mid-sentence perhaps.
    continues: bool = False
    item_id: str | None = None
    status: Status | None = None
    extras: Extras = ()


class ToolCall(Struct, frozen=True, gc=False, tag="call"):
    """The model calls a tool, with JSON. For a custom tool, `arguments` is its raw input."""

    call_id: str
    name: str
    arguments: str = ""
    kind: CallKind = "function"
    namespace: str | None = None
    item_id: str | None = None
    status: Status | None = None
    extras: Extras = ()


class ToolOutput(Struct, frozen=True, gc=False, tag="output"):
    """What the tool answered. Without a `call_id`, its place and name say which call it answers.

    What a tool answered that is neither a function nor custom is JSON, as its family spells it, or
    a picture of the screen.
    """

    call_id: str | None
    output: str | tuple[Part, ...] = ""
    kind: CallKind = "function"
    name: str | None = None
    item_id: str | None = None
    status: Status | None = None
    extras: Extras = ()


class Reasoning(Struct, frozen=True, gc=False, tag="reasoning"):
    """What the model thought: summarised, in its own words, or sealed by its server."""

    summary: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    encrypted: str | None = None
    item_id: str | None = None
    status: Status | None = None
    extras: Extras = ()


class ItemReference(Struct, frozen=True, gc=False, tag="reference"):
    """An item that the server is to look up by its id."""

    item_id: str


class OpaqueItem(Struct, frozen=True, gc=False, tag="opaque"):
    """An item that only one family knows."""

    family: Family
    kind: str
    value: Raw
    item_id: str | None = None


Item = Message | ToolCall | ToolOutput | Reasoning | ItemReference | OpaqueItem


# Tools, and which of them to use.


class FunctionTool(Struct, frozen=True, gc=False, tag="function"):
    """A tool that takes JSON arguments. `strict` is absent where nobody said."""

    name: str
    description: str | None = None
    parameters: Raw | None = None
    strict: bool | None = None
    extras: Extras = ()


class CustomTool(Struct, frozen=True, gc=False, tag="custom"):
    """A tool that takes raw text, perhaps in a grammar."""

    name: str
    description: str | None = None
    # None: nobody said, which means text.
    format: Literal["text", "grammar"] | None = None
    syntax: str | None = None
    definition: str | None = None
    extras: Extras = ()


class HostedTool(Struct, frozen=True, gc=False, tag="hosted"):
    """Any other tool, spelled as the Responses API spells it: most of them run elsewhere."""

    kind: str
    value: Raw


Tool = FunctionTool | CustomTool | HostedTool


class ToolChoiceMode(Struct, frozen=True, gc=False, tag="mode"):
    """Whether to call at all."""

    mode: Literal["auto", "none", "required"]


class NamedToolChoice(Struct, frozen=True, gc=False, tag="named"):
    """Call just this one."""

    name: str
    kind: CallKind = "function"
    namespace: str | None = None


class AllowedToolsChoice(Struct, frozen=True, gc=False, tag="allowed"):
    """Call only these. What is neither a function nor custom is kept as it was spelled."""

    mode: Literal["auto", "required", "none"]
    tools: tuple[NamedToolChoice, ...] = ()
    others: tuple[Raw, ...] = ()


class HostedChoice(Struct, frozen=True, gc=False, tag="hosted_choice"):
    """Use a tool of another kind, spelled as the Responses API spells it."""

    kind: str
    value: Raw


ToolChoice = ToolChoiceMode | NamedToolChoice | AllowedToolsChoice | HostedChoice


# The request and the reply.


class ResponseFormat(Struct, frozen=True, gc=False):
    """The shape that the text of the answer must have."""

    kind: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema: Raw | None = None
    strict: bool | None = None
    description: str | None = None
    extras: Extras = ()


class CacheOptions(Struct, frozen=True, gc=False):
    """How the prompt is cached."""

    mode: str | None = None
    ttl: str | None = None
    extras: Extras = ()


class Request(Struct, frozen=True, gc=False):
    """All that is asked of a model. None and empty mean: nobody said."""

    model: str | None = None
    instructions: str | None = None
    items: tuple[Item, ...] = ()
    # Where each item stands in the caller's own body, for losses and errors.
    paths: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    # Where each tool stands in the caller's own body.
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
        """Look up a field that only one family knows."""
        for extra in self.extras:
            if extra.family == family and extra.name == name:
                return extra.value
        return None

    def items_with_paths(self) -> "list[tuple[Item, str]]":
        """Give each item with its path; a request made by hand has no paths."""
        paths = self.paths or tuple(f"items[{i}]" for i in range(len(self.items)))
        return list(zip(self.items, paths, strict=True))

    def tools_with_paths(self) -> "list[tuple[Tool, str]]":
        """Give each tool with its path."""
        paths = self.tool_paths or tuple(f"tools[{i}]" for i in range(len(self.tools)))
        return list(zip(self.tools, paths, strict=True))


FinishReason = Literal["stop", "calls", "length", "filter"]


class Finish(Struct, frozen=True, gc=False):
    """Why the model stopped, and the word that its server used for it."""

    reason: FinishReason
    raw: str


class Usage(Struct, frozen=True, gc=False):
    """What it cost, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    extras: Extras = ()


class Error(Struct, frozen=True, gc=False):
    """What went wrong, as any dialect can say it."""

    message: str
    type: str = "server_error"
    code: str | None = None
    param: str | None = None
    status: int | None = None
    extras: Extras = ()


class Choice(Struct, frozen=True, gc=False):
    """One answer."""

    items: tuple[Item, ...] = ()
    finish: Finish | None = None
    extras: Extras = ()


class Reply(Struct, frozen=True, gc=False):
    """All that a model answered; more than one choice only where more than one was asked for."""

    id: str = ""
    model: str = ""
    created: int | None = None
    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    service_tier: str | None = None
    # A reply that failed says so here, and may still hold what came before.
    error: Error | None = None
    extras: Extras = ()
