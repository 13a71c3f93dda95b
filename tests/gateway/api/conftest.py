"""Fixtures for the tests of stored objects."""

from collections.abc import Callable

import pytest

from tests.gateway.backend_replies import Turn, script_turns
from tests.gateway.conftest import NewModel
from tests.gateway.scripted_backend import ScriptedBackend

ModelFactory = Callable[..., str]


@pytest.fixture
def model_with(backend: ScriptedBackend, new_model: NewModel) -> ModelFactory:
    """Return a function that makes a model which replies with the given turns."""

    def make(kind: str, *turns: Turn) -> str:
        model = new_model(kind)
        script_turns(backend, kind.rpartition("-")[2], model, *turns)
        return model

    return make
