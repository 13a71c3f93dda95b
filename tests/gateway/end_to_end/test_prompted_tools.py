"""Clients call tools with backends that have no tools, or leave calls in the text."""

from collections.abc import Iterator
from itertools import product

import pytest

from gateway.pytest_plugin.scripted_backend import ScriptedBackend
from tests.gateway.backend_replies import Call, Turn
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.end_to_end.test_pairs import EVERY_CLIENT_AND_BACKEND, Pair, tool_result
from tests.gateway.gateway_config import DIALECTS, backend_table, capability_table
from tests.gateway.sdk_clients import QUESTION, TOOLS, make_client
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
def text_tools(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """Run a gateway whose backends write calls as text."""
    kinds = {
        "prompted": capability_table('tools = "prompted"'),
        "texts": capability_table('text_calls = ["hermes"]'),
    }
    tables = "".join(
        backend_table(backend.address, f"{kind}-{dialect}", dialect, kinds[kind])
        for kind, dialect in product(kinds, DIALECTS)
    )
    with run_harness(backend, tables, tmp_path_factory.mktemp("text_tools")) as harness:
        yield harness


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


@EVERY_CLIENT_AND_BACKEND
def test_three_parallel_calls_of_a_backend_without_tools(
    client: str, dialect: str, mode: str, text_tools: Harness
) -> None:
    model = text_tools.script(f"prompted-{dialect}", TEXT_WITH_CALLS, AFTER)
    pair = Pair(client, dialect, model, is_stream=mode != "unary", mode=mode)
    conversation = make_client(client, text_tools.sdk, model, mode)
    calls = CALLS[:1] if client == "legacy" else CALLS
    assert conversation.send_question() == pair.expected_reply(Turn(BEFORE, calls))
    results = [tool_result(call) for call in calls]
    assert conversation.send_results(results) == pair.expected_reply(Turn(AFTER))
    requests = [request.json() for request in text_tools.backend.received(model)]
    for request in requests:
        assert not {"tools", "functions", "tool_choice", "function_call"} & request.keys()
    # The backend gets the tools, and then the calls with their results, as text.
    first, second = (roles_and_texts(dialect, request) for request in requests)
    system = str(first[0][1])
    assert system.startswith("Be brief.\n\n# Tools\n")
    assert all(f'{{"name":"{tool}",' in system for tool in TOOLS)
    assert first[1:] == [("user", QUESTION)]
    called = "\n".join(write_call(call, space="") for call in calls)
    outputs = "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in results)
    assert second == [*first, ("assistant", f"{BEFORE}\n{called}"), ("user", outputs)]


@EVERY_CLIENT_AND_BACKEND
def test_calls_in_the_text_of_a_backend_with_tools(
    client: str, dialect: str, mode: str, text_tools: Harness
) -> None:
    model = text_tools.script(f"texts-{dialect}", TEXT_WITH_CALLS)
    pair = Pair(client, dialect, model, is_stream=mode != "unary", mode=mode)
    calls = CALLS[:1] if client == "legacy" else CALLS
    reply = make_client(client, text_tools.sdk, model, mode).send_question()
    assert reply == pair.expected_reply(Turn(BEFORE, calls))
    (request,) = text_tools.backend.received(model)
    declared = "functions" if dialect == "legacy" else "tools"
    assert len(objects_in(request.json(), declared)) == len(TOOLS)
