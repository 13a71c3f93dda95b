import pytest

from adapters import InvalidRequestError
from adapters.ir.types import Family
from gateway.pipeline.request import outline

LEGACY = {
    "functions": '{"model": "m", "messages": [], "functions": []}',
    "function_call": '{"model": "m", "messages": [], "function_call": "auto"}',
    "an answer of a function": (
        '{"model": "m", "messages": [{"role": "function", "name": "f", "content": "1"}]}'
    ),
    "a call of a function": (
        '{"model": "m", "messages": [{"role": "assistant", "content": null,'
        ' "function_call": {"name": "f", "arguments": "{}"}}]}'
    ),
}
CHAT = {
    "text": '{"model": "m", "messages": [{"role": "user", "content": "hi"}]}',
    "tools": '{"model": "m", "messages": [], "tools": []}',
    "null functions": '{"model": "m", "messages": [], "functions": null}',
    "words about functions": (
        '{"model": "m", "messages": [{"role": "user", "content": "\\"function_call\\""}]}'
    ),
    "a call in both forms": (
        '{"model": "m", "messages": [{"role": "assistant", "tool_calls": [],'
        ' "function_call": {"name": "f"}}]}'
    ),
    "messages that are none": '{"model": "m", "messages": "\\"function_call\\""}',
}


@pytest.mark.parametrize("body", LEGACY.values(), ids=LEGACY)
def test_legacy_is_told_by_its_functions(body: str) -> None:
    assert outline(body.encode(), "completions").dialect == "legacy"


@pytest.mark.parametrize("body", CHAT.values(), ids=CHAT)
def test_all_else_at_that_address_is_chat(body: str) -> None:
    seen = outline(body.encode(), "completions")
    assert (seen.dialect, seen.model) == ("chat", "m")


def test_responses_have_their_own_address() -> None:
    seen = outline(b'{"model": "m", "input": "hi", "functions": []}', "responses")
    assert (seen.dialect, seen.model) == ("responses", "m")


@pytest.mark.parametrize(
    ("family", "body", "path", "where"),
    [
        ("completions", b'{"model": "m", "input": "hi"}', "input", "/v1/responses"),
        ("responses", b'{"model": "m", "messages": []}', "messages", "/v1/chat/completions"),
    ],
)
def test_a_body_at_the_wrong_address_is_told_where_it_belongs(
    family: Family, body: bytes, path: str, where: str
) -> None:
    with pytest.raises(InvalidRequestError, match=where) as raised:
        outline(body, family)
    assert raised.value.path == path


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "malformed JSON"),
        (b"[]", "expected object"),
        (b'{"model": ', "malformed JSON"),
        (b'{"model": 3, "messages": []}', "model: expected a string"),
        (b'{"messages": []}', "model: it is missing"),
        (b'{"model": "", "messages": []}', "model: it is missing"),
        (b'{"model": "m\xff", "messages": []}', "not UTF-8"),
        (b"[" * 100_000, "nested too deeply|expected object"),
    ],
)
def test_what_cannot_be_looked_over_is_explained(body: bytes, why: str) -> None:
    with pytest.raises(InvalidRequestError, match=why):
        outline(body, "completions")


def test_half_a_character_in_a_text_does_no_harm() -> None:
    body = b'{"model": "m", "messages": [{"role": "user", "content": "\\ud83d"}]}'
    assert outline(body, "completions").model == "m"
