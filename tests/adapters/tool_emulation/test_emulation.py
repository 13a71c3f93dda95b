"""Emulation of the tools of a request, and whole exchanges with emulated or native tools."""

import json
import re
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import adapters
from adapters.errors import UnsupportedRequestError
from adapters.ir import types as ir
from adapters.losses import Losses
from adapters.profiles import OPENAI
from adapters.tool_emulation import BackendToolSupport, CallRestorer, EmulatedRequest, emulate_tools
from adapters.tool_emulation.tool_search import bm25_rank
from tests.exchange import Exchange, exchange_between
from tests.judges.reading import object_in, objects_in, read_object, text_in

Wire = dict[str, object]

FUNCTIONS_ONLY = BackendToolSupport(lambda tool: isinstance(tool, ir.FunctionTool))
ALL_TOOLS = BackendToolSupport(lambda _tool: True)

VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")

names = st.text(st.sampled_from("ab._ é-"), min_size=1, max_size=4) | st.text(
    st.sampled_from("ab"), min_size=60, max_size=70
)


def namespace(name: str, *tools: Wire) -> ir.HostedTool:
    value = {"type": "namespace", "name": name, "description": "", "tools": tools}
    return ir.HostedTool("namespace", Raw(json.dumps(value).encode()))


def hosted(kind: str, **more: object) -> ir.HostedTool:
    return ir.HostedTool(kind, Raw(json.dumps({"type": kind, **more}).encode()))


def emulate(
    *items: ir.Item,
    tools: tuple[ir.Tool, ...] = (),
    backend: BackendToolSupport = FUNCTIONS_ONLY,
    losses: Losses | None = None,
) -> EmulatedRequest:
    request = ir.Request(items=items, tools=tools)
    return emulate_tools(request, "responses", backend, Losses() if losses is None else losses)


def reply_of(*items: ir.ToolCall | ir.Message) -> ir.Reply:
    return ir.Reply("r", "m", 1, (ir.Choice(items, ir.Finish("calls", "tool_calls")),))


def function(name: str, **more: object) -> Wire:
    return {"type": "function", "name": name, **more}


def item(kind: str, call_id: str, **more: object) -> Wire:
    return {"type": kind, "call_id": call_id, **more}


def encoded(body: Wire) -> bytes:
    return json.dumps({"model": "m", **body}).encode()


def send(exchange: Exchange, **body: object) -> Wire:
    return read_object(exchange.request(encoded(body)).body)


def completion(**calls: str) -> bytes:
    """Return a Chat reply that calls functions with some arguments."""
    tool_calls = [
        {"id": name, "function": {"name": name, "arguments": text}} for name, text in calls.items()
    ]
    choice = {"index": 0, "message": {"role": "assistant", "tool_calls": tool_calls}}
    return json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()


def output_of(reply: adapters.ReplyEnd) -> list[Wire]:
    return objects_in(read_object(reply.body), "output")


@st.composite
def tool_lists(draw: st.DrawFn) -> tuple[ir.Tool, ...]:
    """Return tools of all kinds, often with similar names."""
    tools: list[ir.Tool] = [ir.FunctionTool(name) for name in draw(st.lists(names, max_size=3))]
    tools += [ir.CustomTool(name) for name in draw(st.lists(names, max_size=3))]
    for name in draw(st.lists(names, max_size=2, unique=True)):
        children = draw(st.lists(st.tuples(names, st.sampled_from(("function", "custom")))))
        inner: list[Wire] = [{"type": kind, "name": child} for child, kind in children]
        tools.append(namespace(name, *inner))
    tools += [hosted(kind) for kind in draw(st.sets(st.sampled_from(("shell", "apply_patch"))))]
    return tuple(tools)


@given(tool_lists())
def test_backend_names_are_unique_and_reversible(tools: tuple[ir.Tool, ...]) -> None:
    try:
        emulated = emulate(tools=tools)
    except UnsupportedRequestError as error:
        reason = error.message
    else:
        check_names(emulated, tools)
        return
    # The message names both tools.
    assert re.search(r"\(tools\[.*\(tools\[", reason)


