r"""Dragoman's core: translates between tool-calling dialects, and says what it could not carry.

    import secrets, time
    import adapters

    mint = adapters.IdSource(secrets.token_hex, time.time)
    exchange = adapters.exchange("responses", "chat", mint=mint)
    sent = exchange.request(body)            # bytes for the backend
    print(sent.body, *sent.losses, sep="\n")
    answer = exchange.reply(reply)           # bytes for the client
    stream = exchange.stream()               # or piece by piece
    out = stream.feed(piece)                 # … as long as pieces come
    out = stream.flush()                     # … and once at the end

Nothing here waits, reads a clock or a file, or draws a random number.
"""

from adapters.capabilities import GENERIC, Capabilities
from adapters.chat import CHAT
from adapters.conformance import Violation
from adapters.dialect import Dialect, ReplyOptions
from adapters.errors import (
    DragomanError,
    InvalidReplyError,
    InvalidRequestError,
    UnsupportedRequestError,
)
from adapters.ids import IdSource, deterministic_ids
from adapters.ir.types import Request
from adapters.legacy import LEGACY
from adapters.losses import Loss, Policy, Severity
from adapters.reasoning.sealed import Sealer
from adapters.responses import RESPONSES
from adapters.tool_emulation import CustomInput
from adapters.translation.exchange import Exchange
from adapters.translation.reply_stages import UNKNOWN_REQUEST
from adapters.translation.result import Translation
from adapters.translation.streams import (
    PassthroughStream,
    StreamCollector,
    StreamTranslator,
)

__version__ = "0.1.0"

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (CHAT, RESPONSES, LEGACY)}


def dialect(name: str) -> Dialect:
    """Find a dialect by its name."""
    found = DIALECTS.get(name)
    if found is None:
        raise InvalidRequestError("dialect", f"{name!r} is none of {', '.join(DIALECTS)}")
    return found


def exchange(  # noqa: PLR0913 - the same as `Exchange`, by names
    client: str,
    backend: str,
    *,
    mint: IdSource,
    capabilities: Capabilities | None = None,
    reply_options: ReplyOptions | None = None,
    policy: Policy = "report",
    asked: Request = UNKNOWN_REQUEST,
    rewrite: bool = False,
    seal: Sealer | None = None,
) -> Exchange:
    """Begin an exchange between a client and a backend, each known by the name of its dialect."""
    return Exchange(
        dialect(client),
        dialect(backend),
        mint=mint,
        capabilities=capabilities or GENERIC,
        reply_options=reply_options,
        policy=policy,
        asked=asked,
        rewrite=rewrite,
        seal=seal,
    )


def check(name: str, stream: bytes) -> list[Violation]:
    """Say whether a recorded stream is legal in its dialect: name each breach."""
    return dialect(name).check_stream(stream)


__all__ = [
    "DIALECTS",
    "Capabilities",
    "CustomInput",
    "Dialect",
    "DragomanError",
    "Exchange",
    "IdSource",
    "InvalidReplyError",
    "InvalidRequestError",
    "Loss",
    "PassthroughStream",
    "Policy",
    "ReplyOptions",
    "Request",
    "Sealer",
    "Severity",
    "StreamCollector",
    "StreamTranslator",
    "Translation",
    "UnsupportedRequestError",
    "Violation",
    "check",
    "deterministic_ids",
    "dialect",
    "exchange",
]
