"""The OpenAPI document is consistent and describes what clients and the gateway send."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from litestar.testing import TestClient
from syrupy.assertion import SnapshotAssertion

from adapters.conformance import Json
from adapters.sse import Decoder
from gateway import dry_run
from gateway.app import create_app
from gateway.config.schema import Config, StateConfig
from gateway.openapi.chat_reply import ChatChunk, ChatReply
from gateway.openapi.chat_request import ChatRequest
from gateway.openapi.common import ErrorBody
from gateway.openapi.objects import TranslateReply, TranslateRequest
from gateway.openapi.responses_items import (
    HOSTED_ITEM_TYPES,
    HOSTED_TOOL_TYPES,
    KnownItem,
    KnownTool,
)
from gateway.openapi.responses_reply import ResponsesEvent, ResponsesReply
from gateway.openapi.responses_request import KnownToolChoice, ResponsesRequest
from gateway.pytest_plugin.formats import format_json
from tests.adapters.test_field_coverage import (
    SPOTS,
    assert_listed,
    fields_of,
    label,
    sample_field,
    sample_object,
)
from tests.corpus import REQUESTS, RequestCase, case_params
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.sdk import judge_chat_request, judge_error, judge_responses_request
from tests.snapshots import SNAPSHOTS

TYPES: dict[str, Any] = {"chat": ChatRequest, "legacy": ChatRequest, "responses": ResponsesRequest}
IN_MEMORY = Config(state=StateConfig(url="memory:"))


@cache
def document() -> JsonObject:
    """Return the document, which is the same at all its paths."""
    with TestClient(create_app(IN_MEMORY)) as client:
        response = client.get("/schema")
        assert response.status_code == 200
        for path in ("/schema/openapi.json", "/v1/schema", "/v1/schema/openapi.json"):
            other = client.get(path)
            assert other.content == response.content
            assert other.headers["content-type"] == response.headers["content-type"]
    return read_object(response.content)


def test_other_paths_below_schema_are_not_found() -> None:
    with TestClient(create_app(IN_MEMORY)) as client:
        response = client.get("/schema/elsewhere")
    assert response.status_code == 404
    judge_error(response.content)


def _at(*path: str) -> Any:
    value: Any = document()
    for name in path:
        value = value[name]
    return value


# The document itself


def test_document_matches_the_snapshot(json_snapshot: SnapshotAssertion) -> None:
    assert format_json(document()) == json_snapshot(name="openapi")


def _operations() -> list[Any]:
    return [operation for item in _at("paths").values() for operation in item.values()]


def test_every_error_has_the_same_body() -> None:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    # Dialects without a description have errors of any form, and `/ready` lists its reasons.
    described = [one for one in _operations() if one["tags"] != ["Other dialects"]]
    for operation in (one for one in described if one["operationId"] != "getReadiness"):
        errors = [one for status, one in operation["responses"].items() if status != "200"]
        assert all(error["content"] == content for error in errors)


def test_every_operation_is_named_and_described() -> None:
    operations = _operations()
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert operation["summary"]
        assert operation["tags"]
        assert all(response["description"] for response in operation["responses"].values())
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], (operation["operationId"], parameter["name"])


def _objects(value: object) -> Iterator[JsonObject]:
    """Return every object in a value, at any depth."""
    if isinstance(value, dict):
        yield cast("JsonObject", value)
        value = list(cast("JsonObject", value).values())
    if isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _objects(inner)


def test_every_reference_resolves_and_every_type_is_used() -> None:
    types = {f"#/components/schemas/{name}" for name in _at("components", "schemas")}
    assert len(types) > 100
    references: set[object] = set()
    for one in _objects(document()):
        references |= {one["$ref"]} if isinstance(one.get("$ref"), str) else set()
        if "discriminator" in one:
            references |= set(cast("Any", one["discriminator"])["mapping"].values())
    assert references == types


def test_every_type_has_a_description_and_its_required_fields() -> None:
    for name, schema in _at("components", "schemas").items():
        if "anyOf" in schema:
            continue
        assert schema["type"] == "object", name
        assert schema["description"], name
        assert "\n    " not in schema["description"], name
        assert set(schema.get("required", ())) <= set(schema["properties"]), name


# The types and what is sent


def _understands(value: Any, kind: Any) -> bool:
    """Whether a type has all the fields of a value."""
    try:
        return _contains(msgspec.to_builtins(msgspec.convert(value, kind)), value)
    except msgspec.ValidationError:
        return False


def _contains(whole: Json, part: Json) -> bool:
    """Whether a value has all of another; a null may be missing."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(
            inner is None or (name in whole and _contains(whole[name], inner))
            for name, inner in part.items()
        )
    if isinstance(whole, list) and isinstance(part, list):
        pairs = zip(whole, part, strict=False)
        return len(whole) == len(part) and all(_contains(one, other) for one, other in pairs)
    return whole == part