def check_names(emulated: EmulatedRequest, tools: tuple[ir.Tool, ...]) -> None:
    backend_names = [one.name for one in emulated.request.tools if isinstance(one, ir.FunctionTool)]
    assert len(backend_names) == len(emulated.request.tools) == len(set(backend_names))
    assert all(map(VALID.fullmatch, backend_names))
    calls = [ir.ToolCall("1", name, "{}") for name in backend_names]
    (choice,) = CallRestorer(emulated.registry, Losses(None)).reply(reply_of(*calls)).choices
    assert len(set(choice.items)) == len(backend_names)
    for call in choice.items:
        again = emulate(call, tools=tools).request
        assert again.tools == emulated.request.tools
        (item,) = again.items
        assert isinstance(call, ir.ToolCall)
        assert isinstance(item, ir.ToolCall)
        assert item.kind == "function"
        assert item.name in backend_names


def test_extra_arguments_in_the_history_are_reported() -> None:
    losses = Losses()
    call = ir.ToolCall("1", "note", '{"input":"x","more":1}')
    again = emulate(call, tools=(ir.CustomTool("note"),), backend=ALL_TOOLS, losses=losses)
    assert again.request.items == (ir.ToolCall("1", "note", "x", "custom"),)
    assert [loss.path for loss in losses] == ["items[0].arguments"]


REQUEST: Wire = {
    "input": "Go.",
    "tools": [
        {"type": "custom", "name": "note"},
        {"type": "namespace", "name": "ns", "description": "", "tools": [function("f")]},
        {"type": "shell"},
    ],
}


def response(*output: object) -> bytes:
    body = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed"}
    return json.dumps({**body, "model": "m", "output": output}).encode()


def rewriting(**capabilities: object) -> Exchange:
    return exchange_between("responses", "responses", rewrite=True, **capabilities)


def test_responses_backend_without_tools_gets_functions() -> None:
    sent = send(rewriting(), **REQUEST)
    assert [tool["type"] for tool in objects_in(sent, "tools")] == ["custom", "namespace", "shell"]

    limited = rewriting(custom_tools=False, tool_types=())
    sent = send(limited, **REQUEST)
    assert [tool["name"] for tool in objects_in(sent, "tools")] == ["note", "ns__f", "shell"]
    call = item("function_call", "1", id="fc_1", name="note", arguments='{"input":"x"}')
    (restored,) = output_of(limited.reply(response({**call, "status": "completed"})))
    assert (restored["type"], restored["input"]) == ("custom_tool_call", "x")


def test_reply_passes_unchanged_if_no_tool_is_emulated() -> None:
    capable = rewriting()
    send(capable, **REQUEST)
    call = item("custom_tool_call", "call_1", id="ctc_1", name="note", input="x", odd=1)
    assert capable.reply(response(call)).body == response(call)


def test_name_collisions_do_not_affect_a_reply() -> None:
    """Without an emulated request the names in a reply are unchanged."""
    request = ir.Request(tools=(ir.FunctionTool("a.b"), ir.FunctionTool("a_b")))
    reply = Exchange("responses", "chat", request=request).reply(
        b'{"id":"1","model":"m","choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}]}'
    )
    assert reply.status == 200


def test_unenforced_grammar_is_refused_under_the_refuse_policy() -> None:
    plain = Exchange("responses", "chat", policy="refuse")
    tool: Wire = {"type": "custom", "name": "t"}
    assert plain.request(encoded({"input": "Go.", "tools": [tool]})).losses
    tool["format"] = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    with pytest.raises(UnsupportedRequestError, match="grammar") as error:
        send(plain, input="Go.", tools=[tool])
    assert error.value.path == "tools[0].format"


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        ({"type": "shell"}, ["shell_call"]),
        ({"type": "custom", "name": "note"}, ["custom_tool_call"]),
        ({"type": "namespace", "name": "ns"}, ["function_call"]),
        (function("f", namespace="ns"), ["function_call"]),
        (function("f"), ["function_call"]),
    ],
)
def test_only_allowed_tools_are_called(listed: Wire, kept: list[str]) -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [listed]}
    limited = exchange_between("responses", "chat", allowed_tools=False)
    assert len(objects_in(send(limited, **REQUEST, tool_choice=choice), "tools")) == 1
    names = {"note": '{"input":"x"}', "ns__f": "{}", "shell": '{"commands":["ls"]}'}
    reply = limited.reply(completion(**names))
    assert [item["type"] for item in output_of(reply)] == kept


