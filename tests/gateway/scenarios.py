"""The conversations that every client must be able to hold with every backend."""

from dataclasses import dataclass

from tests.gateway.backend_replies import Call, Turn, reply_script
from tests.gateway.backend_requests import ParsedRequest, parse_request
from tests.gateway.scripted_backend import ScriptedBackend
from tests.gateway.sdk_clients import TOOLS, Client, ClientReply, expected_finish

# Arguments are opaque: numbers that no float holds, odd spaces and escapes stay as they are.
ZURICH = Call("get_weather", '{"city": "Z\\u00fcrich",  "n": 12345678901234567890, "f": 1.0}')
TOKYO = Call("get_time", '{"city":"東京 \\"☃\\" \\\\ 🦜"}')


@dataclass(frozen=True)
class Scenario:
    """What the backend says, turn after turn; every turn but the last has calls."""

    turns: tuple[Turn, ...]
    # The tool that the client forces in its first question.
    forced_tool: str | None = None


@dataclass(frozen=True)
class Pair:
    """A client and a backend, and how they talk."""

    client: str
    backend: str
    model: str
    # The backend is asked for a stream.
    is_stream: bool
    mode: str

    def turns(self, scenario: Scenario) -> list[Turn]:
        """Give what can be told between the two: with legacy on a side, one call a turn."""
        short = "legacy" in (self.client, self.backend)
        return [turn.for_legacy() if short else turn for turn in scenario.turns]

    def expected_reply(self, turn: Turn) -> ClientReply:
        """Give what the client must understand of a turn."""
        # In its time nobody could ask for the usage of a stream.
        tokens = None if self.mode == "old" else 12
        return ClientReply(turn, expected_finish(self.client, turn), tokens)

    def expected_requests(self, scenario: Scenario) -> list[ParsedRequest]:
        """Give what the backend must be asked, turn after turn."""
        turns = self.turns(scenario)
        asked: list[ParsedRequest] = []
        for number, _ in enumerate(turns):
            calls = [call for turn in turns[:number] for call in turn.calls]
            done = tuple((call, tool_result(call)) for call in calls)
            forced = None if number else scenario.forced_tool
            asked.append(ParsedRequest(TOOLS, forced, self.is_stream, done))
        return asked


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


def run_scenario(scenario: Scenario, client: Client, pair: Pair, backend: ScriptedBackend) -> None:
    """Hold a conversation, and compare what was heard and asked with what was said and meant."""
    turns = pair.turns(scenario)
    left = iter(turns)
    backend.respond_with(pair.model, lambda it: reply_script(pair.backend, next(left), it.json()))
    heard = client.send_question(scenario.forced_tool)
    for turn in turns[:-1]:
        assert heard == pair.expected_reply(turn)
        heard = client.send_results([tool_result(call) for call in heard.turn.calls])
    assert heard == pair.expected_reply(turns[-1])
    passed = pair.client == pair.backend
    asked = [
        parse_request(pair.backend, it, is_passthrough=passed)
        for it in backend.received(pair.model)
    ]
    assert asked == pair.expected_requests(scenario)


def tool_result(call: Call) -> str:
    """Run a tool."""
    return f"“{call.name}” \\ says 21 ° ☀\nof {call.arguments}"
