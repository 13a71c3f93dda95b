"""Fields that a backend refuses by name, in the words of many servers."""

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import adapters
from adapters.dialect import Dialect
from adapters.translation.refused_fields import (
    OPTIONAL_FIELDS,
    emulated_fields,
    leave_out,
    refused_fields,
)
from tests.judges.reading import JsonObject
from tests.judges.samples import encoded

CHAT = adapters.get_dialect("chat")
MESSAGES = [{"role": "user", "content": "hi"}]
REQUEST: JsonObject = {
    "model": "m",
    "messages": MESSAGES,
    "tools": [{"type": "function", "function": {"name": "f", "strict": True}}],
    "tool_choice": "auto",
    "response_format": {"type": "text"},
    "stream_options": {"include_usage": True},
    "reasoning": {"effort": "low", "summary": "auto"},
    "reasoning_effort": "low",
    "store": True,
    "metadata": {"a": "b"},
    "user": "u",
    "temperature": 0.5,
    "top_p": 1,
    "stop": ["END"],
    "invented": 1,
}
SENT = adapters.translate_request(REQUEST, client="chat", backend="chat")


def openai_error(message: str, param: str | None = None, code: str | None = None) -> JsonObject:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return {"error": error}


def pydantic_error(*fields: str) -> JsonObject:
    why = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted", "input": 1}
    return {"detail": [{**why, "loc": ["body", *field.split(".")]} for field in fields]}


