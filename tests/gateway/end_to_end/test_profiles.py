"""Profiles over sockets: each backend here rejects what its servers reject.

The clients of every dialect have the same conversation with a tool. A backend fails with status 400
and a reason that is none of a refused field, so that no request is sent a second time.
"""

import re
from collections.abc import Callable, Iterator

import pytest

from gateway.pytest_plugin.scripted_backend import (
    ReceivedRequest,
    Script,
    ScriptedBackend,
    json_reply,
)
from tests.gateway.backend_replies import Call, Turn, reply_script
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT, backend_table
from tests.gateway.plain_requests import request_path
from tests.judges.reading import JsonObject, object_in, objects_in
from tests.judges.samples import encoded

# Returns why a backend rejects a request; "" if it does not.
Rule = Callable[[JsonObject], str]

PROFILES = ("deepseek", "gemini", "glm", "kimi", "minimax", "vllm", "xai")
SCHEMA: JsonObject = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"n": {"type": "integer", "exclusiveMinimum": 0}, "const": {"const": "a"}},
    "additionalProperties": False,
}
FUNCTION: JsonObject = {"name": "count", "description": "Count.", "parameters": SCHEMA}
TURNS = (Turn("Well.", (Call("count", '{"n": 1}'),)), Turn("Done."))


@pytest.fixture(scope="module")
def node(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway with a backend for each profile, and with one of several kinds of models."""
    tables = [
        backend_table(backend.address, name, "chat", f'profile = "{name}"\n') for name in PROFILES
    ]
    rules = (
        "extra_body = { top_k = 20, options = { a = 1 } }\n"
        'model_aliases = { mixed-b = "real-7b" }\n'
        '[[backends.models]]\npattern = "mixed-a*"\nprofile = "glm"\nextra_body = { top_k = 40 }\n'
        '[[backends.models]]\npattern = "REAL-*"\ncapabilities = { developer_role = true }\n'
        "extra_body = { options = { b = 2 } }\n"
    )
    tables.append(
        backend_table(backend.address, "mixed", "chat").replace('models = ["mixed-*"]\n', "")
        + rules
    )
    with run_harness(backend, "".join(tables), tmp_path_factory.mktemp("profiles")) as harness:
        yield harness


def calls_of(request: JsonObject) -> list[JsonObject]:
    messages = objects_in(request, "messages")
    return [
        call for one in messages if "tool_calls" in one for call in objects_in(one, "tool_calls")
    ]


def deepseek(request: JsonObject) -> str:
    thinks = request.get("thinking") != {"type": "disabled"}
    forces = request.get("tool_choice", "none") != "none"
    turns = [one for one in objects_in(request, "messages") if "tool_calls" in one]
    if any("reasoning_content" not in turn for turn in turns):
        return "The reasoning_content in the thinking mode must be passed back"
    return "Thinking mode rejects this tool_choice" if thinks and forces else ""


def gemini(request: JsonObject) -> str:
    schemas = b"".join(
        encoded(object_in(tool, "function")) for tool in objects_in(request, "tools")
    )
    found = re.search(rb'"(\$schema|additionalProperties|exclusiveMinimum)"|"const":"', schemas)
    return "" if found is None else f"cannot find {found.group()!r}"


def glm(request: JsonObject) -> str:
    if request.get("reasoning_effort") is not None:
        return "no efforts"
    streams = request.get("stream") is True
    return "" if request.get("tool_stream", False) == streams else "arguments in one piece"


def kimi(request: JsonObject) -> str:
    ids = [str(call["id"]) for call in calls_of(request)]
    outputs = [one for one in objects_in(request, "messages") if one["role"] == "tool"]
    expected = [f"functions.count:{number}" for number in range(len(ids))]
    return "" if ids == expected == [one["tool_call_id"] for one in outputs] else f"ids {ids}"


def minimax(request: JsonObject) -> str:
    if request.get("reasoning_split") is not True:
        return "the reasoning is not split"
    return "an effort" if "reasoning_effort" in request else ""


def vllm(request: JsonObject) -> str:
    kwargs = {"enable_thinking": False}
    ignored = request.get("reasoning_effort") == "none"
    return "" if not ignored or request.get("chat_template_kwargs") == kwargs else "it still thinks"


def xai(request: JsonObject) -> str:
    return "no efforts" if "reasoning_effort" in request else ""


RULES: dict[str, Rule] = {
    "deepseek": deepseek,
    "gemini": gemini,
    "glm": glm,
    "kimi": kimi,
    "minimax": minimax,
    "vllm": vllm,
    "xai": xai,
}


def strict_backend(rule: Rule) -> Callable[[ReceivedRequest], Script]:
    def reply(received: ReceivedRequest) -> Script:
        request = received.json()
        reason = rule(request)
        if reason:
            return json_reply(encoded({"error": {"message": reason}}), status=400)
        return reply_script("chat", TURNS[bool(calls_of(request))], request)

    return reply


def conversation(client: str, model: str, effort: str) -> list[JsonObject]:
    """Return the two requests of a conversation with one call."""
    user = {"role": "user", "content": "Count."}
    if client == "responses":
        body: JsonObject = {
            "model": model,
            "reasoning": {"effort": effort},
            "tool_choice": "required",
        }
        body["tools"] = [{"type": "function", **FUNCTION}]
        call = {"type": "function_call", "call_id": "c1", "name": "count", "arguments": '{"n":1}'}
        output = {"type": "function_call_output", "call_id": "c1", "output": "1"}
        items = [user, call, output]
        return [{**body, "input": items[:1]}, {**body, "input": items}]
    body = {"model": model, "reasoning_effort": effort}
    function = {"name": "count", "arguments": '{"n":1}'}
    if client == "legacy":
        body |= {"functions": [FUNCTION], "function_call": {"name": "count"}}
        turn: JsonObject = {"role": "assistant", "content": None, "function_call": function}
        result = {"role": "function", "name": "count", "content": "1"}
    else:
        body |= {"tools": [{"type": "function", "function": FUNCTION}], "tool_choice": "required"}
        made = {"id": "c1", "type": "function", "function": function}
        turn = {"role": "assistant", "content": None, "tool_calls": [made]}
        result = {"role": "tool", "tool_call_id": "c1", "content": "1"}
    return [{**body, "messages": [user]}, {**body, "messages": [user, turn, result]}]


@STREAMED_OR_NOT
@pytest.mark.parametrize("effort", ["none", "high"])
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_client_satisfies_the_server(
    profile: str, client: str, effort: str, node: Harness, *, streamed: bool
) -> None:
    model = node.new_model(profile)
    node.backend.respond_with(model, strict_backend(RULES[profile]))
    replies = [
        node.post({**body, "stream": streamed}, request_path(client))
        for body in conversation(client, model, effort)
    ]
    assert [one.status for one in replies] == [200, 200], [one.body for one in replies]
    assert b"Done." in replies[-1].body
    assert len(node.backend.received(model)) == 2


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("mixed-x", {"top_k": 20, "options": {"a": 1}}),
        ("mixed-a1", {"top_k": 40, "options": {"a": 1}, "tool_stream": True}),
        ("mixed-b", {"top_k": 20, "options": {"b": 2}}),
    ],
)
@pytest.mark.parametrize("client", DIALECTS)
def test_models_have_fields_of_their_own(
    client: str, model: str, sent: JsonObject, node: Harness
) -> None:
    real = {"mixed-b": "real-7b"}.get(model, model)
    node.backend.respond_with(real, lambda it: reply_script("chat", Turn("Done."), it.json()))
    [body, _] = conversation(client, model, "low")
    response = node.post({**body, "stream": True}, request_path(client))
    assert response.status == 200, response.body
    request = node.sent_json(real)
    assert {name: request[name] for name in sent} == sent
    assert ("tool_stream" in request) == ("tool_stream" in sent)


def test_field_of_the_client_is_not_replaced(node: Harness) -> None:
    node.backend.respond_with("mixed-y", lambda it: reply_script("chat", Turn("Hi"), it.json()))
    options = {"a": 2, "c": 3}
    assert node.request("chat", "mixed-y", top_k=3, options=options).status == 200
    request = node.sent_json("mixed-y")
    assert (request["top_k"], request["options"]) == (3, options)
