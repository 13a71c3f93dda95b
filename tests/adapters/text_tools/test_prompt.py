"""Tools in words: what a backend that knows none is asked."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import adapters
from adapters.errors import UnsupportedRequestError
from adapters.ir.types import (
    AllowedToolsChoice,
    CustomTool,
    ExtraField,
    FunctionTool,
    HostedTool,
    Image,
    Item,
    Message,
    NamedToolChoice,
    Reasoning,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolChoiceMode,
    ToolOutput,
)
from adapters.losses import Losses
from adapters.text_tools.prompt import call_as_text, describe_tools_in_prompt
from tests.adapters.text_tools.test_formats import told

SCHEMA = Raw(b'{"type": "object", "properties": {"city": {"type": "string"}}}')
LOOK = FunctionTool("look", "Looks\nout.", SCHEMA)
TIME = FunctionTool("time")
ASKED = Message("user", (Text("How is it in Rome?"),))

DESCRIBED = """\
# Tools

You can call tools. Each line between <tools> and </tools> declares one of them, with the JSON \
Schema of its arguments:
<tools>
{"name":"look","description":"Looks\\nout.","parameters":{"type": "object", "properties": \
{"city": {"type": "string"}}}}
{"name":"time","parameters":{"type":"object","properties":{}}}
</tools>

To call a tool, write one JSON object with its name and its arguments between <tool_call> and \
</tool_call>, in just this form:
<tool_call>
{"name": "name_of_the_tool", "arguments": {"name_of_an_argument": "value"}}
</tool_call>

