"""How one exchange between a client and a backend is translated."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from adapters.capabilities import GENERIC, Capabilities
from adapters.dialect import DEFAULT, Dialect, ReplyOptions
from adapters.ids import IdSource
from adapters.losses import Losses, Policy
from adapters.reasoning.policy import ReasoningPolicy
from adapters.reasoning.sealed import Sealer
from adapters.stages.summary_item import PrependItem, SummarizeReply
from adapters.translation.redaction import Redact

# The last stage of a reply, chosen by the gateway: a summary of a conversation, or an item that is
# put before the backend's own.
FinalStage = SummarizeReply | PrependItem


class TranslationOptions(Struct, frozen=True):
    """Both dialects, what the backend accepts, and how the client wants its reply."""

    client: Dialect
    backend: Dialect
    ids: IdSource
    capabilities: Capabilities = GENERIC
    reply_options: ReplyOptions = DEFAULT
    policy: Policy = "report"
    # Translate between equal dialects too, because the backend's capabilities require it.
    rewrite: bool = False
    # Encrypts reasoning that clients carry for us.
    sealer: Sealer | None = None
    # Fields of a Responses object that the gateway decides, such as the id of a stored response.
    response_overrides: Mapping[str, object] = {}
    # Makes the last stage of the reply.
    final_stage: Callable[[Losses], FinalStage] | None = None
    # Redacts secrets in a backend's errors.
    redact: Redact | None = None
    # Return the whole reply at the end of a stream, for the store.
    keep_reply: bool = False

    @property
    def passes_requests(self) -> bool:
        """Whether the client's request goes to the backend as it is."""
        return self.client is self.backend and not self.rewrite

    def reasoning_policy(self) -> ReasoningPolicy:
        """Return how reasoning travels in this exchange."""
        return ReasoningPolicy(self.sealer, self.client, self.backend, self.capabilities)
