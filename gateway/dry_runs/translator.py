"""How one run of `dragoman translate` translates any one body."""

from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from adapters import (
    Capabilities,
    Dialect,
    Exchange,
    IdSource,
    InvalidRequestError,
    Policy,
    Request,
    Translation,
    dialect,
)
from adapters.capabilities import GENERIC
from adapters.losses import Losses
from adapters.translation import exchange
from adapters.translation.reply_stages import UNKNOWN_REQUEST
from adapters.wire.json_object import read_body
from gateway.crypto.ids import RANDOM_IDS
from gateway.dry_runs.kinds import BYTE_ORDER_MARK, Kind, detect_kind, outline
from gateway.grammar.check import check_grammar
from gateway.terminal import say

DEFAULT_STATUS = 500


@dataclass(frozen=True, slots=True)
class OfflineTranslator:
    """All that does not change from one body to the next."""

    source: str
    target: str
    mint: IdSource = RANDOM_IDS
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
            # Within one dialect nothing changes, unless something is said of the backend.
            rewrite=self.capabilities != GENERIC,
            check_grammar=check_grammar,
        )

    def translate(self, body: bytes, where: str = "") -> Translation:
        """Translate one whole body of any kind but a stream."""
        body = body.removeprefix(BYTE_ORDER_MARK)
        seen = outline(body)
        kind = self.kind or self.tell(detect_kind(seen, self._otherwise()), where)
        if kind == "error":
            return self.exchange(kind).error(self.status or DEFAULT_STATUS, body)
        if not body.strip():
            raise InvalidRequestError(None, "the input is empty")
        try:
            if kind == "reply":
                return self.exchange(kind).reply(body)
            # A line of a data set names no model, and may end with the call that is wanted.
            return self.exchange(kind).request(body, ends_open=not seen.model)
        except RecursionError:
            raise InvalidRequestError(None, "the JSON is nested too deeply") from None

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


def read_asked(likely: str, other: str, body: bytes) -> Request:
    """Read the request that led to an answer: as the backend was sent it, or as the client said it.

    Its own words tell in which of the two dialects it is; where both would do, in the likely one.
    """
    body = body.removeprefix(BYTE_ORDER_MARK)
    spoken = dialect(likely)
    if _speaks(dialect(other), body) and not _speaks(spoken, body):
        spoken = dialect(other)
    asked = spoken.read_request(body, Losses(None))
    if asked.include_usage is None and spoken.family == "responses":
        # There nobody can ask for the usage: it always comes.
        return replace(asked, include_usage=True)
    return asked


def _speaks(spoken: Dialect, body: bytes) -> bool:
    """Tell whether a request is in a dialect, by where it holds what is said."""
    with suppress(InvalidRequestError):
        return read_body(body).has(spoken.names["items"])
    return False
