"""Keeps what has to be kept of an answer, before the client learns that it is whole."""

from collections.abc import Awaitable, Callable

from msgspec import Raw

from adapters import DragomanError, Exchange, Loss, Translation
from adapters.ir.types import Usage
from gateway import statuses
from gateway.observability.logging import LOG
from gateway.pipeline.last_chunk import broken_instead
from gateway.pipeline.terminal import failed_instead, last_response

# Keeps what a client cannot carry; keeps a finished response.
KeepNotes = Callable[[], Awaitable[None]]
KeepResponse = Callable[[Raw], Awaitable[None]]

_UNKEPT = Loss(
    "dropped",
    "store",
    "what the backend wants to see again with its calls is kept for no client that says"
    " `store: false`; one of the Responses API can carry it, with `reasoning.encrypted_content`",
)


class Notary:
    """Sees the last of an answer before the client does."""

    def __init__(
        self,
        exchange: Exchange,
        keep_notes: KeepNotes | None,
        keep_response: KeepResponse | None,
    ) -> None:
        self._exchange = exchange
        # None: nothing is to be kept.
        self._keep_notes = keep_notes
        self._keep_response = keep_response
        # Is told each piece of a stream but the last, where somebody gathers them.
        self.hear: Callable[[bytes], None] | None = None
        # What is not in the answer that was gathered so, or was not kept.
        self.losses: tuple[Loss, ...] = ()
        # Why a stream was not told as it ended.
        self.problem: DragomanError | None = None

    @property
    def waits(self) -> bool:
        """Tell whether a stream that ends without a last piece is to be seen all the same."""
        return False

    async def see_whole(self, answer: Translation) -> None:
        """See a whole answer; what cannot be kept is not told as if it were."""
        await self.see_notes()
        if self._keep_response is not None and answer.status == statuses.WHOLE:
            await self._keep_response(Raw(answer.body))

    async def see_last(
        self, piece: bytes, usage: Usage | None = None, *, failed: bool = False
    ) -> bytes:
        """See the last piece of a stream; give what to tell for it."""
        del usage, failed  # whoever gathers a stream wants to know
        if self._keep_response is None and not self._exchange.kept:
            return piece
        response = last_response(piece)
        try:
            await self.see_notes()
            if self._keep_response is not None and response is not None:
                await self._keep_response(response)
        except DragomanError as problem:
            LOG.warning("response not stored", error=problem.why)
            self.problem = problem
            return (broken_instead if response is None else failed_instead)(piece, problem)
        return piece

    async def see_notes(self) -> None:
        """Keep what the client cannot carry, unless it wants nothing to be kept."""
        if not self._exchange.kept:
            return
        if self._keep_notes is not None:
            await self._keep_notes()
        elif _UNKEPT not in self.losses:
            self.losses += (_UNKEPT,)
