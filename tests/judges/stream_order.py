"""The legal order of a Responses stream, and that its pieces add up.

    response.created [response.queued] [response.in_progress]
    per item:  output_item.added, its parts or its input, output_item.done
    one of:    response.completed | response.incomplete | [error] response.failed

Several items may be open at once. After a failure items may stay open: a client runs a tool as
soon as it sees the call's output_item.done, so a call that was cut off never gets one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.judges.reading import JsonObject, integer_in, object_in, objects_in, text_in

Handler: TypeAlias = Callable[[JsonObject], None]

LIFECYCLE = ("response.created", "response.queued", "response.in_progress")
TERMINAL = ("response.completed", "response.incomplete", "response.failed")

# The text field of each item type, which its events are named after.
INPUT_FIELDS = {"function_call": "arguments", "custom_tool_call": "input"}
# Which part types the text events of a family belong to.
FAMILIES = {
    "output_text": "output_text",
    "refusal": "refusal",
    "reasoning": "reasoning_text",
    "reasoning_text": "reasoning_text",
    "reasoning_summary_text": "summary_text",
}

# Which field of a part holds its text, by the part's type.
PART_FIELDS = dict.fromkeys(FAMILIES.values(), "text") | {"refusal": "refusal"}


@dataclass
class _Part:
    """A part between its added and its done event."""

    kind: str
    text: str = ""
    annotations: list[JsonObject] = field(default_factory=list[JsonObject])
    # Set by the text's own done event, which comes before the part's.
    is_whole: bool = False
    done: JsonObject | None = None


@dataclass
class _Item:
    """An output item from its added event on."""

    added: JsonObject
    parts: dict[str, list[_Part]] = field(
        default_factory=lambda: {"content_index": [], "summary_index": []}
    )
    text: str = ""
    is_whole: bool = False
    done: JsonObject | None = None


class StreamOrder:
    """Feed it every event in turn, then finish it; it asserts that each may follow the last."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._items: list[_Item] = []
        self._response_id = ""
        self._handlers = self._table()

    def feed(self, event: JsonObject) -> None:
        kind = text_in(event, "type")
        number = integer_in(event, "sequence_number")
        assert number == len(self._seen), f"sequence_number {number}, expected {len(self._seen)}"
        self._check_place(kind)
        self._seen.append(kind)
        # Without a handler: error, and the events of other tools, whose order we do not know.
        if kind in self._handlers:
            self._handlers[kind](event)

    def finish(self) -> None:
        assert self._seen, "the stream is empty"
        assert self._seen[-1] in TERMINAL, f"the stream ends with {self._seen[-1]}"

    def _check_place(self, kind: str) -> None:
        last = self._seen[-1] if self._seen else None
        assert last not in TERMINAL, f"{kind} comes after {last}"
        assert last != "error" or kind == "response.failed", f"{kind} comes after error"
        assert (last is None) == (kind == "response.created"), f"{kind} comes after {last}"
        if kind in LIFECYCLE[1:]:
            assert last in LIFECYCLE[: LIFECYCLE.index(kind)], f"{kind} comes after {last}"

    def _table(self) -> dict[str, Handler]:
        table: dict[str, Handler] = {
            **dict.fromkeys(LIFECYCLE, self._lifecycle),
            **dict.fromkeys(TERMINAL, self._terminal),
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.output_text.annotation.added": self._annotation_added,
        }
        for family in ("content_part", "reasoning_summary_part"):
            table[f"response.{family}.added"] = self._part_added
            table[f"response.{family}.done"] = self._part_done
        inputs = [f"{item}_{name}" for item, name in INPUT_FIELDS.items()]
        for step in ("delta", "done"):
            table |= dict.fromkeys((f"response.{family}.{step}" for family in FAMILIES), self._text)
            table |= dict.fromkeys((f"response.{name}.{step}" for name in inputs), self._input)
        return table

    def _lifecycle(self, event: JsonObject) -> None:
        response = object_in(event, "response")
        expected = "queued" if event["type"] == "response.queued" else "in_progress"
        statuses = {expected, "queued"} if event["type"] == "response.created" else {expected}
        assert response["status"] in statuses, f"{event['type']} with status {response['status']}"
        assert response["output"] == [], f"{event['type']} with output already"
        self._check_response_id(response)

    def _check_response_id(self, response: JsonObject) -> None:
        self._response_id = self._response_id or text_in(response, "id")
        assert response["id"] == self._response_id, f"the response was {self._response_id}"

    def _terminal(self, event: JsonObject) -> None:
        response = object_in(event, "response")
        self._check_response_id(response)
        status = text_in(event, "type").removeprefix("response.")
        assert response["status"] == status, f"{event['type']} with status {response['status']}"
        output = objects_in(response, "output")
        done = [item.done for item in self._items]
        if status == "failed":
            # Items that were open may be left out, those that were done may not.
            whole = [item for item in done if item is not None]
            ids = {item["id"] for item in whole}
            kept = [item for item in output if item["id"] in ids]
            assert kept == whole, "a done item was changed"
            return
        assert None not in done, f"output {done.index(None)} is still open"
        assert output == done, f"the final output is not what was streamed:\n{output}\n{done}"

    def _item_added(self, event: JsonObject) -> None:
        item = object_in(event, "item")
        index = integer_in(event, "output_index")
        assert index == len(self._items), f"output_index {index}, expected {len(self._items)}"
        assert item.get("id"), "the item has no id"
        assert item.get("status", "in_progress") == "in_progress", f"added as {item['status']}"
        for name in ("id", "call_id"):
            others = [other.added[name] for other in self._items if name in other.added]
            assert item.get(name) not in others, f"{name} {item.get(name)!r} was used before"
        for name in ("content", "summary", "arguments", "input"):
            assert not item.get(name), f"the item starts with {name} already"
        self._items.append(_Item(item))

    def _open_item(self, event: JsonObject) -> _Item:
        index = integer_in(event, "output_index")
        assert index < len(self._items), f"output {index} was not added"
        item = self._items[index]
        assert item.done is None, f"output {index} is done already"
        if "item_id" in event:
            assert event["item_id"] == item.added["id"], f"the item's id is {item.added['id']!r}"
        return item

    def _item_done(self, event: JsonObject) -> None:
        item = self._open_item(event)
        done = object_in(event, "item")
        for name in ("id", "type", "call_id", "name"):
            assert done.get(name) == item.added.get(name), f"{name} was {item.added.get(name)!r}"
        assert done.get("status") != "in_progress", "the item is done but in progress"
        if (own := INPUT_FIELDS.get(text_in(done, "type"))) is not None:
            assert item.is_whole, f"the item is done before its {own}"
            assert done.get(own) == item.text, f"{own}: streamed {item.text!r}"
        self._check_parts(item.parts["content_index"], done, "content")
        self._check_parts(item.parts["summary_index"], done, "summary")
        item.done = done

    def _check_parts(self, parts: list[_Part], done: JsonObject, name: str) -> None:
        streamed = [part.done for part in parts]
        assert None not in streamed, f"{name}[{streamed.index(None)}] is still open"
        if done["type"] in {"message", "reasoning"}:
            assert done.get(name, []) == streamed, f"{name}: streamed {streamed!r}"

    def _part_added(self, event: JsonObject) -> None:
        parts, index = self._parts(event)
        assert index == len(parts), f"part {index}, expected {len(parts)}"
        assert all(part.done for part in parts), "the part before is still open"
        part = object_in(event, "part")
        kind = text_in(part, "type")
        assert kind in PART_FIELDS, f"a {kind} part cannot be streamed"
        assert part[PART_FIELDS[kind]] == "", "the part starts with text already"
        assert not part.get("annotations"), "the part starts with annotations already"
        parts.append(_Part(kind))

    def _parts(self, event: JsonObject) -> tuple[list[_Part], int]:
        name = "summary_index" if "summary_index" in event else "content_index"
        return self._open_item(event).parts[name], integer_in(event, name)

    def _open_part(self, event: JsonObject) -> _Part:
        parts, index = self._parts(event)
        assert index < len(parts), f"part {index} was not added"
        part = parts[index]
        assert part.done is None, f"part {index} is done already"
        return part

    def _text(self, event: JsonObject) -> None:
        part = self._open_part(event)
        family, _, step = text_in(event, "type").removeprefix("response.").rpartition(".")
        assert FAMILIES[family] == part.kind, f"{event['type']} in a part of type {part.kind}"
        assert not part.is_whole, "the part's text is done already"
        if step == "delta":
            part.text += text_in(event, "delta")
            return
        assert event[PART_FIELDS[part.kind]] == part.text, f"streamed {part.text!r}"
        part.is_whole = True

    def _annotation_added(self, event: JsonObject) -> None:
        part = self._open_part(event)
        index = integer_in(event, "annotation_index")
        assert index == len(part.annotations), f"annotation {index} of {len(part.annotations)}"
        part.annotations.append(object_in(event, "annotation"))

    def _part_done(self, event: JsonObject) -> None:
        part = self._open_part(event)
        done = object_in(event, "part")
        assert done["type"] == part.kind, f"the part was of type {part.kind}"
        assert part.is_whole, "the part is done before its text"
        assert done[PART_FIELDS[part.kind]] == part.text, f"streamed {part.text!r}"
        assert done.get("annotations", []) == part.annotations, f"streamed {part.annotations!r}"
        part.done = done

    def _input(self, event: JsonObject) -> None:
        item = self._open_item(event)
        kind = text_in(item.added, "type")
        name = INPUT_FIELDS.get(kind, "")
        assert text_in(event, "type").startswith(f"response.{kind}_{name}."), f"in a {kind}"
        assert not item.is_whole, f"the {name} are done already"
        if "delta" in event:
            item.text += text_in(event, "delta")
            return
        assert event.get(name) == item.text, f"{name}: streamed {item.text!r}"
        # Absent from the latest SDK types, but required by the published API description.
        if kind == "function_call":
            assert event.get("name") == item.added["name"], f"name: {event.get('name')!r}"
        item.is_whole = True
