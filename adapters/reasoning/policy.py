"""How reasoning travels in one exchange: who carries it, and where it goes in and out.

| client    | backend   | the reasoning of the backend                                           |
|-----------|-----------|------------------------------------------------------------------------|
| Responses | Chat      | is sealed into the reasoning items if the client asks for that; if     |
|           |           | not, the gateway stores what cannot be shown                           |
| Chat      | Responses | is sealed onto the call that it leads to; the gateway stores it, too   |
| any       | the same  | passes as it is; what was sealed for another backend is removed        |

Without a sealer nothing of this happens.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.dialect import Dialect
from adapters.ir.types import ExtraField, Family, Request, ToolCall
from adapters.losses import Losses, Severity
from adapters.reasoning.capture import (
    AttachReasoningToCalls,
    CaptureReasoning,
    RecordReasoningForCalls,
    SealReasoning,
)
from adapters.reasoning.restore import ReasoningRestorer
from adapters.reasoning.sealed import INCLUDE, Sealer, call_fingerprint
from adapters.reasoning.strip import strip_sealed

_STRINGS = msgspec.json.Decoder(list[str])
_INCLUDE_FIELD = "include"


@dataclass(frozen=True, slots=True)
class ReasoningPolicy:
    """What happens to the reasoning of one exchange."""

    sealer: Sealer | None
    client: Dialect
    backend: Dialect
    capabilities: Capabilities

    @property
    def _crosses(self) -> bool:
        """Whether reasoning must change its form."""
        return self.sealer is not None and self.client.reasoning != self.backend.reasoning

    @property
    def _has_carrier(self) -> bool:
        """Whether the client can carry sealed reasoning in its items, if it asks for that."""
        return self._crosses and self.client.reasoning == "items"

    @property
    def _attaches(self) -> bool:
        """Whether reasoning goes with calls; without call ids it could not be found again."""
        return self._crosses and self.backend.reasoning == "items" and self.client.has_call_ids

    @property
    def _accepts_unsealed(self) -> bool:
        return self.capabilities.reasoning_items != "encrypted"

    # The request

    @property
    def may_have_stored(self) -> bool:
        """Whether the gateway may have stored reasoning for the client."""
        return self._crosses and self.client.has_call_ids

    def storage_keys(self, request: Request) -> tuple[str, ...]:
        """Return the keys of the calls for which the gateway may have stored reasoning."""
        if self._carries(request):
            return ()
        by_id = self.backend.reasoning == "items"
        calls = (item for item in request.items if isinstance(item, ToolCall))
        return tuple(call.call_id if by_id else call_fingerprint(call) for call in calls)

    def restore(
        self, request: Request, stored: Mapping[str, str], losses: Losses
    ) -> tuple[Request, bool]:
        """Return a request with the reasoning that its client carried or the gateway stored.

        The flag says whether the backend is asked for encrypted reasoning although the client did
        not ask for it.
        """
        if self.sealer is None:
            return request, False
        native = self.backend.reasoning == "items"
        request = ReasoningRestorer(self.sealer, losses, native=native).restore(request, stored)
        if self._carries(request):
            # The gateway does what the client asks for; the backend need not.
            return _change_include(request, self.client.family, remove=INCLUDE), False
        # This holds even if the backend stores its reply, because the next request of a Chat
        # client does not name it.
        if not self._attaches or self._accepts_unsealed:
            return request, False
        return _change_include(request, self.backend.family, add=INCLUDE), True

    def strip(self, body: bytes) -> bytes:
        """Return the body of a request that passes unchanged, without what was sealed here."""
        return body if self.sealer is None else strip_sealed(body, self.sealer.prefix)

    # The reply

    def capture_stage(self, request: Request) -> CaptureReasoning | None:
        """Return the stage that captures the reasoning of the reply, if any does."""
        if self.sealer is None:
            return None
        if self._attaches:
            return AttachReasoningToCalls(
                self.sealer, self.client.family, accepts_unsealed=self._accepts_unsealed
            )
        if not self._has_carrier:
            return None
        carries = self._carries(request)
        return SealReasoning(self.sealer) if carries else RecordReasoningForCalls(self.sealer)

    def _carries(self, request: Request) -> bool:
        """Whether the client asks to carry reasoning itself."""
        return self._has_carrier and INCLUDE in _included(request, self.client.family)


def _included(request: Request, family: Family) -> list[str]:
    raw = request.find_extra(family, _INCLUDE_FIELD)
    return [] if raw is None else _STRINGS.decode(raw)


def _change_include(
    request: Request, family: Family, *, add: str | None = None, remove: str | None = None
) -> Request:
    """Return a request that asks for one thing more or less in `include`."""
    included = _included(request, family)
    values = [value for value in included if value != remove]
    if add is not None:
        values.append(add)
    others = tuple(extra for extra in request.extras if extra.name != _INCLUDE_FIELD)
    if not values:
        return replace(request, extras=others)
    # A client that did not ask for anything need not know that the backend has no place for it.
    severity: Severity | None = "hint" if included else None
    include = ExtraField(family, _INCLUDE_FIELD, Raw(msgspec.json.encode(values)), severity)
    return replace(request, extras=(include, *others))
