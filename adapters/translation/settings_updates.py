"""Items of a conversation that change settings of the request from there on.

Only Responses has them. For a backend of another family, the last value of each setting applies to
the whole request.
"""

from msgspec.structs import replace

from adapters.ir.normalize import split_paths
from adapters.ir.types import OpaqueItem, Request
from adapters.losses import Losses
from adapters.wire.json_object import read_fields
from adapters.wire.tools import read_format

_KIND = "configuration_update"
# Fields that change no setting.
_OTHER_FIELDS = ("type", "id", "status", "agent")


def apply_settings_updates(request: Request, losses: Losses) -> Request:
    """Return a request with the settings of its items, and without these items."""
    if OpaqueItem not in map(type, request.items):
        # The usual case.
        return request
    items = request.items_with_paths()
    updates = [
        (item, path) for item, path in items if isinstance(item, OpaqueItem) and item.kind == _KIND
    ]
    if not updates:
        return request
    settings: dict[str, object] = {}
    # The path of each setting that will apply.
    sources: dict[str, str] = {}
    for item, path in updates:
        for name, value in _read_update(item, path, losses).items():
            settings[name] = value
            sources[name] = path
    for name, path in sources.items():
        given = getattr(request, name)
        if given is not None and given != settings[name]:
            losses.changed(name, f"replaced by the setting in {path}")
    for name, path in sources.items():
        # Later losses of the setting name its item.
        losses.move(name, path)
    for _, path in updates:
        if path in sources.values():
            losses.changed(path, "the settings are applied to the whole request")
        else:
            losses.dropped(path, "its settings are replaced by a later item")
    others, paths = split_paths([pair for pair in items if pair not in updates])
    return replace(request, items=others, paths=paths, **settings)


def _read_update(item: OpaqueItem, path: str, losses: Losses) -> dict[str, object]:
    """Return the settings of an item by the names of the IR; report its other fields."""
    fields = read_fields(item.value, path)
    for name in _OTHER_FIELDS:
        fields.raw(name)
    reasoning, text = fields.nested("reasoning"), fields.nested("text")
    effort = reasoning.string("effort") if reasoning else None
    format_ = read_format(text.nested("format") if text else None, item.family)
    for inner in filter(None, (fields, reasoning, text)):
        for name in inner.take_remaining():
            losses.dropped(inner.at(name), "items cannot change this setting")
    found: dict[str, object] = {"effort": effort, "format": format_}
    return {name: value for name, value in found.items() if value is not None}
