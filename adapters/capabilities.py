"""What a backend can take. Translation asks these; it never asks for a vendor's name.

Each capability has the default that serves a backend of which nothing is known but its dialect.
"""

from msgspec import Struct


class Capabilities(Struct, frozen=True):
    """One named switch for each way in which backends of one dialect differ."""

    # Takes the role `developer`. Many Chat servers and templates know only `system` (P068).
    developer_role: bool = False
    # Takes `strict` on functions (P007).
    strict: bool = True
    # Takes custom (freeform) tools.
    custom_tools: bool = True
    # Takes `allowed_tools` as a tool choice; otherwise only the listed tools are declared.
    allowed_tools: bool = True
    # Takes `parallel_tool_calls` (P018).
    parallel_tool_calls: bool = True
    # The field of an assistant message in which reasoning is replayed; None: nowhere.
    reasoning_field: str | None = None
    # Names the limit `max_tokens` instead of `max_completion_tokens`.
    max_tokens: bool = False
    # Takes `web_search_options`, the one hosted tool that Chat has.
    web_search: bool = False
    # Takes the sampling penalties on the Responses API, as Open Responses does.
    penalties: bool = False


GENERIC = Capabilities()
