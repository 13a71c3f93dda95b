"""Schemas for servers that accept only some keywords of JSON Schema.

A keyword with an equivalent is rewritten, others are removed, and each is reported with its path.
The names of properties are never taken for keywords.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.errors import InvalidRequestError
from adapters.ir.types import FunctionTool, ResponseFormat, Tool
from adapters.losses import Losses, Severity
from adapters.wire.json_object import Json, parse

_NAMED_SCHEMAS: Final = frozenset(("properties", "patternProperties", "$defs", "definitions"))
_ADDITIONAL: Final = "additionalProperties"
# Keywords with one schema, or a list of schemas, as their value.
_INNER_SCHEMAS: Final = frozenset(
    ("items", "anyOf", "oneOf", "allOf", "prefixItems", "not", _ADDITIONAL)
)
# Keywords that do not restrict the value: definitions do so only where they are referred to.
_WITHOUT_EFFECT: Final = frozenset(
    (
        "$anchor",
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "definitions",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    )
)
_NOT_SUPPORTED: Final = "the backend does not support this keyword"
# The results for longer schemas are not kept in memory.
_MAX_CACHED_BYTES: Final = 32 * 1024
_MAX_SCHEMAS: Final = 20_000

Keywords = tuple[str, ...]


class _Change(Struct, frozen=True):
    """A keyword that was rewritten, or removed if `rewritten` is false."""

    path: str
    reason: str
    severity: Severity
    rewritten: bool


def fit_function_schema(tool: Tool, path: str, accepted: Keywords, losses: Losses) -> Tool:
    """Return a function whose schema has only accepted keywords; return other tools unchanged."""
    if not isinstance(tool, FunctionTool) or tool.parameters is None:
        return tool
    schema = fit_schema(tool.parameters, f"{path}.parameters", accepted, losses)
    return tool if schema is tool.parameters else replace(tool, parameters=schema)


def fit_format_schema(
    format_: ResponseFormat, accepted: Keywords, losses: Losses
) -> ResponseFormat:
    """Return a format whose schema has only accepted keywords."""
    if format_.schema is None:
        return format_
    return replace(format_, schema=fit_schema(format_.schema, "format.schema", accepted, losses))


def fit_schema(schema: Raw, path: str, accepted: Keywords, losses: Losses) -> Raw:
    """Return a schema with only accepted keywords; the same object if it has no others."""
    encoded = bytes(schema)
    fit = _fit_cached if len(encoded) <= _MAX_CACHED_BYTES else _fit
    written, changes = fit(encoded, accepted)
    for change in changes:
        report = losses.changed if change.rewritten else losses.dropped
        report(path + change.path, change.reason, change.severity)
    return Raw(written) if changes else schema


def _fit(encoded: bytes, accepted: Keywords) -> tuple[bytes, tuple[_Change, ...]]:
    try:
        parsed = parse(Raw(encoded))
        writer = _SchemaWriter(parsed, frozenset(accepted))
        return msgspec.json.encode(writer.write(parsed)), tuple(writer.changes)
    except (InvalidRequestError, RecursionError):
        # The backend rejects the schema.
        return encoded, ()


# Clients send the same tools in every turn.
_fit_cached = lru_cache(maxsize=512)(_fit)


class _Places(Struct):
    """Where the client has the keywords of a schema."""

    path: str
    # The paths of keywords that were not in the schema itself.
    moved: dict[str, str] = {}

    def of(self, keyword: str) -> str:
        """Return the path of a keyword."""
        return self.moved.get(keyword, f"{self.path}.{keyword}")


class _SchemaWriter:
    """Writes one schema with the accepted keywords."""

    def __init__(self, root: Json, accepted: frozenset[str]) -> None:
        self._root = root
        self._accepted = accepted
        self.changes: list[_Change] = []
        # The references that are being resolved, to find recursive ones.
        self._resolving: list[str] = []
        # The number of schemas so far: each reference adds a copy of its definition.
        self._size = 0

    def write(self, schema: Json, path: str = "", moved: Mapping[str, str] | None = None) -> Json:
        """Return a schema, and all schemas in it, with accepted keywords only.

        `moved` has the paths of keywords that the client did not send at this path.
        """
        if isinstance(schema, bool):
            return self._without_boolean(schema, path)
        if not isinstance(schema, dict):
            return schema
        self._size += 1
        if self._size > _MAX_SCHEMAS:
            raise InvalidRequestError(None, "the schema is too large")
        places = _Places(path, dict(moved or {}))
        schema = self._merged(schema, places)
        if "$ref" in schema and "$ref" not in self._accepted:
            return self._write_reference(schema, places)
        written: dict[str, Json] = {}
        for keyword, value in self._rewritten(schema, places).items():
            where = places.of(keyword)
            if keyword not in self._accepted or self._is_tuple(keyword, value):
                severity: Severity = "adapted" if keyword in _WITHOUT_EFFECT else "hint"
                self._report(where, _NOT_SUPPORTED, severity)
            elif keyword in _NAMED_SCHEMAS and isinstance(value, dict):
                named = value.items()
                written[keyword] = {name: self.write(one, f"{where}.{name}") for name, one in named}
            elif keyword in _INNER_SCHEMAS and isinstance(value, list):
                parts = enumerate(value)
                written[keyword] = [self.write(one, f"{where}[{i}]") for i, one in parts]
            elif keyword in _INNER_SCHEMAS and (keyword, type(value)) != (_ADDITIONAL, bool):
                written[keyword] = self.write(value, where)
            else:
                written[keyword] = value
        return written

    def _without_boolean(self, schema: bool, path: str) -> Json:  # noqa: FBT001 - a schema
        """Return a schema that accepts all values, in place of one that is true or false."""
        severity: Severity = "adapted" if schema else "hint"
        reason = "the backend supports no schemas that are booleans; sent as {}"
        self._report(path, reason, severity, rewritten=True)
        return {}

    def _is_tuple(self, keyword: str, value: Json) -> bool:
        """Whether a keyword has one schema for each element, as `items` in old drafts."""
        is_list = keyword == "items" and isinstance(value, list)
        return is_list and "prefixItems" not in self._accepted

    def _report(
        self, path: str, reason: str, severity: Severity = "hint", *, rewritten: bool = False
    ) -> None:
        self.changes.append(_Change(path, reason, severity, rewritten))

    def _rewritten(self, schema: Mapping[str, Json], places: _Places) -> Mapping[str, Json]:
        """Return a schema with equivalents of those keywords that are not accepted."""
        for keyword, rewrite in _REWRITES.items():
            if keyword not in schema or keyword in self._accepted:
                continue
            rest = {name: value for name, value in schema.items() if name != keyword}
            change = rewrite(schema[keyword], rest)
            if change is not None and self._accepted.issuperset(change):
                # Only this equivalent accepts exactly the same values.
                severity: Severity = "adapted" if keyword == "const" else "hint"
                equivalent = ", ".join(change)
                reason = f"the backend does not support this keyword; sent as {equivalent}"
                where = places.of(keyword)
                self._report(where, reason, severity, rewritten=True)
                places.moved |= dict.fromkeys(change, where)
                schema = rest | change
        if "nullable" in self._accepted and _has_null_beside_strings(schema.get("enum")):
            schema = self._without_null(schema, places.of("enum"))
        if isinstance(schema.get("type"), list) and "nullable" in self._accepted:
            schema = self._with_single_type(schema, places.of("type"))
        if _lacks_type(schema) and "type" in self._accepted:
            reason = "the backend requires the type of an enum; added"
            self._report(places.of("enum"), reason, "adapted", rewritten=True)
            schema = {"type": "string", **schema}
        return schema

    def _without_null(self, schema: Mapping[str, Json], where: str) -> Mapping[str, Json]:
        """Return a schema with `nullable` instead of null in its `enum`."""
        values = schema["enum"]
        strings: list[Json] = (
            [value for value in values if value is not None] if isinstance(values, list) else []
        )
        reason = "the backend supports only strings in enum; null is sent as nullable"
        self._report(where, reason, "adapted", rewritten=True)
        return {**schema, "enum": strings, "nullable": True}

    def _merged(self, schema: dict[str, Json], places: _Places) -> dict[str, Json]:
        """Return a schema with the keywords of `allOf` in it, if they do not conflict."""
        parts = schema.get("allOf")
        if not isinstance(parts, list) or "allOf" in self._accepted:
            return schema
        merged = {name: value for name, value in schema.items() if name != "allOf"}
        if not all(isinstance(part, dict) and _merge(merged, part) for part in parts):
            return schema
        for number, part in enumerate(parts):
            for name in part if isinstance(part, dict) else ():
                places.moved.setdefault(name, f"{places.path}.allOf[{number}].{name}")
        places.moved |= {name: f"{places.path}.{name}" for name in schema}
        reason = "the backend does not support this keyword; its schemas are merged"
        self._report(f"{places.path}.allOf", reason, "adapted", rewritten=True)
        return merged

    def _write_reference(self, schema: Mapping[str, Json], places: _Places) -> Json:
        """Return the definition that a schema refers to, with the other keywords of the schema."""
        reference = schema["$ref"]
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        found = find_definition(self._root, reference) if isinstance(reference, str) else None
        if found is None or reference in self._resolving:
            self._report(places.of("$ref"), "the backend does not support such references")
            return self.write(rest if "type" in rest else {"type": "object", **rest}, places.path)
        reason = "the backend does not support references; replaced by the definition"
        self._report(places.of("$ref"), reason, "adapted", rewritten=True)
        self._resolving.append(str(reference))
        where = str(reference).removeprefix("#").replace("/", ".")
        beside = {name: f"{places.path}.{name}" for name in rest}
        written = self.write({**found, **rest}, where, beside)
        self._resolving.pop()
        return written

    def _with_single_type(self, schema: Mapping[str, Json], where: str) -> Mapping[str, Json]:
        """Return a schema with `nullable` or `anyOf` instead of a list of types."""
        listed = schema["type"]
        types = [kind for kind in listed if kind != "null"] if isinstance(listed, list) else []
        rest = {name: value for name, value in schema.items() if name != "type"}
        nullable = {"nullable": True} if isinstance(listed, list) and "null" in listed else {}
        self._report(where, "the backend supports only one type", "adapted", rewritten=True)
        if len(types) == 1:
            return {"type": types[0], **rest, **nullable}
        if "anyOf" in rest or not types:
            return {**rest, **nullable}
        return {**rest, "anyOf": [{"type": kind} for kind in types], **nullable}


def find_definition(root: Json, reference: str) -> Mapping[str, Json] | None:
    """Return the schema that a reference within the root names."""
    if not reference.startswith("#/"):
        return None
    found = root
    for name in reference[2:].split("/"):
        unescaped = name.replace("~1", "/").replace("~0", "~")
        found = found.get(unescaped) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _has_null_beside_strings(values: Json) -> bool:
    """Whether an `enum` consists of strings and null."""
    if not isinstance(values, list) or None not in values:
        return False
    return all(isinstance(value, str | None) for value in values) and values != [None]


def _lacks_type(schema: Mapping[str, Json]) -> bool:
    """Whether a schema lists strings without their type.

    Servers with few keywords require it (https://github.com/decolua/9router/pull/380).
    """
    values = schema.get("enum")
    if not isinstance(values, list) or not values or "type" in schema or "anyOf" in schema:
        return False
    return all(isinstance(one, str) for one in values)


# Rewriting of single keywords: from the value of a keyword and the rest of the schema to the
# keywords to set, or None if there is no equivalent.
_Schema = Mapping[str, Json]
_Rewrite = Callable[[Json, _Schema], dict[str, Json] | None]


def _const(value: Json, rest: _Schema) -> dict[str, Json] | None:
    if "enum" in rest:
        return None
    # Servers with few keywords require the type of an `enum`.
    typed: dict[str, Json] = {"type": "string"} if isinstance(value, str) else {}
    return {"enum": [value]} if "type" in rest else {**typed, "enum": [value]}


def _bound(name: str, tightest: Callable[[float, float], float]) -> _Rewrite:
    """Return a rewrite of an exclusive bound to the inclusive one."""

    def rewrite(value: Json, rest: _Schema) -> dict[str, Json] | None:
        # In old drafts, it is a boolean that makes the inclusive bound exclusive.
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        other = rest.get(name)
        both = isinstance(other, int | float) and not isinstance(other, bool)
        return {name: tightest(value, other) if both and isinstance(other, int | float) else value}

    return rewrite


def _one_of(value: Json, rest: _Schema) -> dict[str, Json] | None:
    return None if "anyOf" in rest else {"anyOf": value}


def _merge(merged: dict[str, Json], part: _Schema) -> bool:
    """Merge a schema into another; return whether that was possible."""
    for name, value in part.items():
        known = merged.get(name)
        if name == "properties" and isinstance(known, dict) and isinstance(value, dict):
            merged[name] = {**known, **value}
        elif name == "required" and isinstance(known, list) and isinstance(value, list):
            merged[name] = [*known, *(one for one in value if one not in known)]
        elif name in merged and known != value:
            return False
        else:
            merged[name] = value
    return True


_REWRITES: Final[Mapping[str, _Rewrite]] = {
    "const": _const,
    "exclusiveMinimum": _bound("minimum", max),
    "exclusiveMaximum": _bound("maximum", min),
    "oneOf": _one_of,
}