WORDINGS: list[tuple[JsonObject, set[str]]] = [
    (openai_error("Unrecognized key(s) in object: 'store', 'user'"), {"store", "user"}),
    (openai_error("Parameter store not supported"), {"store"}),
    ({"message": "unknown field: parameter 'store' is not a valid field"}, {"store"}),
    (openai_error("Could not find member 'store' on object of type 'ChatRequest'."), {"store"}),
    (openai_error("The user is not allowed to access this model"), set()),
    (
        openai_error(
            'Unknown name "store" at '
            "'tools[0].function_declarations[0].parameters': Cannot find field."
        ),
        set(),
    ),
    (
        openai_error(
            "Unsupported parameter: 'temperature' is not supported with this model.",
            "temperature",
            "unsupported_parameter",
        ),
        {"temperature"},
    ),
    (openai_error("Unsupported parameter: 'stop' is not supported with this model."), {"stop"}),
    (
        openai_error(
            "Unsupported parameter: 'reasoning.summary' is not supported with this model.",
            "reasoning.summary",
            "unsupported_parameter",
        ),
        {"reasoning.summary"},
    ),
    (openai_error("Unknown parameter: 'store'.", "store", "unknown_parameter"), {"store"}),
    (openai_error("Unknown parameter: 'store'."), {"store"}),
    (openai_error("Unrecognized request argument supplied: stream_options"), {"stream_options"}),
    (openai_error("Unrecognized request arguments supplied: store, user"), {"store", "user"}),
    (
        openai_error(
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the"
            " default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        {"temperature"},
    ),
    (pydantic_error("store", "metadata"), {"store", "metadata"}),
    (pydantic_error("stream_options.include_usage"), {"stream_options.include_usage"}),
    ({"object": "error", "message": pydantic_error("user"), "code": None}, {"user"}),
    (
        {
            "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'store'), 'msg': 'Extra"
            " inputs are not permitted', 'input': True}]"
        },
        {"store"},
    ),
    (
        openai_error(
            '[{"type": "extra_forbidden", "loc": ["body", "store"], "msg": "Extra inputs are not'
            ' permitted", "input": true}]'
        ),
        {"store"},
    ),
    (
        openai_error("Malformed input request: #: extraneous key [store] is not permitted"),
        {"store"},
    ),
    (openai_error("`temperature` is deprecated for this model."), {"temperature"}),
    (openai_error("Unsupported parameter(s): `store`, `user`"), {"store", "user"}),
    (openai_error("The following parameters are not supported: store, user"), {"store", "user"}),
    (openai_error("Extra inputs are not permitted, field: 'store'"), {"store"}),
    (openai_error("body.user: extra fields not permitted"), {"user"}),
    (openai_error("property 'store' is unsupported"), {"store"}),
    (openai_error("body.store: property 'body.store' is unsupported"), {"store"}),
    (openai_error("Model m does not support parameter reasoningEffort."), {"reasoning_effort"}),
    (openai_error("Argument not supported on this model: topP"), {"top_p"}),
    (openai_error("m does not support parameters: {'store': True}, for model=m"), {"store"}),
    (
        openai_error('Invalid JSON payload received. Unknown name "store": Cannot find field.'),
        {"store"},
    ),
    (openai_error('json: unknown field "metadata"'), {"metadata"}),
    (openai_error("unknown field `user`, expected one of `model`, `messages`"), {"user"}),
    (openai_error("create() got an unexpected keyword argument 'user'"), {"user"}),
    (
        openai_error("Additional properties are not allowed ('store' was unexpected)"),
        {"store"},
    ),
    (openai_error("`top_p` is not supported for this model"), {"top_p"}),
    ({"detail": "Unsupported parameter: user"}, {"user"}),
    # A field that is required, unknown, or not in the request.
    (openai_error("Unknown parameter: 'messages'."), set()),
    (openai_error("Unsupported parameter: 'tools' is not supported with this model."), set()),
    (openai_error("Unknown parameter: 'tool_choice'.", "tool_choice", "unknown_parameter"), set()),
    (openai_error("response_format is not supported"), set()),
    (openai_error("Unknown parameter: 'invented'."), set()),
    (openai_error("Unknown parameter: 'seed'."), set()),
    (openai_error("Unknown parameter: 'reasoning.invented'."), set()),
    (openai_error("Unrecognized request arguments supplied: store, invented"), set()),
    (pydantic_error("store", "messages.0.name"), set()),
    (pydantic_error("tools.0.function.strict"), set()),
    # Other errors that name fields.
    (openai_error("Invalid value for 'temperature': 3. Expected a value up to 2."), set()),
    (openai_error("Function tools with reasoning_effort are not supported for m."), set()),
    (openai_error("metadata must have at most 16 properties", "metadata"), set()),
    (openai_error("Missing required parameter: 'user'.", "user", "missing_parameter"), set()),
    (openai_error("Unsupported value: 'low' is not supported with this model."), set()),
]


@pytest.mark.parametrize(("error", "expected"), WORDINGS)
def test_refused_field_is_found(error: JsonObject, expected: set[str]) -> None:
    read = CHAT.read_error(400, encoded(error))
    assert refused_fields(read, SENT) == expected


def test_request_that_is_not_an_object_has_no_refused_fields() -> None:
    error = CHAT.read_error(400, b"Unknown parameter: 'store'")
    assert refused_fields(error, replace(SENT, body=b"[1]")) == set()
    assert refused_fields(error, replace(SENT, body=b'{"store":true}')) == {"store"}
    assert refused_fields(error, replace(SENT, body=b'{"store":')) == set()


def test_several_choices_can_be_requested_one_by_one_if_that_is_allowed() -> None:
    error = CHAT.read_error(400, encoded(openai_error("Unknown parameter: 'n'.")))
    sent = replace(SENT, body=encoded({**REQUEST, "n": 2}))
    assert refused_fields(error, sent) == set()
    options = replace(SENT.reply_plan.options, max_choices=2)
    allowed = replace(sent, reply_plan=replace(SENT.reply_plan, options=options))
    assert refused_fields(error, allowed) == {"n"}


def test_long_message_is_read_in_little_time() -> None:
    error = CHAT.read_error(400, encoded(openai_error("unknown parameter: " + "a, " * 100_000)))
    assert refused_fields(error, SENT) == set()


# Requests without the fields


def left_out(
    client: str | Dialect, backend: str | Dialect, body: JsonObject, *fields: str
) -> tuple[JsonObject, list[adapters.Loss]]:
    translated = adapters.translate_request(body, client=client, backend=backend)
    request = leave_out(translated, fields, adapters.parse_body(encoded(body)))
    assert request.reply_plan is translated.reply_plan
    added = [loss for loss in request.losses if loss not in translated.losses]
    return json.loads(request.body), added


def test_field_is_removed_from_a_request_in_the_same_dialect() -> None:
    sent, (loss,) = left_out("chat", "chat", REQUEST, "store", "seed")
    assert sent == {name: value for name, value in REQUEST.items() if name != "store"}
    assert (loss.action, loss.path, loss.severity) == ("dropped", "store", "hint")


def test_loss_has_the_name_of_the_client() -> None:
    body: JsonObject = {"model": "m", "messages": MESSAGES, "reasoning_effort": "low"}
    sent, (loss,) = left_out("chat", "responses", body, "reasoning.effort")
    assert "reasoning" not in sent
    assert (loss.path, loss.severity) == ("reasoning_effort", "hint")


def test_rest_of_an_object_is_kept() -> None:
    body: JsonObject = {
        "model": "m",
        "input": "hi",
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    sent, (loss,) = left_out("responses", "responses", body, "reasoning.summary")
    assert sent["reasoning"] == {"effort": "low"}
    assert loss.path == "reasoning.summary"
    sent, losses = left_out("responses", "responses", body, "text.verbosity", "reasoning.context")
    assert (sent, losses) == (body, [])


def test_field_that_the_client_did_not_set_is_only_adapted() -> None:
    body: JsonObject = {"model": "m", "input": "hi", "stream": True}
    sent, (loss,) = left_out("responses", "chat", body, "stream_options")
    assert "stream_options" not in sent
    assert loss.severity == "adapted"


def test_fields_that_change_the_request_are_never_left_out() -> None:
    required = {"messages", "input", "model", "tools", "tool_choice", "response_format", "stream"}
    assert not required & (OPTIONAL_FIELDS | emulated_fields(SENT.reply_plan.options))
    assert left_out("chat", "chat", REQUEST, *required) == (REQUEST, [])


def test_documentation_lists_the_fields() -> None:
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    (listed,) = re.findall(r"(?m)^These fields can be left out: ([^:]*?)\. The effect", page)
    assert listed == ", ".join(f"`{field}`" for field in sorted(OPTIONAL_FIELDS))
