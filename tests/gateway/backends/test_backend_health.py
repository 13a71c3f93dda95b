"""What clients and operators see of backends that fail repeatedly."""

import json
from collections.abc import Iterator

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import ConnectionEnd, ScriptedBackend, json_reply
from tests.gateway.addresses import refusing_address
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import DIALECTS, backend_table
from tests.gateway.gateway_process import log_line_naming
from tests.gateway.raw_http import send
from tests.gateway.waiting import wait_until
from tests.judges.reading import JsonObject, objects_in

REPLY = reply_body("chat", Turn("Hello."))
CIRCUIT = "[circuit_breaker]\nfailures = 2\nopen_seconds = {}\n[retries]\nmax_retries = 0\n"
ERROR = b'{"error": {"message": "no worker", "type": "server_error", "param": null, "code": null}}'


@pytest.fixture(scope="module")
def failing(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """Run a gateway with backends that fail, and circuits that stay open."""
    with refusing_address() as refusing:
        tables = [
            CIRCUIT.format(600),
            "[server]\nready_requires_backend = true\n",
            *(backend_table(refusing, f"down-{name}", name) for name in DIALECTS),
            backend_table(refusing, "first", "chat"),
            backend_table(backend.address, "second", "chat").replace("second-*", "first-*"),
            backend_table("http://name.invalid", "unresolved", "chat"),
        ]
        with run_harness(backend, "".join(tables), tmp_path_factory.mktemp("failing")) as harness:
            yield harness


@pytest.mark.parametrize("dialect", DIALECTS)
def test_open_circuit_rejects_requests_at_once(dialect: str, failing: Harness) -> None:
    model = failing.new_model(f"down-{dialect}")
    codes = [failing.error(dialect, model).code for _ in range(3)]
    assert codes == ["backend_unreachable", "backend_unreachable", "backend_unavailable"]
    error = failing.error(dialect, model)
    assert error.status_code == 503
    assert 0 < int(error.response.headers["retry-after"]) <= 600


def test_open_circuit_leads_to_the_next_backend(failing: Harness) -> None:
    for _ in range(4):
        model = failing.new_model("first")
        failing.backend.enqueue(model, json_reply(REPLY))
        assert failing.ask("chat", model).text == "Hello."
    opened = '"backend":"first","error":"cannot connect to the backend first: the connection'
    wait_until(lambda: '"event":"circuit opened"' in failing.gateway.log)
    assert opened in failing.gateway.log.replace('", "', '","')
    metrics = send(failing.gateway, "GET", "/metrics").body.decode()
    assert 'dragoman_circuit_state{backend="first",state="open"} 1.0' in metrics
    assert 'dragoman_failovers_total{backend="first"} 4.0' in metrics
    assert 'dragoman_backend_up{backend="first"} 0.0' in metrics
    assert 'dragoman_backend_up{backend="second"} 1.0' in metrics


def test_log_has_the_cause_of_a_failed_connection(failing: Harness) -> None:
    model = failing.new_model("unresolved")
    failing.error("chat", model)
    line: JsonObject = json.loads(log_line_naming(failing.gateway, model))
    assert line["level"] == "warning"
    message = "cannot connect to the backend unresolved: its host name cannot be resolved"
    assert line["error"] == message
    assert "name.invalid:80" in str(line["error_cause"])
    assert "Errno" in str(line["error_cause"])


def test_readiness_lists_the_states_of_backends(failing: Harness) -> None:
    response = send(failing.gateway, "GET", "/ready")
    backends = {str(one["name"]): one for one in objects_in(response.json(), "backends")}
    assert response.status == 200
    assert backends["second"]["state"] == "up"
    assert backends["first"]["state"] == "down"
    assert backends["first"]["circuit"] == "open"
    # Anyone may read this, so it has no address.
    assert "127.0.0.1" not in response.body.decode()


def test_gateway_may_require_a_backend(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = "[server]\nready_requires_backend = true\n"
    with refusing_address() as refusing:
        config = server + backend_table(refusing, "down", "chat", "retries.max_retries = 0\n")
        with run_harness(backend, config, tmp_path_factory.mktemp("required")) as harness:
            assert send(harness.gateway, "GET", "/ready").status == 200
            harness.error("chat", "down-1")
            response = send(harness.gateway, "GET", "/ready")
            assert (response.status, response.json()["reasons"]) == (
                503,
                ["no backend can be reached"],
            )


def test_circuit_closes_after_a_successful_trial(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = CIRCUIT.format(0.2) + backend_table(backend.address, "flaky", "chat")
    with run_harness(backend, config, tmp_path_factory.mktemp("flaky")) as harness:
        closed = (ConnectionEnd.CLOSE,)
        model = harness.enqueue("flaky", closed, closed, json_reply(REPLY))
        codes = [harness.error("chat", model).status_code for _ in range(3)]
        assert codes == [502, 502, 503]
        assert len(backend.received(model)) == 2

        def is_answered() -> bool:
            try:
                return harness.ask("chat", model).text == "Hello."
            except openai.APIStatusError:
                return False

        wait_until(is_answered)
        wait_until(lambda: '"event":"circuit closed"' in harness.gateway.log)


def test_errors_of_one_model_do_not_stop_the_others(failing: Harness) -> None:
    # The first backend is down, so the second one answers.
    model, other = failing.new_model("first"), failing.new_model("first")
    failing.backend.enqueue(model, *[json_reply(ERROR, status=503)] * 4)
    assert {failing.error("chat", model).status_code for _ in range(4)} == {503}
    assert len(failing.backend.received(model)) == 4
    failing.backend.enqueue(other, json_reply(REPLY))
    assert failing.ask("chat", other).text == "Hello."


def test_message_and_parameter_of_a_rejected_request_are_logged(harness: Harness) -> None:
    harness.post({"model": "chat-1", "input": "Hi", "conversation": [1]})
    wait_until(lambda: '"error_parameter":"conversation"' in harness.gateway.log)
    [line] = [one for one in harness.gateway.lines if '"error_parameter":"conversation"' in one]
    fields: JsonObject = json.loads(line)
    assert (fields["status"], fields["level"]) == (400, "info")
    assert fields["error"]
