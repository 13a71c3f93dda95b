"""Every scenario, with clients and backends of every dialect, streamed and not."""

import pytest

from tests.gateway.conftest import Harness
from tests.gateway.scenarios import EVERY_CLIENT_AND_BACKEND, SCENARIOS, Pair, run_scenario


@pytest.mark.parametrize("name", SCENARIOS)
@EVERY_CLIENT_AND_BACKEND
def test_conversation(client: str, dialect: str, mode: str, name: str, harness: Harness) -> None:
    pair = Pair(client, dialect, harness.new_model(dialect), is_stream=mode != "unary", mode=mode)
    run_scenario(name, pair, harness.sdk, harness.backend)


@pytest.mark.parametrize("kind", ["streaming", "unary"])
@pytest.mark.parametrize("name", ["text", "full loop"])
@EVERY_CLIENT_AND_BACKEND
def test_conversation_with_a_backend_that_always_or_never_streams(
    client: str, dialect: str, mode: str, name: str, kind: str, harness: Harness
) -> None:
    model = harness.new_model(f"{kind}-{dialect}")
    pair = Pair(client, dialect, model, is_stream=kind == "streaming", mode=mode)
    run_scenario(name, pair, harness.sdk, harness.backend)
