"""Every client holds every conversation with every backend, unary and streamed."""

from itertools import product

import pytest

from tests.gateway.clients import MODES, make_client
from tests.gateway.conftest import DIALECTS, Scene
from tests.gateway.scenarios import SCENARIOS, Pair, hold

PAIRINGS = [
    pytest.param(client, spoken, mode, id=f"{client}-to-{spoken}-{mode}")
    for client, spoken in product(DIALECTS, DIALECTS)
    for mode in MODES[client]
]


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(("client", "spoken", "mode"), PAIRINGS)
def test_conversation(client: str, spoken: str, mode: str, name: str, scene: Scene) -> None:
    pair = Pair(client, spoken, scene.fresh(spoken), streamed=mode != "unary", mode=mode)
    hold(SCENARIOS[name], make_client(client, scene.sdk, pair.model, mode), pair, scene.backend)


@pytest.mark.parametrize("way", ["streaming", "unary"])
@pytest.mark.parametrize("name", ["text", "full loop"])
@pytest.mark.parametrize(("client", "spoken", "mode"), PAIRINGS)
def test_conversation_with_a_backend_that_knows_one_way(
    client: str, spoken: str, mode: str, name: str, way: str, scene: Scene
) -> None:
    pair = Pair(
        client, spoken, scene.fresh(f"{way}-{spoken}"), streamed=way == "streaming", mode=mode
    )
    hold(SCENARIOS[name], make_client(client, scene.sdk, pair.model, mode), pair, scene.backend)
