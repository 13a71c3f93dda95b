import pytest

from adapters import InvalidRequestError
from gateway.http.request_body import parse_request

CHAT_PATH = "/chat/completions"
RESPONSES_PATH = "/responses"

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
    assert parse_request(body.encode(), CHAT_PATH).dialect.name == "legacy"


@pytest.mark.parametrize("body", CHAT.values(), ids=CHAT)
def test_all_else_at_that_address_is_chat(body: str) -> None:
    seen = parse_request(body.encode(), CHAT_PATH)
    assert (seen.dialect.name, seen.model) == ("chat", "m")


def test_responses_have_their_own_address() -> None:
    seen = parse_request(b'{"model": "m", "input": "hi", "functions": []}', RESPONSES_PATH)
    assert (seen.dialect.name, seen.model) == ("responses", "m")


@pytest.mark.parametrize(
    ("endpoint", "body", "path", "where"),
    [
        (CHAT_PATH, b'{"model": "m", "input": "hi"}', "input", "/v1/responses"),
        (RESPONSES_PATH, b'{"model": "m", "messages": []}', "messages", "/v1/chat/completions"),
    ],
)
def test_a_body_at_the_wrong_address_is_told_where_it_belongs(
    endpoint: str, body: bytes, path: str, where: str
) -> None:
    with pytest.raises(InvalidRequestError, match=where) as raised:
        parse_request(body, endpoint)
    assert raised.value.path == path


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the body is not valid JSON"),
        (b"[]", "the body must be an object"),
        (b'{"model": ', "the body is not valid JSON"),
        (b'{"model": 3, "messages": []}', "model must be a string"),
        (b'{"model": "m\xff", "messages": []}', "not UTF-8"),
        (b"[" * 100_000, "nested too deeply|must be an object"),
    ],
)
def test_what_cannot_be_looked_over_is_explained(body: bytes, why: str) -> None:
    with pytest.raises(InvalidRequestError, match=why):
        parse_request(body, CHAT_PATH)


def test_half_a_character_in_a_text_does_no_harm() -> None:
    body = b'{"model": "m", "messages": [{"role": "user", "content": "\\ud83d"}]}'
    assert parse_request(body, CHAT_PATH).model == "m"
