"""Every client holds every conversation with every backend, unary and streamed."""

from itertools import product

import pytest

from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.scenarios import SCENARIOS, Pair, run_scenario
from tests.gateway.sdk_clients import MODES, make_client

PAIRINGS = [
    pytest.param(client, spoken, mode, id=f"{client}-to-{spoken}-{mode}")
    for client, spoken in product(DIALECTS, DIALECTS)
    for mode in MODES[client]
]


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(("client", "spoken", "mode"), PAIRINGS)
def test_conversation(client: str, spoken: str, mode: str, name: str, harness: Harness) -> None:
    pair = Pair(client, spoken, harness.new_model(spoken), is_stream=mode != "unary", mode=mode)
    run_scenario(
        SCENARIOS[name], make_client(client, harness.sdk, pair.model, mode), pair, harness.backend
    )


@pytest.mark.parametrize("way", ["streaming", "unary"])
@pytest.mark.parametrize("name", ["text", "full loop"])
@pytest.mark.parametrize(("client", "spoken", "mode"), PAIRINGS)
def test_conversation_with_a_backend_that_knows_one_way(
    client: str, spoken: str, mode: str, name: str, way: str, harness: Harness
) -> None:
    pair = Pair(
        client,
        spoken,
        harness.new_model(f"{way}-{spoken}"),
        is_stream=way == "streaming",
        mode=mode,
    )
    run_scenario(
        SCENARIOS[name], make_client(client, harness.sdk, pair.model, mode), pair, harness.backend
    )
