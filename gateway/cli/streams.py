"""Translates a stream while it comes."""

from collections.abc import Iterable

from adapters import InvalidReplyError
from adapters.ir.events import Failed
from adapters.translation.streams import is_broken
from gateway.dry_runs.translator import OfflineTranslator
from gateway.terminal import say_losses, write


def translate_stream(setting: OfflineTranslator, pieces: Iterable[bytes]) -> None:
    """Write each piece as soon as it is translated.

    A stream that was cut or cannot be read is told so to its client, in the client's own words;
    whoever ran the command learns it from the `BrokenReply` that is raised at the end.
    """
    stream = setting.exchange("stream").stream()
    for piece in pieces:
        write(stream.feed(piece))
    write(stream.flush())
    say_losses(stream.losses)
    if isinstance(stream.outcome, Failed) and is_broken(stream.outcome):
        raise InvalidReplyError(None, stream.outcome.error.message)
