"""Requests for a backend that has no tools."""

from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

import adapters
from adapters.errors import UnsupportedRequestError
from adapters.ir import types as ir
from adapters.losses import Losses
from adapters.text_tools.prompt import call_as_text, describe_tools_in_prompt
from tests.adapters.text_tools.test_scanner import scan
from tests.exchange import Exchange

SCHEMA = Raw(b'{"type": "object", "properties": {"city": {"type": "string"}}}')
LOOK = ir.FunctionTool("look", "Looks\nout.", SCHEMA)
TIME = ir.FunctionTool("time")

PROMPT = """\
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


def user(text: str) -> ir.Message:
    return ir.Message("user", (ir.Text(text),))


def assistant(text: str, item_id: str | None = None) -> ir.Message:
    return ir.Message("assistant", (ir.Text(text),), item_id=item_id)


QUESTION = user("How is it in Rome?")
AUTO, REQUIRED = ir.ToolChoiceMode("auto"), ir.ToolChoiceMode("required")


def convert(
    *items: ir.Item,
    tools: tuple[ir.Tool, ...] = (LOOK, TIME),
    choice: ir.ToolChoice | None = None,
    parallel: bool | None = None,
    instructions: str | None = None,
    losses: Losses | None = None,
) -> ir.Request:
    request = ir.Request(
        items=items or (QUESTION,),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        instructions=instructions,
    )
    return describe_tools_in_prompt(request, Losses() if losses is None else losses)


def allowed(*names: str, mode: Literal["auto", "required", "none"] = "required") -> ir.ToolChoice:
    return ir.AllowedToolsChoice(mode, tuple(map(ir.NamedToolChoice, names)))


def test_prompt_describes_tools() -> None:
    losses = Losses()
    assert convert(losses=losses) == ir.Request(instructions=PROMPT, items=(QUESTION,))
    assert [str(loss) for loss in losses] == [
        "changed tools: tools are not supported; described in the prompt"
    ]


def test_prompt_follows_the_instructions() -> None:
    assert convert(instructions="Be brief.").instructions == f"Be brief.\n\n{PROMPT}"
    system = ir.Message("system", (ir.Text("Be brief."),), item_id="msg_1")
    first, second = convert(system, QUESTION).items
    assert first == ir.Message("system", (ir.Text(f"Be brief.\n\n{PROMPT}"),), item_id="msg_1")
    assert second == QUESTION
    marked = ir.Message("developer", (ir.Text("Be brief.", cache_breakpoint=Raw(b"{}")),))
    content = (*marked.content, ir.Text(f"\n\n{PROMPT}"))
    assert convert(marked, QUESTION).items[0] == ir.Message("developer", content)


@pytest.mark.parametrize(
    ("choice", "last"),
    [
        (AUTO, "Call tools only where they help; otherwise answer in plain words."),
        (REQUIRED, "Your next answer must call at least one of these tools."),
        (ir.NamedToolChoice("time"), "Your next answer must call the tool time, and no other."),
        (allowed("look", "time"), "Your next answer must call at least one of these tools."),
        (allowed("look"), "Your next answer must call the tool look, and no other."),
    ],
)
def test_prompt_states_the_choice(choice: ir.ToolChoice, last: str) -> None:
    losses = Losses()
    converted = convert(choice=choice, losses=losses)
    assert (converted.instructions or "").splitlines()[-1] == last
    assert converted.tool_choice is None
    reasons = [loss.reason for loss in losses if loss.severity == "capability"]
    expected = ["tool_choice is not supported; described in the prompt"]
    assert reasons == ([] if choice == AUTO else expected)


def test_only_allowed_tools_are_described() -> None:
    prompt = convert(choice=allowed("time", mode="auto")).instructions or ""
    assert '"time"' in prompt
    assert '"look"' not in prompt


@pytest.mark.parametrize("choice", [ir.ToolChoiceMode("none"), allowed("look", mode="none")])
def test_choice_none_describes_no_tools(choice: ir.ToolChoice) -> None:
    losses = Losses()
    assert convert(choice=choice, losses=losses) == ir.Request(items=(QUESTION,))
    assert [loss.path for loss in losses] == ["tool_choice", "tools[0]", "tools[1]"]


def test_choice_is_refused_under_the_refuse_policy() -> None:
    for choice in (REQUIRED, ir.NamedToolChoice("look")):
        with pytest.raises(UnsupportedRequestError):
            convert(choice=choice, losses=Losses("refuse"))
    with pytest.raises(UnsupportedRequestError):
        convert(parallel=False, losses=Losses("refuse"))
    with pytest.raises(UnsupportedRequestError):
        convert(choice=ir.NamedToolChoice("fly"))


def test_prompt_asks_for_one_call_at_a_time() -> None:
    losses = Losses()
    converted = convert(parallel=False, losses=losses)
    assert "Make at most one call in each of your answers." in (converted.instructions or "")
    assert "several" not in (converted.instructions or "")
    assert converted.parallel_tool_calls is None
    assert [loss.path for loss in losses] == ["tools", "parallel_tool_calls"]


def test_undescribed_fields_are_reported() -> None:
    losses = Losses()
    cache = ir.ExtraField("completions", "cache", Raw(b"1"))
    odd = ir.FunctionTool("odd", strict=True, extras=(cache,))
    tools = (odd, ir.CustomTool("patch"), ir.HostedTool("web_search", Raw(b"{}")))
    assert '"odd"' in (convert(tools=tools, losses=losses).instructions or "")
    assert [str(loss).partition(":")[0] for loss in losses] == [
        *("dropped tools[1]", "dropped tools[2]", "dropped tools[0].strict"),
        *("dropped tools[0].cache", "changed tools"),
    ]


def test_request_without_tools_is_unchanged() -> None:
    request = ir.Request(items=(QUESTION,), instructions="Be brief.")
    assert describe_tools_in_prompt(request, Losses()) == request


def test_calls_and_outputs_are_written_as_text() -> None:
    losses = Losses()
    picture = ir.Image("data:image/png;base64,AA==")
    items: tuple[ir.Item, ...] = (
        QUESTION,
        ir.Reasoning(content=("hm",)),
        replace(assistant("Let me see.", "msg_1"), status="completed"),
        ir.ToolCall("call_1", "look", '{ "city":"Rome" }'),
        ir.ToolCall("call_2", "time", "{}"),
        ir.ToolOutput("call_2", "noon"),
        user("Hurry."),
        ir.ToolOutput("call_1", (ir.Text("Sunny."), picture)),
    )
    converted = convert(*items, tools=(), losses=losses)
    calls = (
        'Let me see.\n<tool_call>\n{"name":"look","arguments":{ "city":"Rome" }}\n</tool_call>\n'
        '<tool_call>\n{"name":"time","arguments":{}}\n</tool_call>'
    )
    rest = ir.Text("\n</tool_response>\n<tool_response>\nnoon\n</tool_response>")
    outputs = ir.Message("user", (ir.Text("<tool_response>\nSunny."), picture, rest))
    turn = replace(assistant(calls), status="completed")
    assert converted.items == (*items[:2], turn, outputs, user("Hurry."))
    assert len(converted.paths) == len(converted.items)
    assert [loss.path for loss in losses] == ["items"]


def test_text_follows_a_call_in_one_message() -> None:
    call, output = ir.ToolCall("call_1", "time", "{}"), ir.ToolOutput("call_1", "noon")
    answer = assistant("It is noon.", "msg_2")
    assert convert(call, assistant("Wait."), output, answer, tools=()).items == (
        assistant('<tool_call>\n{"name":"time","arguments":{}}\n</tool_call>\nWait.'),
        user("<tool_response>\nnoon\n</tool_response>"),
        answer,
    )


def test_outputs_without_calls_keep_their_place() -> None:
    outputs = (ir.ToolOutput("call_8", "noon"), ir.ToolOutput("call_9", "Sunny."))
    text = "<tool_response>\nnoon\n</tool_response>\n<tool_response>\nSunny.\n</tool_response>"
    assert convert(*outputs, QUESTION, tools=()).items == (user(text), QUESTION)


def test_invalid_arguments_are_a_string() -> None:
    broken = ir.ToolCall("call_1", "look", '{"city": "Ro')
    assert call_as_text(broken) == (
        '<tool_call>\n{"name":"look","arguments":"{\\"city\\": \\"Ro"}\n</tool_call>'
    )
    custom = ir.ToolCall("call_1", "patch", "{}", kind="custom")
    assert '"arguments":"{}"' in call_as_text(custom)


def test_extra_fields_of_calls_and_outputs_are_reported() -> None:
    losses = Losses()
    extras = (ir.ExtraField("completions", "extra_content", Raw(b"1")),)
    call = ir.ToolCall("call_1", "time", "{}", extras=extras)
    convert(call, ir.ToolOutput("call_1", "noon", extras=extras), tools=(), losses=losses)
    paths = ["items", "items[0].extra_content", "items[1].extra_content"]
    assert [loss.path for loss in losses] == paths


@given(
    name=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    arguments=st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.integers(-9, 9)),
)
def test_written_call_can_be_read(name: str, arguments: dict[str, object]) -> None:
    written = msgspec.json.encode(arguments).decode()
    assert scan([call_as_text(ir.ToolCall("call_1", name, written))], "hermes") == [(name, written)]


def test_custom_tool_round_trip() -> None:
    exchange = Exchange("responses", "chat", capabilities=adapters.Capabilities(tools="prompted"))
    body = {"model": "m", "input": "Mend it.", "tools": [{"type": "custom", "name": "patch"}]}
    sent = exchange.request(msgspec.json.encode(body)).body.decode()
    assert '{\\"name\\":\\"patch\\"' in sent
    call = '<tool_call>{"name": "patch", "arguments": {"input": "*** Begin\\nEnd"}}</tool_call>'
    message = {"role": "assistant", "content": call}
    reply = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    response = msgspec.json.decode(exchange.reply(msgspec.json.encode(reply)).body)
    (item,) = response["output"]
    assert (item["type"], item["name"]) == ("custom_tool_call", "patch")
    assert item["input"] == "*** Begin\nEnd"
