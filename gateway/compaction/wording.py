"""A request on its way: summed up first if it is too long, and opened for each backend in turn.

Whatever is found in it is named as the client knows it.
"""

from msgspec.structs import replace

from adapters import DragomanError, IdSource, Loss, Policy, Sealer
from gateway.backends.client import BackendClient
from gateway.compaction.beforehand import Beforehand, Preparing
from gateway.compaction.managing import Ask, concerns_management
from gateway.compaction.spoken import (
    BackendRequest,
    Reshape,
    build_backend_request,
    compacts_natively,
)
from gateway.compaction.window import may_contain_compaction
from gateway.turns.turn import Turn


def speaks_of_summaries(body: bytes) -> bool:
    """Tell whether a request may have to do with any; most have not, and are to be quick."""
    return may_contain_compaction(body) or concerns_management(body)


class Wording:
    """One request; without a seal, one that has nothing to do with summaries."""

    def __init__(self, body: bytes, plan: Turn | None, seal: Sealer | None, mint: IdSource) -> None:
        self._plan = plan
        self._seal = seal
        self._mint = mint
        # What was done before it is answered, and as the backend of the moment gets it.
        self._beforehand = Beforehand(body)
        self.spoken = BackendRequest(body)

    async def manage(self, upstream: BackendClient, policy: Policy, ask: Ask) -> None:
        """Have a long conversation summed up first, unless its backend does that by itself."""
        body = self._beforehand.body
        if self._seal is None or not concerns_management(body) or compacts_natively(upstream):
            return
        preparing = Preparing(self._seal, self._mint, policy, upstream, self._past)
        try:
            self._beforehand = await preparing.prepare(body, ask)
        except DragomanError as problem:
            raise _placed(problem, self._path(problem.path)) from None

    @property
    def _past(self) -> int:
        """Tell how many items are of earlier turns; behind a new summary, none is."""
        if self._plan is None or self._beforehand.window is not None:
            return 0
        return len(self._plan.history)

    @property
    def _is_whole(self) -> bool:
        """Tell whether a summary stands for all: a conversation holds nothing to put beside it."""
        return self._plan is not None and self._plan.conversation is not None

    def speak(self, upstream: BackendClient) -> None:
        """Word it for a backend."""
        body = self._beforehand.body
        if self._seal is None:
            return
        try:
            self.spoken = build_backend_request(
                body, upstream, self._seal, self._mint, self._past, whole=self._is_whole
            )
        except DragomanError as problem:
            raise _placed(problem, self._path(problem.path)) from None

    @property
    def reshape(self) -> Reshape | None:
        """Give what becomes of the answer."""
        return self.spoken.reshape or self._beforehand.reshape

    def forget(self) -> None:
        """Keep no longer what was sent: a stream may last for hours."""
        self._beforehand, self.spoken = Beforehand(b""), BackendRequest(b"")

    # Places

    def _path(self, path: str | None) -> str | None:
        """Name a place as the client knows it, that was found before it was worded."""
        if path is None:
            return None
        path = self._beforehand.told(path)
        return path if self._plan is None else self._plan.client_path(path)

    def placed(self, problem: DragomanError) -> DragomanError:
        """Name the place of a problem as the client knows it."""
        path = problem.path
        return _placed(problem, self._path(path and self.spoken.told(path)))

    def losses(self, found: tuple[Loss, ...]) -> list[Loss]:
        """Give all that was lost of the request; before it was worded, and now."""
        before = self._beforehand.losses
        told = self._plan.client_path if self._plan is not None else str
        return [
            *(replace(loss, path=told(loss.path)) for loss in before),
            *(self._placed_loss(loss) for loss in found if self.spoken.matters(loss)),
        ]

    def _placed_loss(self, loss: Loss) -> Loss:
        return replace(loss, path=self._path(self.spoken.told(loss.path)))


def _placed(problem: DragomanError, path: str | None) -> DragomanError:
    return problem if path == problem.path else type(problem)(path, problem.why, problem.code)
