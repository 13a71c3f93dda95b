"""Summaries: what is sealed opens again, to whom it belongs, and stands for what was before it."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters import InputItem, InvalidRequestError, RequestBody, deterministic_ids, parse_body
from gateway.compaction.summary import Summary, open_summary
from gateway.compaction.window import Window, instructing_items, read_window
from gateway.crypto import SUMMARY_PREFIX, SealingKeys
from gateway.errors import RequestTooLargeError
from tests.gateway.compaction.requests import HISTORY, TRIGGER, message
from tests.judges.reading import JsonObject, read_object, text_in

KEY = bytes(range(32))
SEAL = SealingKeys(KEY).summary_sealer("me")
MINT = deterministic_ids()

words = st.text(max_size=40)
messages = st.builds(
    message, st.sampled_from(["user", "assistant", "system", "developer"]), st.text(max_size=8)
)
items = st.lists(st.one_of(messages, st.sampled_from(HISTORY)), max_size=6)
summaries = st.builds(
    Summary,
    words,
    st.lists(messages, max_size=2).map(lambda made: tuple(map(raw, made))),
    st.lists(messages, max_size=2).map(lambda made: tuple(map(raw, made))),
    whole=st.booleans(),
)


def raw(item: JsonObject) -> Raw:
    return Raw(json.dumps(item).encode())


def carried(summary: Summary) -> JsonObject:
    return read_object(bytes(summary.to_item(SEAL, MINT).value))


def window(given: list[JsonObject], *, keep_foreign: bool = False, history: int = 0) -> Window:
    items = tuple(
        InputItem(raw(item), f"history[{i}]" if i < history else f"input[{i - history}]")
        for i, item in enumerate(given)
    )
    return read_window(RequestBody({"model": Raw(b'"m"')}, items), SEAL, keep_foreign=keep_foreign)


def shown(found: Window) -> list[JsonObject]:
    return [read_object(bytes(item.raw)) for item in found.items]


# Seals


@given(summaries)
def test_summary_opens_to_what_was_sealed(summary: Summary) -> None:
    item = carried(summary)
    sealed = text_in(item, "encrypted_content")
    assert sealed.startswith(SUMMARY_PREFIX)
    # A restart, another node, a key that was replaced since.
    assert open_summary(sealed, SealingKeys(KEY).summary_sealer("me")) == summary
    assert open_summary(sealed, SealingKeys(bytes(32), [KEY]).summary_sealer("me")) == summary
    assert open_summary(sealed, SealingKeys(bytes(32)).summary_sealer("me")) is None
    # Another caller, and a backend of that name.
    assert open_summary(sealed, SealingKeys(KEY).summary_sealer("you")) is None
    assert open_summary(sealed, SealingKeys(KEY).reasoning_sealer("me")) is None


@given(summaries, st.data())
def test_any_changed_bit_is_refused(summary: Summary, data: st.DataObject) -> None:
    item = carried(summary)
    sealed = text_in(item, "encrypted_content").removeprefix(SUMMARY_PREFIX)
    blob = bytearray(urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)))
    place = data.draw(st.integers(0, 8 * len(blob) - 1))
    blob[place // 8] ^= 1 << place % 8
    changed = SUMMARY_PREFIX + urlsafe_b64encode(blob).decode().rstrip("=")
    with pytest.raises(InvalidRequestError) as refused:
        # Even where those of others may pass.
        window([HISTORY[0], {**item, "encrypted_content": changed}], keep_foreign=True)
    assert refused.value.path == "input[1]"


def test_so_much_comes_out_of_summaries_and_no_more() -> None:
    # Each is 20 kB on its way, and 20 MB when it is open.
    item = carried(Summary("x" * 20_000_000))
    assert len(window([item] * 6).items) == 1
    with pytest.raises(RequestTooLargeError) as found:
        window([item] * 7)
    assert (found.value.path, found.value.status) == ("input[0]", 413)


def test_what_is_stood_for_is_not_even_opened() -> None:
    # Else a conversation could not be summed up again and again for ever.
    item = carried(Summary("x" * 20_000_000))
    whole = carried(Summary("All in all.", whole=True))
    assert len(window([item] * 7 + [whole]).items) == 1


def test_what_another_version_sealed_is_refused() -> None:
    item: JsonObject = {
        "type": "compaction",
        "encrypted_content": SEAL.seal(b'{"something":"else"}'),
    }
    with pytest.raises(InvalidRequestError):
        window([item])


# What it stands for


@given(items, items)
def test_no_summary_changes_nothing(before: list[JsonObject], after: list[JsonObject]) -> None:
    given = [*before, *after]
    assert shown(window(given)) == given
    assert not window(given).triggered
    assert shown(window([*given, TRIGGER])) == given
    assert window([*given, TRIGGER]).triggered


@given(items, items, words)
def test_what_came_before_is_told_by_the_summary(
    before: list[JsonObject], after: list[JsonObject], text: str
) -> None:
    found = shown(window([*before, carried(Summary(text, whole=True)), *after]))
    kept = [one for one in before if one.get("role") in ("system", "developer")]
    assert found[: len(kept)] == kept
    assert text in str(found[len(kept)]["content"][0]["text"])  # type: ignore[index] # pyright: ignore[reportIndexIssue, reportUnknownArgumentType] - one part
    assert found[len(kept) + 1 :] == after


@given(items)
def test_users_may_be_kept_beside_it(before: list[JsonObject]) -> None:
    found = shown(window([*before, carried(Summary("x"))]))
    assert found[:-1] == [one for one in before if one.get("role") not in (None, "assistant")]


@given(items, summaries)
def test_what_is_sealed_with_it_comes_again(before: list[JsonObject], summary: Summary) -> None:
    found = shown(window([*before, carried(summary)]))
    for one in summary.before:
        assert read_object(bytes(one)) in found
    after = [read_object(bytes(one)) for one in summary.after]
    assert found[len(found) - len(after) :] == after


def test_instructions_are_not_told_twice() -> None:
    told = message("developer", "Be brief.")
    item = carried(Summary("x", (raw(told),)))
    again: JsonObject = {"id": "msg_1", "role": "developer", "content": "Be brief."}
    assert len(shown(window([told, item]))) == len(shown(window([again, item]))) == 2
    assert len(shown(window([item]))) == 2


def test_last_summary_counts() -> None:
    first, second = carried(Summary("FIRST")), carried(Summary("SECOND"))
    found = shown(window([first, message("user", "Hi"), second]))
    assert len(found) == 2
    assert "FIRST" not in json.dumps(found)
    assert "SECOND" in json.dumps(found[-1])


FOUND: JsonObject = {
    "type": "tool_search_output",
    "call_id": "call_123456789",
    "execution": "client",
    "tools": [{"type": "function", "name": "sail", "parameters": {"type": "object"}}],
}
DECLARED: JsonObject = {
    "type": "additional_tools",
    "role": "developer",
    "tools": FOUND["tools"],
}


def test_tools_that_a_search_found_stay_declared() -> None:
    empty: JsonObject = {**FOUND, "tools": []}
    odd: JsonObject = {**FOUND, "tools": 5}
    before = window([message("developer", "Be brief."), empty, FOUND, odd, FOUND])
    declarations = [read_object(bytes(item.raw)) for item in instructing_items(before.items)]
    assert declarations == [message("developer", "Be brief."), DECLARED]
    # They are not repeated if the summary has them, too.
    summary = carried(Summary("x", (raw(DECLARED),)))
    for given_items in ([summary], [FOUND, summary], [FOUND, message("user", "Hi"), summary]):
        found = shown(window(given_items))
        assert [one for one in found if one["type"] == "additional_tools"] == [DECLARED]


# Places


def test_places_are_named_as_they_were() -> None:
    item = carried(Summary("x", after=(raw(HISTORY[4]),)))
    found = window([HISTORY[0], HISTORY[3], item, message("user", "Hi")])
    paths = [item.path for item in found.items]
    assert paths == ["input[0]", "input[2]", "input[2]", "input[3]"]


def test_triggers_of_earlier_turns_are_nothing() -> None:
    assert shown(window([HISTORY[0], TRIGGER, HISTORY[1]], history=2)) == HISTORY[:2]
    assert not window([HISTORY[0], TRIGGER], history=2).triggered
    with pytest.raises(InvalidRequestError):
        window([HISTORY[0], TRIGGER, HISTORY[1]], history=1)


def test_odd_items_are_left_to_whoever_reads_them() -> None:
    body = b'{"input":[5,{"type":7},null,{"type":"compaction_trigger","role":null}]}'
    found = read_window(parse_body(body), SEAL, keep_foreign=False)
    assert [bytes(item.raw) for item in found.items] == [b"5", b'{"type":7}', b"null"]
    assert found.triggered
    text = read_window(parse_body(b'{"input":"Hi"}'), SEAL, keep_foreign=False)
    assert shown(text) == [{"type": "message", "role": "user", "content": "Hi"}]
