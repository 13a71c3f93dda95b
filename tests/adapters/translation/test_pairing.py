"""Pairing gives each call of any history one output, and each output its call."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import Raw
from msgspec.structs import replace

from adapters.ir.types import (
    Item,
    Message,
    OpaqueItem,
    Reasoning,
    Request,
    Text,
    ToolCall,
    ToolOutput,
)
from adapters.losses import Loss, Losses
from adapters.translation.fit import NO_OUTPUT, pair_tool_calls
from tests.strategies.requests import requests
from tests.strategies.values import DIALECT_NAMES, DialectName

USER = Message("user", (Text("and then?"),))
ASSISTANT = Message("assistant", (Text("let me see"),))
REASONING = Reasoning(summary=("hm",))
CALL = ToolCall("a", "f", "{}")

# Few ids and names, so that they collide, and an id that is too long for any server.
LONG = "call_" + "x" * 70
_ids = st.sampled_from(["a", "b", "a_2", LONG])
_names = st.sampled_from(["f", "g"])
_arguments = st.sampled_from(["{}", '{"n": 1}', "", "  "])
_kinds = st.sampled_from(["function", "custom"])
_item_ids = st.sampled_from([None, None, "fc_1", "fc_2"])
_calls = st.builds(ToolCall, _ids, _names, _arguments, _kinds, item_id=_item_ids)
_texts = st.sampled_from(["done", "", (Text("one"), Text("two"))])
_outputs = st.builds(
    ToolOutput, st.none() | _ids, _texts, name=st.none() | _names, item_id=_item_ids | st.just("a")
)
_others: SearchStrategy[Item] = st.sampled_from([USER, ASSISTANT, REASONING])
histories = st.lists(st.one_of(_calls, _outputs, _others), max_size=8).map(tuple)


def pair(items: tuple[Item, ...], *, ends_open: bool = False) -> tuple[Request, list[Loss]]:
    losses = Losses(None)
    request = pair_tool_calls(Request(items=items), losses, ends_open=ends_open)
    return request, list(losses)


def texts_of(item: Item) -> list[str]:
    match item:
        case ToolOutput(output=str(text)):
            return [text]
        case ToolOutput(output=parts) | Message(role="user", content=parts):
            return [part.text for part in parts if isinstance(part, Text)]
        case _:
            return []


@given(items=histories)
def test_every_call_has_one_later_output(items: tuple[Item, ...]) -> None:
    pending: dict[str, ToolCall] = {}
    call_ids: list[str] = []
    for item in pair(items)[0].items:
        if isinstance(item, ToolCall):
            assert item.call_id not in call_ids
            assert 0 < len(item.call_id) <= 64
            call_ids.append(item.call_id)
            pending[item.call_id] = item
        elif isinstance(item, ToolOutput):
            assert item.call_id in pending
            assert item.kind == pending.pop(item.call_id).kind
    assert pending == {}


@given(items=histories)
def test_paired_items_stay_as_they_are(items: tuple[Item, ...]) -> None:
    once, _ = pair(items)
    again, losses = pair(once.items)
    assert again.items == once.items
    assert losses == []


@given(items=histories)
def test_calls_and_other_items_are_neither_lost_nor_changed(items: tuple[Item, ...]) -> None:
    request, losses = pair(items)
    others = [item for item in request.items if item in (USER, ASSISTANT, REASONING)]
    assert others == [item for item in items if not isinstance(item, ToolCall | ToolOutput)]
    before, after = (
        [(call.name, call.arguments.strip()) for call in side if isinstance(call, ToolCall)]
        for side in (items, request.items)
    )
    assert [name for name, _ in after] == [name for name, _ in before]
    assert all(new in (old, "{}") for (_, old), (_, new) in zip(before, after, strict=True))
    invented = sum(loss.action == "invented" for loss in losses)
    assert (len(request.items) > len(items)) == bool(invented)


@given(items=histories)
def test_every_item_has_the_path_of_an_item_of_the_client(items: tuple[Item, ...]) -> None:
    request, _ = pair(items)
    assert len(request.paths) in (0, len(request.items))
    assert set(request.paths) <= {f"items[{number}]" for number in range(len(items))}


@given(items=histories)
def test_texts_of_all_outputs_are_written(items: tuple[Item, ...]) -> None:
    outputs = [item for item in items if isinstance(item, ToolOutput)]
    written = [text for item in pair(items)[0].items for text in texts_of(item)]
    for text, times in Counter(text for output in outputs for text in texts_of(output)).items():
        assert sum(one.endswith(text) for one in written) >= times


@pytest.mark.parametrize("name", DIALECT_NAMES)
@given(data=st.data())
def test_valid_requests_stay_as_they_are(name: DialectName, data: st.DataObject) -> None:
    request = data.draw(requests(name))
    losses = Losses(None)
    # Chat learns the kind of an output from its call.
    paired, expected = (
        [replace(one, kind="function") if isinstance(one, ToolOutput) else one for one in items]
        for items in (pair_tool_calls(request, losses).items, request.items)
    )
    assert paired == expected
    assert list(losses) == []


def test_request_without_calls_is_returned_itself() -> None:
    request = Request(items=(USER, ASSISTANT))
    assert pair_tool_calls(request, Losses(None)) is request


def test_missing_output_is_added_after_the_turn_of_the_assistant() -> None:
    request, losses = pair((CALL, ASSISTANT, USER))
    assert request.items == (CALL, ASSISTANT, ToolOutput("a", NO_OUTPUT), USER)
    assert [(loss.action, loss.severity) for loss in losses] == [("invented", "capability")]
    opaque = OpaqueItem("responses", "web_search_call", Raw(b"{}"))
    types = [type(item) for item in pair((CALL, opaque, USER))[0].items]
    assert types == [ToolCall, ToolOutput, OpaqueItem, Message]


def test_output_before_its_call_becomes_user_text() -> None:
    request, losses = pair((ToolOutput("a", "early"), CALL))
    first, *others = request.items
    assert isinstance(first, Message)
    assert first.role == "user"
    assert "early" in texts_of(first)[0]
    assert others == [CALL, ToolOutput("a", NO_OUTPUT)]
    assert [loss.action for loss in losses] == ["changed", "invented"]


def test_output_without_a_call_keeps_its_parts() -> None:
    parts = (Text("one"), Text("two"))
    request, losses = pair((ToolOutput("gone", parts),))
    (message,) = request.items
    assert isinstance(message, Message)
    assert message.content[-2:] == parts
    assert [loss.severity for loss in losses] == ["capability"]


def test_repeated_ids_are_made_unique_with_their_outputs() -> None:
    items = (CALL, ToolOutput("a", "first"), USER, CALL, ToolOutput("a", "second"))
    request, losses = pair(items)
    first, second = (item.call_id for item in request.items if isinstance(item, ToolCall))
    outputs = {item.call_id: item.output for item in request.items if isinstance(item, ToolOutput)}
    assert first == "a" != second
    # Some servers reject short ids.
    assert len(second) >= 9
    assert outputs == {"a": "first", second: "second"}
    assert [loss.action for loss in losses] == ["changed"]


def test_output_without_an_id_is_paired_by_name() -> None:
    outputs = (ToolOutput(None, "of g", name="g"), ToolOutput(None, "of f", name="f"))
    request, losses = pair((CALL, ToolCall("b", "g", "{}"), *outputs))
    assert [item.call_id for item in request.items if isinstance(item, ToolOutput)] == ["b", "a"]
    assert losses == []


def test_output_may_have_the_item_id_of_the_call() -> None:
    call = replace(CALL, item_id="fc_1")
    request, losses = pair((call, ToolOutput(None, "done", item_id="fc_1")))
    assert request.items[1] == ToolOutput("a", "done", item_id="fc_1")
    assert losses == []


def test_long_id_is_shortened_in_call_and_output() -> None:
    request, losses = pair((ToolCall(LONG, "f", "{}"), ToolOutput(LONG, "done")))
    (call_id,) = {item.call_id for item in request.items if isinstance(item, ToolCall | ToolOutput)}
    assert call_id is not None
    assert len(call_id) <= 64
    assert [loss.action for loss in losses] == ["changed"]


def test_training_example_may_end_with_calls() -> None:
    items = (USER, CALL)
    assert pair(items, ends_open=True)[0].items == items
    assert pair((*items, USER), ends_open=True)[0].items[2] == ToolOutput("a", NO_OUTPUT)
