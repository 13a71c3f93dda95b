"""Differences in meaning between JSON bodies."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.comparison import Difference, NormalBody, compare_json
from adapters.conformance import Json


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "Compare Paris and Rome."},
        {
            "role": "assistant",
            "tool_calls": [
                call("a", "weather", '{"city":"Paris"}'),
                call("b", "weather", '{"city":"Rome"}'),
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
        {"role": "tool", "tool_call_id": "b", "content": "sun"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "parameters": {"type": "object", "properties": {"id": {"type": "string"}}},
            },
        },
        {"type": "function", "function": {"name": "time"}},
    ],
}


@pytest.fixture
def other() -> dict[str, Any]:
    return copy.deepcopy(REQUEST)


def test_other_ids_with_the_same_pairs_are_equal() -> None:
    renamed = json.dumps(REQUEST).replace('"a"', '"call_1"').replace('"b"', '"call_2"')
    assert compare_json(REQUEST, json.loads(renamed)) == []


def test_exchanged_outputs_are_a_difference(other: dict[str, Any]) -> None:
    other["messages"][2]["tool_call_id"] = "b"
    other["messages"][3]["tool_call_id"] = "a"
    assert {difference.path for difference in compare_json(REQUEST, other)} == {
        "messages[2].tool_call_id",
        "messages[3].tool_call_id",
    }


def test_exchanged_calls_with_the_same_ids_are_a_difference(other: dict[str, Any]) -> None:
    """The ids are the same texts, but belong to other calls."""
    first, second = other["messages"][1]["tool_calls"]
    first["id"], second["id"] = "b", "a"
    paths = {difference.path for difference in compare_json(REQUEST, other)}
    assert {"messages[2].tool_call_id", "messages[3].tool_call_id"} <= paths


def test_inserted_message_is_one_difference(other: dict[str, Any]) -> None:
    message: Json = {"role": "system", "content": "Be brief."}
    other["messages"].insert(0, message)
    assert compare_json(REQUEST, other) == [Difference("messages[0]", "extra", right=message)]
    assert compare_json(other, REQUEST) == [Difference("messages[0]", "missing", left=message)]


def test_arguments_are_compared_as_json(other: dict[str, Any]) -> None:
    other["messages"][1]["tool_calls"][0]["function"]["arguments"] = '{ "city": "Par\\u0069s" }'
    assert compare_json(REQUEST, other) == []
    other["messages"][1]["tool_calls"][0]["function"]["arguments"] = '{"city": "Oslo"}'
    path = "messages[1].tool_calls[0].function.arguments.city"
    assert compare_json(REQUEST, other) == [Difference(path, "changed", "Paris", "Oslo")]


def test_order_of_tools_is_ignored(other: dict[str, Any]) -> None:
    other["tools"].reverse()
    assert compare_json(REQUEST, other) == []


def test_tools_are_matched_by_name(other: dict[str, Any]) -> None:
    tool = other["tools"].pop(0)
    assert compare_json(other, REQUEST) == [
        Difference("tools[weather]", "extra", right={"function": tool["function"]})
    ]


def test_field_of_a_schema_that_is_named_id_is_compared(other: dict[str, Any]) -> None:
    other["tools"][0]["function"]["parameters"]["properties"]["id"] = {"type": "integer"}
    [difference] = compare_json(REQUEST, other)
    assert difference.path == "tools[weather].function.parameters.properties.id.type"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"content": "hi"}, {"content": [{"type": "text", "text": "hi"}]}),
        ({"content": None}, {}),
        ({"stream": False, "n": 1}, {}),
        ({"input": "hi"}, {"input": [{"type": "message", "role": "user", "content": "hi"}]}),
        ({"id": "a", "created": 1, "object": "x"}, {"id": "b", "created": 2, "object": "x"}),
        ({"a": "key [redacted], end"}, {"a": "key sk-1\n2, end"}),
        ({"a": "key [redacted:1], end"}, {"a": "key [redacted:12], end"}),
    ],
)
def test_other_forms_of_a_value_are_equal(left: Any, right: Any) -> None:
    assert compare_json(left, right) == []
    assert compare_json(right, left) == []


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {}),
        ({"a": False}, {}),
        ({"prompt": {"id": "p1"}}, {"prompt": {"id": "p2"}}),
        ({"metadata": {"created": "1"}}, {"metadata": {"created": "2"}}),
        ({"a": "key [redacted], end"}, {"a": "key sk-1"}),
        ({"a": "key [redacted], end"}, {"a": "a key sk-1, end"}),
        ({"a": "[redacted]-a-[redacted]-b-"}, {"a": "1-a-b-"}),
        ([1, 2], [2, 1]),
    ],
)
def test_other_values_are_different(left: Any, right: Any) -> None:
    assert compare_json(left, right)
    assert compare_json(right, left)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab[", max_size=3),
    lambda values: (
        st.lists(values, max_size=4)
        | st.dictionaries(st.sampled_from(("a", "content", "tools", "id", "type")), values)
    ),
    max_leaves=20,
)


@given(JSON)
def test_a_body_equals_itself(body: Json) -> None:
    assert compare_json(body, copy.deepcopy(body)) == []


@given(JSON, JSON)
def test_bodies_differ_in_both_directions(left: Json, right: Json) -> None:
    there, back = compare_json(left, right), compare_json(right, left)
    assert (there == []) == (back == [])


@given(JSON, JSON)
def test_fingerprints_are_equal_if_nothing_differs(left: Json, right: Json) -> None:
    equal = NormalBody(left).fingerprint() == NormalBody(right).fingerprint()
    assert equal <= (compare_json(left, right) == [])
