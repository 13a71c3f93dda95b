"""Helpers for the tests of stored objects."""

from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest

from tests.gateway.gateway_process import Gateway
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.sdk import judge_error

STREAMED_OR_NOT = pytest.mark.parametrize("streamed", [False, True], ids=["unary", "streamed"])


def metadata_pairs(count: int) -> dict[str, str]:
    return {f"name{number}": "value" for number in range(count)}


def request(gateway: Gateway, method: str, path: str, **options: Any) -> httpx.Response:
    """Send a request with the key of the default client of the tests."""
    headers = {"authorization": "Bearer sk-me"}
    url = f"{gateway.url}{path}"
    return httpx.request(method, url, headers=headers, timeout=TIMEOUT_SECONDS, **options)


def assert_invalid(response: httpx.Response, param: str) -> None:
    """Check that a request was rejected with an error that names the parameter."""
    assert response.status_code == 400
    judge_error(response.content)
    assert response.json()["error"]["param"] == param


def not_found_body(call: Callable[[], object]) -> str:
    """Return the body of the 404 that a call of the SDK receives."""
    with pytest.raises(openai.NotFoundError) as caught:
        call()
    return caught.value.response.text
