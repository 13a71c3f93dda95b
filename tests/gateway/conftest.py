"""Backends and gateways that many tests share, because starting them costs more than most tests."""

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest
from openai.types.responses import Response

from gateway.pytest_plugin.scripted_backend import Script, ScriptedBackend
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_script, script_turns
from tests.gateway.gateway_config import BACKEND_KINDS, backend_tables, state_table
from tests.gateway.gateway_process import Gateway, assert_no_errors_logged, run_gateway
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.sdk_clients import create_response, make_client, request_error, sdk_client
from tests.gateway.stores import DATABASES, new_url
from tests.judges.reading import JsonObject

NewModel = Callable[[str], str]

_NUMBERS = itertools.count()


def _new_model(backend_name: str) -> str:
    return f"{backend_name}-{next(_NUMBERS)}"


def _dialect(backend_name: str) -> str:
    """Return the dialect that the name of a backend ends with."""
    return backend_name.rpartition("-")[2]


@dataclass(frozen=True)
class Harness:
    """A gateway with its backend and a client, and the usual steps of a conversation."""

    gateway: Gateway
    backend: ScriptedBackend
    sdk: openai.OpenAI

    def new_model(self, backend_name: str) -> str:
        return _new_model(backend_name)

    def enqueue(self, backend_name: str, *scripts: Script) -> str:
        """Return a new model whose next requests get these scripts, in this order."""
        model = _new_model(backend_name)
        self.backend.enqueue(model, *scripts)
        return model

    def script(self, backend_name: str, *turns: Turn | str) -> str:
        """Return a new model that replies with these turns in order, streamed or whole."""
        model = _new_model(backend_name)
        made = (Turn(turn) if isinstance(turn, str) else turn for turn in turns)
        script_turns(self.backend, _dialect(backend_name), model, *made)
        return model

    def script_always(self, backend_name: str, turn: Turn) -> str:
        """Return a new model that replies to every request with the same turn."""
        model = _new_model(backend_name)
        dialect = _dialect(backend_name)
        self.backend.respond_with(model, lambda it: reply_script(dialect, turn, it.json()))
        return model

    def sent(self, model: str, index: int = -1) -> str:
        """Return the body of a request to the backend, by default of the last."""
        return self.backend.received(model)[index].body.decode()

    def assert_sent(self, model: str, *texts: str, index: int = -1) -> None:
        """Raise unless a request to the backend contains these texts."""
        for text in texts:
            assert text in self.sent(model, index)

    def assert_sent_in_order(self, model: str, *texts: str) -> None:
        """Raise unless the last request to the backend contains these texts in this order."""
        places = [self.sent(model).index(text) for text in texts]
        assert places == sorted(places)

    def sent_json(self, model: str, index: int = -1) -> JsonObject:
        return self.backend.received(model)[index].json()

    def respond(self, *, streamed: bool = False, **fields: object) -> Response:
        """Create a response with the SDK, with its stream helper if streamed."""
        return create_response(self.sdk, "helper" if streamed else "unary", fields)

    def post(
        self,
        body: raw_http.Body,
        path: str = "/v1/responses",
        headers: raw_http.Headers | None = None,
    ) -> raw_http.RawResponse:
        """Post JSON with the API key of the SDK's client."""
        return raw_http.post(
            self.gateway.port, path, body, self.authorization | dict(headers or {})
        )

    def get(self, path: str) -> raw_http.RawResponse:
        return raw_http.get(self.gateway.port, path, self.authorization)

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.sdk.api_key}"}

    def request(
        self,
        client: str,
        model: str,
        headers: raw_http.Headers | None = None,
        *,
        streamed: bool = False,
        **fields: object,
    ) -> raw_http.RawResponse:
        """Post a short request in a client's dialect."""
        body = request_body(client, model, streamed=streamed) | fields
        return self.post(body, request_path(client), headers)

    def stream(self, client: str, model: str, **fields: object) -> raw_http.StreamedResponse:
        """Post a short request in a client's dialect, and read its stream as it arrives."""
        body = request_body(client, model, streamed=True) | fields
        port, path = self.gateway.port, request_path(client)
        return raw_http.StreamedResponse(port, path, body, self.authorization)

    def ask(self, client: str, model: str, mode: str = "raw") -> Turn:
        """Return the reply to a question that a client of a dialect reads with the SDK."""
        return make_client(client, self.sdk, model, mode).send_question().turn

    def error(self, client: str, model: str, mode: str = "raw") -> openai.APIStatusError:
        """Return the error that a client of a dialect reads with the SDK."""
        return request_error(client, mode, self.sdk, model)


@contextmanager
def run_harness(
    backend: ScriptedBackend,
    config: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    key: str = "sk-test",
) -> Generator[Harness]:
    """Run a gateway with this configuration, whose backends fail on purpose in many tests."""
    if "circuit_breaker" not in config:
        config += "\n[circuit_breaker]\nfailures = 0\n"
    with run_gateway(config, folder, environment) as gateway, sdk_client(gateway, key) as sdk:
        yield Harness(gateway, backend, sdk)
    assert_no_errors_logged(gateway)


@pytest.fixture(scope="session")
def backend() -> Iterator[ScriptedBackend]:
    with ScriptedBackend() as scripted_backend:
        yield scripted_backend


@pytest.fixture(scope="session")
def new_model() -> NewModel:
    """Return a function that makes a new model name for a backend."""
    return _new_model


@pytest.fixture(scope="session")
def harness(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """Run a gateway with backends of all dialects and kinds."""
    config = backend_tables(backend.address, BACKEND_KINDS)
    with run_harness(backend, config, tmp_path_factory.mktemp("gateway")) as harness:
        yield harness


@pytest.fixture(scope="session")
def demo(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway with the backends of the demo."""
    with run_harness(backend, "", tmp_path_factory.mktemp("demo")) as harness:
        yield harness


@pytest.fixture(scope="session")
def gateway(harness: Harness) -> Gateway:
    return harness.gateway


@pytest.fixture(scope="session")
def heartbeats(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """Run a gateway with frequent heartbeats and a small limit of bodies."""
    server = "[server]\nheartbeat_interval = 0.2\nmax_body_bytes = 100_000\n"
    config = server + backend_tables(backend.address, ["steady"])
    with run_harness(backend, config, tmp_path_factory.mktemp("heartbeat")) as harness:
        yield harness


@pytest.fixture(scope="session")
def heartbeat_gateway(heartbeats: Harness) -> Gateway:
    return heartbeats.gateway


@pytest.fixture(scope="session", params=DATABASES)
def storing(
    request: pytest.FixtureRequest,
    backend: ScriptedBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Harness]:
    """Run a gateway on either database; some of its backends always stream, some never."""
    folder = tmp_path_factory.mktemp("storing")
    config = state_table(new_url(str(request.param), folder))
    config += backend_tables(backend.address, ("streaming", "unary"))
    with run_harness(backend, config, folder, key="sk-me") as harness:
        yield harness
