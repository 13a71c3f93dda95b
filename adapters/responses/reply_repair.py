"""Whole replies of backends for clients of the same dialect: what has to be repaired, and how."""

from contextlib import suppress
from typing import cast

from msgspec import Raw, Struct
from msgspec.json import Decoder

from adapters.dialect import ReplyContext
from adapters.errors import InvalidRequestError
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.responses.canonical_items import (
    ENDED,
    TYPICAL,
    Item,
    NamedItem,
    Part,
    fault_in_complete,
    has_canonical_parts,
    has_counts,
    read_complete,
)
from adapters.responses.wire import Wire, read_usage
from adapters.sse import encode
from adapters.wire.extra_fields import report_missing_counts
from adapters.wire.json_object import NULL, is_present, read_fields

Fields = dict[str, Raw]

_OBJECT = Decoder(Fields)
_OBJECTS = Decoder(list[Fields])
_RAWS = Decoder(list[Raw])
_PARTS = Decoder(list[Part])
# The fields of a response that are written, in a stream also what led to its end.
_WRITTEN_FIELDS = ("id", "object", "created_at", "model", "status")
_RESPONSE_FIELDS = frozenset((*_WRITTEN_FIELDS, "error", "incomplete_details", "output"))


# The check


class _Response(Struct, gc=False):
    status: str | None = None
    output: Raw = NULL


_RESPONSE = Decoder(_Response)


# The states of a response that is not complete, which clients do not use.
_OTHER_STATES = ("failed", "cancelled", "queued", "in_progress")


class _Call(Struct, gc=False):
    call_id: str | None = None


_CALLS = Decoder(list[_Call])


def check_reply(body: bytes, context: ReplyContext) -> bool:
    """Whether a client can receive a whole reply as it is; report what has to be changed."""
    try:
        items: list[Item] = [*TYPICAL.decode(body).output]
    except DECODE_ERRORS:
        return _check_untypical(body, context)
    if all(map(has_canonical_parts, items)) and not _repeats_ids(items, context.call_ids):
        return not any(isinstance(item, NamedItem) and item.lacks_arguments() for item in items)
    return _check_untypical(body, context)


def find_call_ids(items: Raw) -> frozenset[str]:
    """Return the ids of the calls in the items of a request, and of their outputs."""
    if b"call_id" in bytes(items):
        with suppress(*DECODE_ERRORS):
            calls = _CALLS.decode(items)
            return frozenset([call.call_id for call in calls if call.call_id])
    return frozenset()


def _repeats_ids(items: list[Item], used: frozenset[str]) -> bool:
    """Whether two items have the same id, or two calls, of which one may be in the history."""
    if len(items) == 1 and not used:
        return False
    call_ids = [item.call_id for item in items if isinstance(item, NamedItem)]
    if used and not used.isdisjoint(call_ids):
        return True
    return len({item.id for item in items}) < len(items) or len({*call_ids}) < len(call_ids)


def _check_untypical(body: bytes, context: ReplyContext) -> bool:
    """Check a reply of any form."""
    losses = context.losses
    try:
        if _RESPONSE.decode(body).status in _OTHER_STATES:
            return True
        response = ENDED.decode(body)
        items = _RAWS.decode(response.output)
    except DECODE_ERRORS:
        losses.changed("response", "fields of the response are missing or invalid; replaced")
        return False
    passes = True
    if (response.status == "incomplete") != bool(response.incomplete_details):
        losses.changed("status", "contradicts incomplete_details; replaced")
        passes = False
    if not has_counts(response.usage):
        _report_usage(response.usage, losses)
        passes = False
    return _check_items(items, context) and passes


def _report_usage(raw: Raw, losses: Losses) -> None:
    """Report the token counts that are added; the reader reports those of a wrong type."""
    with suppress(InvalidRequestError):
        usage = read_usage(read_fields(raw, "usage"))
        if usage is not None:
            report_missing_counts(usage, losses)


