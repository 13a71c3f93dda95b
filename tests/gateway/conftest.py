"""One backend and one gateway for all tests here: to start them costs more than most tests."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import openai
import pytest

from tests.gateway.process import Gateway, running
from tests.gateway.scripted import PATIENCE, ScriptedBackend
from tests.gateway.stores import DATABASES, new_url

Fresh = Callable[[str], str]


@dataclass(frozen=True)
class Scene:
    """All that a conversation needs."""

    gateway: Gateway
    backend: ScriptedBackend
    sdk: openai.OpenAI
    fresh: Fresh


DIALECTS = ("chat", "responses", "legacy")

_numbers = itertools.count()


@pytest.fixture(scope="session")
def backend() -> Iterator[ScriptedBackend]:
    with ScriptedBackend() as running_backend:
        yield running_backend


@pytest.fixture(scope="session")
def fresh() -> Fresh:
    """Make a model name that no test has used, for a backend of a dialect."""
    return lambda kind: f"{kind}-{next(_numbers)}"


def backend_table(address: str, name: str, dialect: str, more: str = "") -> str:
    """Configure one backend, which serves the models whose names begin with its own."""
    return (
        f'\n[[backends]]\nname = "{name}"\nurl = "{address}/{name}/v1"\ndialect = "{dialect}"\n'
        f'models = ["{name}-*"]\n{more}'
    )


def capability(line: str) -> str:
    """Configure what a backend can do."""
    return f"[backends.capabilities]\n{line}\n"


def timeout(line: str) -> str:
    """Configure how long a backend may take, and that it is asked once."""
    return f"timeouts = {{ {line} }}\nretries = {{ max_retries = 0 }}\n"


# Besides one backend for each dialect, these: a prefix, and how such backends are configured.
KINDS = {
    "streaming": capability('streaming = "only"'),
    "unary": capability('streaming = "never"'),
    "late": timeout("connect = 3600, response_start = 0.3"),
    "silent": timeout("idle = 0.5"),
    "steady": timeout("idle = 5"),
    "hanging": timeout("idle = 0.5") + capability('streaming = "only"'),
    "endless": timeout("total = 0.7"),
    "again": (
        "[backends.retries]\nmax_retries = 2\ninitial_backoff = 0.05\nmax_retry_after = 2\n"
        "status_codes = [429, 502, 503]\n"
    ),
}


def tables(address: str, kinds: Iterable[str] = ()) -> str:
    """Configure a backend for each dialect, plain and of these kinds."""
    plain = [backend_table(address, dialect, dialect) for dialect in DIALECTS]
    special = [
        backend_table(address, f"{kind}-{dialect}", dialect, KINDS[kind])
        for kind in kinds
        for dialect in DIALECTS
    ]
    return "".join([*plain, *special])


def state(url: str, more: str = "") -> str:
    """Configure where things are kept."""
    return f'[state]\nurl = "{url}"\n{more}\n'


@pytest.fixture(scope="session")
def gateway(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Run the gateway that most tests use."""
    folder = tmp_path_factory.mktemp("gateway")
    with running(tables(backend.address, KINDS), folder) as running_gateway:
        yield running_gateway
    assert_no_fault(running_gateway)


@pytest.fixture(scope="session")
def lively(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Run one that soon says that it is still there, and takes no large bodies."""
    server = "[server]\nheartbeat_interval = 0.2\nmax_body_bytes = 100_000\n"
    folder = tmp_path_factory.mktemp("lively")
    with running(server + tables(backend.address, ["steady"]), folder) as running_gateway:
        yield running_gateway
    assert_no_fault(running_gateway)


@pytest.fixture(scope="session", params=DATABASES)
def kept(
    request: pytest.FixtureRequest,
    backend: ScriptedBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """Run a gateway on either database; some of its backends stream always, some never."""
    folder = tmp_path_factory.mktemp("kept")
    kept_there = state(new_url(str(request.param), folder))
    with running(kept_there + tables(backend.address, ("streaming", "unary")), folder) as keeping:
        yield keeping
    assert_no_fault(keeping)


def assert_no_fault(gateway: Gateway) -> None:
    """Whatever clients and backends did, nothing in the gateway itself went wrong."""
    assert "Traceback" not in gateway.log, gateway.log
    assert "never retrieved" not in gateway.log, gateway.log


@pytest.fixture(scope="session")
def sdk(gateway: Gateway) -> Iterator[openai.OpenAI]:
    """Give the real client, which does not try again: its errors are to be seen."""
    with openai.OpenAI(
        base_url=gateway.url, api_key="sk-test", max_retries=0, timeout=PATIENCE
    ) as client:
        yield client


@pytest.fixture(scope="session")
def scene(gateway: Gateway, backend: ScriptedBackend, sdk: openai.OpenAI, fresh: Fresh) -> Scene:
    return Scene(gateway, backend, sdk, fresh)
