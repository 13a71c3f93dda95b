"""How a request is parsed, and which fields of a stored request its backend gets."""

import pytest

from adapters import InvalidRequestError, parse_body
from gateway.http.request_body import parse_request
from gateway.pipeline.persistence import without_stored_fields

CHAT_PATH = "/chat/completions"
RESPONSES_PATH = "/responses"
LEGACY = {
    "functions": '"messages": [], "functions": []',
    "function_call": '"messages": [], "function_call": "auto"',
    "output of a function": '"messages": [{"role": "function", "name": "f", "content": "1"}]',
    "call of a function": '"messages": [{"role": "assistant", "content": null,'
    ' "function_call": {"name": "f", "arguments": "{}"}}]',
}
CHAT = {
    "text": '"messages": [{"role": "user", "content": "hi"}]',
    "tools": '"messages": [], "tools": []',
    "null functions": '"messages": [], "functions": null',
    "text about functions": '"messages": [{"role": "user", "content": "\\"function_call\\""}]',
    "a call in both forms": '"messages": [{"role": "assistant", "tool_calls": [],'
    ' "function_call": {"name": "f"}}]',
    "invalid messages": '"messages": "\\"function_call\\""',
    "half a character": '"messages": [{"role": "user", "content": "\\ud83d"}]',
}


@pytest.mark.parametrize(
    ("path", "fields", "dialect"),
    [
        *[pytest.param(CHAT_PATH, LEGACY[name], "legacy", id=name) for name in LEGACY],
        *[pytest.param(CHAT_PATH, CHAT[name], "chat", id=name) for name in CHAT],
        pytest.param(RESPONSES_PATH, '"input": "hi", "functions": []', "responses", id="responses"),
    ],
)
def test_dialect_follows_from_the_path_and_functions(path: str, fields: str, dialect: str) -> None:
    parsed = parse_request(b'{"model": "m", %s}' % fields.encode(), path)
    assert (parsed.dialect.name, parsed.model) == (dialect, "m")


@pytest.mark.parametrize(
    ("endpoint", "body", "path", "other_path"),
    [
        (CHAT_PATH, b'{"model": "m", "input": "hi"}', "input", "/v1/responses"),
        (RESPONSES_PATH, b'{"model": "m", "messages": []}', "messages", "/v1/chat/completions"),
    ],
)
def test_error_of_a_body_at_the_wrong_path_names_the_right_one(
    endpoint: str, body: bytes, path: str, other_path: str
) -> None:
    with pytest.raises(InvalidRequestError, match=other_path) as raised:
        parse_request(body, endpoint)
    assert raised.value.path == path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not valid JSON"),
        (b"[]", "the body must be an object"),
        (b'{"model": ', "the body is not valid JSON"),
        (b'{"model": 3, "messages": []}', "model must be a string"),
        (b'{"model": "m\xff", "messages": []}', "not UTF-8"),
        (b"[" * 100_000, "nested too deeply|must be an object"),
    ],
)
def test_invalid_body_is_explained(body: bytes, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        parse_request(body, CHAT_PATH)


@pytest.mark.parametrize(
    ("stateful", "unsupported", "kept"),
    [
        (False, (), {"store", "metadata"}),
        (False, ("seed",), {"store", "metadata"}),
        (False, ("store",), {"metadata"}),
        (False, ("store", "metadata"), set[str]()),
        (True, (), {"metadata"}),
        (True, ("metadata",), set[str]()),
    ],
)
def test_backend_gets_the_stored_fields_that_it_supports(
    stateful: bool,  # noqa: FBT001 - a parameter of the test
    unsupported: tuple[str, ...],
    kept: set[str],
) -> None:
    fields = b'{"model":"m","store":true,"metadata":{"a":"b"},"messages":[],"seed":1.0}'
    sent = without_stored_fields(parse_body(fields), unsupported, stateful=stateful)
    assert set(sent.fields) == {"model", "messages", "seed"} | kept
    assert bytes(sent.fields["seed"]) == b"1.0"
