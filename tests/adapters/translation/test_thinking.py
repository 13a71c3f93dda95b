"""Backends whose models think: switches, tool choices, efforts by model, and streams."""

import json
from typing import Any

import pytest

import adapters
from tests.exchange import exchange_between

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS}
FORCED: list[object] = ["required", {"type": "function", "function": {"name": "f"}}]


def send(
    profile: str, *, model: str = "m", backend: str = "chat", **fields: object
) -> tuple[Any, adapters.BackendRequest]:
    body = {**REQUEST, "model": model, **fields}
    sent = adapters.translate_request(body, client="chat", backend=backend, profile=profile)
    return json.loads(sent.body), sent


def severities(sent: adapters.BackendRequest, path: str) -> list[str]:
    return [loss.severity for loss in sent.losses if loss.path == path]


def test_call_of_a_model_that_does_not_think_can_be_forced() -> None:
    wire, sent = send("deepseek", model="deepseek-chat", tool_choice="required")
    assert wire["tool_choice"] == "required"
    assert severities(sent, "tool_choice") == []


@pytest.mark.parametrize("value", [True, False])
def test_tool_stream_of_the_client_is_not_replaced(*, value: bool) -> None:
    sent, request = send("glm", stream=True, tool_stream=value)
    assert sent["tool_stream"] is value
    assert severities(request, "tool_stream") == []


@pytest.mark.parametrize("choice", FORCED)
@pytest.mark.parametrize("fields", [{}, {"reasoning_effort": "high"}])
def test_forced_choice_never_reaches_a_thinking_model(choice: object, fields: Any) -> None:
    wire, sent = send("deepseek", tool_choice=choice, **fields)
    assert "tool_choice" not in wire
    assert "capability" in severities(sent, "tool_choice")


@pytest.mark.parametrize("choice", FORCED)
@pytest.mark.parametrize(
    "fields", [{"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}]
)
def test_forced_choice_passes_without_thinking(choice: object, fields: Any) -> None:
    wire, sent = send("deepseek", tool_choice=choice, **fields)
    assert wire["tool_choice"] == choice
    assert wire["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in wire
    assert not severities(sent, "tool_choice")


def test_forced_choice_passes_if_the_configuration_switches_thinking_off() -> None:
    capabilities = adapters.PROFILES["deepseek"]
    body = {**REQUEST, "tool_choice": "required"}
    off = {"thinking": {"type": "disabled"}}
    exchange = exchange_between(
        "chat",
        "chat",
        rewrite=True,
        extra_body=off,
        thinks_by_default=True,
        tool_choices_while_thinking=capabilities.tool_choices_while_thinking,
    )
    wire = json.loads(exchange.request(json.dumps(body).encode()).body)
    assert wire["tool_choice"] == "required"


def test_forced_choice_is_refused_by_policy() -> None:
    body = {**REQUEST, "tool_choice": "required"}
    with pytest.raises(adapters.UnsupportedRequestError) as caught:
        adapters.translate_request(
            body, client="chat", backend="chat", profile="deepseek", policy="refuse"
        )
    assert caught.value.path == "tool_choice"


@pytest.mark.parametrize(
    ("profile", "field", "value"),
    [
        ("deepseek", "thinking", {"type": "disabled"}),
        ("glm", "thinking", {"type": "disabled"}),
        ("kimi", "thinking", {"type": "disabled"}),
        ("minimax", "thinking", {"type": "disabled"}),
        ("vllm", "chat_template_kwargs", {"enable_thinking": False}),
        ("dashscope", "enable_thinking", False),
    ],
)
def test_effort_none_switches_thinking_off(profile: str, field: str, value: object) -> None:
    wire, _ = send(profile, reasoning_effort="none")
    assert wire[field] == value
    assert "reasoning_effort" not in wire
    for effort in ("minimal", "low", "high", "xhigh"):
        other, _ = send(profile, reasoning_effort=effort)
        assert field not in other


def test_clients_own_switch_is_kept() -> None:
    given = {"enable_thinking": True, "lang": "fr"}
    wire, sent = send("vllm", reasoning_effort="none", chat_template_kwargs=given)
    assert wire["chat_template_kwargs"] == given
    assert severities(sent, "reasoning_effort") == ["hint"]


@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        ("qwen3.5-plus", True),
        ("qwen3-235b-a22b", True),
        ("qwen3-30b-a3b-thinking-2507", True),
        ("qwen3-30b-a3b-instruct-2507", False),
        ("qwen3-coder-plus", False),
        ("qwen-plus-latest", False),
        ("qwen3-max", False),
    ],
)
def test_dashscope_forces_no_call_while_its_model_thinks(
    model: str,
    thinks: bool,  # noqa: FBT001 - a parameter
) -> None:
    wire, _ = send("dashscope", model=model, tool_choice="required")
    assert wire["tool_choice"] == ("auto" if thinks else "required")
    assert (wire.get("stream") is True) == thinks
    wire, _ = send("dashscope", model=model, tool_choice="required", enable_thinking=not thinks)
    assert wire["tool_choice"] == ("required" if thinks else "auto")


@pytest.mark.parametrize(
    ("model", "effort", "sent_effort"),
    [
        *((f"grok-{name}", "high", None) for name in ("3", "4", "4-fast", "4-1-fast", "4.20")),
        ("grok-code-fast-1", "high", None),
        ("grok-4.20-0309-reasoning", "low", None),
        ("grok-3-mini", "high", "high"),
        ("grok-3-mini-fast", "medium", "high"),
        ("grok-4.3", "medium", "medium"),
        ("x-ai/Grok-4.3", "none", "none"),
        ("grok-4.5", "none", "low"),
        ("grok-4.20-multi-agent-0309", "xhigh", "xhigh"),
        ("grok-9", "low", None),
    ],
)
def test_effort_of_xai_depends_on_the_model(
    model: str, effort: str, sent_effort: str | None
) -> None:
    for backend, path in (("chat", "reasoning_effort"), ("responses", "reasoning")):
        wire, sent = send("xai", model=model, backend=backend, reasoning_effort=effort)
        value = wire.get(path)
        assert (value["effort"] if isinstance(value, dict) else value) == sent_effort
        assert bool(severities(sent, "reasoning_effort")) == (effort != sent_effort)


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("glm-4.6", "high", {}),
        ("glm-4.6", "none", {"thinking": {"type": "disabled"}}),
        ("glm-5.2", "low", {"reasoning_effort": "high"}),
        ("glm-5.3-flash", "none", {"reasoning_effort": "low"}),
    ],
)
def test_effort_of_glm_depends_on_the_model(
    model: str, effort: str, expected: dict[str, object]
) -> None:
    wire, _ = send("glm", model=model, reasoning_effort=effort)
    switches = {name: wire[name] for name in ("thinking", "reasoning_effort") if name in wire}
    assert switches == expected