def _check_items(items: list[Raw], context: ReplyContext) -> bool:
    passes, losses = True, context.losses
    item_ids: set[str] = set()
    call_ids = {*context.call_ids}
    for number, raw in enumerate(items):
        path, item = f"output[{number}]", read_complete(raw)
        if item is None:
            losses.changed(path, fault_in_complete(raw))
            passes = False
            continue
        if item.id in item_ids:
            losses.changed(path, "the id of the item is not unique; replaced")
            passes = False
        item_ids.add(item.id)
        if isinstance(item, NamedItem):
            # The reader reports what it changes.
            passes = passes and item.call_id not in call_ids and not item.lacks_arguments()
            call_ids.add(item.call_id)
    return passes


# What is kept of the backend's reply


def keep_reply_fields(body: bytes, written: Wire, _context: ReplyContext) -> Wire:
    """Return a repaired reply with the fields of the backend's reply that the IR lacks."""
    received = _OBJECT.decode(body)
    try:
        items = _OBJECTS.decode(received.get("output", NULL))
    except DECODE_ERRORS:
        items = []
    output = cast("list[Wire | Raw]", written["output"])
    if len(items) == len(output):
        pairs = zip(output, items, strict=True)
        output = [keep_item_fields(own, item, "") for own, item in pairs]
    heads = {name: written[name] for name in _WRITTEN_FIELDS}
    details = written["incomplete_details"]
    changes = heads if details is None else heads | {"incomplete_details": details}
    if is_present(usage := received.get("usage", NULL)):
        changes["usage"] = _keep_usage_fields(cast("Wire", written["usage"]), usage)
    # A reply that is changed anyway also gets the fields of the specification that it lacks, but no
    # usage that nobody has counted.
    added = {name: value for name, value in written.items() if name != "usage"}
    return {**added, **received, **changes, "output": output}


def keep_response_fields(written: Wire, received: Fields, context: ReplyContext) -> Wire:
    """Return a response with the backend's fields, unless the gateway writes or overrides them."""
    kept: Wire = {
        name: value
        for name, value in received.items()
        if name not in _RESPONSE_FIELDS
        and name not in context.response_overrides
        and (value != NULL or written.get(name) is None)
    }
    if "usage" in kept and isinstance(written.get("usage"), dict):
        kept["usage"] = _keep_usage_fields(cast("Wire", written["usage"]), received["usage"])
    return written | kept


def _keep_usage_fields(written: Wire, received: Raw) -> Wire:
    """Return the usage with the backend's other counts."""
    try:
        fields = _OBJECT.decode(received)
    except DECODE_ERRORS:
        return written
    return written | {name: value for name, value in fields.items() if name not in written}


def keep_item_fields(written: Wire | Raw, received: Fields, item_id: str) -> Wire | Raw:
    """Return an item with the backend's fields that the IR lacks."""
    if isinstance(written, Raw):
        fields = received or _OBJECT.decode(written)
        if not item_id or fields.get("id") == Raw(encode(item_id)):
            return Raw(encode(fields)) if received else written
        return {**fields, "id": item_id}
    kept: Wire = {name: value for name, value in received.items() if name not in written}
    for name in ("content", "summary"):
        if name in received and written.get(name):
            kept[name] = _keep_part_fields(cast("list[Wire]", written[name]), received[name])
    return written | kept


def _keep_part_fields(written: list[Wire], received: Raw) -> list[Wire]:
    try:
        parts, objects = _PARTS.decode(received), _OBJECTS.decode(received)
    except DECODE_ERRORS:
        return written
    if len(parts) != len(written):
        return written
    merged: list[Wire] = []
    for own, part, fields in zip(written, parts, objects, strict=True):
        same = (own["type"], own.get("text"), own.get("refusal")) == (
            part.type,
            part.text or own.get("text"),
            part.refusal or own.get("refusal"),
        )
        merged.append({**own, **fields} if same and part.is_canonical() else own)
    return merged
