"""The description of models that Codex requires.

Codex requests `GET /models?client_version=…` and reads from the list `models` in the response which
tools to offer, when to compact a conversation, and with which instructions to begin. Every field
that any version of Codex requires is written, because Codex ignores the whole list if it cannot
read one entry (https://github.com/openai/codex/issues/22205).

The values are suitable for a backend that supports only functions.
"""

from importlib.resources import files
from typing import Annotated, Literal

from msgspec import Meta, Struct

# Used if a backend reports no context window. Codex compacts a conversation before it is this
# long; without a number, it would continue until the backend returns an error.
ASSUMED_CONTEXT_WINDOW = 128_000

INSTRUCTIONS = (files("gateway.backends") / "codex_instructions.md").read_text("utf-8")


class Level(Struct, frozen=True):
    """A reasoning effort that the client can select."""

    effort: str
    description: str


class Truncation(Struct, frozen=True):
    """How much of a tool output the model receives."""

    mode: Literal["tokens", "bytes"] = "tokens"
    limit: int = 10_000


REASONING_LEVELS = (
    Level("none", "No reasoning"),
    Level("low", "Little reasoning, fast replies"),
    Level("medium", "Some reasoning"),
    Level("high", "Much reasoning, slow replies"),
)


class CodexModel(Struct, frozen=True, kw_only=True):
    """One model in the format of Codex."""

    slug: Annotated[str, Meta(description="The name for requests.")]
    display_name: str
    description: str | None = None
    priority: Annotated[int, Meta(description="The position in the list.")] = 0
    visibility: Literal["list", "hide", "none"] = "list"
    supported_in_api: bool = True
    upgrade: None = None
    availability_nux: None = None

    base_instructions: Annotated[str, Meta(description="The default instructions.")]
    context_window: int = ASSUMED_CONTEXT_WINDOW
    max_context_window: int = ASSUMED_CONTEXT_WINDOW
    truncation_policy: Truncation = Truncation()
    input_modalities: tuple[str, ...] = ("text", "image")

    # None, so that no effort is sent unless the user chooses one: many backends reject efforts.
    default_reasoning_level: str | None = None
    supported_reasoning_levels: tuple[Level, ...] = REASONING_LEVELS
    # Summaries are not requested, because backends that send reasoning do so anyway.
    default_reasoning_summary: str = "none"
    supports_reasoning_summaries: bool = True
    support_verbosity: bool = False
    default_verbosity: None = None

    shell_type: str = "unified_exec"
    # A custom tool, which is emulated for backends without custom tools.
    apply_patch_tool_type: str = "freeform"
    supports_parallel_tool_calls: bool = True
    # Tool search and multiple agents need more than functions.
    supports_search_tool: bool = False
    multi_agent_version: str = "disabled"
    tool_mode: str = "direct"
    use_responses_lite: bool = False
    web_search_tool_type: str = "text"
    experimental_supported_tools: tuple[str, ...] = ()


def codex_model(name: str, priority: int, *, context_window: int | None) -> CodexModel:
    """Return the description of a model; without a context window, a usual one is assumed."""
    window = context_window or ASSUMED_CONTEXT_WINDOW
    return CodexModel(
        slug=name,
        display_name=name,
        priority=priority,
        base_instructions=INSTRUCTIONS,
        context_window=window,
        max_context_window=window,
    )
