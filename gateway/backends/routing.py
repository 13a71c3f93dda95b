"""Routes: the backends that serve a model, and the names under which they do."""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct

from gateway.backends.client import BackendClient
from gateway.errors import ModelNotFoundError

_MAX_CACHED_NAME_LENGTH = 200


class Route(Struct, frozen=True):
    """A backend with its capabilities for a model, and its name of the model if it differs."""

    backend: BackendClient
    model: str | None = None


class Router:
    """Finds the routes to a model among the backends, in the order of the configuration."""

    def __init__(self, backends: Sequence[BackendClient]) -> None:
        self.backends = backends
        self._patterns = [_compile_globs(backend.config.served_models) for backend in backends]
        # The number and length of the names are limited, because clients may request any name.
        self._find_cached = lru_cache(maxsize=1024)(self._find)

    def find(self, model: str) -> tuple[Route, ...]:
        """Return the routes to a model in order of preference.

        Raises `ModelNotFoundError` if no backend serves the model.
        """
        if len(model) <= _MAX_CACHED_NAME_LENGTH:
            return self._find_cached(model)
        return self._find(model)

    def _find(self, model: str) -> tuple[Route, ...]:
        routes = [
            _make_route(backend, model, backend.config.model_aliases.get(model))
            for backend, pattern in zip(self.backends, self._patterns, strict=True)
            if model in backend.config.model_aliases or pattern.fullmatch(model)
        ]
        routes = routes or [
            _make_route(backend, model) for backend in self.backends if backend.config.default
        ]
        if not routes:
            name = model[:_MAX_CACHED_NAME_LENGTH]
            raise ModelNotFoundError("model", f"no backend serves {name!r}")
        return tuple(routes)


def _make_route(backend: BackendClient, model: str, alias: str | None = None) -> Route:
    return Route(backend.for_model(alias or model), alias)


def _compile_globs(globs: Sequence[str]) -> re.Pattern[str]:
    """Return one case-sensitive pattern for all globs."""
    return re.compile("|".join(map(translate, globs)) or r"(?!)")
