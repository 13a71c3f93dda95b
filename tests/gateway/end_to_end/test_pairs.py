"""Every scenario, with clients and backends of every dialect, streamed and not."""

from dataclasses import dataclass

import pytest

from tests.gateway.backend_replies import Call, Turn, finish_reason, script_turns
from tests.gateway.backend_requests import ParsedRequest, parse_request
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECT_PAIRS
from tests.gateway.sdk_clients import MODES, TOOLS, ClientReply, make_client

# Arguments are opaque: large numbers, spaces and escapes must not change.
ZURICH = Call("get_weather", '{"city": "Z\\u00fcrich",  "n": 12345678901234567890, "f": 1.0}')
TOKYO = Call("get_time", '{"city":"東京 \\"☃\\" \\\\ 🦜"}')


@dataclass(frozen=True)
class Scenario:
    """The turns of the backend; every turn but the last has calls."""

    turns: tuple[Turn, ...]
    # The tool that the first request forces.
    forced_tool: str | None = None


@dataclass(frozen=True)
class Pair:
    """The dialects of a client and a backend, and the client's mode."""

    client: str
    backend: str
    model: str
    # The backend gets requests for streams.
    is_stream: bool
    mode: str

    def turns(self, scenario: Scenario) -> list[Turn]:
        """Return the turns that both dialects support: legacy has one call in a turn."""
        has_legacy = "legacy" in (self.client, self.backend)
        return [turn.for_legacy() if has_legacy else turn for turn in scenario.turns]

    def expected_reply(self, turn: Turn) -> ClientReply:
        # The SDK of version 0.28 has no usage in streams.
        tokens = None if self.mode == "old" else 12
        if self.backend == "legacy" and self.client != "legacy" and self.is_stream:
            # Legacy backends may not accept `stream_options`, so they report no usage.
            tokens = None if self.mode == "unary" and self.client == "chat" else 0
        return ClientReply(turn, finish_reason(self.client, turn), tokens)

    def expected_requests(self, scenario: Scenario) -> list[ParsedRequest]:
        results: tuple[tuple[Call, str], ...] = ()
        forced_tool = scenario.forced_tool
        requests: list[ParsedRequest] = []
        for turn in self.turns(scenario):
            requests.append(ParsedRequest(TOOLS, forced_tool, self.is_stream, results))
            results += tuple((call, tool_result(call)) for call in turn.calls)
            forced_tool = None
        return requests


SCENARIOS = {
    "text": Scenario((Turn("Grüezi ☃, it is fine.\nReally."),)),
    "one call": Scenario((Turn(None, (ZURICH,)),)),
    "parallel calls": Scenario((Turn(None, (ZURICH, TOKYO)),)),
    "text with a call": Scenario((Turn("Let me see…", (TOKYO,)),)),
    "forced choice": Scenario((Turn(None, (TOKYO,)),), forced_tool="get_time"),
    "full loop": Scenario(
        (Turn("First both.", (ZURICH, TOKYO)), Turn(None, (TOKYO,)), Turn("All is well ✅."))
    ),
}

EVERY_CLIENT_AND_BACKEND = pytest.mark.parametrize(
    ("client", "dialect", "mode"),
    [(*pair, mode) for pair in DIALECT_PAIRS for mode in MODES[pair[0]]],
)


def run_scenario(name: str, pair: Pair, harness: Harness) -> None:
    """Run a conversation and compare the replies and requests with the expected ones."""
    scenario = SCENARIOS[name]
    turns = pair.turns(scenario)
    script_turns(harness.backend, pair.backend, pair.model, *turns)
    client = make_client(pair.client, harness.sdk, pair.model, pair.mode)
    reply = client.send_question(scenario.forced_tool)
    for turn in turns[:-1]:
        assert reply == pair.expected_reply(turn)
        reply = client.send_results([tool_result(call) for call in reply.turn.calls])
    assert reply == pair.expected_reply(turns[-1])
    received = harness.backend.received(pair.model)
    same = pair.client == pair.backend
    requests = [parse_request(pair.backend, it, is_passthrough=same) for it in received]
    assert requests == pair.expected_requests(scenario)


def tool_result(call: Call) -> str:
    return f"“{call.name}” \\ returns 21 ° ☀\nof {call.arguments}"


@pytest.mark.parametrize("name", SCENARIOS)
@EVERY_CLIENT_AND_BACKEND
def test_conversation(client: str, dialect: str, mode: str, name: str, harness: Harness) -> None:
    pair = Pair(client, dialect, harness.new_model(dialect), is_stream=mode != "unary", mode=mode)
    run_scenario(name, pair, harness)


@pytest.mark.parametrize("kind", ["streaming", "unary"])
@pytest.mark.parametrize("name", ["text", "full loop"])
@EVERY_CLIENT_AND_BACKEND
def test_conversation_with_a_backend_that_always_or_never_streams(
    client: str, dialect: str, mode: str, name: str, kind: str, harness: Harness
) -> None:
    model = harness.new_model(f"{kind}-{dialect}")
    pair = Pair(client, dialect, model, is_stream=kind == "streaming", mode=mode)
    run_scenario(name, pair, harness)
