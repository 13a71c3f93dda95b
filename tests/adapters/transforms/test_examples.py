"""The transforms that are part of the package."""

import json

import msgspec
import pytest

import adapters
from adapters import Transform
from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.types import (
    AllowedToolsChoice,
    Choice,
    Citation,
    CustomTool,
    ExtraField,
    Finish,
    FunctionTool,
    Item,
    Logprob,
    Message,
    NamedToolChoice,
    OpaqueItem,
    Reasoning,
    Refusal,
    Reply,
    Request,
    Text,
    ToolCall,
    ToolOutput,
)
from adapters.losses import Losses
from adapters.stages.stage import Pipeline
from adapters.transforms import AddSystemMessage, RedactText, RenameTools, TransformLosses
from adapters.transforms.apply import transform_stages
from tests.adapters.laws.common import payloads
from tests.adapters.transforms.test_apply import chunk
from tests.exchange import Exchange
from tests.judges.reading import JsonObject, object_in, objects_in

RENAME = RenameTools({"get_weather": "weather", "find": "search"})


def changed(transform: Transform, request: Request) -> tuple[Request, list[str]]:
    losses = Losses()
    request = transform.request(request, TransformLosses("T", losses))
    return request, [str(loss) for loss in losses]


# RenameTools


def test_tools_are_renamed_wherever_they_are_named() -> None:
    request = Request(
        items=(
            ToolCall("c", "get_weather", "{}"),
            ToolCall("d", "get_weather", "{}", namespace="other"),
            ToolOutput("c", "sunny", name="get_weather"),
            Message("user", (Text("Use get_weather."),)),
        ),
        tools=(FunctionTool("get_weather"), CustomTool("find"), FunctionTool("other")),
        tool_choice=AllowedToolsChoice("auto", (NamedToolChoice("find", "custom"),)),
    )
    renamed, losses = changed(RENAME, request)
    assert renamed == Request(
        items=(
            ToolCall("c", "weather", "{}"),
            ToolCall("d", "get_weather", "{}", namespace="other"),
            ToolOutput("c", "sunny", name="weather"),
            Message("user", (Text("Use get_weather."),)),
        ),
        tools=(FunctionTool("weather"), CustomTool("search"), FunctionTool("other")),
        tool_choice=AllowedToolsChoice("auto", (NamedToolChoice("search", "custom"),)),
    )
    assert losses == [
        "changed tools[0]: T: sent as weather; its calls are returned as get_weather",
        "changed tools[1]: T: sent as search; its calls are returned as find",
    ]


def test_calls_are_returned_with_the_names_of_the_client() -> None:
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    body = {"model": "m", "input": "Hi", "tools": [tool], "tool_choice": "required"}
    for streams in (False, True):
        exchange = Exchange("responses", "chat", transforms=(RENAME,))
        sent = exchange.request(json.dumps({**body, "stream": streams}).encode())
        assert b'"name":"weather"' in sent.body
        function = '{"name":"weather","arguments":"{}"}'
        call = f'{{"tool_calls":[{{"index":0,"id":"c","type":"function","function":{function}}}]}}'
        stream = adapters.ReplyTranslator(sent.reply_plan, streamed=True)
        written = stream.feed(chunk(call)) + stream.feed(chunk("{}", '"tool_calls"'))
        written += stream.finish(started=True).body
        assert b'"name":"get_weather"' in written
        assert b'"weather"' not in written


def test_tool_with_the_new_name_of_another_is_rejected() -> None:
    with pytest.raises(adapters.UnsupportedRequestError) as caught:
        changed(RENAME, Request(tools=(FunctionTool("find"), FunctionTool("weather"))))
    assert str(caught.value) == "tools[1]: another tool is sent to the backend as weather"


def test_two_tools_can_swap_their_names() -> None:
    swap = RenameTools({"a": "b", "b": "a"})
    request, _ = changed(swap, Request(tools=(FunctionTool("a"), FunctionTool("b"))))
    assert [tool.name for tool in request.tools if isinstance(tool, FunctionTool)] == ["b", "a"]


def test_tool_choice_is_renamed() -> None:
    choices = [NamedToolChoice("find"), NamedToolChoice("find", namespace="other"), None]
    renamed = [changed(RENAME, Request(tool_choice=choice))[0].tool_choice for choice in choices]
    assert renamed == [NamedToolChoice("search"), choices[1], None]


# AddSystemMessage


def test_system_message_is_the_first_one() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    sent = adapters.translate_request(
        body,
        client="chat",
        backend="responses",
        transforms=[AddSystemMessage("Be brief.", "developer")],
    )
    first, *_ = json.loads(sent.body)["input"]
    assert (first["role"], first["content"]) == ("developer", "Be brief.")
    losses = [str(loss) for loss in sent.losses]
    assert "invented messages: AddSystemMessage: a developer message was added" in losses


# RedactText

REDACT = RedactText((r"\d{3}-\d{4}", "secret.*"), r"<\1>")


