"""How one run of `dragoman translate` translates any one body."""

import secrets
import time
from dataclasses import dataclass

from msgspec.structs import replace

from adapters import (
    Capabilities,
    Exchange,
    InvalidInput,
    Mint,
    Policy,
    Request,
    Translation,
    dialect,
    exchange,
)
from adapters.capabilities import GENERIC
from adapters.exchange import UNKNOWN_REQUEST
from adapters.loss import Losses
from gateway.commands.kinds import BYTE_ORDER_MARK, Kind, guess, outline
from gateway.commands.terminal import say

RANDOM = Mint(secrets.token_hex, time.time)
DEFAULT_STATUS = 500


@dataclass(frozen=True, slots=True)
class Setting:
    """All that does not change from one body to the next."""

    source: str
    target: str
    mint: Mint = RANDOM
    capabilities: Capabilities = GENERIC
    policy: Policy = "report"
    # None: to be guessed of each body.
    kind: Kind | None = None
    status: int | None = None
    # What the backend was asked, where somebody knows.
    asked: Request | None = None
    verbose: bool = False

    def exchange(self, kind: Kind) -> Exchange:
        """Begin an exchange: requests come from the client, everything else from the backend."""
        client, backend = self.source, self.target
        if kind != "request":
            client, backend = backend, client
        return exchange(
            client,
            backend,
            mint=self.mint,
            capabilities=self.capabilities,
            policy=self.policy,
            asked=self.asked or UNKNOWN_REQUEST,
        )

    def translate(self, body: bytes, where: str = "") -> Translation:
        """Translate one whole body of any kind but a stream."""
        body = body.removeprefix(BYTE_ORDER_MARK)
        seen = outline(body)
        kind = self.kind or self.tell(guess(seen, self._otherwise()), where)
        if kind == "error":
            return self.exchange(kind).error(self.status or DEFAULT_STATUS, body)
        if not body.strip():
            raise InvalidInput(None, "the input is empty")
        try:
            if kind == "reply":
                return self.exchange(kind).reply(body)
            # A line of a data set names no model, and may end with the call that is wanted.
            return self.exchange(kind).request(body, ends_open=not seen.model)
        except RecursionError:
            raise InvalidInput(None, "the JSON is nested too deeply") from None

    def tell(self, kind: Kind, where: str = "") -> Kind:
        """Say, to who wants to know, what was guessed."""
        if self.verbose:
            say(f"{where}taken for {'an' if kind == 'error' else 'a'} {kind}")
        return kind

    def _otherwise(self) -> Kind:
        """Give what the other options speak for where the body says nothing."""
        if self.status is not None:
            return "error"
        return "request" if self.asked is None else "reply"


def read_asked(source: str, body: bytes) -> Request:
    """Read the request that a backend was sent."""
    spoken = dialect(source)
    asked = spoken.read_request(body.removeprefix(BYTE_ORDER_MARK), Losses(None))
    if asked.include_usage is None and spoken.family == "responses":
        # There nobody can ask for the usage: it always comes.
        return replace(asked, include_usage=True)
    return asked
