"""Every tool that an agent carries: declared, called and answered, there and back."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec import Raw
from msgspec.structs import replace

import adapters
from adapters.errors import UnsupportedRequestError
from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import (
    BlockId,
    Closed,
    Delta,
    Event,
    Opened,
    Started,
    check_order,
    truncated_stream,
)
from adapters.ir.types import (
    CallKind,
    Choice,
    CustomTool,
    ExtraField,
    Finish,
    FunctionTool,
    HostedTool,
    Message,
    Reply,
    Request,
    Status,
    Text,
    Tool,
    ToolCall,
    ToolOutput,
)
from adapters.losses import Losses
from adapters.stages.stage import Pipeline
from adapters.tool_emulation import (
    BackendToolSupport,
    CallDowngrader,
    CallRestorer,
    EmulatedRequest,
    emulate_tools,
)
from adapters.tool_emulation.custom_tools import wrap_input
from adapters.tool_emulation.tool_search import bm25_rank

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
Wire = dict[str, object]


def only_functions(tool: Tool) -> bool:
    return isinstance(tool, FunctionTool)


FUNCTIONS = BackendToolSupport(only_functions)


def namespace(name: str, *tools: Wire) -> HostedTool:
    value = {"type": "namespace", "name": name, "description": "", "tools": tools}
    return HostedTool("namespace", Raw(json.dumps(value).encode()))


def hosted(kind: str, **more: object) -> HostedTool:
    return HostedTool(kind, Raw(json.dumps({"type": kind, **more}).encode()))


# Names

names = st.text(st.sampled_from("ab._ é-"), min_size=1, max_size=4) | st.text(
    st.sampled_from("ab"), min_size=60, max_size=70
)


@st.composite
def tool_lists(draw: st.DrawFn) -> tuple[Tool, ...]:
    """Give tools of all kinds, whose names are often alike."""
    tools: list[Tool] = [FunctionTool(name) for name in draw(st.lists(names, max_size=3))]
    tools += [CustomTool(name) for name in draw(st.lists(names, max_size=3))]
    for name in draw(st.lists(names, max_size=2, unique=True)):
        children = draw(st.lists(st.tuples(names, st.sampled_from(("function", "custom")))))
        inner: list[Wire] = [{"type": kind, "name": child} for child, kind in children]
        tools.append(namespace(name, *inner))
    tools += [hosted(kind) for kind in draw(st.sets(st.sampled_from(("shell", "apply_patch"))))]
    return tuple(tools)


@given(tool_lists())
def test_the_map_of_names_is_a_bijection(tools: tuple[Tool, ...]) -> None:
    lowered = lowered_or_refused(tools)
    if isinstance(lowered, UnsupportedRequestError):
        # It names both.
        assert re.search(r"\(tools\[.*\(tools\[", lowered.why)
        return
    told = [tool.name for tool in lowered.request.tools if isinstance(tool, FunctionTool)]
    assert len(told) == len(lowered.request.tools) == len(set(told))
    assert all(map(LEGAL.fullmatch, told))
    raised = {raise_one(lowered, ToolCall("1", name, "{}")) for name in told}
    assert len(raised) == len(told)
    for call in raised:
        assert lower_one(lowered, tools, call).name in told


def lowered_or_refused(tools: tuple[Tool, ...]) -> EmulatedRequest | UnsupportedRequestError:
    try:
        return emulate_tools(Request(tools=tools), "responses", FUNCTIONS, Losses())
    except UnsupportedRequestError as refused:
        return refused


def raise_one(lowered: EmulatedRequest, call: ToolCall) -> ToolCall:
    (choice,) = CallRestorer(lowered.registry, Losses(None)).reply(reply_of(call)).choices
    (item,) = choice.items
    assert isinstance(item, ToolCall)
    return item


def lower_one(lowered: EmulatedRequest, tools: tuple[Tool, ...], call: ToolCall) -> ToolCall:
    again = emulate_tools(Request(items=(call,), tools=tools), "responses", FUNCTIONS, Losses())
    assert again.request.tools == lowered.request.tools
    (item,) = again.request.items
    assert isinstance(item, ToolCall)
    assert item.kind == "function"
    return item


def reply_of(*items: ToolCall | Message) -> Reply:
    return Reply("r", "m", 1, (Choice(items, Finish("calls", "tool_calls")),))


# Answers

TOOLS: tuple[Tool, ...] = (
    FunctionTool("look"),
    FunctionTool("a.b"),
    CustomTool("note"),
    namespace("ns", {"type": "function", "name": "f"}, {"type": "custom", "name": "c"}),
    hosted("shell"),
    hosted("apply_patch"),
    hosted("tool_search", execution="client"),
)
LOWERED = emulate_tools(Request(tools=TOOLS), "responses", FUNCTIONS, Losses())
called = st.sampled_from(
    ("look", "a_b", "note", "ns__f", "ns__c", "shell", "apply_patch", "tool_search")
) | st.sampled_from(("Look", "functions.note", "ns.c", "f", "c", "strange", "shell_"))
texts = st.text(st.characters(codec="utf-8"), max_size=8)
arguments = (
    texts
    | texts.map(wrap_input)
    | texts.map(lambda text: wrap_input(text)[:-1])
    | texts.map(lambda text: wrap_input(text)[:-2])
    | texts.map(lambda text: json.dumps({"input": text, "more": 1}))
    | texts.map(lambda text: wrap_input(text)[:-2] + "\\ud83d")
    | texts.map(lambda text: json.dumps({"commands": [text]}))
    | texts.map(lambda text: json.dumps({"patch": text}))
)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    items: list[ToolCall | Message] = []
    for number in range(draw(st.integers(0, 4))):
        status: Status = draw(st.sampled_from(("completed", "incomplete")))
        if draw(st.integers(0, 3)) == 0:
            items.append(Message("assistant", (Text(draw(texts)),), status=status))
        else:
            name, said = draw(called), draw(arguments)
            kind: CallKind = draw(st.sampled_from(("function", "function", "custom")))
            items.append(ToolCall(f"call_{number}", name, said, kind, status=status))
    return reply_of(*items)


def stages(losses: Losses) -> list[list[CallRestorer | CallDowngrader]]:
    raising, telling = (
        CallRestorer(LOWERED.registry, losses),
        CallDowngrader(frozenset(("function",)), losses),
    )
    return [[raising], [raising, telling]]


@pytest.mark.parametrize("which", [0, 1])
@given(data=st.data())
def test_a_stream_and_its_whole_are_raised_alike(which: int, data: DataObject) -> None:
    reply = data.draw(replies())
    whole, of_whole = reply, Losses(None)
    for stage in stages(of_whole)[which]:
        whole = stage.reply(whole)
    of_stream = Losses(None)
    streamed = accumulate(through(stages(of_stream)[which], in_pieces(reply, data)))
    assert streamed == whole
    assert set(of_stream) == set(of_whole)


@given(data=st.data())
def test_blocks_that_overlap_keep_their_order(data: DataObject) -> None:
    reply = data.draw(replies())
    whole = CallRestorer(LOWERED.registry, Losses(None)).reply(reply)
    events = overlapping([*to_events(reply)], data)
    assert accumulate(through([CallRestorer(LOWERED.registry, Losses(None))], events)) == whole


def overlapping(events: list[Event], data: DataObject) -> list[Event]:
    """Open all blocks in their order, then fill and close them in any."""
    first, *between, last = events
    opened = [event for event in between if isinstance(event, Opened)]
    rest = {
        block.index: [one for one in between if number_of(one) == block.index][1:]
        for block in opened
    }
    told: list[Event] = []
    while opened or rest:
        ready = [number for number in rest if not any(one.index == number for one in opened)]
        if opened and (not ready or data.draw(st.booleans())):
            told.append(opened.pop(0))
            continue
        number = data.draw(st.sampled_from(ready))
        told.append(rest[number].pop(0))
        if not rest[number]:
            del rest[number]
    return [first, *told, last]


def number_of(event: Event) -> BlockId | None:
    return event.index if isinstance(event, Opened | Delta | Closed) else None


def test_what_waits_is_told_when_a_stream_breaks_off() -> None:
    events: list[Event] = [
        Started(),
        Opened(0, ToolCall("1", "shell")),
        Delta(0, "arguments", '{"comm'),
        Opened(1, Message("assistant")),
        Delta(1, "text", "So."),
        Opened(2, ToolCall("2", "apply_patch")),
        Opened(3, ToolCall("3", "look")),
        Delta(3, "arguments", "{}"),
        Closed(3),
        Opened(4, Message("assistant"), choice=1),
        truncated_stream(),
    ]
    told = through([CallRestorer(LOWERED.registry, Losses(None))], events)
    assert told == [
        Started(),
        Opened(4, Message("assistant"), choice=1),
        Opened(1, Message("assistant")),
        Delta(1, "text", "So."),
        Opened(3, ToolCall("3", "look")),
        Delta(3, "arguments", "{}"),
        Closed(3),
        truncated_stream(),
    ]


def test_arguments_that_nobody_can_run_are_reported() -> None:
    losses = Losses(None)
    half = ToolCall("1", "shell", '{"commands":["rm', status="incomplete")
    nothing = ToolCall("2", "shell", "", status="incomplete")
    (choice,) = CallRestorer(LOWERED.registry, losses).reply(reply_of(half, nothing)).choices
    said = [one.arguments for one in choice.items if isinstance(one, ToolCall)]
    assert said == ['{"commands":[]}'] * 2
    assert [loss.path for loss in losses] == ["call shell (1).arguments"]


@pytest.mark.parametrize("kind", ["program", "direct"])
def test_calls_by_programs_are_reported(kind: str) -> None:
    caller = ExtraField("responses", "caller", Raw(json.dumps({"type": kind}).encode()))
    losses = Losses(None)
    call = ToolCall("1", "look", "{}", extras=(caller,))
    CallDowngrader(frozenset(("function",)), losses).reply(reply_of(call))
    assert [loss.path for loss in losses] == ["call look (1).caller"] * (kind == "program")


def test_a_replayed_call_says_what_is_no_input() -> None:
    losses = Losses()
    call = ToolCall("1", "note", '{"input":"x","more":1}')
    everything = BackendToolSupport(lambda _tool: True)
    again = emulate_tools(
        Request(items=(call,), tools=(CustomTool("note"),)), "responses", everything, losses
    )
    assert again.request.items == (ToolCall("1", "note", "x", "custom"),)
    assert [loss.path for loss in losses] == ["items[0].arguments"]


def through(between: list[CallRestorer | CallDowngrader], events: list[Event]) -> list[Event]:
    return check_order(Pipeline(*between).feed_all(check_order(events)))


def in_pieces(reply: Reply, data: DataObject) -> list[Event]:
    """Tell a reply with its arguments cut anywhere."""
    events: list[Event] = []
    for event in to_events(reply):
        text = getattr(event, "text", "")
        if getattr(event, "channel", None) != "arguments" or not text:
            events.append(event)
            continue
        cut = data.draw(st.integers(0, len(text)))
        events += [replace(event, text=piece) for piece in (text[:cut], text[cut:])]
    return events


def test_what_is_told_as_a_function_is_understood_again() -> None:
    """A client that knows only functions replays what it was told."""
    calls = (
        ToolCall("1", "note", "raw\n", "custom", status="completed"),
        ToolCall("2", "f", "{}", namespace="ns", status="completed"),
        ToolCall("3", "shell", '{"commands":["ls"]}', "shell", status="completed"),
    )
    telling = CallDowngrader(frozenset(("function",)), Losses(None))
    (choice,) = telling.reply(reply_of(*calls)).choices
    everything = BackendToolSupport(lambda _tool: True)
    again = emulate_tools(
        Request(items=choice.items, tools=TOOLS), "responses", everything, Losses()
    )
    assert again.request.items == calls


# Exchanges


def exchange(
    client: str, backend: str, *, rewrite: bool = False, **capabilities: object
) -> adapters.Exchange:
    return adapters.exchange(
        client,
        backend,
        mint=adapters.deterministic_ids(),
        capabilities=replace(adapters.Capabilities(), **capabilities),
        rewrite=rewrite,
    )


REQUEST = {
    "model": "m",
    "input": "Go.",
    "tools": [
        {"type": "custom", "name": "note"},
        {
            "type": "namespace",
            "name": "ns",
            "description": "",
            "tools": [{"type": "function", "name": "f"}],
        },
        {"type": "shell"},
    ],
}


def response(*output: object) -> bytes:
    body = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed"}
    return json.dumps({**body, "model": "m", "output": output}).encode()


def test_a_responses_backend_that_lacks_tools_gets_functions() -> None:
    able = exchange("responses", "responses", rewrite=True)
    sent = json.loads(able.request(json.dumps(REQUEST).encode()).body)
    assert [tool["type"] for tool in sent["tools"]] == ["custom", "namespace", "shell"]

    poor = exchange("responses", "responses", rewrite=True, custom_tools=False, tool_types=())
    sent = json.loads(poor.request(json.dumps(REQUEST).encode()).body)
    assert [tool["name"] for tool in sent["tools"]] == ["note", "ns__f", "shell"]
    call = {"type": "function_call", "id": "fc_1", "call_id": "1", "status": "completed"}
    answer = poor.reply(response({**call, "name": "note", "arguments": '{"input":"x"}'}))
    (item,) = json.loads(answer.body)["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", "x")


def test_an_answer_passes_as_it_is_if_no_tool_was_changed() -> None:
    able = exchange("responses", "responses", rewrite=True)
    able.request(json.dumps(REQUEST).encode())
    call = {"type": "custom_tool_call", "call_id": "1", "name": "note", "input": "x", "odd": 1}
    assert able.reply(response(call)).body == response(call)


def test_collisions_do_not_spoil_an_answer() -> None:
    """Of a request that was never lowered nobody knows what its names stand for."""
    asked = Request(tools=(FunctionTool("a.b"), FunctionTool("a_b")))
    told = adapters.exchange(
        "responses", "chat", mint=adapters.deterministic_ids(), asked=asked
    ).reply(
        b'{"id":"1","model":"m","choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}]}'
    )
    assert told.status == 200


def test_under_policy_refuse_a_grammar_that_nobody_enforces_is_refused() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    body: Wire = {"model": "m", "input": "Go.", "tools": [{"type": "custom", "name": "t"}]}
    plain = adapters.exchange(
        "responses", "chat", mint=adapters.deterministic_ids(), policy="refuse"
    )
    assert plain.request(json.dumps(body).encode()).losses
    body["tools"] = [{"type": "custom", "name": "t", "format": grammar}]
    with pytest.raises(UnsupportedRequestError, match="grammar") as refused:
        plain.request(json.dumps(body).encode())
    assert refused.value.path == "tools[0].format"


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        ({"type": "shell"}, ["shell_call"]),
        ({"type": "custom", "name": "note"}, ["custom_tool_call"]),
        ({"type": "namespace", "name": "ns"}, ["function_call"]),
        ({"type": "function", "name": "f", "namespace": "ns"}, ["function_call"]),
        ({"type": "function", "name": "f"}, ["function_call"]),
    ],
)
def test_only_allowed_tools_are_called_whatever_they_are(listed: Wire, kept: list[str]) -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [listed]}
    asking = exchange("responses", "chat", allowed_tools=False)
    sent = json.loads(asking.request(json.dumps({**REQUEST, "tool_choice": choice}).encode()).body)
    assert len(sent["tools"]) == 1
    calls = [
        {"id": str(number), "function": {"name": name, "arguments": said}}
        for number, (name, said) in enumerate(
            (("note", '{"input":"x"}'), ("ns__f", "{}"), ("shell", '{"commands":["ls"]}'))
        )
    ]
    body = {"id": "1", "model": "m", "choices": [{"message": {"tool_calls": calls}}]}
    answer = json.loads(asking.reply(json.dumps(body).encode()).body)
    assert [item["type"] for item in answer["output"]] == kept


def test_a_call_of_a_client_tool_without_output_gets_one_of_its_kind() -> None:
    body: Wire = {
        "model": "m",
        "input": [
            {"role": "user", "content": "Go."},
            {"type": "shell_call", "call_id": "1", "action": {"commands": ["ls"]}},
            {"type": "apply_patch_call", "call_id": "2", "operation": {"type": "delete_file"}},
            {"type": "computer_call", "id": "cu_1", "call_id": "3", "actions": []},
            {"type": "tool_search_call", "call_id": "4", "execution": "client", "arguments": {}},
            {"role": "user", "content": "Well?"},
        ],
    }
    sent = exchange("responses", "responses", rewrite=True).request(json.dumps(body).encode())
    outputs = [item for item in json.loads(sent.body)["input"] if "output" in item["type"]]
    assert [item["type"] for item in outputs] == [
        "shell_call_output",
        "apply_patch_call_output",
        "computer_call_output",
        "tool_search_output",
    ]
    assert outputs[0]["output"][0]["stdout"].startswith("No output")
    assert outputs[1]["status"] == "completed"
    assert outputs[2]["output"] == {"type": "computer_screenshot"}
    assert outputs[3]["tools"] == []


def test_items_of_client_tools_are_rewritten_as_they_were() -> None:
    items: list[Wire] = [
        {"type": "shell_call", "call_id": "1", "status": "completed", "action": {"commands": []}},
        {"type": "shell_call_output", "call_id": "1", "output": [], "max_output_length": 5},
        {
            "type": "computer_call",
            "call_id": "2",
            "status": "completed",
            "pending_safety_checks": [{"id": "sc"}],
            "action": {"type": "wait"},
            "id": "cu_1",
        },
        {
            "type": "computer_call_output",
            "call_id": "2",
            "output": {"type": "computer_screenshot", "file_id": "f", "detail": "high", "odd": 1},
        },
        {
            "type": "local_shell_call",
            "call_id": "3",
            "status": "completed",
            "action": {"type": "exec", "env": {"A": "1"}, "command": ["ls"]},
            "id": "lsh_1",
        },
        {"type": "local_shell_call_output", "id": "3", "output": "a"},
        {
            "type": "tool_search_call",
            "call_id": "4",
            "status": "completed",
            "execution": "client",
            "arguments": {"query": "x"},
        },
        {
            "type": "tool_search_output",
            "call_id": "4",
            "execution": "client",
            "tools": [{"type": "function", "name": "found"}],
        },
    ]
    body = json.dumps({"model": "m", "input": items}).encode()
    sent = exchange("responses", "responses", rewrite=True).request(body)
    assert json.loads(sent.body)["input"] == items
    assert not sent.losses


def test_an_output_of_a_search_can_be_anything() -> None:
    odd = ToolOutput("1", (Text("found nothing"),), "tool_search")
    lowered = emulate_tools(
        Request(items=(ToolCall("1", "tool_search", "{}", "tool_search"), odd)),
        "responses",
        FUNCTIONS,
        Losses(),
    )
    output = lowered.request.items[1]
    assert isinstance(output, ToolOutput)
    assert (output.kind, output.output) == ("function", "No tool was found.")


@pytest.mark.parametrize("types", [(), ("namespace",)])
def test_what_a_search_found_has_the_name_that_is_declared(types: tuple[str, ...]) -> None:
    space, name = "n" * 30, "t" * 50
    found: Wire = {"type": "function", "name": name, "parameters": {"type": "object"}}
    items: list[Wire] = [
        {"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {}},
        {
            "type": "tool_search_output",
            "call_id": "1",
            "execution": "client",
            "tools": [{"type": "namespace", "name": space, "description": "", "tools": [found]}],
        },
    ]
    poor = exchange("responses", "responses", rewrite=True, tool_types=types)
    sent = json.loads(poor.request(json.dumps({"model": "m", "input": items}).encode()).body)
    (tool,) = sent["tools"]
    called = tool["name"] if not types else f"{tool['name']}.{tool['tools'][0]['name']}"
    assert sent["input"][1]["output"].endswith(f"\n- {called}")


DEFERRED: Wire = {
    "type": "namespace",
    "name": "sea",
    "description": "",
    "tools": [
        {"type": "function", "name": "tide", "description": "Tides.", "defer_loading": True},
        {"type": "function", "name": "sail", "description": "Sails.", "defer_loading": True},
    ],
}
ASKED: Wire = {"model": "m", "input": "When is the tide?", "tools": [DEFERRED]}


def test_a_deferred_tool_that_is_called_unasked_is_known() -> None:
    small = exchange("responses", "chat", max_deferred_tools=1)
    sent = json.loads(small.request(json.dumps(ASKED).encode()).body)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["sea__tide"]
    called = {"name": "sea__sail", "arguments": "{}"}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "function": called}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    reply = small.reply(json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode())
    (item,) = json.loads(reply.body)["output"]
    assert (item["namespace"], item["name"]) == ("sea", "sail")


@pytest.mark.parametrize("types", [("namespace",), ("namespace", "tool_search")])
def test_what_nobody_could_search_for_is_not_deferred(types: tuple[str, ...]) -> None:
    poor = exchange("responses", "responses", rewrite=True, tool_types=types)
    sent = poor.request(json.dumps(ASKED).encode())
    (space,) = json.loads(sent.body)["tools"]
    searched = "tool_search" in types
    assert [tool.get("defer_loading", False) for tool in space["tools"]] == [searched] * 2
    assert [loss.path for loss in sent.losses] == (
        [] if searched else [f"tools[0].tools[{number}].defer_loading" for number in range(2)]
    )


# Ranking


def test_the_words_of_a_query_find_tools() -> None:
    tools = ["get_weather Forecast for a city", "sendMail Sends a letter", "find_tides Tides"]
    assert bm25_rank("What is the weather?", tools, 5) == [0]
    assert bm25_rank("mail a letter", tools, 5)[0] == 1
    assert bm25_rank("high tide", tools, 5) == [2]
    assert bm25_rank("weather and tides", tools, 1) in ([0], [2])
    assert bm25_rank("cheese", tools, 5) == []
    assert bm25_rank("", tools, 5) == bm25_rank("weather", [], 5) == []


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=5), st.integers(0, 5))
def test_a_ranking_is_a_choice(query: str, texts_: list[str], limit: int) -> None:
    places = bm25_rank(query, texts_, limit)
    assert len(places) == len(set(places)) <= limit
    assert all(0 <= place < len(texts_) for place in places)
