"""A request as one backend is to get it, where it speaks of summaries."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from adapters import Capabilities, IdSource, InvalidRequestError, Sealer
from adapters.losses import Loss, Losses
from adapters.stages.summary_item import SummarizeReply
from adapters.text_tools.prompt import CALLS_AS_TEXT_REASON
from adapters.translation.reply_stages import Reshaping
from adapters.wire.json_object import read_body
from gateway.backends.client import BackendClient
from gateway.compaction.request import summary_request, to_sum_up
from gateway.compaction.summary import Summary
from gateway.compaction.window import (
    Window,
    may_contain_compaction,
    persistent_instructions,
    read_window,
)

Reshape = Callable[[Losses], Reshaping]


class BackendRequest(Struct, frozen=True):
    """The body, and what becomes of the answer to it."""

    body: bytes
    window: Window | None = None
    reshape: Reshape | None = None

    @property
    def summarises(self) -> bool:
        """Tell whether a summary is asked for."""
        return self.reshape is not None

    def told(self, path: str) -> str:
        """Name a place of the body as it was called before summaries were opened."""
        return path if self.window is None else self.window.client_path(path)

    def capabilities(self, upstream: BackendClient) -> Capabilities:
        """Give what the backend can take; in a summary calls are told in words.

        No tools are declared then, and servers refuse calls and outputs without them.
        """
        own = upstream.capabilities
        in_words = self.summarises and upstream.dialect.family == "completions"
        return replace(own, tools="prompted") if in_words else own

    def matters(self, loss: Loss) -> bool:
        """Tell whether a loss is one: a summary is told in words by our own choice."""
        return not (self.summarises and loss.why == CALLS_AS_TEXT_REASON)


def nothing_to_compact() -> InvalidRequestError:
    """Say that there is nothing of which a summary could be made."""
    return InvalidRequestError("input", "there is nothing to sum up", "nothing_to_compact")


def compacts_natively(upstream: BackendClient) -> bool:
    """Tell whether a backend sums up conversations by itself."""
    return upstream.capabilities.compaction and upstream.dialect.family == "responses"


def accepts_foreign_summaries(upstream: BackendClient) -> bool:
    """Tell whether a backend may know summaries that are not ours.

    Besides one that makes them, that is one whose requests pass as they are: it decides itself.
    """
    return compacts_natively(upstream) or (
        upstream.dialect.family == "responses" and not upstream.rewrite
    )


def build_backend_request(
    body: bytes,
    upstream: BackendClient,
    seal: Sealer,
    mint: IdSource,
    past: int = 0,
    *,
    whole: bool = False,
) -> BackendRequest:
    """Give a request as a backend is to get it.

    A summary that is asked for stands for users' words, too, if it is to be `whole`.

    Raises `InvalidInput` for a summary that cannot be opened, and for a trigger out of place.
    """
    if not may_contain_compaction(body):
        return BackendRequest(body)
    window = read_window(body, seal, passes=accepts_foreign_summaries(upstream), past=past)
    if not window.triggered:
        return _opened(body, window)
    if compacts_natively(upstream):
        # It makes the summary, of what ours stood for as well.
        return _opened(body, window, trigger=True)
    before, window = persistent_instructions(window.items), to_sum_up(window)
    if not window.items:
        raise nothing_to_compact()

    def condensing(losses: Losses) -> SummarizeReply:
        return SummarizeReply(
            lambda text: Summary(text, before, whole=whole).sealed(seal, mint), losses
        )

    return BackendRequest(summary_request(body, window), window, condensing)


def _opened(body: bytes, window: Window, *, trigger: bool = False) -> BackendRequest:
    fields = read_body(body)
    given = fields.text_or_raws("input")
    raws = window.raws
    if trigger and isinstance(given, list):
        raws = [*raws, given[-1]]
    if raws == given or isinstance(given, str):
        return BackendRequest(body)
    return BackendRequest(fields.encode_with(input=raws), window)
