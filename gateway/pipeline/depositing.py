"""Keeps a Chat completion before the client learns that it is whole (P166)."""

from collections.abc import Awaitable, Callable

from adapters import DragomanError, Exchange, Translation
from adapters.ir.types import Usage
from gateway import statuses
from gateway.observability.logging import LOG
from gateway.pipeline.gathering import Gathering
from gateway.pipeline.last_chunk import broken_instead
from gateway.pipeline.notary import KeepNotes, Notary

# Keeps a finished completion.
KeepCompletion = Callable[[bytes], Awaitable[None]]


class CompletionNotary(Notary):
    """Sees to it that a completion is kept that is to be kept here."""

    def __init__(
        self,
        exchange: Exchange,
        keep_notes: KeepNotes | None,
        keep: KeepCompletion,
        gathering: Gathering | None,
    ) -> None:
        super().__init__(exchange, keep_notes, None)
        self._keep = keep
        # For a client that streams.
        self._gathering = gathering
        self.hear = None if gathering is None else gathering.hear

    @property
    def waits(self) -> bool:
        """Tell whether a stream has not been kept yet: some end without a last word."""
        return self._gathering is not None

    async def see_whole(self, answer: Translation) -> None:
        """See a whole answer; what cannot be kept is not told as if it were."""
        await super().see_whole(answer)
        if answer.status == statuses.WHOLE:
            await self._keep(answer.body)

    async def see_last(
        self, piece: bytes, usage: Usage | None = None, *, failed: bool = False
    ) -> bytes:
        """See the last piece of a stream; give what to tell for it. What failed is not kept."""
        gathering, self._gathering = self._gathering, None
        if gathering is None or failed:
            return await super().see_last(piece, usage, failed=failed)
        gathering.hear(piece)
        try:
            await self.see_notes()
            completion, lost = gathering.whole(usage)
            self.losses += lost
            await self._keep(completion)
        except DragomanError as problem:
            LOG.warning("completion not stored", error=problem.why)
            self.problem = problem
            return broken_instead(piece, problem)
        return piece