To make several calls at once, write several such blocks, one after the other.
Write nothing after your calls. Their results follow in the next message, each between \
<tool_response> and </tool_response>, in the order of the calls.
Call tools only where they help; otherwise answer in plain words."""


def ask(
    *items: Item,
    tools: tuple[Tool, ...] = (LOOK, TIME),
    choice: ToolChoice | None = None,
    parallel: bool | None = None,
    instructions: str | None = None,
    losses: Losses | None = None,
) -> Request:
    request = Request(
        items=items or (ASKED,),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        instructions=instructions,
    )
    return describe_tools_in_prompt(request, Losses() if losses is None else losses)


def test_tools_are_described() -> None:
    losses = Losses()
    assert ask(losses=losses) == Request(instructions=DESCRIBED, items=(ASKED,))
    assert [str(loss) for loss in losses] == [
        "changed tools: the backend knows no tools; they are described to it in words"
    ]


def test_the_description_follows_what_the_model_is_told_first() -> None:
    assert ask(instructions="Be brief.").instructions == f"Be brief.\n\n{DESCRIBED}"
    system = Message("system", (Text("Be brief."),), item_id="msg_1")
    first, second = ask(system, ASKED).items
    assert first == Message("system", (Text(f"Be brief.\n\n{DESCRIBED}"),), item_id="msg_1")
    assert second == ASKED
    marked = Message("developer", (Text("Be brief.", cache_breakpoint=Raw(b"{}")),))
    assert ask(marked, ASKED).items[0] == Message(
        "developer", (*marked.content, Text(f"\n\n{DESCRIBED}"))
    )


@pytest.mark.parametrize(
    ("choice", "last"),
    [
        (
            ToolChoiceMode("auto"),
            "Call tools only where they help; otherwise answer in plain words.",
        ),
        (ToolChoiceMode("required"), "Your next answer must call at least one of these tools."),
        (NamedToolChoice("time"), "Your next answer must call the tool time, and no other."),
        (
            AllowedToolsChoice("required", (NamedToolChoice("look"), NamedToolChoice("time"))),
            "Your next answer must call at least one of these tools.",
        ),
        (
            AllowedToolsChoice("required", (NamedToolChoice("look"),)),
            "Your next answer must call the tool look, and no other.",
        ),
    ],
)
def test_the_choice_is_said_in_words(choice: ToolChoice, last: str) -> None:
    losses = Losses()
    asked = ask(choice=choice, losses=losses)
    assert (asked.instructions or "").splitlines()[-1] == last
    assert asked.tool_choice is None
    demanded = [loss.why for loss in losses if loss.severity == "capability"]
    expected = ["the backend cannot be made to call a tool; it is asked to in words"]
    assert demanded == ([] if choice == ToolChoiceMode("auto") else expected)


def test_only_allowed_tools_are_described() -> None:
    words = ask(choice=AllowedToolsChoice("auto", (NamedToolChoice("time"),))).instructions or ""
    assert '"time"' in words
    assert '"look"' not in words


@pytest.mark.parametrize(
    "choice", [ToolChoiceMode("none"), AllowedToolsChoice("none", (NamedToolChoice("look"),))]
)
def test_without_a_choice_no_tool_is_described(choice: ToolChoice) -> None:
    losses = Losses()
    assert ask(choice=choice, losses=losses) == Request(items=(ASKED,))
    assert [loss.path for loss in losses] == ["tool_choice"]


def test_a_demand_can_be_refused_instead() -> None:
    for demand in (ToolChoiceMode("required"), NamedToolChoice("look")):
        with pytest.raises(UnsupportedRequestError):
            ask(choice=demand, losses=Losses("refuse"))
    with pytest.raises(UnsupportedRequestError):
        ask(parallel=False, losses=Losses("refuse"))
    with pytest.raises(UnsupportedRequestError):
        ask(choice=NamedToolChoice("fly"))


def test_one_call_at_a_time_is_said_in_words() -> None:
    losses = Losses()
    asked = ask(parallel=False, losses=losses)
    assert "Make at most one call in each of your answers." in (asked.instructions or "")
    assert "several" not in (asked.instructions or "")
    assert asked.parallel_tool_calls is None
    assert [loss.path for loss in losses] == ["tools", "parallel_tool_calls"]


def test_what_words_cannot_say_is_reported() -> None:
    losses = Losses()
    odd = FunctionTool("odd", strict=True, extras=(ExtraField("completions", "cache", Raw(b"1")),))
    tools = (odd, CustomTool("patch"), HostedTool("web_search", Raw(b"{}")))
    assert '"odd"' in (ask(tools=tools, losses=losses).instructions or "")
    assert [str(loss).partition(":")[0] for loss in losses] == [
        "dropped tools[1]",
        "dropped tools[2]",
        "dropped tools[0].strict",
        "dropped tools[0].cache",
        "changed tools",
    ]


def test_without_tools_nothing_is_said() -> None:
    request = Request(items=(ASKED,), instructions="Be brief.")
    assert describe_tools_in_prompt(request, Losses()) == request


def test_calls_and_outputs_are_written_as_text() -> None:
    losses = Losses()
    items: tuple[Item, ...] = (
        ASKED,
        Reasoning(content=("hm",)),
        Message("assistant", (Text("Let me see."),), item_id="msg_1", status="completed"),
        ToolCall("call_1", "look", '{ "city":"Rome" }'),
        ToolCall("call_2", "time", "{}"),
        ToolOutput("call_2", "noon"),
        Message("user", (Text("Hurry."),)),
        ToolOutput("call_1", (Text("Sunny."), Image("data:image/png;base64,AA=="))),
    )
    asked = ask(*items, tools=(), losses=losses)
    calls = (
        'Let me see.\n<tool_call>\n{"name":"look","arguments":{ "city":"Rome" }}\n</tool_call>\n'
        '<tool_call>\n{"name":"time","arguments":{}}\n</tool_call>'
    )
    assert asked.items == (
        ASKED,
        Reasoning(content=("hm",)),
        Message("assistant", (Text(calls),), status="completed"),
        Message(
            "user",
            (
                Text("<tool_response>\nSunny."),
                Image("data:image/png;base64,AA=="),
                Text("\n</tool_response>\n<tool_response>\nnoon\n</tool_response>"),
            ),
        ),
        Message("user", (Text("Hurry."),)),
    )
    assert len(asked.paths) == len(asked.items)
    assert [loss.path for loss in losses] == ["items"]


def test_a_turn_of_calls_alone_and_text_behind_a_call() -> None:
    items: tuple[Item, ...] = (
        ToolCall("call_1", "time", "{}"),
        Message("assistant", (Text("Wait."),)),
        ToolOutput("call_1", "noon"),
        Message("assistant", (Text("It is noon."),), item_id="msg_2"),
    )
    call = '<tool_call>\n{"name":"time","arguments":{}}\n</tool_call>'
    assert ask(*items, tools=()).items == (
        Message("assistant", (Text(f"{call}\nWait."),)),
        Message("user", (Text("<tool_response>\nnoon\n</tool_response>"),)),
        items[-1],
    )


def test_outputs_of_calls_that_only_the_server_knows_stay_where_they_are() -> None:
    items: tuple[Item, ...] = (ToolOutput("call_8", "noon"), ToolOutput("call_9", "Sunny."), ASKED)
    said = "<tool_response>\nnoon\n</tool_response>\n<tool_response>\nSunny.\n</tool_response>"
    assert ask(*items, tools=()).items == (Message("user", (Text(said),)), ASKED)


def test_arguments_that_are_no_json_are_a_string() -> None:
    broken = ToolCall("call_1", "look", '{"city": "Ro')
    assert call_as_text(broken) == (
        '<tool_call>\n{"name":"look","arguments":"{\\"city\\": \\"Ro"}\n</tool_call>'
    )
    custom = ToolCall("call_1", "patch", "{}", kind="custom")
    assert '"arguments":"{}"' in call_as_text(custom)


def test_extras_of_calls_and_outputs_are_reported() -> None:
    losses = Losses()
    extras = (ExtraField("completions", "extra_content", Raw(b"1")),)
    ask(
        ToolCall("call_1", "time", "{}", extras=extras),
        ToolOutput("call_1", "noon", extras=extras),
        tools=(),
        losses=losses,
    )
    assert [loss.path for loss in losses] == [
        "items",
        "items[0].extra_content",
        "items[1].extra_content",
    ]


@given(
    name=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    arguments=st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.integers(-9, 9)),
)
def test_what_is_written_is_read_again(name: str, arguments: dict[str, object]) -> None:
    spelled = msgspec.json.encode(arguments).decode()
    assert told([call_as_text(ToolCall("call_1", name, spelled))], "hermes") == [(name, spelled)]


def test_a_freeform_tool_in_words_and_its_call_back() -> None:
    exchange = adapters.exchange(
        "responses",
        "chat",
        mint=adapters.deterministic_ids(),
        capabilities=adapters.Capabilities(tools="prompted"),
    )
    body = {"model": "m", "input": "Mend it.", "tools": [{"type": "custom", "name": "patch"}]}
    sent = exchange.request(msgspec.json.encode(body)).body.decode()
    assert '{\\"name\\":\\"patch\\"' in sent
    call = '<tool_call>{"name": "patch", "arguments": {"input": "*** Begin\\nEnd"}}</tool_call>'
    message = {"role": "assistant", "content": call}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    heard = msgspec.json.decode(exchange.reply(msgspec.json.encode(answer)).body)
    (item,) = heard["output"]
    assert (item["type"], item["name"]) == ("custom_tool_call", "patch")
    assert item["input"] == "*** Begin\nEnd"
