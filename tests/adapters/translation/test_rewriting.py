"""Requests that are read and written again in their own dialect, because of their backend.

Nothing is lost that the backend's capabilities do not ask to lose.
"""

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec import Raw
from msgspec.structs import replace

import adapters
from adapters.ir.types import HostedTool
from tests.adapters.test_laws import (
    canonical,
    difference,
    few,
    read_request,
    shown,
    write_request,
)
from tests.corpus import DIALECTS, REQUESTS, DialectName, RequestCase, alone, on_wire
from tests.exchange import Exchange
from tests.strategies import ABLE, requests

# A backend that takes all that its dialect can say.
FULL = replace(ABLE, multimodal_tool_outputs=True, reasoning_items="text")

# What may be said in other words: a tool in another shape, a limit by its other name, a default.
REWORDED = frozenset(
    (
        "messages",
        "input",
        "tools",
        "functions",
        "tool_choice",
        "function_call",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "response_format",
        "text",
        "include",
        "stop",
        "store",
        "stream_options",
        "web_search_options",
    )
)


def rewriting(dialect: str, capabilities: adapters.Capabilities = FULL) -> Exchange:
    ids = adapters.deterministic_ids()
    return Exchange(dialect, dialect, ids=ids, capabilities=capabilities, rewrite=True)


def assert_rewritten(dialect: str, body: bytes) -> None:
    """Hold a request to what it was; one that is refused loses nothing in silence."""
    try:
        rewritten = rewriting(dialect).request(body)
    except adapters.DragomanError:
        return
    if rewritten.losses:
        return
    meant, kept = (meaning(dialect, one) for one in (body, rewritten.body))
    assert shown(meant) == shown(kept), difference(meant, kept)
    assert settings(body) == settings(rewritten.body)


def meaning(dialect: str, body: bytes) -> adapters.Request:
    """Read what is asked, less what may be said differently."""
    request = canonical(read_request(dialect, body))
    return replace(
        request,
        # Chat declares a web search elsewhere than other tools.
        tools=tuple(sorted(request.tools, key=lambda tool: isinstance(tool, HostedTool))),
        metadata=None if request.metadata == Raw(b"{}") else request.metadata,
        # Silence about it is told as what it means.
        extras=tuple(extra for extra in request.extras if extra.name != "store"),
    )


def settings(body: bytes) -> dict[str, object]:
    """Give the fields that must be the very same; those that say nothing may go."""
    return {
        name: value
        for name, value in cast("dict[str, object]", json.loads(body)).items()
        if name not in REWORDED and value is not None and value not in ([], {})
    }


@pytest.mark.parametrize("case", alone(REQUESTS))
def test_a_request_of_the_corpus_keeps_its_meaning(case: RequestCase) -> None:
    assert_rewritten(case.dialect, on_wire(case.body))


@pytest.mark.parametrize("dialect", DIALECTS)
@few
@given(data=st.data())
def test_a_request_keeps_its_meaning(dialect: DialectName, data: DataObject) -> None:
    assert_rewritten(dialect, write_request(dialect, data.draw(requests(dialect))))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_most_requests_lose_nothing(dialect: str) -> None:
    cases = [case for case in REQUESTS if case.dialect == dialect]
    whole = 0
    for case in cases:
        try:
            whole += not rewriting(dialect).request(on_wire(case.body)).losses
        except adapters.DragomanError:
            continue
    assert whole > len(cases) * 2 / 3


@pytest.mark.parametrize("case", alone(REQUESTS))
def test_what_was_rewritten_once_stays(case: RequestCase) -> None:
    try:
        once = rewriting(case.dialect, case.capabilities).request(on_wire(case.body)).body
    except adapters.DragomanError:
        return
    assert rewriting(case.dialect, case.capabilities).request(once).body == once
