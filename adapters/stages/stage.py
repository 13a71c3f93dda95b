"""Stages: small machines that are fed, and flushed once.

A stage takes one thing and gives a list of others. It never waits. `flush` says that no more will
come; the stage then ends what it opened. Stages are piped by feeding one's output to the next.
"""

from typing import Any, Protocol, TypeVar

In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")


class Stage(Protocol[In_contra, Out]):
    """What every machine on a stream looks like."""

    def feed(self, given: In_contra, /) -> list[Out]:
        """Take one thing; give what it led to."""
        ...

    def flush(self) -> list[Out]:
        """Learn that no more will come; give what that led to."""
        ...


# Each stage has its own types, and Python cannot say that neighbours fit; the grammar does.
AnyStage = Stage[Any, Any]


def ignores_deltas(stage: AnyStage) -> bool:
    """Tell whether a stage passes deltas on as they are, until it is fed something else.

    Nothing comes as often. A stage that does not say so wants to see each of them.
    """
    return getattr(stage, "passes_deltas", False)


class Pipeline:
    """Stages in a row, which are a stage again."""

    def __init__(self, *stages: AnyStage) -> None:
        self._stages = stages

    def feed(self, given: Any, /) -> list[Any]:
        """Pass one thing through all stages."""
        return self.feed_all([given])

    def feed_all(self, given: list[Any]) -> list[Any]:
        """Pass several things through all stages, stage by stage."""
        for stage in self._stages:
            feed = stage.feed
            # Mostly there is one.
            given = feed(given[0]) if len(given) == 1 else [o for one in given for o in feed(one)]
        return given

    def flush(self) -> list[Any]:
        """Flush the stages in order, each after it has had the last of its forerunner."""
        given: list[Any] = []
        for stage in self._stages:
            given = [*(out for one in given for out in stage.feed(one)), *stage.flush()]
        return given