@pytest.mark.parametrize("stream", [True, False])
def test_glm_streams_arguments_if_the_client_streams(stream: bool) -> None:  # noqa: FBT001 - a parameter
    wire, _ = send("glm", stream=stream)
    assert wire.get("tool_stream") == (True if stream else None)


def test_minimax_splits_its_reasoning_and_gets_no_effort() -> None:
    for effort in ("low", "medium", "high", "xhigh"):
        wire, sent = send("minimax", model="MiniMax-M3", reasoning_effort=effort)
        assert wire["reasoning_split"] is True
        assert "reasoning_effort" not in wire
        assert severities(sent, "reasoning_effort") == ["hint"]


@pytest.mark.parametrize(
    ("fields", "streams"),
    [
        ({}, True),
        ({"enable_thinking": True}, True),
        ({"enable_thinking": False}, False),
        ({"reasoning_effort": "none"}, False),
        ({"enable_thinking": False, "stream": True}, True),
    ],
)
def test_whole_reply_of_a_thinking_model_is_requested_as_a_stream(
    fields: dict[str, Any],
    streams: bool,  # noqa: FBT001 - a parameter
) -> None:
    wire, sent = send("dashscope", **fields)
    assert (wire.get("stream") is True) == streams == sent.reply_plan.backend_streams
    assert sent.reply_plan.client_streams == bool(fields.get("stream"))


FUNCTION = {"name": "f", "arguments": "{}"}
CALL: dict[str, Any] = {"index": 0, "id": "call_123456789", "function": FUNCTION}
CHUNKS: list[dict[str, Any]] = [
    {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [CALL]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}},
]
HEAD: dict[str, Any] = {"id": "1", "model": "m", "created": 1}
EVENTS = [*(json.dumps(HEAD | chunk).encode() for chunk in CHUNKS), b"[DONE]"]
STREAM = b"".join(b"data: %s\n\n" % event for event in EVENTS)


@pytest.mark.parametrize("client", ["chat", "responses"])
def test_stream_of_a_thinking_model_is_a_whole_reply_for_the_client(client: str) -> None:
    items = {"chat": "messages", "responses": "input"}[client]
    body = {"model": "m", items: [{"role": "user", "content": "Hi"}], "tools": TOOLS}
    sent = adapters.translate_request(body, client=client, backend="chat", profile="dashscope")
    stream = adapters.ReplyTranslator(sent.reply_plan, streamed=True)
    assert stream.feed(STREAM) == b""
    reply = json.loads(stream.finish().body)
    assert reply["usage"]["total_tokens"] == 3
    if client == "chat":
        [call] = reply["choices"][0]["message"]["tool_calls"]
        assert (call["id"], call["function"]["name"]) == ("call_123456789", "f")
        assert reply["choices"][0]["message"]["reasoning_content"] == "Hm"
    else:
        assert [item["type"] for item in reply["output"]] == ["reasoning", "function_call"]
