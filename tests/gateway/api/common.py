"""Helpers for the tests of stored objects."""

from collections.abc import Callable, Iterable

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import Script, json_reply, stream_reply, truncated_reply
from tests.gateway.backend_replies import Turn, error_events, stream_events
from tests.gateway.raw_http import RawResponse
from tests.judges.sdk import judge_error


def metadata_pairs(count: int) -> dict[str, str]:
    return {f"name{number}": "value" for number in range(count)}


INVALID_METADATA: list[tuple[dict[str, object], str]] = [
    ({"metadata": metadata_pairs(17)}, "metadata"),
    ({"metadata": {"n" * 65: "v"}}, "metadata"),
    ({"metadata": {"n": "v" * 513}}, "metadata.n"),
]


def failing_replies(dialect: str, *, streamed: bool) -> tuple[Script, Script]:
    """Return an error and a truncated reply."""
    if not streamed:
        error = b'{"error":{"message":"no","type":"x","param":null,"code":null}}'
        return json_reply(error, status=500), json_reply(b"{")
    start = stream_events(dialect, Turn("Half an answer"))[:3]
    return stream_reply(*start, *error_events(dialect, "no more")), truncated_reply(*start)


def assert_invalid(response: RawResponse, param: str) -> None:
    """Check that a request was rejected with an error that names the parameter."""
    assert response.status == 400
    judge_error(response.body)
    assert response.error["param"] == param


def not_found_body(call: Callable[[], object]) -> str:
    """Return the body of the 404 that a call of the SDK receives."""
    with pytest.raises(openai.NotFoundError) as caught:
        call()
    return caught.value.response.text


def assert_indistinguishable(
    names: Iterable[str], make_calls: Callable[[str], list[Callable[[], object]]], code: str
) -> None:
    """Check that the calls for each of these names receive the same errors with this code."""
    first, *others = (
        [not_found_body(call).replace(name, "NAME") for call in make_calls(name)] for name in names
    )
    assert all(other == first for other in others)
    assert all(code in body for body in first)
