"""The stored form of items: missing fields are added, and nothing else changes."""

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
from gateway.turns.items import to_stored_item, user_message

_ITEM: TypeAdapter[ResponseItem] = TypeAdapter(ResponseItem)


def stored(value: object) -> dict[str, Any]:
    """Return the stored form of an item; check that its row has the same id."""
    item = to_stored_item(Raw(msgspec.json.encode(value)), deterministic_ids(), "input[0]")
    body: dict[str, Any] = msgspec.json.decode(item.body)
    assert item.id == body["id"]
    return body


def message(role: str, *content: dict[str, object]) -> dict[str, object]:
    return {
        "id": "msg_0001",
        "type": "message",
        "status": "completed",
        "role": role,
        "content": [*content],
    }


def test_string_becomes_a_user_message() -> None:
    item = user_message('say "hé"', deterministic_ids())
    assert msgspec.json.decode(item.body) == message(
        "user", {"type": "input_text", "text": 'say "hé"'}
    )
    assert (item.id, item.number) == ("msg_0001", 0)


@pytest.mark.parametrize(
    ("role", "part"),
    [
        *((role, {"type": "input_text"}) for role in ("user", "system", "developer")),
        ("assistant", {"type": "output_text", "annotations": []}),
    ],
)
def test_string_content_becomes_one_part(role: str, part: dict[str, object]) -> None:
    item = stored({"role": role, "content": "hello"})
    assert item == message(role, part | {"text": "hello"})
    assert _ITEM.validate_python(item).type == "message"


@pytest.mark.parametrize("fields", [{}, {"content": None}])
def test_message_without_content_has_no_parts(fields: dict[str, object]) -> None:
    assert stored({"role": "assistant", **fields})["content"] == []


@pytest.mark.parametrize(
    "encoded",
    [
        (
            b'{"content": [ {"type":"input_text","text":"\\u0061"} ],"x":1e2,"status":"",'
            b'"role":"user","type":"message","id":"own"}'
        ),
        b'{ "type":"reasoning","id":"own","summary":[], "encrypted_content":"e" }',
        b'{"type":"item_reference","id":"own"}',
        b'{"id":"own"}',
    ],
)
def test_complete_items_and_references_are_stored_byte_for_byte(encoded: bytes) -> None:
    item = to_stored_item(Raw(encoded), deterministic_ids(), "input[0]")
    assert item == Item("own", Raw(encoded))


def test_added_fields_leave_the_others_byte_for_byte() -> None:
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
def test_prefix_of_the_id_depends_on_the_type(kind: str, prefix: str) -> None:
    item = stored({"type": kind})
    assert (item["id"], item["type"]) == (f"{prefix}0001", kind)


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
def test_missing_type_is_inferred(fields: dict[str, object], kind: str) -> None:
    for more in ({}, {"type": None}):
        assert stored(fields | more)["type"] == kind


@pytest.mark.parametrize("item_id", ["", "a b", "a/b", "x" * 257, "é", "a\n", None])
def test_illegal_id_is_replaced(item_id: str | None) -> None:
    assert stored({"type": "reasoning", "id": item_id, "summary": []})["id"] == "rs_0001"


@pytest.mark.parametrize("item_id", ["msg_1", "x", "x" * 256, "a.b:c-d~e=+"])
def test_legal_id_stays(item_id: str) -> None:
    assert stored({"role": "user", "content": "x", "id": item_id})["id"] == item_id


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (3, "input[0]"),
        ("text", "input[0]"),
        (None, "input[0]"),
        ([], "input[0]"),
        ({}, "input[0].type"),
        ({"type": 3}, "input[0].type"),
        ({"type": "message", "id": 7}, "input[0].id"),
        ({"role": ["user"]}, "input[0].role"),
        ({"role": "user", "content": 3}, "input[0].content"),
        ({"role": "user", "content": {"text": "x"}}, "input[0].content"),
    ],
)
def test_invalid_item_is_refused_with_its_path(value: object, path: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        stored(value)
    assert (caught.value.path, caught.value.status) == (path, 400)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
_FIELDS = st.sampled_from(["type", "id", "role", "status", "content", "output", "summary"])


@given(st.dictionaries(_FIELDS, _JSON) | _JSON)
def test_any_item_is_stored_or_refused(value: object) -> None:
    raw = Raw(msgspec.json.encode(value))
    try:
        item = to_stored_item(raw, deterministic_ids(), "input[0]")
    except InvalidRequestError:
        return
    before, after = msgspec.json.decode(raw), msgspec.json.decode(item.body)
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"id", "type", "status", "content"}
    # The stored form of a stored item is the item itself.
    assert to_stored_item(item.body, deterministic_ids(), "input[0]") == item
