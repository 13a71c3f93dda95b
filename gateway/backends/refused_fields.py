"""The fields that models of a backend refused recently, in the memory of this process."""

import time
from collections.abc import Callable, Iterable
from typing import Final

_SECONDS: Final = 3600.0
_MAX_MODELS: Final = 1000
_NONE: Final[frozenset[str]] = frozenset()


class RefusedFields:
    """Fields that are left out of requests for a model, each for an hour.

    Clients choose the names of models freely, so the number of models is limited: the one whose
    fields were added first is removed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # The fields of each model, with the times at which they expire.
        self._models: dict[str, dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._models)

    def add(self, model: str, fields: Iterable[str]) -> None:
        """Leave out some fields from now on."""
        expires_at = self._clock() + _SECONDS
        times = self._models.pop(model, {})
        self._models[model] = times | dict.fromkeys(fields, expires_at)
        if len(self._models) > _MAX_MODELS:
            del self._models[next(iter(self._models))]

    def of(self, model: str) -> frozenset[str]:
        """Return the fields to leave out for a model."""
        times = self._models.get(model)
        if times is None:
            return _NONE
        now = self._clock()
        fields = frozenset(field for field, expires_at in times.items() if now < expires_at)
        if not fields:
            del self._models[model]
        return fields
