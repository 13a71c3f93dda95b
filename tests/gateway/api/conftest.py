"""Fixtures for the tests of stored objects."""

from collections.abc import Callable

import pytest

from tests.gateway.conftest import Fresh
from tests.gateway.keeping import says
from tests.gateway.scripted import ScriptedBackend
from tests.gateway.speech import Turn

NewModel = Callable[..., str]


@pytest.fixture
def model_with(backend: ScriptedBackend, fresh: Fresh) -> NewModel:
    """Return a function that makes a model which replies with the given turns."""

    def make(kind: str, *turns: Turn) -> str:
        model = fresh(kind)
        says(backend, kind.rpartition("-")[2], model, *turns)
        return model

    return make
