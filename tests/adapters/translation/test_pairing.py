"""Pairing: whatever history comes, each call goes out answered once and each output to its call."""

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
from adapters.translation.pairing import NO_OUTPUT, pair_tool_calls
from tests.strategies import DIALECT_NAMES, DialectName, requests

USER = Message("user", (Text("and then?"),))
SAID = Message("assistant", (Text("let me see"),))

# Few ids and names, so that they collide; and one too long for any server.
LONG = "call_" + "x" * 70
_ids = st.sampled_from(["a", "b", "a_2", LONG])
_names = st.sampled_from(["f", "g"])
_calls = st.builds(
    ToolCall,
    _ids,
    _names,
    st.sampled_from(["{}", '{"n": 1}', "", "  "]),
    st.sampled_from(["function", "custom"]),
    item_id=st.none() | st.sampled_from(["fc_1", "fc_2"]),
)
_outputs = st.builds(
    ToolOutput,
    st.none() | _ids,
    st.sampled_from(["done", "", (Text("one"), Text("two"))]),
    name=st.none() | _names,
    item_id=st.none() | st.sampled_from(["fc_1", "fc_2", "a"]),
)
_others: SearchStrategy[Item] = st.sampled_from([USER, SAID, Reasoning(summary=("hm",))])
histories = st.lists(st.one_of(_calls, _outputs, _others), max_size=8).map(tuple)


def pair(items: tuple[Item, ...], *, ends_open: bool = False) -> tuple[Request, list[Loss]]:
    losses = Losses(None)
    request = pair_tool_calls(Request(items=items), losses, ends_open=ends_open)
    return request, list(losses)


# --- laws -------------------------------------------------------------------------------------


@given(items=histories)
def test_every_call_is_answered_once_and_later(items: tuple[Item, ...]) -> None:
    request, _ = pair(items)
    waiting: dict[str, ToolCall] = {}
    made: list[str] = []
    for item in request.items:
        match item:
            case ToolCall():
                assert item.call_id not in made
                made.append(item.call_id)
                waiting[item.call_id] = item
            case ToolOutput():
                assert item.call_id in waiting
                assert item.kind == waiting.pop(item.call_id).kind
            case _:
                pass
    assert waiting == {}
    assert all(0 < len(call_id) <= 64 for call_id in made)


@given(items=histories)
def test_nothing_is_paired_twice(items: tuple[Item, ...]) -> None:
    once, _ = pair(items)
    again, losses = pair(once.items)
    assert again.items == once.items
    assert losses == []


@given(items=histories)
def test_nothing_else_is_touched_and_nothing_is_lost(items: tuple[Item, ...]) -> None:
    request, losses = pair(items)
    kept = [item for item in request.items if item in (USER, SAID, Reasoning(summary=("hm",)))]
    assert kept == [item for item in items if not isinstance(item, ToolCall | ToolOutput)]
    before, after = (
        [(call.name, call.arguments.strip()) for call in those if isinstance(call, ToolCall)]
        for those in (items, request.items)
    )
    assert [name for name, _ in after] == [name for name, _ in before]
    assert all(other in (one, "{}") for (_, one), (_, other) in zip(before, after, strict=True))
    invented = sum(loss.action == "invented" for loss in losses)
    assert (len(request.items) > len(items)) == bool(invented)


@given(items=histories)
def test_every_item_has_its_path(items: tuple[Item, ...]) -> None:
    request, _ = pair(items)
    assert len(request.paths) in (0, len(request.items))
    known = {f"items[{number}]" for number in range(len(items))}
    assert set(request.paths) <= known


@given(items=histories)
def test_what_a_tool_answered_is_heard(items: tuple[Item, ...]) -> None:
    said = Counter(
        text for item in items if isinstance(item, ToolOutput) for text in texts_of(item)
    )
    request, _ = pair(items)
    heard = Counter(text for item in request.items for text in texts_of(item))
    for text, times in said.items():
        assert sum(heard[one] for one in heard if one.endswith(text)) >= times


def texts_of(item: Item) -> list[str]:
    match item:
        case ToolOutput(output=str(text)):
            return [text]
        case ToolOutput(output=parts) | Message(role="user", content=parts):
            return [part.text for part in parts if isinstance(part, Text)]
        case _:
            return []


@pytest.mark.parametrize("name", DIALECT_NAMES)
@given(data=st.data())
def test_what_is_in_order_stays_as_it_is(name: DialectName, data: st.DataObject) -> None:
    request = data.draw(requests(name))
    losses = Losses(None)
    untold = [without_kind(item) for item in pair_tool_calls(request, losses).items]
    assert untold == [without_kind(item) for item in request.items]
    assert list(losses) == []


