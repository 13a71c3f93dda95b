"""The document at `/schema`: sound by itself, and true to what passes."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from litestar.testing import TestClient
from syrupy.assertion import SnapshotAssertion

from adapters.sse import Decoder
from gateway import dry_run
from gateway.app import create_app
from gateway.config.schema import Config, StateConfig
from gateway.openapi.chat_reply import ChatChunk, ChatReply
from gateway.openapi.chat_request import ChatRequest
from gateway.openapi.common import ErrorEnvelope
from gateway.openapi.objects import TranslateReply, TranslateRequest
from gateway.openapi.responses_reply import AnyEvent, ResponsesReply
from gateway.openapi.responses_request import ResponsesRequest
from tests.adapters.test_field_coverage import (
    SPOTS,
    Json,
    assert_listed,
    fields_of,
    label,
    sample_field,
)
from tests.adapters.test_field_coverage import sample_object as small_object
from tests.corpus import REQUESTS, RequestCase, alone
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.sdk import judge_chat_request, judge_error, judge_responses_request
from tests.snapshots import SNAPSHOTS, json_page

TYPES: dict[str, Any] = {"chat": ChatRequest, "legacy": ChatRequest, "responses": ResponsesRequest}
JUDGES = {
    "chat": judge_chat_request,
    "legacy": judge_chat_request,
    "responses": judge_responses_request,
}
# Nothing is to be kept where the tests are run.
FORGETFUL = Config(state=StateConfig(url="memory:"))
# Items whose type may be left out.
UNTYPED = {"role": "message", "id": "item_reference"}

OPERATIONS = {
    ("/chat/completions", "post"): ("ChatRequest", "ChatReply", "ChatChunk"),
    ("/responses", "post"): ("ResponsesRequest", "ResponsesReply", "ResponsesEvent"),
    ("/responses/{response_id}", "get"): (None, "ResponsesReply", "ResponsesEvent"),
    ("/responses/{response_id}/cancel", "post"): (None, "ResponsesReply", None),
    ("/responses/{response_id}", "delete"): (None, "Deleted", None),
    ("/responses/{response_id}/input_items", "get"): (None, "ItemList", None),
    ("/chat/completions", "get"): (None, "CompletionList", None),
    ("/chat/completions/{completion_id}", "get"): (None, "StoredCompletion", None),
    ("/chat/completions/{completion_id}", "post"): ("MetadataRequest", "StoredCompletion", None),
    ("/chat/completions/{completion_id}", "delete"): (None, "Deleted", None),
    ("/chat/completions/{completion_id}/messages", "get"): (None, "MessageList", None),
    ("/conversations", "post"): ("ConversationRequest", "Conversation", None),
    ("/conversations/{conversation_id}", "get"): (None, "Conversation", None),
    ("/conversations/{conversation_id}", "post"): ("MetadataRequest", "Conversation", None),
    ("/conversations/{conversation_id}", "delete"): (None, "Deleted", None),
    ("/conversations/{conversation_id}/items", "post"): ("ItemsRequest", "ItemList", None),
    ("/conversations/{conversation_id}/items", "get"): (None, "ItemList", None),
    ("/conversations/{conversation_id}/items/{item_id}", "get"): (None, "ConversationItem", None),
    ("/conversations/{conversation_id}/items/{item_id}", "delete"): (None, "Conversation", None),
    ("/responses/compact", "post"): ("CompactRequest", "CompactReply", None),
    ("/responses/input_tokens", "post"): ("InputTokensRequest", "InputTokensReply", None),
    ("/translate", "post"): ("TranslateRequest", "TranslateReply", None),
    ("/models", "get"): (None, "Models", None),
    ("/models/{name}", "get"): (None, "Model", None),
    ("/health", "get"): (None, "Health", None),
    ("/ready", "get"): (None, "Health", None),
}


@cache
def document() -> JsonObject:
    """Fetch the document from the service."""
    with TestClient(create_app(FORGETFUL)) as client:
        answer = client.get("/schema")
        assert answer.status_code == 200
        for path in ("/schema/openapi.json", "/v1/schema", "/v1/schema/openapi.json"):
            again = client.get(path)
            assert again.content == answer.content
            assert again.headers["content-type"] == answer.headers["content-type"]
    return read_object(answer.content)


def test_nothing_else_is_there() -> None:
    with TestClient(create_app(FORGETFUL)) as client:
        answer = client.get("/schema/elsewhere")
    assert answer.status_code == 404
    judge_error(answer.content)


def _at(*path: str) -> Any:
    found: Any = document()
    for name in path:
        found = found[name]
    return found


# The document by itself


def test_document_is_kept(json_pages: SnapshotAssertion) -> None:
    assert json_page(document()) == json_pages(name="openapi")


def test_document_says_what_it_is() -> None:
    assert _at("openapi").startswith("3.1.")
    assert _at("info", "title") == "Dragoman"
    assert _at("servers") == [{"url": "/v1"}]


def test_every_address_is_there_once() -> None:
    paths = set(_at("paths"))
    assert {path for path, _ in OPERATIONS} <= paths
    assert not [path for path in paths if path.startswith("/v1")]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_operation_names_its_types(path: str, method: str) -> None:
    taken, answered, streamed = OPERATIONS[path, method]
    operation = _at("paths", path, method)
    if taken is None:
        assert "requestBody" not in operation
    else:
        assert operation["requestBody"]["required"]
        assert operation["requestBody"]["content"] == _content(taken, None)
    assert operation["responses"]["200"]["content"] == _content(answered, streamed)


def _content(name: str, streamed: str | None) -> JsonObject:
    refs = {"application/json": name, "text/event-stream": streamed}
    return {
        media: {"schema": {"$ref": f"#/components/schemas/{ref}"}}
        for media, ref in refs.items()
        if ref is not None
    }


@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
def test_exchange_tells_its_errors(path: str) -> None:
    responses = _at("paths", path, "post", "responses")
    assert {"400", "401", "404", "413", "415", "429", "500", "502", "504"} <= set(responses)
    errors = [answer for status, answer in responses.items() if status != "200"]
    assert all(error["content"] == _content("ErrorEnvelope", None) for error in errors)


def test_every_operation_is_named_and_described() -> None:
    operations = [
        operation for item in _at("paths").values() for operation in item.values() if operation
    ]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert operation["summary"]
        assert all(answer["description"] for answer in operation["responses"].values())


def _objects(value: object) -> Iterator[JsonObject]:
    """Find every object, however deep."""
    if isinstance(value, dict):
        yield cast("JsonObject", value)
        value = list(cast("JsonObject", value).values())
    if isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _objects(inner)


def test_every_reference_leads_somewhere() -> None:
    known = {f"#/components/schemas/{name}" for name in _at("components", "schemas")}
    assert len(known) > 150
    found: set[object] = set()
    for one in _objects(document()):
        found |= {one["$ref"]} if isinstance(one.get("$ref"), str) else set()
        if "discriminator" in one:
            mapping = cast("Any", one["discriminator"])["mapping"]
            found |= set(mapping.values())
    assert found <= known
    unused = known - found
    assert not unused, "nothing leads there"


def test_every_type_is_described_and_whole() -> None:
    for name, schema in _at("components", "schemas").items():
        if "anyOf" in schema:
            continue
        assert schema["type"] == "object", name
        assert schema["description"], name
        assert "\n    " not in schema["description"], name
        assert set(schema.get("required", ())) <= set(schema["properties"]), name


# The types, and what passes


def _encoded(value: Any, shape: Any) -> Any:
    """Say again what a type understood of a value."""
    return msgspec.to_builtins(msgspec.convert(value, shape))


def _typed(body: Any) -> Any:
    """Give each item its type, where it may be left out: a Struct must have its tag."""
    if not isinstance(body.get("input"), list):
        return body
    items = objects_in(body, "input")
    return {**body, "input": [{"type": _type_of(item), **item} for item in items]}


def _type_of(item: JsonObject) -> str:
    return next((kind for name, kind in UNTYPED.items() if name in item), "")


# Fields that a request may have and the document does not show, each with the reason.
OPEN = "the package does not say what it is, but it is a JSON Schema"
NOT_SHOWN = {
    "tool_search_tool_param.parameters": OPEN,
    "namespace_tool_param.ToolFunction.parameters": OPEN,
    "tool_search_output_namespace_tool_param.ToolFunction.parameters": OPEN,
}


def test_every_field_of_a_request_is_shown() -> None:
    missing: set[str] = set()
    for spot in SPOTS:
        small = small_object(spot.params)
        for name in fields_of(spot.params):
            body = _typed(spot.place({**small, name: sample_field(spot.params, name)}))
            if not _understands(TYPES[spot.dialect], body):
                missing.add(f"{label(spot.params)}.{name}")
    assert_listed(missing, NOT_SHOWN)


def _understands(shape: Any, value: Json) -> bool:
    try:
        return _contains(_encoded(value, shape), value)
    except msgspec.ValidationError:
        return False


def _contains(whole: Json, part: Json) -> bool:
    """Tell whether a value has all of another; what is null may be missing."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(
            inner is None or (name in whole and _contains(whole[name], inner))
            for name, inner in part.items()
        )
    if isinstance(whole, list) and isinstance(part, list):
        pairs = zip(whole, part, strict=False)
        return len(whole) == len(part) and all(_contains(one, other) for one, other in pairs)
    return whole == part


