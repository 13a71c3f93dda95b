"""Open summaries for a backend, and ask it for new ones."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters import Capabilities, IdSource, InputItem, InvalidRequestError, RequestBody, Sealer
from adapters.losses import Loss, Losses
from adapters.responses.request_reader import input_items
from adapters.stages.summary_item import SummarizeReply
from adapters.text_tools.prompt import CALLS_AS_TEXT_REASON
from adapters.translation.request import FinalStage
from gateway.backends.client import BackendClient
from gateway.compaction.summary import Summary
from gateway.compaction.window import (
    Window,
    may_contain_compaction,
    persistent_instructions,
    read_window,
)

# Asks the model for what nobody could look up again.
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

# Fields that concern a reply, and none is wanted.
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
# These items only declare tools, which would be offered again.
_TOOL_ITEMS: Final = frozenset(("additional_tools", "tool_search_call", "tool_search_output"))


class PreparedRequest(Struct, frozen=True):
    """A request in which summaries are opened, or which asks for one."""

    body: RequestBody
    # Makes the last stage of the reply, if it has one of its own.
    final_stage: Callable[[Losses], FinalStage] | None = None
    # Whether the backend is asked for a summary.
    summarizes: bool = False
    # What was lost before the request was prepared.
    losses: tuple[Loss, ...] = ()

    def capabilities(self, backend: BackendClient) -> Capabilities:
        """Return what the backend accepts; in a request for a summary calls become text.

        Such a request declares no tools, and backends refuse calls and outputs without them.
        """
        if self.summarizes and not backend.dialect.stateful:
            return replace(backend.capabilities, tools="prompted")
        return backend.capabilities

    def counts(self, loss: Loss) -> bool:
        """Whether a loss is reported: in a request for a summary, calls are text by our choice."""
        return not (self.summarizes and loss.reason == CALLS_AS_TEXT_REASON)


def mentions_compaction(body: RequestBody) -> bool:
    """Whether a request may have to do with summaries; most have not."""
    return may_contain_compaction(body) or "context_management" in body.fields


def nothing_to_compact() -> InvalidRequestError:
    """Return the error for a conversation without content."""
    return InvalidRequestError("input", "contains nothing to summarize", "nothing_to_compact")


def compacts_natively(backend: BackendClient) -> bool:
    """Whether a backend makes summaries itself."""
    return backend.capabilities.compaction and backend.dialect.stateful


def accepts_foreign_summaries(backend: BackendClient) -> bool:
    """Whether a backend may know summaries that are not ours.

    Besides one that makes them, that is one whose requests pass unchanged: it decides itself.
    """
    return compacts_natively(backend) or (backend.dialect.stateful and not backend.rewrite)


def prepare_request(
    body: RequestBody, backend: BackendClient, sealer: Sealer, ids: IdSource, *, whole: bool
) -> PreparedRequest:
    """Return a request as a backend is to get it.

    A requested summary replaces the messages of users too if it is to be `whole`. Raises
    `InvalidRequestError` for a summary that cannot be opened and for a misplaced trigger.
    """
    if not may_contain_compaction(body):
        return PreparedRequest(body)
    window = read_window(body, sealer, passes=accepts_foreign_summaries(backend))
    if not window.triggered:
        return PreparedRequest(_with_items(body, window.input_items()))
    if compacts_natively(backend):
        # It makes the summary, also of what ours replaced.
        trigger = input_items(body)[-1]
        return PreparedRequest(_with_items(body, (*window.input_items(), trigger)))
    before, window = persistent_instructions(window.items), to_summarize(window)
    if not window.items:
        raise nothing_to_compact()

    def summarize(losses: Losses) -> SummarizeReply:
        return SummarizeReply(
            lambda text: Summary(text, before, whole=whole).sealed(sealer, ids), losses
        )

    return PreparedRequest(_summary_body(body, window), summarize, summarizes=True)


def _with_items(body: RequestBody, items: tuple[InputItem, ...]) -> RequestBody:
    if [item.raw for item in items] == [item.raw for item in input_items(body)]:
        return body
    return replace(body, items=items, raw=None)


def to_summarize(window: Window) -> Window:
    """Leave out items that hold nothing to summarize."""
    items = tuple(item for item in window.items if item.head.type not in _TOOL_ITEMS)
    return replace(window, items=items)


def _summary_body(body: RequestBody, window: Window) -> RequestBody:
    """Return the request for a summary of all items; it declares no tools."""
    fields = {name: raw for name, raw in body.fields.items() if name not in _REPLY_FIELDS}
    part = {"type": "input_text", "text": _INSTRUCTION}
    message = {"type": "message", "role": "user", "content": [part]}
    last = InputItem(Raw(msgspec.json.encode(message)), "input")
    return RequestBody(fields, (*window.input_items(), last))
