"""Items as they are kept: each under an id, messages in the one shape that clients are shown.

Whatever is not missing stays as it was spelled; an item that lacks nothing is kept byte for byte.
"""

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, InvalidRequestError
from adapters.responses.wire import ALL_CALL_NAMES
from adapters.wire.json_object import MISSING, NULL, JsonObject, decode, is_present
from gateway.store import Item

_MESSAGE: Final = "message"
_REFERENCE: Final = "item_reference"
_ASSISTANT: Final = "assistant"
_TRIGGER: Final = "compaction_trigger"

# Ids are parts of addresses, and the store finds them by an index, which takes only so much.
LEGAL_ID: Final = re.compile(r"[!-.0-~]{1,256}")

# With what the ids of each kind begin; those of anything else begin with `item_`.
_PREFIXES: Final = {
    _MESSAGE: "msg_",
    "reasoning": "rs_",
    "compaction": "cmp_",
    "web_search_call": "ws_",
    "file_search_call": "fs_",
    "code_interpreter_call": "ci_",
    "image_generation_call": "ig_",
    "mcp_list_tools": "mcpl_",
    "mcp_approval_request": "mcpr_",
    "mcp_approval_response": "mcpa_",
    "mcp_call": "mcp_",
    **{words.item: words.prefix for words in ALL_CALL_NAMES.values()},
    # The output of `fc_…` is `fco_…`, and so on.
    **{words.output: f"{words.prefix[:-1]}o_" for words in ALL_CALL_NAMES.values()},
}

# Of these OpenAI always says how far they have come; whoever gives them need not.
_SETTLED: Final = frozenset(
    (
        _MESSAGE,
        "function_call",
        "function_call_output",
        "computer_call_output",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
    )
)

# What an item without a type is, by the first of these that it has (P047).
_GUESSES: Final = {
    "role": _MESSAGE,
    "output": "function_call_output",
    "arguments": "function_call",
    "input": "custom_tool_call",
    "summary": "reasoning",
    "id": _REFERENCE,
}


class _Outline(Struct, gc=False):
    """What is looked at of an item."""

    type: str | None = None
    id: str | None = None
    role: str | None = None
    status: Raw = MISSING
    content: Raw = MISSING


_OUTLINE: Final = msgspec.json.Decoder(_Outline)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()


def kept_items(given: str | list[Raw], ids: IdSource, path: str = "input") -> tuple[Item, ...]:
    """Give the items of a request as they are kept; a string is a message of the user."""
    if isinstance(given, str):
        return (_said(given, ids),)
    return tuple(to_stored_item(raw, ids, f"{path}[{place}]") for place, raw in enumerate(given))


def to_stored_item(raw: Raw, ids: IdSource, path: str) -> Item:
    """Give one item as it is kept."""
    outline = decode(raw, _OUTLINE, path)
    kind = outline.type or _guess(raw, path)
    if kind == _REFERENCE:
        return Item(outline.id or "", raw)
    known = outline.id is not None and LEGAL_ID.fullmatch(outline.id) is not None
    name = outline.id if known and outline.id else ids.id(_PREFIXES.get(kind, "item_"))
    changes: dict[str, object] = {} if known else {"id": name}
    if outline.type is None:
        changes["type"] = kind
    if kind in _SETTLED and not is_present(outline.status):
        changes["status"] = "completed"
    if kind == _MESSAGE:
        changes |= _message_changes(outline, path)
    if not changes:
        return Item(name, raw)
    fields = {"id": name, "type": kind} | _OBJECT.decode(raw) | changes
    return Item(name, Raw(_ENCODER.encode(fields)))


def is_compaction_trigger(item: Item) -> bool:
    """Tell whether it asks for a summary: nothing is said by it that could be kept or listed."""
    body = item.body
    return _TRIGGER.encode() in bytes(body) and _OUTLINE.decode(body).type == _TRIGGER


def _said(text: str, ids: IdSource) -> Item:
    """Make a message of what a user said."""
    name = ids.id(_PREFIXES[_MESSAGE])
    message = {
        "id": name,
        "type": _MESSAGE,
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": text}],
    }
    return Item(name, Raw(_ENCODER.encode(message)))


def _guess(raw: Raw, path: str) -> str:
    """Tell what an item without a type is."""
    fields = _OBJECT.decode(raw)
    for name, kind in _GUESSES.items():
        if is_present(fields.get(name, NULL)):
            return kind
    raise InvalidRequestError(f"{path}.type", "the item says neither what it is nor who speaks")


def _message_changes(outline: _Outline, path: str) -> dict[str, object]:
    """Give what a message lacks."""
    changes: dict[str, object] = {}
    content = bytes(outline.content)
    if not is_present(outline.content):
        changes["content"] = ()
    elif content.startswith(b'"'):
        changes["content"] = [_part(outline)]
    elif not content.startswith(b"["):
        raise InvalidRequestError(f"{path}.content", "a message is a string or a list of parts")
    return changes


def _part(outline: _Outline) -> dict[str, object]:
    """Make a part of a content that is a string."""
    if outline.role == _ASSISTANT:
        return {"type": "output_text", "text": outline.content, "annotations": ()}
    return {"type": "input_text", "text": outline.content}


# Metadata that clients give to what they keep: a few short texts with names.


_MOST_PAIRS: Final = 16
_LONGEST_NAME: Final = 64
_LONGEST_VALUE: Final = 512

_METADATA: Final = msgspec.json.Decoder(dict[str, str])


def read_metadata(raw: Raw = MISSING, path: str = "metadata") -> dict[str, str]:
    """Read metadata; raise `InvalidInput` if it is not what OpenAI takes."""
    if not is_present(raw):
        return {}
    return check_metadata(decode(raw, _METADATA, path), path)


def check_metadata(metadata: dict[str, str], path: str = "metadata") -> dict[str, str]:
    """Give metadata back if it is within the limits; raise `InvalidInput` otherwise."""
    if len(metadata) > _MOST_PAIRS:
        raise InvalidRequestError(path, f"{len(metadata)} pairs are more than {_MOST_PAIRS}")
    for name, value in metadata.items():
        if len(name) > _LONGEST_NAME:
            why = f"the name {name[:_LONGEST_NAME]!r}… has more than {_LONGEST_NAME} characters"
            raise InvalidRequestError(path, why)
        if len(value) > _LONGEST_VALUE:
            why = f"the value has more than {_LONGEST_VALUE} characters"
            raise InvalidRequestError(f"{path}.{name}", why)
    return metadata


def take_new_metadata(asked: JsonObject) -> dict[str, str]:
    """Take the metadata of something that is there already; nothing else of it can be changed."""
    if not asked.count():
        raise InvalidRequestError("metadata", "it is missing")
    metadata = read_metadata(asked.raw("metadata") or MISSING)
    refuse_others(asked)
    return metadata


def refuse_others(asked: JsonObject) -> None:
    """Refuse what nobody has read: it would be lost unseen."""
    for name in asked.take_remaining():
        raise InvalidRequestError(name, "this parameter is not known here")