def _is_regular(case: RequestCase) -> bool:
    """Ask the openai package; other cases show what is wrong in some way, and passes anyway."""
    try:
        JUDGES[case.dialect](bytes(case.body))
    except (AssertionError, ValueError):
        return False
    return True


@pytest.mark.parametrize("case", alone(filter(_is_regular, REQUESTS)))
def test_request_that_is_regular_fits(case: RequestCase) -> None:
    value = _typed(msgspec.json.decode(bytes(case.body)))
    assert _contains(_encoded(value, TYPES[case.dialect]), value)


WRITTEN: dict[str, Any] = {
    "replies/*-to-chat/*.json": ChatReply,
    "replies/*-to-legacy/*.json": ChatReply,
    "replies/*-to-responses/*.json": ResponsesReply,
    "streams/*-to-chat/*.sse": ChatChunk,
    "streams/*-to-legacy/*.sse": ChatChunk,
    "streams/*-to-responses/*.sse": AnyEvent,
    "errors/**/*.json": ErrorEnvelope,
}


@pytest.mark.parametrize("pages", WRITTEN)
def test_what_we_write_fits(pages: str) -> None:
    paths = sorted(SNAPSHOTS.glob(pages))
    assert paths
    for path in paths:
        for value in _values(path):
            # Instead of an answer there may be an error; it is told alike everywhere.
            shape = ErrorEnvelope if list(value) == ["error"] else WRITTEN[pages]
            try:
                msgspec.convert(value, shape)
            except msgspec.ValidationError as problem:
                raise AssertionError(f"{path}: {problem}") from problem


def _values(path: Path) -> Iterator[JsonObject]:
    """Read what a page holds: one object, or the data of many events."""
    if path.suffix == ".json":
        yield object_in(read_object(path.read_bytes()), "body")
        return
    decoder = Decoder()
    for frame in [*decoder.feed(path.read_bytes()), *decoder.flush()]:
        if frame.data != b"[DONE]":
            yield read_object(frame.data)


def _names(shape: type) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(shape)}


def test_dry_run_is_as_the_document_says() -> None:
    assert _names(TranslateRequest) == _names(dry_run.TranslateRequest)
    assert _names(TranslateReply) == _names(dry_run.Result)