def _undocumented(body: Any, dialect: str) -> list[Any]:
    """Return what of a request its type does not have."""
    parts = [(body, TYPES[dialect]), *(_responses_parts(body) if dialect == "responses" else ())]
    return [value for value, kind in parts if not _understands(value, kind)]


def _responses_parts(body: Any) -> Iterator[tuple[Any, Any]]:
    """Return the items, the tools and the tool choice of a request, with their types.

    Conversion accepts them all, because their unions include types of which nothing is documented.
    """
    given = [_with_type(item) for item in _list(body, "input")]
    items = [item for item in given if item["type"] not in HOSTED_ITEM_TYPES]
    tools = [tool for part in (body, *items) for tool in _list(part, "tools")]
    yield from ((item, KnownItem) for item in items)
    yield from ((tool, KnownTool) for tool in tools if tool["type"] not in HOSTED_TOOL_TYPES)
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.keys() != {"type"} and choice["type"] != "mcp":
        yield choice, KnownToolChoice


def _list(value: Any, name: str) -> list[Any]:
    found: list[Any] | str | None = value.get(name)
    return found if isinstance(found, list) else []


def _with_type(item: JsonObject) -> JsonObject:
    """Add the type that may be omitted; a Struct must have its tag."""
    return {"type": "message" if "role" in item else "item_reference", **item}


# Fields that a request may have and the document does not list, each with the reason.
OPEN = "the package does not say what it is, but it is a JSON Schema"
NOT_DOCUMENTED = {
    "tool_search_tool_param.parameters": OPEN,
    "namespace_tool_param.ToolFunction.parameters": OPEN,
    "tool_search_output_namespace_tool_param.ToolFunction.parameters": OPEN,
}


def test_every_field_of_a_request_is_documented() -> None:
    missing: set[str] = set()
    for spot in SPOTS:
        minimal = sample_object(spot.params)
        for name in fields_of(spot.params):
            body = spot.place({**minimal, name: sample_field(spot.params, name)})
            if _undocumented(body, spot.dialect):
                missing.add(f"{label(spot.params)}.{name}")
    assert_listed(missing, NOT_DOCUMENTED)


def _is_valid(case: RequestCase) -> bool:
    """Whether the openai package accepts a request; the others are malformed on purpose."""
    judge = judge_responses_request if case.dialect == "responses" else judge_chat_request
    try:
        judge(bytes(case.body))
    except (AssertionError, ValueError):
        return False
    return True


@pytest.mark.parametrize("case", case_params(filter(_is_valid, REQUESTS)))
def test_valid_request_fits_its_type(case: RequestCase) -> None:
    assert not _undocumented(msgspec.json.decode(bytes(case.body)), case.dialect)


WRITTEN: dict[str, Any] = {
    "replies/*-to-chat/*.json": ChatReply,
    "replies/*-to-legacy/*.json": ChatReply,
    "replies/*-to-responses/*.json": ResponsesReply,
    "streams/*-to-chat/*.sse": ChatChunk,
    "streams/*-to-legacy/*.sse": ChatChunk,
    "streams/*-to-responses/*.sse": ResponsesEvent,
    **{f"errors/*-to-{name}/*.json": ErrorBody for name in TYPES},
}


@pytest.mark.parametrize("pages", WRITTEN)
def test_written_replies_fit_their_types(pages: str) -> None:
    # Within one dialect, clients also receive fields and events that only the backend knows.
    paths = [path for path in sorted(SNAPSHOTS.glob(pages)) if not _is_same_dialect(path)]
    assert paths
    for path in paths:
        for value in _values(path):
            # Every reply may be an error instead.
            kind = ErrorBody if list(value) == ["error"] else WRITTEN[pages]
            try:
                msgspec.convert(value, kind)
                msgspec.convert(_written_items(value), list[KnownItem])
            except msgspec.ValidationError as error:
                raise AssertionError(f"{path}: {error}") from error


def _is_same_dialect(path: Path) -> bool:
    client, backend = path.parent.name.split("-to-")
    return client == backend


def _values(path: Path) -> Iterator[JsonObject]:
    """Return the object in a snapshot, or the data of all its events."""
    if path.suffix == ".json":
        yield object_in(read_object(path.read_bytes()), "body")
        return
    decoder = Decoder()
    for frame in [*decoder.feed(path.read_bytes()), *decoder.flush()]:
        if frame.data != b"[DONE]":
            yield read_object(frame.data)


def _written_items(value: JsonObject) -> list[JsonObject]:
    """Return the items of a response or an event whose fields are documented."""
    response = object_in(value, "response") if "response" in value else value
    items = objects_in(response, "output") if "output" in response else []
    items += [object_in(value, "item")] if "item" in value else []
    return [item for item in items if item["type"] not in HOSTED_ITEM_TYPES]


def _names(kind: type) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def test_dry_run_has_the_documented_fields() -> None:
    assert _names(TranslateRequest) == _names(dry_run.TranslateRequest)
    assert _names(TranslateReply) == _names(dry_run.TranslateResult)
