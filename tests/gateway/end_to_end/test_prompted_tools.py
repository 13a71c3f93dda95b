"""Real clients call tools of a backend that knows none, or that leaves its calls in the text."""

from collections.abc import Iterator
from itertools import product

import openai
import pytest

from tests.gateway.backend_replies import Call, Turn, reply_script
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS, backend_table, capability_table
from tests.gateway.gateway_process import assert_no_errors_logged, run_gateway
from tests.gateway.scenarios import tool_result
from tests.gateway.scripted_backend import ReceivedRequest, Script, ScriptedBackend
from tests.gateway.sdk_clients import (
    MODES,
    QUESTION,
    TOOLS,
    ClientReply,
    expected_finish,
    make_client,
)
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import JsonObject, objects_in

CALLS = (
    Call("get_weather", '{"city": "Z\\u00fcrich",  "n": 12345678901234567890}'),
    Call("get_time", '{"city":"東京 \\"☃\\" \\\\ 🦜"}'),
    Call("get_weather", '{"city": "</tool_call>"}'),
)
BEFORE = "Let me see: 1 < 2.\n"
AFTER = "All is well ✅."


def written(call: Call, space: str = " ") -> str:
    """Write a call as a model does."""
    said = f'{{"name":{space}"{call.name}",{space}"arguments":{space}{call.arguments}}}'
    return f"<tool_call>\n{said}\n</tool_call>"


SPOKEN = BEFORE + "\n".join(map(written, CALLS))


@pytest.fixture(scope="module")
def words(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    """Give the client of a gateway whose backends know tools only in words."""
    kinds = {
        "prompted": capability_table('tools = "prompted"'),
        "texts": capability_table('text_calls = ["hermes"]'),
    }
    tables = "".join(
        backend_table(backend.address, f"{kind}-{dialect}", dialect, kinds[kind])
        for kind, dialect in product(kinds, DIALECTS)
    )
    with (
        run_gateway(tables, tmp_path_factory.mktemp("words")) as gateway,
        openai.OpenAI(
            base_url=gateway.url, api_key="sk-test", max_retries=0, timeout=TIMEOUT_SECONDS
        ) as client,
    ):
        yield client
    assert_no_errors_logged(gateway)


def said(dialect: str, asked: JsonObject) -> list[tuple[object, object]]:
    """Give who says what in a request; every content is a text."""
    if dialect != "responses":
        return [(one["role"], one["content"]) for one in objects_in(asked, "messages")]
    spoken: list[tuple[object, object]] = []
    if "instructions" in asked:
        spoken.append(("system", asked["instructions"]))
    for item in objects_in(asked, "input"):
        content = item["content"]
        parts = objects_in(item, "content") if isinstance(content, list) else [{"text": content}]
        spoken.append((item["role"], "".join(str(part["text"]) for part in parts)))
    return spoken


def heard(client: str, mode: str, turn: Turn) -> ClientReply:
    return ClientReply(turn, expected_finish(client, turn), None if mode == "old" else 12)


PAIRINGS = [
    pytest.param(client, spoken, mode, id=f"{client}-to-{spoken}-{mode}")
    for client, spoken in product(DIALECTS, DIALECTS)
    for mode in MODES[client]
]


@pytest.mark.parametrize(("client", "spoken", "mode"), PAIRINGS)
def test_three_parallel_calls_of_a_backend_without_tools(
    client: str,
    spoken: str,
    mode: str,
    backend: ScriptedBackend,
    words: openai.OpenAI,
    new_model: NewModel,
) -> None:
    model = new_model(f"prompted-{spoken}")
    turns = iter([Turn(SPOKEN), Turn(AFTER)])
    backend.respond_with(model, lambda it: reply_script(spoken, next(turns), it.json()))
    person = make_client(client, words, model, mode)
    calls = CALLS[:1] if client == "legacy" else CALLS
    assert person.send_question() == heard(client, mode, Turn(BEFORE, calls))
    assert person.send_results([tool_result(call) for call in calls]) == heard(
        client, mode, Turn(AFTER)
    )
    first, second = (it.json() for it in backend.received(model))
    for asked in (first, second):
        assert not {"tools", "functions", "tool_choice", "function_call"} & asked.keys()
    _check_words(said(spoken, first), said(spoken, second), calls)


def _check_words(
    first: list[tuple[object, object]],
    second: list[tuple[object, object]],
    calls: tuple[Call, ...],
) -> None:
    """Look at what the backend was told: the tools first, and then what was done with them."""
    system = str(first[0][1])
    assert system.startswith("Be brief.\n\n# Tools\n")
    assert all(f'{{"name":"{tool}",' in system for tool in TOOLS)
    assert first[1:] == [("user", QUESTION)]
    called = "\n".join(written(call, space="") for call in calls)
    results = "\n".join(f"<tool_response>\n{tool_result(call)}\n</tool_response>" for call in calls)
    assert second == [*first, ("assistant", f"{BEFORE}\n{called}"), ("user", results)]


@pytest.mark.parametrize(("client", "spoken", "mode"), PAIRINGS)
def test_calls_that_a_server_leaves_in_the_text(
    client: str,
    spoken: str,
    mode: str,
    backend: ScriptedBackend,
    words: openai.OpenAI,
    new_model: NewModel,
) -> None:
    model = new_model(f"texts-{spoken}")

    def play(it: ReceivedRequest) -> Script:
        return reply_script(spoken, Turn(SPOKEN), it.json())

    backend.respond_with(model, play)
    calls = CALLS[:1] if client == "legacy" else CALLS
    person = make_client(client, words, model, mode)
    assert person.send_question() == heard(client, mode, Turn(BEFORE, calls))
    (asked,) = backend.received(model)
    declared = "functions" if spoken == "legacy" else "tools"
    assert len(objects_in(asked.json(), declared)) == len(TOOLS)
