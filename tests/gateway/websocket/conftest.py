"""A connection to the shared gateway, and the dialects of its backends."""

from collections.abc import Iterator

import pytest

from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.websocket_client import WebSocketClient


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def socket(harness: Harness) -> Iterator[WebSocketClient]:
    with WebSocketClient(harness.gateway) as client:
        yield client
