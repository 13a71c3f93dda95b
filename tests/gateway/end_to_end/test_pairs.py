"""Every scenario, with clients and backends of every dialect, streamed and not."""

from itertools import product

import pytest

from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.scenarios import SCENARIOS, Pair, run_scenario
from tests.gateway.sdk_clients import MODES, make_client

PAIRINGS = [
    pytest.param(client, dialect, mode, id=f"{client}-to-{dialect}-{mode}")
    for client, dialect in product(DIALECTS, DIALECTS)
    for mode in MODES[client]
]


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(("client", "dialect", "mode"), PAIRINGS)
def test_conversation(client: str, dialect: str, mode: str, name: str, harness: Harness) -> None:
    pair = Pair(client, dialect, harness.new_model(dialect), is_stream=mode != "unary", mode=mode)
    run_scenario(
        SCENARIOS[name], make_client(client, harness.sdk, pair.model, mode), pair, harness.backend
    )


@pytest.mark.parametrize("kind", ["streaming", "unary"])
@pytest.mark.parametrize("name", ["text", "full loop"])
@pytest.mark.parametrize(("client", "dialect", "mode"), PAIRINGS)
def test_conversation_with_a_backend_that_always_or_never_streams(
    client: str, dialect: str, mode: str, name: str, kind: str, harness: Harness
) -> None:
    pair = Pair(
        client,
        dialect,
        harness.new_model(f"{kind}-{dialect}"),
        is_stream=kind == "streaming",
        mode=mode,
    )
    run_scenario(
        SCENARIOS[name], make_client(client, harness.sdk, pair.model, mode), pair, harness.backend
    )
