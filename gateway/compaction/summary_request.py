"""Requests with summaries: open them for a backend, or request a new one from it."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters import Capabilities, IdSource, InputItem, InvalidRequestError, RequestBody, Sealer
from adapters.losses import Loss, Losses
from adapters.responses.request_reader import input_items
from adapters.stages.summary_item import ReplySummarizer
from adapters.text_tools.prompt import CALLS_AS_TEXT_REASON
from adapters.translation.request import FinalStage
from gateway.backends.client import BackendClient
from gateway.compaction.summary import Summary
from gateway.compaction.window import (
    Window,
    instructing_items,
    may_contain_compaction,
    read_window,
)

# Requests the information that cannot be looked up again.
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

# Fields that apply to a reply and not to a summary.
_REPLY_FIELDS: Final = (
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
# Items that only declare tools, which a request for a summary must not contain.
_TOOL_ITEMS: Final = frozenset(("additional_tools", "tool_search_call", "tool_search_output"))


class PreparedRequest(Struct, frozen=True):
    """A request with opened summaries, or a request for a summary."""

    body: RequestBody
    # Creates an additional last stage of the reply.
    final_stage: Callable[[Losses], FinalStage] | None = None
    # Whether this is a request for a summary.
    summarizes: bool = False
    # Losses from before the request was prepared.
    losses: tuple[Loss, ...] = ()

    def capabilities(self, backend: BackendClient) -> Capabilities:
        """Return the capabilities of the backend; in a request for a summary, calls become text.

        A request for a summary declares no tools, and backends refuse calls without tools.
        """
        if self.summarizes and not backend.dialect.stateful:
            return replace(backend.capabilities, tools="prompted")
        return backend.capabilities

    def reports(self, loss: Loss) -> bool:
        """Whether to report a loss; calls as text are intended in a request for a summary."""
        return not (self.summarizes and loss.reason == CALLS_AS_TEXT_REASON)


def mentions_compaction(body: RequestBody) -> bool:
    """Whether a request may contain or request a summary; most requests do not."""
    return may_contain_compaction(body) or "context_management" in body.fields


def nothing_to_compact() -> InvalidRequestError:
    """Return the error for a conversation without content."""
    return InvalidRequestError("input", "contains nothing to summarize", "nothing_to_compact")


def compacts_natively(backend: BackendClient) -> bool:
    """Whether a backend supports compaction itself."""
    return backend.capabilities.compaction and backend.dialect.stateful


def accepts_foreign_summaries(backend: BackendClient) -> bool:
    """Whether a backend may be able to open summaries that the gateway did not seal.

    With passthrough this is not known, so the backend has to accept or refuse them itself.
    """
    return compacts_natively(backend) or (backend.dialect.stateful and not backend.rewrite)


def prepare_request(
    body: RequestBody, backend: BackendClient, sealer: Sealer, ids: IdSource, *, whole: bool
) -> PreparedRequest:
    """Return a request prepared for a backend; a requested summary is `whole` if that is set.

    Raises `InvalidRequestError` for a summary that cannot be opened and for a misplaced trigger.
    """
    if not may_contain_compaction(body):
        return PreparedRequest(body)
    window = read_window(body, sealer, keep_foreign=accepts_foreign_summaries(backend))
    if not window.triggered:
        return PreparedRequest(_with_items(body, window.input_items()))
    if compacts_natively(backend):
        trigger = input_items(body)[-1]
        return PreparedRequest(_with_items(body, (*window.input_items(), trigger)))
    before = tuple(item.raw for item in instructing_items(window.items))
    window = without_tool_declarations(window)
    if not window.items:
        raise nothing_to_compact()

    def summarize(losses: Losses) -> ReplySummarizer:
        return ReplySummarizer(
            lambda text: Summary(text, before, whole=whole).to_item(sealer, ids), losses
        )

    return PreparedRequest(_summary_body(body, window), summarize, summarizes=True)


def _with_items(body: RequestBody, items: tuple[InputItem, ...]) -> RequestBody:
    if [item.raw for item in items] == [item.raw for item in input_items(body)]:
        return body
    return replace(body, items=items, raw=None)


def without_tool_declarations(window: Window) -> Window:
    """Return a window without the items that contain nothing to summarize."""
    items = tuple(item for item in window.items if item.head.type not in _TOOL_ITEMS)
    return replace(window, items=items)


def _summary_body(body: RequestBody, window: Window) -> RequestBody:
    fields = {name: raw for name, raw in body.fields.items() if name not in _REPLY_FIELDS}
    part = {"type": "input_text", "text": _INSTRUCTION}
    message = {"type": "message", "role": "user", "content": [part]}
    last = InputItem(Raw(msgspec.json.encode(message)), "input")
    return RequestBody(fields, (*window.input_items(), last))
