"""The capabilities of a backend for each of its models.

A backend has a profile, capabilities that differ from it, and rules for models. They are combined
in this order, and of one capability the last value counts:

1. the profile: that of the last matching rule of the backend that has one, or the backend's own
2. the rules of this profile for the model
3. the capabilities of the backend
4. the capabilities of its matching rules, in their order

The fields of `extra_body` are combined, too. All of this happens when a route to a model is found,
not for each request.
"""

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
from msgspec import Struct

from adapters.capabilities import Capabilities, ModelRule
from adapters.profiles import MODEL_RULES, PROFILES

_EXTRA_BODY = "extra_body"
# The profiles with which requests in the backend's own dialect are not changed.
_UNCHANGED = (None, "openai")
_GENERIC = "generic"


class BackendCapabilities(Struct, frozen=True):
    """The profile of a backend, its own capabilities, and the rules for its models."""

    profile: str | None = None
    capabilities: Mapping[str, object] = {}
    models: tuple[ModelRule, ...] = ()

    def depend_on_model(self) -> bool:
        """Whether there may be models with other capabilities."""
        return bool(self.models or MODEL_RULES.get(self.profile or _GENERIC))

    def for_model(self, model: str | None = None) -> Capabilities:
        """Return the capabilities for a model, by the backend's name of the model."""
        combined: dict[str, object] = {}
        for layer in self._layers(model):
            if _EXTRA_BODY in combined and _EXTRA_BODY in layer:
                layer = {**layer, _EXTRA_BODY: _combine(combined, layer)}  # noqa: PLW2901 - the same layer
            combined |= layer
        return msgspec.convert(combined, Capabilities)

    def rewrites(self, model: str | None = None) -> bool:
        """Whether requests in the backend's own dialect are changed to fit its capabilities.

        Capabilities and all profiles but OpenAI's, which supports everything, require that. With
        neither, the client is assumed to know what the backend supports.
        """
        given = [self.capabilities, *(rule.capabilities for rule in self._matching(model))]
        return self.profile_for(model) not in _UNCHANGED or any(
            name != _EXTRA_BODY for capabilities in given for name in capabilities
        )

    def _layers(self, model: str | None) -> Iterator[Mapping[str, object]]:
        profile = self.profile_for(model) or _GENERIC
        yield cast("dict[str, object]", msgspec.to_builtins(PROFILES[profile]))
        for rule in _matching(MODEL_RULES.get(profile, ()), model):
            yield rule.capabilities
        yield self.capabilities
        for rule in self._matching(model):
            yield rule.capabilities

    def _matching(self, model: str | None) -> list[ModelRule]:
        return _matching(self.models, model)

    def profile_for(self, model: str | None) -> str | None:
        """Return the name of the profile for a model, by the backend's name of the model."""
        named = [rule.profile for rule in self._matching(model) if rule.profile is not None]
        return named[-1] if named else self.profile


def _matching(rules: tuple[ModelRule, ...], model: str | None) -> list[ModelRule]:
    return [] if model is None else [rule for rule in rules if rule.matches(model)]


def _combine(first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of both `extra_body` tables; of one field the second value counts."""
    tables = (cast("dict[str, object]", layer[_EXTRA_BODY]) for layer in (first, second))
    before, after = tables
    return before | after
