"""Clients call tools with backends that have no tools, or leave calls in the text."""

from collections.abc import Iterator
from itertools import product

import openai
import pytest

from tests.gateway.backend_replies import Call, Turn, script_turns
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS, backend_table, capability_table
from tests.gateway.gateway_process import assert_no_errors_logged, run_gateway
from tests.gateway.scenarios import tool_result
from tests.gateway.scripted_backend import ScriptedBackend
from tests.gateway.sdk_clients import (
    MODES,
    QUESTION,
    TOOLS,
    ClientReply,
    expected_finish,
    make_client,
    sdk_client,
)
from tests.judges.reading import JsonObject, objects_in

CALLS = (
    Call("get_weather", '{"city": "Z\\u00fcrich",  "n": 12345678901234567890}'),
    Call("get_time", '{"city":"東京 \\"☃\\" \\\\ 🦜"}'),
    Call("get_weather", '{"city": "</tool_call>"}'),
)
BEFORE = "Let me see: 1 < 2.\n"
AFTER = "All is well ✅."


def write_call(call: Call, space: str = " ") -> str:
    """Return a call as a model writes it."""
    function = f'{{"name":{space}"{call.name}",{space}"arguments":{space}{call.arguments}}}'
    return f"<tool_call>\n{function}\n</tool_call>"


TEXT_WITH_CALLS = BEFORE + "\n".join(map(write_call, CALLS))


@pytest.fixture(scope="module")
def text_tools_sdk(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    """Return the client of a gateway whose backends write calls as text."""
    kinds = {
        "prompted": capability_table('tools = "prompted"'),
        "texts": capability_table('text_calls = ["hermes"]'),
    }
    tables = "".join(
        backend_table(backend.address, f"{kind}-{dialect}", dialect, kinds[kind])
        for kind, dialect in product(kinds, DIALECTS)
    )
    with (
        run_gateway(tables, tmp_path_factory.mktemp("text_tools")) as gateway,
        sdk_client(gateway) as client,
    ):
        yield client
    assert_no_errors_logged(gateway)


def roles_and_texts(dialect: str, request: JsonObject) -> list[tuple[object, object]]:
    """Return the roles and texts of a request."""
    if dialect != "responses":
        return [(one["role"], one["content"]) for one in objects_in(request, "messages")]
    texts: list[tuple[object, object]] = []
    if "instructions" in request:
        texts.append(("system", request["instructions"]))
    for item in objects_in(request, "input"):
        content = item["content"]
        parts = objects_in(item, "content") if isinstance(content, list) else [{"text": content}]
        texts.append((item["role"], "".join(str(part["text"]) for part in parts)))
    return texts


def expected_reply(client: str, mode: str, turn: Turn) -> ClientReply:
    return ClientReply(turn, expected_finish(client, turn), None if mode == "old" else 12)


PAIRINGS = [
    pytest.param(client, dialect, mode, id=f"{client}-to-{dialect}-{mode}")
    for client, dialect in product(DIALECTS, DIALECTS)
    for mode in MODES[client]
]


@pytest.mark.parametrize(("client", "dialect", "mode"), PAIRINGS)
def test_three_parallel_calls_of_a_backend_without_tools(
    client: str,
    dialect: str,
    mode: str,
    backend: ScriptedBackend,
    text_tools_sdk: openai.OpenAI,
    new_model: NewModel,
) -> None:
    model = new_model(f"prompted-{dialect}")
    script_turns(backend, dialect, model, Turn(TEXT_WITH_CALLS), Turn(AFTER))
    conversation = make_client(client, text_tools_sdk, model, mode)
    calls = CALLS[:1] if client == "legacy" else CALLS
    assert conversation.send_question() == expected_reply(client, mode, Turn(BEFORE, calls))
    assert conversation.send_results([tool_result(call) for call in calls]) == expected_reply(
        client, mode, Turn(AFTER)
    )
    first, second = (it.json() for it in backend.received(model))
    for request in (first, second):
        assert not {"tools", "functions", "tool_choice", "function_call"} & request.keys()
    _check_prompts(roles_and_texts(dialect, first), roles_and_texts(dialect, second), calls)


def _check_prompts(
    first: list[tuple[object, object]],
    second: list[tuple[object, object]],
    calls: tuple[Call, ...],
) -> None:
    """Check that the backend got the tools, and then the calls with their results, as text."""
    system = str(first[0][1])
    assert system.startswith("Be brief.\n\n# Tools\n")
    assert all(f'{{"name":"{tool}",' in system for tool in TOOLS)
    assert first[1:] == [("user", QUESTION)]
    called = "\n".join(write_call(call, space="") for call in calls)
    results = "\n".join(f"<tool_response>\n{tool_result(call)}\n</tool_response>" for call in calls)
    assert second == [*first, ("assistant", f"{BEFORE}\n{called}"), ("user", results)]


@pytest.mark.parametrize(("client", "dialect", "mode"), PAIRINGS)
def test_calls_in_the_text_of_a_backend_with_tools(
    client: str,
    dialect: str,
    mode: str,
    backend: ScriptedBackend,
    text_tools_sdk: openai.OpenAI,
    new_model: NewModel,
) -> None:
    model = new_model(f"texts-{dialect}")
    script_turns(backend, dialect, model, Turn(TEXT_WITH_CALLS))
    calls = CALLS[:1] if client == "legacy" else CALLS
    conversation = make_client(client, text_tools_sdk, model, mode)
    assert conversation.send_question() == expected_reply(client, mode, Turn(BEFORE, calls))
    (request,) = backend.received(model)
    declared = "functions" if dialect == "legacy" else "tools"
    assert len(objects_in(request.json(), declared)) == len(TOOLS)
