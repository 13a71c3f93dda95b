"""Health checks, request ids and the error bodies of unknown routes."""

import pytest

from tests.gateway.gateway_process import Gateway
from tests.gateway.raw_http import send


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/health", "/v1/health", "/ready", "/v1/ready"])
def test_health_checks_succeed(gateway: Gateway, method: str, path: str) -> None:
    assert send(gateway, method, path).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/nothing", 404), ("DELETE", "/v1/models", 405), ("GET", "/v1/responses", 404)],
)
def test_unknown_routes_are_errors(gateway: Gateway, method: str, path: str, status: int) -> None:
    response = send(gateway, method, path)
    assert response.status == status
    assert response.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "path",
    ["/health", "/v1/models", "/v1/responses/resp_1", "/v1/conversations/conv_1", "/nothing"],
)
def test_every_response_has_a_request_id(gateway: Gateway, path: str) -> None:
    first, second = (send(gateway, "GET", path).headers["x-request-id"] for _ in range(2))
    assert first.startswith("req_")
    assert first != second
