"""Items as they are kept: what is missing is added, and nothing else is touched."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from adapters import InvalidRequestError, deterministic_ids
from gateway.store import Item
from gateway.turns.items import kept_items, to_stored_item

_ITEM: TypeAdapter[ResponseItem] = TypeAdapter(ResponseItem)


def kept(*given_items: object) -> list[dict[str, Any]]:
    """Keep items; see that each is kept under the id that it says."""
    raws = [Raw(msgspec.json.encode(one)) for one in given_items]
    found = kept_items(raws, deterministic_ids())
    bodies: list[dict[str, Any]] = [msgspec.json.decode(one.body) for one in found]
    assert [one.id for one in found] == [body["id"] for body in bodies]
    return bodies


def refusal(*given_items: object) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        kept(*given_items)
    return caught.value


def test_a_string_is_a_message_of_the_user() -> None:
    (item,) = kept_items('say "hé"', deterministic_ids())
    assert msgspec.json.decode(item.body) == {
        "id": "msg_0001",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": 'say "hé"'}],
    }
    assert item.id == "msg_0001"
    assert item.number == 0


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_what_is_said_to_the_model_becomes_a_list_of_input_parts(role: str) -> None:
    (item,) = kept({"role": role, "content": "hello"})
    assert item == {
        "id": "msg_0001",
        "type": "message",
        "status": "completed",
        "role": role,
        "content": [{"type": "input_text", "text": "hello"}],
    }
    assert _ITEM.validate_python(item).type == "message"


def test_what_the_model_said_becomes_a_list_of_output_parts() -> None:
    (item,) = kept({"role": "assistant", "content": "hello"})
    assert item["content"] == [{"type": "output_text", "text": "hello", "annotations": []}]
    assert _ITEM.validate_python(item).type == "message"


@pytest.mark.parametrize("nothing", [{}, {"content": None}])
def test_a_message_without_content_has_no_parts(nothing: dict[str, object]) -> None:
    (item,) = kept({"role": "assistant", **nothing})
    assert item["content"] == []


def test_an_item_that_lacks_nothing_is_kept_byte_for_byte() -> None:
    spelled = (
        b'{"content": [ {"type":"input_text","text":"\\u0061"} ],"x":1e2, "status":"in_progress",'
        b'"role":"user","type":"message","id":"msg_own"}'
    )
    reasoning = b'{ "type":"reasoning","id":"rs_1","summary":[], "encrypted_content":"e" }'
    items = kept_items([Raw(spelled), Raw(reasoning)], deterministic_ids())
    assert [bytes(item.body) for item in items] == [spelled, reasoning]
    assert [item.id for item in items] == ["msg_own", "rs_1"]


def test_what_is_added_leaves_the_other_fields_as_they_were_spelled() -> None:
    raw = Raw(b'{"type":"function_call","call_id":"c","name":"f","arguments":"{\\u007d","n":1.50}')
    item = to_stored_item(raw, deterministic_ids(), "input[0]")
    assert bytes(item.body) == (
        b'{"id":"fc_0001","type":"function_call","call_id":"c","name":"f",'
        b'"arguments":"{\\u007d","n":1.50,"status":"completed"}'
    )


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        ("function_call", "fc_"),
        ("function_call_output", "fco_"),
        ("custom_tool_call", "ctc_"),
        ("custom_tool_call_output", "ctco_"),
        ("reasoning", "rs_"),
        ("compaction", "cmp_"),
        ("shell_call", "sh_"),
        ("shell_call_output", "sho_"),
        ("apply_patch_call_output", "apco_"),
        ("web_search_call", "ws_"),
        ("something_new", "item_"),
    ],
)
def test_the_id_tells_the_kind(kind: str, prefix: str) -> None:
    (item,) = kept({"type": kind})
    assert item["id"] == f"{prefix}0001"
    assert item["type"] == kind


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"role": "user", "content": []}, "message"),
        ({"call_id": "c", "output": "x"}, "function_call_output"),
        ({"call_id": "c", "name": "f", "arguments": "{}"}, "function_call"),
        ({"call_id": "c", "name": "f", "input": "x"}, "custom_tool_call"),
        ({"summary": []}, "reasoning"),
    ],
)
def test_what_has_no_type_is_known_by_what_it_has(fields: dict[str, object], kind: str) -> None:
    for more in ({}, {"type": None}):
        (item,) = kept(fields | more)
        assert item["type"] == kind


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 257, "é", "a\n", None])
def test_an_id_that_cannot_be_one_is_replaced(name: str | None) -> None:
    (item,) = kept({"type": "reasoning", "id": name, "summary": []})
    assert item["id"] == "rs_0001"


@pytest.mark.parametrize("name", ["msg_1", "x", "x" * 256, "a.b:c-d~e=+"])
def test_any_other_id_stays(name: str) -> None:
    (item,) = kept({"role": "user", "content": "x", "id": name})
    assert item["id"] == name


@pytest.mark.parametrize("spelled", [b'{"type":"item_reference","id":"msg_1"}', b'{"id":"msg_1"}'])
def test_a_reference_is_left_as_it_is(spelled: bytes) -> None:
    assert kept_items([Raw(spelled)], deterministic_ids()) == (Item("msg_1", Raw(spelled)),)


@pytest.mark.parametrize("wrong", [3, "text", None, [], True, 1.5])
def test_an_entry_that_is_no_object_is_refused_by_its_place(wrong: object) -> None:
    problem = refusal({"role": "user"}, wrong)
    assert problem.path == "input[1]"
    assert problem.status == 400
    assert problem.message.startswith("expected object")


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({}, "input[0].type"),
        ({"type": 3}, "input[0].type"),
        ({"type": "message", "id": 7}, "input[0].id"),
        ({"role": ["user"]}, "input[0].role"),
        ({"role": "user", "content": 3}, "input[0].content"),
        ({"role": "user", "content": {"text": "x"}}, "input[0].content"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(wrong: object, path: str) -> None:
    assert refusal(wrong).path == path


def test_the_path_is_that_of_where_the_items_stand() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        kept_items([Raw(b"1")], deterministic_ids(), "items")
    assert caught.value.path == "items[0]"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
_FIELDS = st.sampled_from(["type", "id", "role", "status", "content", "output", "summary"])


@given(st.lists(st.dictionaries(_FIELDS, _JSON) | _JSON))
def test_whatever_comes_is_kept_or_refused(items: list[object]) -> None:
    raws = [Raw(msgspec.json.encode(one)) for one in items]
    try:
        found = kept_items(raws, deterministic_ids())
    except InvalidRequestError:
        return
    for raw, item in zip(raws, found, strict=True):
        before, after = msgspec.json.decode(raw), msgspec.json.decode(item.body)
        changed = {name for name in before if before[name] != after[name]}
        assert changed <= {"id", "type", "status", "content"}
        # What was kept once is kept so for ever.
        assert to_stored_item(item.body, deterministic_ids(), "again") == item
