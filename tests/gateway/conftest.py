"""Backends and gateways that many tests share, because starting them costs more than most tests."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import openai
import pytest

from tests.gateway.gateway_config import BACKEND_KINDS, backend_tables, state_table
from tests.gateway.gateway_process import Gateway, assert_no_errors_logged, run_gateway
from tests.gateway.scripted_backend import ScriptedBackend
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.stores import DATABASES, new_url

NewModel = Callable[[str], str]

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Harness:
    """The parts that a conversation needs."""

    gateway: Gateway
    backend: ScriptedBackend
    sdk: openai.OpenAI
    new_model: NewModel


@pytest.fixture(scope="session")
def backend() -> Iterator[ScriptedBackend]:
    with ScriptedBackend() as scripted_backend:
        yield scripted_backend


@pytest.fixture(scope="session")
def new_model() -> NewModel:
    """Return a function that makes a new model name for a backend."""
    return lambda backend_name: f"{backend_name}-{next(_NUMBERS)}"


@pytest.fixture(scope="session")
def gateway(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Run a gateway with backends of all dialects and kinds."""
    folder = tmp_path_factory.mktemp("gateway")
    with run_gateway(backend_tables(backend.address, BACKEND_KINDS), folder) as gateway:
        yield gateway
    assert_no_errors_logged(gateway)


@pytest.fixture(scope="session")
def heartbeat_gateway(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Run a gateway with frequent heartbeats and a small limit of bodies."""
    server = "[server]\nheartbeat_interval = 0.2\nmax_body_bytes = 100_000\n"
    folder = tmp_path_factory.mktemp("heartbeat")
    with run_gateway(server + backend_tables(backend.address, ["steady"]), folder) as gateway:
        yield gateway
    assert_no_errors_logged(gateway)


@pytest.fixture(scope="session", params=DATABASES)
def storing_gateway(
    request: pytest.FixtureRequest,
    backend: ScriptedBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """Run a gateway on either database; some of its backends always stream, some never."""
    folder = tmp_path_factory.mktemp("storing")
    state = state_table(new_url(str(request.param), folder))
    backends = backend_tables(backend.address, ("streaming", "unary"))
    with run_gateway(state + backends, folder) as gateway:
        yield gateway
    assert_no_errors_logged(gateway)


@pytest.fixture(scope="session")
def sdk(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with sdk_client(gateway, "sk-test") as client:
        yield client


@pytest.fixture(scope="session")
def harness(
    gateway: Gateway, backend: ScriptedBackend, sdk: openai.OpenAI, new_model: NewModel
) -> Harness:
    return Harness(gateway, backend, sdk, new_model)
