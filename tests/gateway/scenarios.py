"""The conversations that every client must be able to hold with every backend."""

from dataclasses import dataclass

from tests.gateway.asked import Asked, read_asked
from tests.gateway.clients import TOOLS, Client, Heard, finish_word
from tests.gateway.scripted import ScriptedBackend
from tests.gateway.speech import Call, Turn, script

# Arguments are opaque: numbers that no float holds, odd spaces and escapes stay as they are.
ZURICH = Call("get_weather", '{"city": "Z\\u00fcrich",  "n": 12345678901234567890, "f": 1.0}')
TOKYO = Call("get_time", '{"city":"東京 \\"☃\\" \\\\ 🦜"}')


@dataclass(frozen=True)
class Scenario:
    """What the backend says, turn after turn; every turn but the last has calls."""

    turns: tuple[Turn, ...]
    # The tool that the client forces in its first question.
    force: str | None = None


@dataclass(frozen=True)
class Pair:
    """A client and a backend, and how they talk."""

    client: str
    backend: str
    model: str
    # The backend is asked for a stream.
    streamed: bool
    mode: str

    def told(self, scenario: Scenario) -> list[Turn]:
        """Give what can be told between the two: with legacy on a side, one call a turn."""
        short = "legacy" in (self.client, self.backend)
        return [turn.for_legacy() if short else turn for turn in scenario.turns]

    def heard(self, turn: Turn) -> Heard:
        """Give what the client must understand of a turn."""
        # In its time nobody could ask for the usage of a stream.
        tokens = None if self.mode == "old" else 12
        return Heard(turn, finish_word(self.client, turn), tokens)

    def asked(self, scenario: Scenario) -> list[Asked]:
        """Give what the backend must be asked, turn after turn."""
        turns = self.told(scenario)
        asked: list[Asked] = []
        for number, _ in enumerate(turns):
            calls = [call for turn in turns[:number] for call in turn.calls]
            done = tuple((call, result(call)) for call in calls)
            forced = None if number else scenario.force
            asked.append(Asked(TOOLS, forced, self.streamed, done))
        return asked


SCENARIOS = {
    "text": Scenario((Turn("Grüezi ☃, it is fine.\nReally."),)),
    "one call": Scenario((Turn(None, (ZURICH,)),)),
    "parallel calls": Scenario((Turn(None, (ZURICH, TOKYO)),)),
    "text with a call": Scenario((Turn("Let me see…", (TOKYO,)),)),
    "forced choice": Scenario((Turn(None, (TOKYO,)),), force="get_time"),
    "full loop": Scenario(
        (Turn("First both.", (ZURICH, TOKYO)), Turn(None, (TOKYO,)), Turn("All is well ✅."))
    ),
}


def hold(scenario: Scenario, client: Client, pair: Pair, backend: ScriptedBackend) -> None:
    """Hold a conversation, and compare what was heard and asked with what was said and meant."""
    turns = pair.told(scenario)
    left = iter(turns)
    backend.play_always(pair.model, lambda it: script(pair.backend, next(left), it.json()))
    heard = client.ask(scenario.force)
    for turn in turns[:-1]:
        assert heard == pair.heard(turn)
        heard = client.give([result(call) for call in heard.turn.calls])
    assert heard == pair.heard(turns[-1])
    passed = pair.client == pair.backend
    asked = [read_asked(pair.backend, it, passed=passed) for it in backend.received(pair.model)]
    assert asked == pair.asked(scenario)


def result(call: Call) -> str:
    """Run a tool."""
    return f"“{call.name}” \\ says 21 ° ☀\nof {call.arguments}"
