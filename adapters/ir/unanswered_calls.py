"""The calls of a history that wait for their outputs."""

from adapters.ir.types import ToolCall


class _Wait:
    __slots__ = ("call", "run", "spoken")

    def __init__(self, call: ToolCall, spoken: str, run: int) -> None:
        self.call = call
        self.spoken = spoken
        self.run = run


class UnansweredCalls:
    """Calls in runs: a run is what was called before anybody answered.

    An output without an id answers the oldest call of its name in the latest run that has one. So
    two calls of one function are answered in their order, and a call that was never answered long
    ago does not take the answer of a later one.
    """

    def __init__(self) -> None:
        self._waits: list[_Wait] = []
        self._run = 0
        self._answering = False

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(self, call: ToolCall, spoken: str | None = None) -> None:
        """Let a call wait, under the id that the history uses for it."""
        if self._answering:
            self._answering = False
            self._run += 1
        self._waits.append(_Wait(call, call.call_id if spoken is None else spoken, self._run))

    def start_new_run(self) -> None:
        """Learn that somebody else spoke: the calls so far are a run of their own."""
        self._answering = True

    def has(self, call: ToolCall) -> bool:
        """Tell whether this very call still waits."""
        return any(wait.call is call for wait in self._waits)

    def take_by_id(self, spoken: str) -> ToolCall | None:
        """Take the call with an id; of the two ids some servers give only one."""
        exact = [wait for wait in self._waits if wait.spoken == spoken]
        return self._take(exact or [wait for wait in self._waits if wait.call.item_id == spoken])

    def take_by_name(self, name: str | None) -> ToolCall | None:
        """Take the call that an output without an id answers; None stands for any name."""
        return self._take([wait for wait in self._waits if name in (None, wait.call.name)])

    def _take(self, found: list[_Wait]) -> ToolCall | None:
        """Take the oldest of the latest run."""
        for wait in found:
            if wait.run == found[-1].run:
                self._waits.remove(wait)
                self._answering = True
                return wait.call
        return None
