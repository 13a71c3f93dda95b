"""The effect of each profile on one request, and a case for every capability."""

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import fields
from syrupy.assertion import SnapshotAssertion

import adapters
from adapters.capabilities import GENERIC
from adapters.profiles import PROFILES
from gateway.pytest_plugin.formats import format_json, format_losses
from tests.corpus import REPLIES, REQUESTS, STREAMS
from tests.exchange import Exchange

# One request with everything that servers treat differently.
REQUEST = b"""{
    "model": "some-model",
    "instructions": "You run a shop.",
    "input": [
        {"role": "developer", "content": "Prices are in euros."},
        {"role": "user", "content": "Stock of A-17 and B-3?"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look twice."}]},
        {"type": "function_call", "call_id": "call_8zqkN2PfXw", "name": "check_stock",
            "arguments": "{\\"sku\\": \\"A-17\\"}"},
        {"type": "function_call", "call_id": "call_Qk31xYv7Lm", "name": "check_stock",
            "arguments": "{\\"sku\\": \\"B-3\\"}"},
        {"type": "function_call_output", "call_id": "call_8zqkN2PfXw", "output": "42"},
        {"type": "function_call_output", "call_id": "call_Qk31xYv7Lm", "output": [
            {"type": "input_text", "text": "7 units"},
            {"type": "input_text", "text": "2 reserved"}]},
        {"role": "developer", "content": "Answer in French from now on."},
        {"role": "user", "content": "And the price?"}],
    "tools": [
        {"type": "function", "name": "check_stock", "parameters": {"type": "object",
            "properties": {"sku": {"type": "string"}}, "required": ["sku"],
            "additionalProperties": false}, "strict": true},
        {"type": "function", "name": "get_price", "parameters": null, "strict": false},
        {"type": "custom", "name": "note", "description": "Takes a note."}],
    "tool_choice": {"type": "function", "name": "get_price"},
    "parallel_tool_calls": false,
    "max_output_tokens": 500,
    "reasoning": {"effort": "max"},
    "text": {"format": {"type": "json_schema", "name": "answer",
        "schema": {"type": "object", "properties": {"euros": {"type": "number"}}}}},
    "stream": true,
    "user": "u-1",
    "metadata": {"job": "7"},
    "top_k": 40,
    "chat_template_kwargs": {"enable_thinking": true}
}"""

# Capabilities that only the gateway uses.
OF_SERVICES = ("compaction", "count_tokens")


def send(profile: str, backend: str) -> dict[str, object]:
    exchange = Exchange("responses", backend, capabilities=PROFILES[profile], rewrite=True)
    sent = exchange.request(msgspec.json.format(REQUEST, indent=-1))
    return {"sent": Raw(sent.body), "losses": format_losses(sent.losses)}


@pytest.mark.parametrize("profile", PROFILES)
def test_profile_has_its_effect(profile: str, json_snapshot: SnapshotAssertion) -> None:
    page = format_json({backend: send(profile, backend) for backend in ("chat", "responses")})
    assert page == json_snapshot(name=profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_profile_is_not_another_one(profile: str) -> None:
    assert [name for name, one in PROFILES.items() if one == PROFILES[profile]] == [profile]


@pytest.mark.parametrize(
    "name", [one.name for one in fields(adapters.Capabilities) if one.name not in OF_SERVICES]
)
def test_every_capability_is_shown_by_a_case(name: str) -> None:
    usual: object = getattr(GENERIC, name)
    shown = [case.capabilities for case in REQUESTS]
    shown += [case.capabilities for case in REPLIES]
    shown += [case.capabilities for case in STREAMS]
    assert any(getattr(capabilities, name) != usual for capabilities in shown)