def test_missing_output_of_a_builtin_call_gets_its_kind() -> None:
    items = [
        {"role": "user", "content": "Go."},
        item("shell_call", "1", action={"commands": ["ls"]}),
        item("apply_patch_call", "2", operation={"type": "delete_file"}),
        item("computer_call", "3", id="cu_1", actions=[]),
        item("tool_search_call", "4", execution="client", arguments={}),
        {"role": "user", "content": "Well?"},
    ]
    sent = objects_in(send(rewriting(), input=items), "input")
    shell, patch, computer, search = (one for one in sent if "output" in text_in(one, "type"))
    assert shell["type"] == "shell_call_output"
    assert text_in(objects_in(shell, "output")[0], "stdout").startswith("No output")
    assert (patch["type"], patch["status"]) == ("apply_patch_call_output", "completed")
    assert computer["type"] == "computer_call_output"
    assert computer["output"] == {"type": "computer_screenshot"}
    assert (search["type"], search["tools"]) == ("tool_search_output", [])


def test_items_of_builtin_tools_are_rewritten_unchanged() -> None:
    wait: Wire = {"pending_safety_checks": [{"id": "sc"}], "action": {"type": "wait"}}
    picture = {"type": "computer_screenshot", "file_id": "f", "detail": "high", "odd": 1}
    command = {"type": "exec", "env": {"A": "1"}, "command": ["ls"]}
    items = [
        item("shell_call", "1", status="completed", action={"commands": []}),
        item("shell_call_output", "1", output=[], max_output_length=5),
        item("computer_call", "2", id="cu_1", status="completed", **wait),
        item("computer_call_output", "2", output=picture),
        item("local_shell_call", "3", id="lsh_1", status="completed", action=command),
        {"type": "local_shell_call_output", "id": "3", "output": "a"},
        item(
            "tool_search_call",
            "4",
            status="completed",
            execution="client",
            arguments={"query": "x"},
        ),
        item("tool_search_output", "4", execution="client", tools=[function("found")]),
    ]
    sent = rewriting().request(encoded({"input": items}))
    assert json.loads(sent.body)["input"] == items
    assert not sent.losses


# Tools that a Responses backend supports natively

RUN = function("run", parameters={"type": "object", "properties": {}})
NAMESPACE: Wire = {
    "type": "namespace",
    "name": "jobs",
    "description": "Jobs.",
    "tools": [RUN, {"type": "custom", "name": "note"}],
}
USER: Wire = {"type": "message", "role": "user", "content": "Run it."}
# Other ways to bring a namespace.
ADDITIONAL: Wire = {"type": "additional_tools", "role": "developer", "tools": [NAMESPACE]}
SEARCH = item("tool_search_call", "call_1", execution="client", arguments={"query": "jobs"})
FOUND = item("tool_search_output", "call_1", execution="client", tools=[NAMESPACE])
FOUND_BY_SERVER: Wire = {"type": "tool_search_output", "execution": "server", "tools": [NAMESPACE]}
SOURCES: dict[str, Wire] = {
    "declared": {"input": [USER], "tools": [NAMESPACE]},
    "additional": {"input": [ADDITIONAL, USER]},
    "found": {"input": [USER, SEARCH, FOUND], "tools": [{"type": "tool_search"}]},
    "found by the server": {"input": [USER, FOUND_BY_SERVER], "tools": [{"type": "tool_search"}]},
}
RUN_CHOICE = function("run", namespace="jobs")
CHOICES: dict[str, Wire] = {
    "function": RUN_CHOICE,
    "custom tool": {"type": "custom", "name": "note", "namespace": "jobs"},
    "allowed tools": {"type": "allowed_tools", "mode": "required", "tools": [RUN_CHOICE]},
    "function without its namespace": function("run"),
}


def native() -> Exchange:
    """Return an exchange that rewrites requests for a backend with all tools."""
    return Exchange("responses", "responses", capabilities=OPENAI, rewrite=True)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("source", SOURCES)
def test_tool_in_a_namespace_can_be_chosen(source: str, choice: Wire) -> None:
    sent = native().request(encoded({**SOURCES[source], "tool_choice": choice}))
    assert json.loads(sent.body)["tool_choice"] == choice
    assert not sent.losses


def test_choice_of_an_ambiguous_name_has_its_namespace() -> None:
    sent = send(
        Exchange("chat", "responses"),
        messages=[{"role": "user", "content": "Run it."}],
        tools=[NAMESPACE, RUN],
        tool_choice={"type": "function", "function": {"name": "jobs__run"}},
    )
    assert sent["tool_choice"] == RUN_CHOICE


