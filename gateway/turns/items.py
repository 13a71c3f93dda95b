"""The stored form of items: each has an id and a type, and the content of messages is a list.

The bytes of all other fields are stored unchanged.
"""

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, InvalidRequestError
from adapters.responses.wire import ALL_CALL_NAMES
from adapters.wire.json_object import MISSING, NULL, decode, is_present
from gateway.store import Item

_MESSAGE: Final = "message"
REFERENCE: Final = "item_reference"
IMAGE_CALL: Final = "image_generation_call"
_TRIGGER: Final = "compaction_trigger"

# Ids are parts of URLs, and the entries of an index have a maximum size.
LEGAL_ID: Final = re.compile(r"[!-.0-~]{1,256}")

# The prefixes of generated ids; items of other types get `item_`.
_PREFIXES: Final = {
    _MESSAGE: "msg_",
    "reasoning": "rs_",
    "compaction": "cmp_",
    "web_search_call": "ws_",
    "file_search_call": "fs_",
    "code_interpreter_call": "ci_",
    IMAGE_CALL: "ig_",
    "mcp_list_tools": "mcpl_",
    "mcp_approval_request": "mcpr_",
    "mcp_approval_response": "mcpa_",
    "mcp_call": "mcp_",
    **{names.item: names.prefix for names in ALL_CALL_NAMES.values()},
    # The output of `fc_…` is `fco_…`, and so on.
    **{names.output: f"{names.prefix[:-1]}o_" for names in ALL_CALL_NAMES.values()},
}

# OpenAI always returns these items with a status, though clients may omit it.
_TYPES_WITH_STATUS: Final = frozenset(
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

# The type of an item without one, by the first of these fields that it has. Frameworks send
# messages without a type, and OpenAI accepts them.
_TYPES_BY_FIELD: Final = {
    "role": _MESSAGE,
    "output": "function_call_output",
    "arguments": "function_call",
    "input": "custom_tool_call",
    "summary": "reasoning",
    "id": REFERENCE,
}


class _ItemHead(Struct, gc=False):
    type: str | None = None
    id: str | None = None
    role: str | None = None
    status: Raw = MISSING
    content: Raw = MISSING


_HEAD: Final = msgspec.json.Decoder(_ItemHead)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()


def user_message(text: str, ids: IdSource) -> Item:
    """Return the user message for an input that is a string."""
    item_id = ids.id(_PREFIXES[_MESSAGE])
    message = {
        "id": item_id,
        "type": _MESSAGE,
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": text}],
    }
    return Item(item_id, Raw(_ENCODER.encode(message)))


def to_stored_item(raw: Raw, ids: IdSource, path: str) -> Item:
    """Return an item in its stored form; raise `InvalidRequestError` if it is invalid."""
    head = decode(raw, _HEAD, path)
    kind = head.type or _infer_type(raw, path)
    if kind == REFERENCE:
        return Item(head.id or "", raw)
    item_id, changes = head.id, dict[str, object]()
    if item_id is None or not LEGAL_ID.fullmatch(item_id):
        item_id = changes["id"] = ids.id(_PREFIXES.get(kind, "item_"))
    if head.type is None:
        changes["type"] = kind
    if kind in _TYPES_WITH_STATUS and not is_present(head.status):
        changes["status"] = "completed"
    if kind == _MESSAGE:
        changes |= _content_changes(head, path)
    if not changes:
        return Item(item_id, raw)
    fields = {"id": item_id, "type": kind} | _OBJECT.decode(raw) | changes
    return Item(item_id, Raw(_ENCODER.encode(fields)))


def is_compaction_trigger(item: Item) -> bool:
    """Whether an item only requests a summary; it is neither stored nor listed."""
    body = item.body
    return _TRIGGER.encode() in bytes(body) and _HEAD.decode(body).type == _TRIGGER


def _infer_type(raw: Raw, path: str) -> str:
    fields = _OBJECT.decode(raw)
    for name, kind in _TYPES_BY_FIELD.items():
        if is_present(fields.get(name, NULL)):
            return kind
    raise InvalidRequestError(f"{path}.type", "is required for an item without `role`")


def _content_changes(head: _ItemHead, path: str) -> dict[str, object]:
    """Return the content of a message as a list of parts, if it is not one already."""
    content = bytes(head.content)
    if not is_present(head.content):
        return {"content": ()}
    if content.startswith(b"["):
        return {}
    if not content.startswith(b'"'):
        raise InvalidRequestError(f"{path}.content", "must be a string or an array")
    part: dict[str, object] = {"type": "input_text", "text": head.content}
    if head.role == "assistant":
        part = {"type": "output_text", "text": head.content, "annotations": ()}
    return {"content": [part]}
