"""The public names, their types and their docstrings."""

import inspect
import json
import textwrap
from collections import ChainMap, UserDict
from collections.abc import Callable
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import pytest

import adapters

# A change of these names is a change for users: write it into the changelog.
DOCUMENTED = {
    # Translating in one call
    *("translate_request", "translate_reply"),
    # Translating step by step, for a service
    *("parse_body", "RequestBody", "InputItem", "TranslationOptions", "read_client_request"),
    *("ClientRequest", "write_backend_request", "BackendRequest", "plan_reply", "ReplyPlan"),
    *("ReplyTranslator", "ReplyEnd", "CustomInput", "own_error"),
    # Options
    *("IdSource", "content_ids", "deterministic_ids", "Capabilities", "PROFILES"),
    *("ReplyOptions", "Policy", "Request", "EMPTY_REQUEST", "Sealer"),
    # Losses and errors
    *("Loss", "Severity", "DragomanError", "InvalidRequestError", "UnsupportedRequestError"),
    *("InvalidReplyError", "TransformError"),
    # Transforms
    *("Transform", "EventTransform", "ItemTransform", "TransformLosses"),
    # Dialects and conformance
    *("DIALECTS", "Dialect", "get_dialect", "dialects_by_path", "check", "Violation"),
}
# Neither an alias nor a table can have a docstring.
DESCRIBED = sorted(DOCUMENTED - {"DIALECTS", "EMPTY_REQUEST", "PROFILES", "Policy", "Severity"})

REQUEST = b"""{"model": "m", "stream": true, "input": "What is there?",
    "tools": [{"type": "function", "name": "look"}], "truncation": "auto"}"""
REPLY = b"""{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "A river."},
    "finish_reason": "stop"}]}"""
CHUNK = b"""data: {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": "A river."},
data: "finish_reason": "stop"}]}

data: [DONE]

"""


def test_exported_names_are_the_documented_ones() -> None:
    assert set(adapters.__all__) == DOCUMENTED
    assert sorted(set(adapters.__all__)) == sorted(adapters.__all__)


@pytest.mark.parametrize("package", ["adapters", "gateway"])
def test_types_are_shipped(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()


@pytest.mark.parametrize("name", DESCRIBED)
def test_public_name_is_described(name: str) -> None:
    described: object = getattr(adapters, name)
    doc = inspect.getdoc(described)
    # A dataclass without a docstring gets its signature for one.
    assert doc, name
    assert not doc.startswith(f"{name}("), name
    if isinstance(described, type):
        for method, function in inspect.getmembers(described, inspect.isfunction):
            if not method.startswith("_"):
                assert function.__doc__, f"{name}.{method}"


def test_example_of_the_package_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = adapters.__doc__ or ""
    blocks = [block for block in text.split("\n\n") if block.startswith("    ")]
    names: dict[str, object] = {
        "body": REQUEST,
        "backend_body": REPLY,
        "chunk": CHUNK,
        "recorded": CHUNK,
    }
    exec(textwrap.dedent("\n\n".join(blocks)), names)  # noqa: S102 - our own example
    output = capsys.readouterr().out
    assert "What is there?" in output
    assert "1 created is missing\n" in output
    reply, sent = names["reply"], names["sent"]
    assert isinstance(reply, adapters.ReplyEnd)
    assert b"response.completed" in reply.body
    # The last event comes with the end.
    assert isinstance(sent, bytes)
    assert sent.startswith(b"event: response.completed")


BOTH = (
    "profile cannot be combined with capabilities; to change a profile, give only "
    "capabilities=msgspec.structs.replace(adapters.PROFILES[...], ...)"
)


def test_dialect_itself_is_accepted_for_its_name() -> None:
    chat, responses = adapters.DIALECTS["chat"], adapters.DIALECTS["responses"]
    request = adapters.translate_request(REQUEST, client=responses, backend=chat)
    named = adapters.translate_request(REQUEST, client="responses", backend="chat")
    assert request.body == named.body
    assert adapters.check(chat, CHUNK) == adapters.check("chat", CHUNK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"client": "Chat"}, "client must be one of chat, responses, legacy, not 'Chat'"),
        ({"backend": "x"}, "backend must be one of chat, responses, legacy, not 'x'"),
        ({"policy": "Refuse"}, "policy must be one of report, refuse, not 'Refuse'"),
        ({"profile": "vLLM"}, f"profile must be one of {', '.join(adapters.PROFILES)}, not 'vLLM'"),
        (
            {"profile": "vllm", "capabilities": adapters.Capabilities()},
            BOTH,
        ),
    ],
)
def test_invalid_option_is_rejected(options: dict[str, Any], message: str) -> None:
    dialects: dict[str, Any] = {"client": "responses", "backend": "chat"}
    with pytest.raises(adapters.InvalidRequestError) as caught:
        adapters.translate_request(REQUEST, **(dialects | options))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "kind", [bytearray, memoryview, dict, MappingProxyType, UserDict, ChainMap]
)
def test_body_of_each_type_is_accepted(kind: Callable[[Any], Any]) -> None:
    def convert(data: bytes) -> Any:
        # Mappings are nested.
        return kind(data) if kind in {bytearray, memoryview} else json.loads(data, object_hook=kind)

    def translate(request: Any, reply: Any) -> tuple[object, bytes]:
        ids = adapters.deterministic_ids()
        sent = adapters.translate_request(request, client="responses", backend="chat", ids=ids)
        return json.loads(sent.body), adapters.translate_reply(reply, sent).body

    assert translate(convert(REQUEST), convert(REPLY)) == translate(REQUEST, REPLY)


def test_value_that_is_not_json_is_rejected() -> None:
    body = {"model": "m", "input": object()}
    with pytest.raises(TypeError, match="objects of type object cannot be written as JSON"):
        adapters.translate_request(body, client="responses", backend="chat")
