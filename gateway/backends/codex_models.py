"""What Codex wants to know of a model before it works with it.

Codex asks `GET /models?client_version=…` and takes from the answer which tools it offers, how long
a conversation may become, and what it tells the model first. One entry that it cannot read spoils
the whole list, so every field is written that any of its versions demands (P173).

The values here are those with which Codex works over a backend that knows nothing but functions.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

# Where the backend does not say. Codex compacts a conversation before it is this long; without any
# number it goes on until the backend refuses.
ASSUMED_CONTEXT_WINDOW = 128_000

INSTRUCTIONS = """\
You are a coding agent. You work in the user's workspace through the tools that you are given, \
until what the user asked for is done.

# Working
- Look before you change: read the files concerned and search with `rg` or `grep` before you edit.
- Change as little as does the job, in the style of the code around it. Leave alone what is not \
part of the task; the user may be working in the same files.
- Never undo or delete work that is not yours, and never commit or push, unless you are asked to.
- Run the tests or the program to see that a change works. Say so if you could not.
- If a command fails, read what it says and try another way. Do not repeat it unchanged.
- Go on by yourself as long as you can; ask only if you cannot find out and a wrong guess is costly.

# Tools
- Run shell commands with the command tool; several that do not depend on each other at once.
- Edit files with `apply_patch`. As a tool, its input is one patch and nothing else; if there is \
no such tool, run it as a command with the patch as its input: `apply_patch <<'EOF'`.

*** Begin Patch
*** Update File: path/to/file.py
@@ def name_of_the_place():
 a line that stays
-a line that goes
+a line that comes
*** Add File: path/to/new.txt
+each line of it
*** Delete File: path/to/old.txt
*** End Patch

Paths are relative. Give about three lines that stay before and after each change.

# Answering
Be brief and plain. Say first what you did or found, name files as `path:line`, and do not repeat \
long files or outputs.
"""


class Level(Struct, frozen=True):
    """How much a model may think, to choose from."""

    effort: str
    description: str


class Truncation(Struct, frozen=True):
    """How much of a tool's output the model gets to see."""

    mode: Literal["tokens", "bytes"] = "tokens"
    limit: int = 10_000


REASONING_LEVELS = (
    Level("none", "No thinking"),
    Level("low", "Little thinking, quick answers"),
    Level("medium", "Some thinking"),
    Level("high", "Much thinking, slow answers"),
)


class CodexModel(Struct, frozen=True, kw_only=True):
    """One model as Codex wants it described."""

    slug: Annotated[str, Meta(description="The name to ask for.")]
    display_name: str
    description: str | None = None
    priority: Annotated[int, Meta(description="The place in the list.")] = 0
    visibility: Literal["list", "hide", "none"] = "list"
    supported_in_api: bool = True
    upgrade: None = None
    availability_nux: None = None

    base_instructions: Annotated[str, Meta(description="What the model is told first.")]
    context_window: int = ASSUMED_CONTEXT_WINDOW
    max_context_window: int = ASSUMED_CONTEXT_WINDOW
    truncation_policy: Truncation = Truncation()
    input_modalities: tuple[str, ...] = ("text", "image")

    # None: no effort is asked for unless the user chooses one. Many backends refuse the parameter.
    default_reasoning_level: str | None = None
    supported_reasoning_levels: tuple[Level, ...] = REASONING_LEVELS
    # Summaries are told whenever the backend gives thoughts; to ask for them does nothing there.
    default_reasoning_summary: str = "none"
    supports_reasoning_summaries: bool = True
    support_verbosity: bool = False
    default_verbosity: None = None

    shell_type: str = "unified_exec"
    # None: the model writes its patches in commands, where Codex finds them too.
    # A custom tool, which works with every backend: where it must be, it is a function.
    apply_patch_tool_type: str = "freeform"
    supports_parallel_tool_calls: bool = True
    # Tools that are only found by a search, or come in groups, are more than functions.
    supports_search_tool: bool = False
    multi_agent_version: str = "disabled"
    tool_mode: str = "direct"
    use_responses_lite: bool = False
    web_search_tool_type: str = "text"
    experimental_supported_tools: tuple[str, ...] = ()


def codex_model(name: str, priority: int, *, context_window: int | None) -> CodexModel:
    """Describe a model; a context window that nobody knows is assumed."""
    window = context_window or ASSUMED_CONTEXT_WINDOW
    return CodexModel(
        slug=name,
        display_name=name,
        priority=priority,
        base_instructions=INSTRUCTIONS,
        context_window=window,
        max_context_window=window,
    )
