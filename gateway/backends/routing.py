"""Which backends serve a model, and what it is called there."""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct

from gateway.backends.client import BackendClient
from gateway.errors import ModelNotFoundError

_LONGEST_NAME = 200


class Route(Struct, frozen=True):
    """One way for a request: a backend, and the model's name there where it has another."""

    backend: BackendClient
    model: str | None = None


class Router:
    """Knows all backends, in the order in which they were configured."""

    def __init__(self, upstreams: Sequence[BackendClient]) -> None:
        self._upstreams = upstreams
        self._globs = [_pattern(upstream.config.models) for upstream in upstreams]
        # Bounded in every way, for anybody may ask for any name.
        self._remembered = lru_cache(maxsize=1024)(self._find)

    def find(self, model: str) -> tuple[Route, ...]:
        """Give the ways to a model: the first is to be taken, the others if it is blocked."""
        return self._remembered(model) if len(model) <= _LONGEST_NAME else self._find(model)

    def _find(self, model: str) -> tuple[Route, ...]:
        found = [
            Route(upstream, upstream.config.model_aliases.get(model))
            for upstream, glob in zip(self._upstreams, self._globs, strict=True)
            if model in upstream.config.model_aliases or glob.fullmatch(model)
        ]
        found = found or [Route(one) for one in self._upstreams if one.config.default]
        if not found:
            raise ModelNotFoundError("model", f"no backend serves {model[:_LONGEST_NAME]!r}")
        return tuple(found)


def _pattern(globs: Sequence[str]) -> re.Pattern[str]:
    """Make one pattern of all globs; capitals matter, as they do to servers."""
    return re.compile("|".join(map(translate, globs)) or r"(?!)")
