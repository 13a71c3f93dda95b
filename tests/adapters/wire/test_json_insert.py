"""Fields are inserted into JSON without a change of its other bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters.wire.json_insert import Insertion, insert_fields

_leaves = st.none() | st.booleans() | st.integers() | st.text()
_names = st.text('ab"\\é', min_size=1, max_size=3)
_objects = st.dictionaries(_names, st.recursive(_leaves, st.lists, max_leaves=4), max_size=3)


def insert(text: str, path: str, **fields: object) -> str:
    insertion = Insertion()
    insertion.at(path).fields |= {
        name: Raw(json.dumps(value).encode()) for name, value in fields.items()
    }
    return insert_fields(text.encode(), insertion).decode()


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('{"a": [ {"b":1 } , {} ]}', "a[0]", '{"a": [ {"b":1 ,"new":"x"} , {} ]}'),
        ('{"a": [ {"b":1 } , {} ]}', "a[1]", '{"a": [ {"b":1 } , {"new":"x"} ]}'),
        ('{"a": {"b": 2}, "c": "{"}', "a", '{"a": {"b": 2,"new":"x"}, "c": "{"}'),
        # A name that contains the value of its field.
        ('{"1": 1, "a": {"1" : [1]}}', "a", '{"1": 1, "a": {"1" : [1],"new":"x"}}'),
        # A path that does not exist.
        ('{"a": [1]}', "b[2]", '{"a": [1]}'),
        # Null is replaced, a value is kept.
        ('{"a": {"new": null, "b": 1}}', "a", '{"a": {"new":"x","b":1}}'),
        ('{"a": {"new": "y"}}', "a", '{"a": {"new":"y"}}'),
        # Of a field that occurs twice, the last one counts.
        ('{"a": {"b": 1, "b": 2}}', "a", '{"a": {"b":2,"new":"x"}}'),
    ],
)
def test_field_is_inserted(text: str, path: str, expected: str) -> None:
    assert insert(text, path, new="x") == expected


@given(
    messages=st.lists(_objects, min_size=1, max_size=4),
    indent=st.sampled_from([None, 1]),
    data=st.data(),
)
def test_only_the_field_is_inserted(
    messages: list[dict[str, object]], indent: int | None, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(messages) - 1))
    text = json.dumps({"before": messages, "messages": messages, "after": 1}, indent=indent)
    changed = insert(text, f"messages[{number}]", new=["x"])
    read = json.loads(changed)
    assert read["messages"][number].pop("new") == ["x"]
    assert read == json.loads(text)
    separator = "," if messages[number] else ""
    assert changed.replace(f'{separator}"new":["x"]', "", 1) == text
