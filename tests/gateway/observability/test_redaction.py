import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.observability.body_redaction import redact_body

SECRET = "f3c0-ee61"  # noqa: S105 - made up, to be looked for
FIELDS = (
    "api_key",
    "apiKey",
    "X-Api-Key",
    "Authorization",
    "password",
    "client_secret",
    "access_token",
    "token",
    "X-Auth-Token",
    "Set-Cookie",
    "private_key",
)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", [SECRET, [SECRET], {"a": SECRET}, f'a "{SECRET}"'])
def test_a_secret_field_is_blacked_out_wherever_it_stands(name: str, value: object) -> None:
    inside = {"tools": [{"headers": {name: value}}]}
    arguments = json.dumps({"run": json.dumps(inside)})
    for body in (inside, {"tool_calls": [{"function": {"arguments": arguments}}]}):
        assert SECRET not in redact_body(json.dumps(body).encode())
        assert "[redacted]" in redact_body(json.dumps(body).encode())


@pytest.mark.parametrize(
    "key",
    [
        "sk-abcdefghijklmnop",
        "dk-abcdefghijklmnop",
        "gsk_abcdefghijklmnop",
        "ghp_abcdefghijklmnop",
        "hf_abcdefghijklmnop",
        "AKIAABCDEFGHIJKLMNOP",
        "AIzaSyA1234567890abcdefghij",
        "Bearer abcdefghijkl",
    ],
)
def test_what_looks_like_a_key_is_blacked_out(key: str) -> None:
    for body in (json.dumps({"input": f"use {key} please"}), f"use {key} please"):
        assert key not in redact_body(body.encode())


def test_all_else_stays() -> None:
    body = '{"model":"m","max_tokens":5,"input":"a \\"quoted\\" word","usage":{"input_tokens":2}}'
    assert redact_body(body.encode()) == body


def test_pieces_of_arguments_are_left_out_of_a_stream() -> None:
    stream = (
        "event: response.function_call_arguments.delta\n"
        'data: {"type":"response.function_call_arguments.delta","delta":"{\\"key\\":\\"f3c0"}\n\n'
        'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"-ee61"}}]}}]}\n\n'
        "data: [DONE]\n\n"
    )
    told = redact_body(stream.encode())
    assert "f3c0" not in told
    assert "ee61" not in told
    assert told.count("[arguments]") == 2
    assert told.endswith("data: [DONE]\n\n")


@given(st.text() | st.binary())
def test_any_body_can_be_told(body: str | bytes) -> None:
    redact_body(body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass"))


def test_a_long_body_of_nothing_but_secrets_can_be_told() -> None:
    """A careless pattern looks from each word to the end, and takes hours for this."""
    whole = json.dumps({"input": "secret " * 300_000})
    assert redact_body(whole.encode()) == whole.replace('": "', '":"')
    broken = '"secret' * 300_000
    assert redact_body(broken.encode()) == broken
