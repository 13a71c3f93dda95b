"""The meaning of a request, by which a replay finds the recording that belongs to it."""

import re
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from adapters import Dialect, DragomanError, Request, parse_body
from adapters.comparison import Difference, NormalBody, compare_normal
from adapters.conformance import Json, Object
from adapters.ir.types import Item, Message, Reasoning, Text
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses

# Fields that do not change what the model is asked, or that some dialects cannot express. Requests
# that differ in them match, but a recording in which they are equal is preferred.
MINOR_FIELDS: Final = frozenset(
    (
        *("stream", "include_usage", "include_obfuscation", "store", "metadata", "user", "hints"),
        *("safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        *("prompt_cache_options", "service_tier", "parallel_tool_calls", "moderation"),
    )
)
# Fields of items and tools that depend on the dialect of the client.
_IGNORED_FIELDS: Final = ("extras", "strict", "continues", "path")
_MINOR_SEVERITIES: Final = (None, "adapted", "hint")
# The first field of a path, the index or name of an entry, and the rest.
_PATH: Final = re.compile(r"(\w+)(?:\[([^\]]*)\])?(.*)", re.DOTALL)


class RequestMeaning:
    """A request in a form that does not depend on how its dialect writes it."""

    def __init__(self, dialect: Dialect, value: Object, paths: tuple[str, ...] = ()) -> None:
        self.dialect = dialect
        # The path of each item in the request.
        self.paths = paths
        model = value.get("model")
        self.model = model if isinstance(model, str) else ""
        self.body = NormalBody(value)
        major = {name: field for name, field in value.items() if name not in MINOR_FIELDS}
        # Equal for requests that match, unless one has redactions.
        self.fingerprint = NormalBody(major).fingerprint()


class RequestComparison(Struct, frozen=True):
    """How a request differs from a recorded one."""

    # With the paths of the recorded request, or those of the other one for what only that has.
    differences: list[Difference]
    # The number of differences that do not prevent a match.
    minor: int


def read_meaning(data: bytes, dialect: Dialect) -> RequestMeaning:
    """Return the meaning of a request; of one that cannot be read, only its JSON or its text."""
    try:
        return meaning_of(dialect.read_request(parse_body(data), Losses(None)), dialect)
    except DragomanError:
        return RequestMeaning(dialect, {"body": _decode(data)})


def meaning_of(request: Request, dialect: Dialect) -> RequestMeaning:
    """Return the meaning of a request that was read."""
    items = request.items_with_paths()
    if request.instructions is not None:
        items.insert(0, (Message("system", (Text(request.instructions),)), "instructions"))
    # Clients of some dialects do not send reasoning back.
    items = [(_normal(item), path) for item, path in items if not isinstance(item, Reasoning)]
    rest = replace(
        request, instructions=None, items=(), paths=(), tools=(), tool_paths=(), extras=()
    )
    value = _to_object(rest)
    value["items"] = [_without_ignored(_to_object(item)) for item, _ in items]
    tools = [_without_ignored(_to_object(tool)) for tool in request.tools]
    value["tools"] = sorted(tools, key=msgspec.json.encode)
    value["hints"], value["extras"] = (
        {
            extra.name: _decode(bytes(extra.value))
            for extra in request.extras
            if (extra.severity in _MINOR_SEVERITIES) is minor
        }
        for minor in (True, False)
    )
    return RequestMeaning(dialect, value, tuple(path for _, path in items))


def compare_requests(recorded: RequestMeaning, received: RequestMeaning) -> RequestComparison:
    """Compare a request with a recorded one."""
    differences: list[Difference] = []
    minor = 0
    for difference in compare_normal(recorded.body, received.body):
        match = _PATH.match(difference.path)
        if match is not None and match[1] in MINOR_FIELDS:
            minor += 1
        else:
            path = difference.path if match is None else _request_path(match, recorded, received)
            differences.append(replace(difference, path=path))
    return RequestComparison(differences, minor)


def _request_path(match: re.Match[str], recorded: RequestMeaning, received: RequestMeaning) -> str:
    """Return the path of a difference in the request itself."""
    field, index, rest = match.groups()
    if field == "items" and index is not None:
        # An item that only the received request has is not in the recorded one.
        only_received = not rest and int(index) >= len(recorded.paths)
        paths = received.paths if only_received else recorded.paths
        return paths[int(index)] + rest
    if field == "extras":
        return rest.removeprefix(".")
    bracket = "" if index is None else f"[{index}]"
    return f"{recorded.dialect.names.get(field, field)}{bracket}{rest}"


def _normal(item: Item) -> Item:
    """Return an item whose role does not depend on what a dialect calls the developer."""
    if isinstance(item, Message) and item.role == "developer":
        return replace(item, role="system")
    return item


def _to_object(struct: Struct) -> Object:
    value: Object = msgspec.json.decode(msgspec.json.encode(struct))
    return value


def _without_ignored(value: Json) -> Json:
    if isinstance(value, list):
        return [_without_ignored(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        key: field if key == "parameters" else _without_ignored(field)
        for key, field in value.items()
        if key not in _IGNORED_FIELDS
    }


def _decode(data: bytes) -> Json:
    try:
        value: Json = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return data.decode(errors="replace")
    return value
