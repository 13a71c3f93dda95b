"""Each exchange is logged, counted and traced."""

import json
import re
from pathlib import Path
from typing import cast

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.crypto import api_key_digest
from gateway.pytest_plugin.scripted_backend import ScriptedBackend, json_reply
from tests.gateway.backend_replies import Turn, reply_body
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import backend_table
from tests.gateway.gateway_process import log_line_naming
from tests.gateway.raw_http import send
from tests.judges.reading import JsonObject

REPLY = reply_body("chat", Turn("Hello."))
ROOT = Path(__file__).parents[3]


def test_new_names_in_the_changelog_are_those_of_the_code() -> None:
    code = "".join(path.read_text("utf-8") for path in (ROOT / "gateway").rglob("*.py"))
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    row = re.compile(r"^  \| (?:log|metric|span|response header).*\| (.*) \|$", re.MULTILINE)
    names = [name for new in row.findall(changelog) for name in re.findall("`([^`]+)`", new)]
    assert len(names) > 40
    assert [name for name in names if name not in code] == []


def test_exchange_is_logged_on_one_line(harness: Harness) -> None:
    model = harness.enqueue("chat", json_reply(REPLY, headers={"x-request-id": "req_7"}))
    body = {"model": model, "input": "hi", "truncation": "auto"}
    response = harness.post(body, "/responses", {"user-agent": "test/1 " + "x" * 300})
    assert response.headers["x-request-id"] == "req_7"
    line: JsonObject = json.loads(log_line_naming(harness.gateway, model))
    time_to_first_byte, duration = line.pop("time_to_first_byte_ms"), line.pop("duration_ms")
    assert isinstance(time_to_first_byte, float)
    assert isinstance(duration, float)
    assert 0 < time_to_first_byte <= duration
    assert line.pop("timestamp")
    [loss] = cast("list[str]", line.pop("losses"))
    assert loss.startswith("dropped truncation: ")
    assert line == {
        "client_dialect": "responses",
        "backend_dialect": "chat",
        "backend": "chat",
        "model": model,
        "status": 200,
        "outcome": "ok",
        "error_code": None,
        "stream": False,
        "input_tokens": 7,
        "output_tokens": 5,
        "key_name": None,
        "user_agent": "test/1 " + "x" * 193,
        "request_id": "req_7",
        "path": "/responses",
        "event": "request",
        "level": "info",
    }


def test_exchanges_are_counted(harness: Harness) -> None:
    model = harness.enqueue("legacy", json_reply(REPLY))
    harness.request("responses", model)
    send(harness.gateway, "GET", "/health")
    # Metrics are recorded right after the log line.
    log_line_naming(harness.gateway, model)
    metrics = send(harness.gateway, "GET", "/metrics").body.decode()
    labels = 'backend_dialect="legacy",client_dialect="responses"'
    assert 'dragoman_requests_total{backend="legacy",' in metrics
    # This gateway may have served more models than it counts by name.
    tokens = (
        rf'dragoman_tokens_total{{backend="legacy",model="({model}|other)",token_type="input"}}'
    )
    assert re.search(tokens, metrics)
    assert f'dragoman_time_to_first_byte_seconds_count{{backend="legacy",{labels}}} ' in metrics
    assert "dragoman_http_requests_total{" in metrics


def test_legacy_requests_are_counted_by_key_and_model(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    keys = f'[[access.keys]]\nname = "shop"\nsha256 = "{api_key_digest("secret")}"\n'
    headers = {"authorization": "Bearer secret"}
    with run_harness(
        backend, keys + backend_table(backend.address, "any", "chat"), tmp_path
    ) as one:
        models = [one.enqueue("any", json_reply(REPLY)) for _ in range(102)]
        for model in models:
            assert one.request("legacy", model, headers).status == 200
        modern = one.enqueue("any", json_reply(REPLY))
        one.request("chat", modern, headers)
        log_line_naming(one.gateway, modern)
        metrics = send(one.gateway, "GET", "/metrics").body.decode()
    counted = re.findall(r'dragoman_legacy_requests_total\{key="shop",model="(.*)"\} (.*)', metrics)
    # Models are chosen by clients, so the number of series is limited.
    assert dict(counted) == dict.fromkeys(models[:100], "1.0") | {"other": "2.0"}


@pytest.mark.parametrize("status", [200, 429])
def test_replies_to_legacy_clients_announce_the_end(
    status: int, backend: ScriptedBackend, tmp_path: Path
) -> None:
    config = "[legacy]\ndeprecation = 2027-01-31\nsunset = 2027-12-31\n"
    config += 'link = "https://example.org/tools?a=<b>#c"\n' + backend_table(
        backend.address, "any", "chat"
    )
    with run_harness(backend, config, tmp_path) as harness:
        model = harness.enqueue("any", json_reply(REPLY, status=status))
        legacy = harness.request("legacy", model)
        modern = harness.request("chat", harness.enqueue("any", json_reply(REPLY, status=status)))
    assert legacy.status == modern.status == status
    expected = {
        "deprecation": "@1801353600",
        "sunset": "Fri, 31 Dec 2027 00:00:00 GMT",
        "link": '<https://example.org/tools?a=%3Cb%3E#c>; rel="deprecation"; type="text/html"',
    }
    assert expected.items() <= legacy.headers.items()
    assert not expected.keys() & modern.headers.keys()


def test_trace_continues_from_client_to_backend(backend: ScriptedBackend, tmp_path: Path) -> None:
    trace, client_span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    collector = "/collector/v1/traces"
    backend.respond_with(f"POST {collector}", lambda _: json_reply(b""))
    config = f'[tracing]\nendpoint = "{backend.address}{collector}"\n'
    config += backend_table(backend.address, "traced", "chat")
    with run_harness(backend, config, tmp_path) as harness:
        model = harness.enqueue("traced", json_reply(REPLY))
        harness.request("responses", model, {"traceparent": f"00-{trace}-{client_span}-01"})
    # The gateway exports its spans when it stops.
    exported = [
        ExportTraceServiceRequest.FromString(request.body)
        for request in backend.received(f"POST {collector}")
    ]
    resources = [resource for export in exported for resource in export.resource_spans]
    spans = [
        span for resource in resources for scope in resource.scope_spans for span in scope.spans
    ]
    span, server = sorted(spans, key=lambda span: span.name != "backend request")
    attributes = {attribute.key: attribute.value for attribute in span.attributes}
    assert span.trace_id.hex() == trace
    assert span.parent_span_id == server.span_id
    assert server.parent_span_id.hex() == client_span
    assert attributes["gen_ai.request.model"].string_value == model
    assert attributes["gen_ai.usage.input_tokens"].int_value == 7
    assert attributes["dragoman.backend"].string_value == "traced"
    # The backend would continue the trace from our span.
    sent = backend.wait_for_request(model).headers
    assert sent["traceparent"] == f"00-{trace}-{span.span_id.hex()}-01"
