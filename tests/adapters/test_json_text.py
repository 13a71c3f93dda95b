"""Checks of JSON text that is not parsed."""

from hypothesis import given
from hypothesis import strategies as st

from adapters.json_text import JsonCompleteness, is_complete_json
from tests.strategies import values

PIECES = ("{", "}", "[", "]", '"', "\\", "\\\\", '\\"', ":", ",", "1", "a", " ", "\n", "", '"k":')
TEXTS = values.any_arguments | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@given(text=TEXTS, data=st.data())
def test_growing_json_is_complete_when_the_text_is(text: str, data: st.DataObject) -> None:
    fragments: list[str] = []
    completeness = JsonCompleteness(fragments)
    for fragment in data.draw(values.fragments(text)):
        fragments.append(fragment)
        # The check may be skipped after any fragment.
        if data.draw(st.booleans()):
            assert completeness.is_complete() == is_complete_json("".join(fragments))
    assert completeness.is_complete() == is_complete_json(text)
