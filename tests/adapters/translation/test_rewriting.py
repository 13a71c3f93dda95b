"""Requests that are rewritten in their own dialect lose only what the capabilities require."""

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
from tests.adapters.laws.canonical import canonical_request
from tests.adapters.laws.common import few_examples, flat, read_request, write_request
from tests.corpus import DIALECTS, REQUESTS, DialectName, RequestCase, case_params, on_wire
from tests.exchange import Exchange
from tests.strategies.requests import requests
from tests.strategies.values import FULL_CAPABILITIES

# A backend that accepts everything that its dialect has.
FULL = replace(FULL_CAPABILITIES, multimodal_tool_outputs=True, reasoning_items="text")

# Fields that may be written differently: a tool in another form, another name, a default.
REWRITTEN_FIELDS = {
    *("messages", "input", "tools", "functions", "tool_choice", "function_call", "include"),
    *("parallel_tool_calls", "max_tokens", "max_completion_tokens", "response_format", "text"),
    *("stop", "store", "stream_options", "web_search_options"),
}


def rewriting_exchange(dialect: str, capabilities: adapters.Capabilities = FULL) -> Exchange:
    return Exchange(dialect, dialect, capabilities=capabilities, rewrite=True)


def assert_rewritten(dialect: str, body: bytes) -> None:
    """Check that a request stays equal, unless it is refused or losses are reported."""
    try:
        rewritten = rewriting_exchange(dialect).request(body)
    except adapters.DragomanError:
        return
    if rewritten.losses:
        return
    assert flat(comparable(dialect, rewritten.body)) == flat(comparable(dialect, body))
    assert settings(body) == settings(rewritten.body)


def comparable(dialect: str, body: bytes) -> adapters.Request:
    """Read a request without what may be written differently."""
    request = canonical_request(read_request(dialect, body))
    return replace(
        request,
        # Chat declares a web search apart from other tools.
        tools=tuple(sorted(request.tools, key=lambda tool: isinstance(tool, HostedTool))),
        metadata=None if request.metadata == Raw(b"{}") else request.metadata,
        # Its default is written.
        extras=tuple(extra for extra in request.extras if extra.name != "store"),
    )


def settings(body: bytes) -> dict[str, object]:
    """Return the fields that must be equal; empty ones may be omitted."""
    return {
        name: value
        for name, value in cast("dict[str, object]", json.loads(body)).items()
        if name not in REWRITTEN_FIELDS and value is not None and value not in ([], {})
    }


@pytest.mark.parametrize("case", case_params(REQUESTS))
def test_rewritten_case_is_equal(case: RequestCase) -> None:
    assert_rewritten(case.dialect, on_wire(case.body))


@pytest.mark.parametrize("dialect", DIALECTS)
@few_examples
@given(data=st.data())
def test_rewritten_request_is_equal(dialect: DialectName, data: DataObject) -> None:
    assert_rewritten(dialect, write_request(dialect, data.draw(requests(dialect))))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_most_cases_have_no_losses(dialect: str) -> None:
    cases = [case for case in REQUESTS if case.dialect == dialect]
    without_losses = 0
    for case in cases:
        try:
            without_losses += not rewriting_exchange(dialect).request(on_wire(case.body)).losses
        except adapters.DragomanError:
            continue
    assert without_losses > len(cases) * 2 / 3


@pytest.mark.parametrize("case", case_params(REQUESTS))
def test_rewriting_twice_changes_nothing_more(case: RequestCase) -> None:
    try:
        once = rewriting_exchange(case.dialect, case.capabilities).request(on_wire(case.body)).body
    except adapters.DragomanError:
        return
    assert rewriting_exchange(case.dialect, case.capabilities).request(once).body == once