def without_kind(item: Item) -> Item:
    """Forget the kind of an output, which Chat learns from the call."""
    return replace(item, kind="function") if isinstance(item, ToolOutput) else item


# --- cases ------------------------------------------------------------------------------------


def test_without_calls_the_request_is_the_same() -> None:
    request = Request(items=(USER, SAID))
    assert pair_tool_calls(request, Losses(None)) is request


def test_an_unanswered_call_is_answered_before_anybody_else_speaks() -> None:
    call = ToolCall("a", "f", "{}")
    request, losses = pair((call, SAID, USER))
    assert request.items == (call, SAID, ToolOutput("a", NO_OUTPUT), USER)
    assert [(loss.action, loss.severity) for loss in losses] == [("invented", "capability")]


def test_a_late_output_still_answers() -> None:
    items = (ToolCall("a", "f", "{}"), USER, ToolOutput("a", "late"))
    assert pair(items)[0].items == items


def test_an_output_before_its_call_is_user_text() -> None:
    request, losses = pair((ToolOutput("a", "early"), ToolCall("a", "f", "{}")))
    first, call, invented = request.items
    assert isinstance(first, Message)
    assert first.role == "user"
    assert "early" in texts_of(first)[0]
    assert (call, invented) == (ToolCall("a", "f", "{}"), ToolOutput("a", NO_OUTPUT))
    assert [loss.action for loss in losses] == ["changed", "invented"]


def test_an_orphan_keeps_its_parts() -> None:
    parts = (Text("one"), Text("two"))
    request, losses = pair((ToolOutput("gone", parts),))
    (said,) = request.items
    assert isinstance(said, Message)
    assert said.content[-2:] == parts
    assert [loss.severity for loss in losses] == ["capability"]


def test_ids_that_repeat_are_made_unique_with_their_outputs() -> None:
    turn = (ToolCall("a", "f", "{}"), ToolOutput("a", "first"), USER)
    again = (ToolCall("a", "f", "{}"), ToolOutput("a", "second"))
    request, losses = pair((*turn, *again))
    first, second = (item for item in request.items if isinstance(item, ToolCall))
    outputs = {item.call_id: item.output for item in request.items if isinstance(item, ToolOutput)}
    assert first.call_id == "a"
    assert second.call_id != "a"
    assert outputs == {"a": "first", second.call_id: "second"}
    assert [loss.action for loss in losses] == ["changed"]


def test_a_made_up_id_takes_none_that_comes_later() -> None:
    items = (
        ToolCall("a", "f", "{}"),
        ToolCall("a", "f", "{}"),
        ToolCall("a_2", "f", "{}"),
        ToolCall("a_1", "f", "{}"),
    )
    request, _ = pair(items)
    made = [item.call_id for item in request.items if isinstance(item, ToolCall)]
    assert len(set(made)) == 4


def test_an_output_without_an_id_answers_by_name() -> None:
    items = (ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))
    request, losses = pair(
        (*items, ToolOutput(None, "of g", name="g"), ToolOutput(None, "of f", name="f"))
    )
    assert [item.call_id for item in request.items if isinstance(item, ToolOutput)] == ["b", "a"]
    assert losses == []


def test_an_output_may_name_the_item_instead_of_the_call() -> None:
    call = ToolCall("a", "f", "{}", item_id="fc_1")
    request, losses = pair((call, ToolOutput(None, "done", item_id="fc_1")))
    assert request.items[1] == ToolOutput("a", "done", item_id="fc_1")
    assert losses == []


def test_an_output_takes_the_kind_of_its_call() -> None:
    request, _ = pair((ToolCall("a", "f", "x", "custom"), ToolOutput("a", "done")))
    assert request.items[1] == ToolOutput("a", "done", "custom")


def test_a_long_id_is_shortened_for_both() -> None:
    request, losses = pair((ToolCall(LONG, "f", "{}"), ToolOutput(LONG, "done")))
    call, output = request.items
    assert isinstance(call, ToolCall)
    assert isinstance(output, ToolOutput)
    assert call.call_id == output.call_id
    assert len(call.call_id) <= 64
    assert [loss.action for loss in losses] == ["changed"]


def test_an_example_may_end_with_its_calls() -> None:
    items = (USER, ToolCall("a", "f", "{}"))
    assert pair(items, ends_open=True)[0].items == items
    assert pair((*items, USER), ends_open=True)[0].items[2] == ToolOutput("a", NO_OUTPUT)


def test_an_item_that_nobody_knows_stands_between_turns() -> None:
    opaque = OpaqueItem("responses", "web_search_call", Raw(b"{}"))
    request, _ = pair((ToolCall("a", "f", "{}"), opaque, USER))
    assert [type(item) for item in request.items] == [ToolCall, ToolOutput, OpaqueItem, Message]