def test_tools_in_items_can_be_chosen() -> None:
    settings: Wire = {"tool_choice": "required", "parallel_tool_calls": False}
    sent = native().request(encoded(SOURCES["additional"] | settings))
    body = json.loads(sent.body)
    assert "tools" not in body
    assert settings.items() <= body.items()
    assert not sent.losses


@pytest.mark.parametrize("source", SOURCES)
def test_call_in_a_namespace_keeps_its_namespace(source: str) -> None:
    exchange = native()
    body = SOURCES[source]
    tools = [RUN, *cast("list[Wire]", body.get("tools", []))]
    # One call at a time, so that the reply is read and not passed through.
    request = {"input": body["input"], "tools": tools, "parallel_tool_calls": False}
    assert not exchange.request(encoded(request)).losses
    names: Wire = {"name": "run", "namespace": "jobs", "arguments": "{}"}
    call = item("function_call", "call_2", id="fc_1", status="completed", **names)
    assert output_of(exchange.reply(response(call))) == [call]


# Tool search, deferred tools and ranking


def test_search_output_may_be_text() -> None:
    call = ir.ToolCall("1", "tool_search", "{}", "tool_search")
    output = ir.ToolOutput("1", (ir.Text("found nothing"),), "tool_search")
    _, output_ = emulate(call, output).request.items
    assert isinstance(output_, ir.ToolOutput)
    assert (output_.kind, output_.output) == ("function", "No tool was found.")


@pytest.mark.parametrize("types", [(), ("namespace",)])
def test_found_tool_has_its_declared_name(types: tuple[str, ...]) -> None:
    found = function("t" * 50, parameters={"type": "object"})
    space = {"type": "namespace", "name": "n" * 30, "description": "", "tools": [found]}
    items = [
        item("tool_search_call", "1", execution="client", arguments={}),
        item("tool_search_output", "1", execution="client", tools=[space]),
    ]
    sent = send(rewriting(tool_types=types), input=items)
    (tool,) = objects_in(sent, "tools")
    called = tool["name"] if not types else f"{tool['name']}.{objects_in(tool, 'tools')[0]['name']}"
    assert text_in(objects_in(sent, "input")[1], "output").endswith(f"\n- {called}")


DEFERRED: Wire = {
    "input": "When is the tide?",
    "tools": [
        {
            "type": "namespace",
            "name": "sea",
            "description": "",
            "tools": [
                function("tide", description="Tides.", defer_loading=True),
                function("sail", description="Sails.", defer_loading=True),
            ],
        }
    ],
}


def test_call_of_an_undeclared_deferred_tool_is_restored() -> None:
    limited = exchange_between("responses", "chat", max_deferred_tools=1)
    tools = objects_in(send(limited, **DEFERRED), "tools")
    assert [object_in(tool, "function")["name"] for tool in tools] == ["sea__tide"]
    (call,) = output_of(limited.reply(completion(sea__sail="{}")))
    assert (call["namespace"], call["name"]) == ("sea", "sail")


@pytest.mark.parametrize("types", [("namespace",), ("namespace", "tool_search")])
def test_tools_are_not_deferred_without_a_search(types: tuple[str, ...]) -> None:
    sent = rewriting(tool_types=types).request(encoded(DEFERRED))
    (namespace,) = json.loads(sent.body)["tools"]
    has_search = "tool_search" in types
    assert [tool.get("defer_loading", False) for tool in namespace["tools"]] == [has_search] * 2
    assert [loss.path for loss in sent.losses] == (
        [] if has_search else [f"tools[0].tools[{number}].defer_loading" for number in range(2)]
    )


def test_terms_of_a_query_find_tools() -> None:
    tools = ["get_weather Forecast for a city", "sendMail Sends a letter", "find_tides Tides"]
    assert bm25_rank("What is the weather?", tools, 5) == [0]
    assert bm25_rank("mail a letter", tools, 5)[0] == 1
    assert bm25_rank("high tide", tools, 5) == [2]
    assert bm25_rank("weather and tides", tools, 1) in ([0], [2])
    assert bm25_rank("cheese", tools, 5) == []
    assert bm25_rank("", tools, 5) == bm25_rank("weather", [], 5) == []


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=5), st.integers(0, 5))
def test_ranking_has_unique_positions(query: str, texts: list[str], limit: int) -> None:
    positions = bm25_rank(query, texts, limit)
    assert len(positions) == len(set(positions)) <= limit
    assert all(0 <= position < len(texts) for position in positions)
