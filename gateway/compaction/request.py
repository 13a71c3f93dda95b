"""Makes of a request the one that asks a backend for a summary."""

from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.wire.json_object import read_body
from gateway.compaction.window import Window

# What is asked of the backend. What a model needs to go on is what nobody can look up again.
_INSTRUCTION: Final = """\
Stop here and write a summary of this conversation. Another model will go on with it and will see \
nothing of it but your summary. Do not answer what was asked, do not go on with the work, and call \
no tools. Write in plain text, in the language of the conversation, under these headings:

1. Goal: what the user wants, with all wishes, limits and preferences that still hold.
2. Done: what was done and decided so far, and why.
3. Facts: what was found out and is still needed, word for word where it matters: names of files, \
identifiers, numbers, addresses, commands, error messages, results of tools.
4. Open: what is being done right now, what is left to do, and the next step.

Leave out what no longer matters. Invent nothing."""

# What concerns an answer, and none is wanted.
_OF_ANSWERS: Final = (
    "background",
    "context_management",
    "include",
    "max_tool_calls",
    "parallel_tool_calls",
    "prompt",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
)
# These only declare tools, which would be offered again.
_TOOLS_ALONE: Final = frozenset(("additional_tools", "tool_search_call", "tool_search_output"))


def to_sum_up(window: Window) -> Window:
    """Leave out what says nothing that could be summed up."""
    said = tuple(item for item in window.items if item.kind.type not in _TOOLS_ALONE)
    return replace(window, items=said)


def summary_request(body: bytes, window: Window) -> bytes:
    """Give the request for a summary of all items; no tools are declared."""
    fields = read_body(body)
    for name in _OF_ANSWERS:
        fields.raw(name)
    part = {"type": "input_text", "text": _INSTRUCTION}
    asked = {"type": "message", "role": "user", "content": [part]}
    return fields.encode_with(input=[*window.raws, Raw(msgspec.json.encode(asked))])