def test_texts_of_requests_are_redacted() -> None:
    request = Request(
        instructions="Call 555-1234.",
        items=(
            Message("user", (Text("555-1234\nsecret word\nnext"), Refusal("a secret"))),
            ToolCall("c", "f", '{"a": [1.50, "555-1234"], "555-1234": null}'),
            ToolCall("c", "f", '{"a": "555-1234'),
            ToolOutput("c", '["a \\"secret\\""]'),
            ToolOutput("c", (Text("secret"),)),
            Reasoning(("secret",), ("no match",)),
            Message("user", (Text("no match"),)),
        ),
    )
    redacted, losses = changed(REDACT, request)
    assert redacted == Request(
        instructions=r"Call <\1>.",
        items=(
            Message("user", (Text("<\\1>\n<\\1>\nnext"), Refusal(r"a <\1>"))),
            ToolCall("c", "f", r'{"a":[1.50,"<\\1>"],"555-1234":null}'),
            ToolCall("c", "f", r'{"a": "<\1>'),
            ToolOutput("c", r'["a \"<\\1>"]'),
            ToolOutput("c", (Text(r"<\1>"),)),
            Reasoning((r"<\1>",), ("no match",)),
            Message("user", (Text("no match"),)),
        ),
    )
    fields = ["instructions", *(f"items[{number}]" for number in range(6))]
    assert losses == [f"changed {field}: T: text was redacted" for field in fields]


def stream_of(*deltas: str, transform: Transform = REDACT) -> list[str]:
    """Return what a client receives after each delta of a text."""
    stream = Exchange("chat", "chat", transforms=(transform,)).stream()
    chunks = [chunk(json.dumps({"content": delta})) for delta in deltas]
    received = [stream.feed(one) for one in (*chunks, chunk("{}", '"stop"'))]
    received[-1] += stream.finish(started=True).body
    return ["".join(map(_text, payloads(one))) for one in received]


def _text(payload: JsonObject) -> str:
    choices = objects_in(payload, "choices")
    delta = object_in(choices[0], "delta") if choices else {}
    return str(delta.get("content", ""))


def test_match_that_is_split_over_deltas_is_redacted() -> None:
    received = stream_of("Call 5", "55-", "12", "34 or\n", "write", ".\nBye", "")
    assert received == ["", "", "", "Call <\\1> or\n", "", "write.\n", "", "Bye"]


def test_reply_is_not_redacted_if_only_requests_are() -> None:
    requests_only = RedactText(("secret",), replies=False)
    assert not requests_only.changes_replies
    replies_only = RedactText(("secret",), requests=False)
    body = b'{"model": "m", "messages": [{"role": "user", "content": "secret"}]}'
    sent = adapters.translate_request(
        body, client="chat", backend="chat", transforms=[replies_only]
    )
    assert sent.body == body
    assert stream_of("a secret", transform=replies_only)[-1] == "a [redacted]"


def redacted_reply(*items: Item) -> tuple[Reply, list[str]]:
    losses = Losses(None)
    reply = Reply(choices=(Choice(items, Finish("stop", "stop")),))
    events = Pipeline(*transform_stages((REDACT,), losses)).feed_all(list(to_events(reply)))
    return accumulate(events), [str(loss) for loss in losses]


def test_details_of_redacted_text_are_dropped() -> None:
    cited, scored = (Citation("u", "t", 0, 4),), (Logprob("a", 0.0),)
    kept = Text("no match", cited, scored)
    extras = (ExtraField("chat", "reasoning_details", msgspec.Raw(b"[]")),)
    items = (
        Message("assistant", (Text("secret", cited, scored), kept), status="completed", path="m"),
        Reasoning((), ("secret",), status="completed", extras=extras, path="r"),
        OpaqueItem("responses", "web_search_call", msgspec.Raw(b'"secret"')),
    )
    reply, losses = redacted_reply(*items)
    message, reasoning, opaque = reply.choices[0].items
    assert message == Message("assistant", (Text(r"<\1>"), kept), status="completed", path="m")
    assert reasoning == Reasoning((), (r"<\1>",), status="completed", path="r")
    assert opaque == items[-1]
    details = "log probabilities, annotations and details of redacted text are dropped"
    assert losses == [
        "changed m: RedactText: text was redacted",
        f"dropped m: RedactText: {details}",
        "changed r: RedactText: text was redacted",
        f"dropped r: RedactText: {details}",
    ]


def test_arguments_of_calls_are_redacted() -> None:
    call = ToolCall("c", "f", '{"a": "555-1234"}', status="completed", path="c")
    reply, losses = redacted_reply(call)
    assert reply.choices[0].items == (msgspec.structs.replace(call, arguments=r'{"a":"<\\1>"}'),)
    assert losses == ["changed c: RedactText: text was redacted"]


def test_texts_of_a_failed_reply_are_redacted() -> None:
    stream = Exchange("chat", "chat", transforms=(REDACT,)).stream()
    written = stream.feed(chunk('{"content":"Call 555-1234"}'))
    written += stream.finish(started=True).body
    assert b'"content":"Call <\\\\1>"' in written
    assert b"555" not in written


def test_arguments_that_are_nested_too_deeply_are_searched_as_text() -> None:
    arguments = '{"a":' * 900 + '"555-1234"' + "}" * 900
    request, _ = changed(REDACT, Request(items=(ToolCall("c", "f", arguments),)))
    [call] = request.items
    assert isinstance(call, ToolCall)
    assert call.arguments == arguments.replace("555-1234", r"<\1>")


# Options


@pytest.mark.parametrize(
    ("transform", "options", "message"),
    [
        (RenameTools, {"names": {"a": ""}}, "names must not be empty"),
        (RenameTools, {"names": {"a": "c", "b": "c"}}, "names must not give two tools the same"),
        (AddSystemMessage, {"text": " "}, "text must not be empty"),
        (RedactText, {"patterns": ["("]}, "patterns must be regular expressions, not '\\('"),
        (RedactText, {"patterns": ["a*"]}, "patterns must not match an empty text, as 'a\\*' does"),
    ],
)
def test_invalid_option_is_rejected(
    transform: type[Transform], options: dict[str, object], message: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(options, transform)
