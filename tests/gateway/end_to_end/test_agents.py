"""The Agents SDK runs its loop through the gateway with both of its kinds of models."""

import asyncio

import pytest

from tests.gateway.agents_sdk import MODELS, TURNS, run_agent
from tests.gateway.backend_requests import parse_request
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT


@STREAMED_OR_NOT
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("client", MODELS)
def test_agent_loop(client: str, dialect: str, *, streamed: bool, harness: Harness) -> None:
    turns = [turn.for_legacy() if dialect == "legacy" else turn for turn in TURNS]
    model = harness.script(dialect, *turns)
    output, cities = asyncio.run(run_agent(client, model, harness.gateway.url, streamed=streamed))
    assert output == TURNS[-1].text
    calls = [call for turn in turns for call in turn.calls]
    expected = ["Zürich", "東京", "Oslo"] if len(calls) == 3 else ["Zürich", "Oslo"]
    assert sorted(cities) == sorted(expected)
    last = parse_request(dialect, harness.backend.wait_for_request(model, 3), is_passthrough=True)
    assert [call for call, _ in last.results] == calls
