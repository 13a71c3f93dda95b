"""Deleting any field of a request with many fields changes what is sent, or the losses.

`test_unreported_fields.py` tries each field alone, with the same exceptions.
"""

import re
from collections.abc import Iterator
from itertools import product

import pytest

import adapters
from adapters.conformance import Json, Object
from tests.adapters.laws import surroundings, unreported
from tests.adapters.laws.test_unreported_fields import is_reported, is_within
from tests.exchange import Exchange
from tests.judges.random_values import RandomValues
from tests.judges.samples import encoded
from tests.judges.walk import Path, dotted, value_at, without

SEEDS = range(60)

# Fields that most backends refuse, and those of the deprecated functions.
APART = {
    *("background", "conversation", "logit_bias", "n", "previous_response_id", "prompt"),
    *("audio", "prediction", "function_call", "functions", "max_completion_tokens", "stream"),
    *("top_logprobs", "stream_options", "schema", "parameters"),
}
# Outputs need their calls, and these items cannot be translated.
_SKIPPED_KINDS = ("_output", "item_reference", "compaction", "compaction_trigger", "program")
_SKIPPED_ROLES = ("tool", "function")
_FUNCTION: Object = {"name": "some", "parameters": surroundings.SCHEMA}
TOOLS: dict[str, Json] = {
    "chat": {"type": "function", "function": _FUNCTION},
    "responses": {"type": "function", "strict": False, **_FUNCTION},
}
CHOICES: dict[str, Json] = {
    "chat": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [TOOLS["chat"]]},
    },
    "responses": {"type": "allowed_tools", "mode": "required", "tools": [TOOLS["responses"]]},
}
LISTS = {"input", "messages", "tools"}
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")
_INDEX = re.compile(r"\[\d+\]")


def request(dialect: str, seed: int) -> Object:
    """Return a request in which names of tools are declared, and outputs have their calls."""
    values = RandomValues(seed, APART)
    body = values.make(surroundings.REQUESTS[dialect]) | {"model": "m"}
    field = "messages" if dialect == "chat" else "input"
    given = body.get(field, "Hi.")
    if isinstance(given, list):
        items = [one for one in given if isinstance(one, dict) and _is_independent(one)]
        body[field] = [*items, {"role": "user", "content": "Hi."}]
    tools = body.get("tools", [])
    assert isinstance(tools, list)
    body["tools"] = [*tools, TOOLS[dialect]]
    body.pop("tool_choice", None)
    if seed % 3 == 0:
        body["tool_choice"] = CHOICES[dialect]
    return body


def _is_independent(item: Object) -> bool:
    kind, role = str(item.get("type", "message")), item.get("role")
    return not kind.endswith(_SKIPPED_KINDS) and role not in _SKIPPED_ROLES


def translate(
    dialect: str, backend: str, capabilities: adapters.Capabilities, body: Json
) -> tuple[bytes, tuple[adapters.Loss, ...]]:
    assert isinstance(body, dict)
    exchange = Exchange(dialect, backend, capabilities=capabilities, rewrite=True)
    sent = exchange.request(encoded({**body}))
    return sent.body, sent.losses


def accepted(dialect: str, backend: str, capabilities: adapters.Capabilities, body: Json) -> Json:
    """Return the request without what is refused; None if that is not possible."""
    for _ in range(40):
        try:
            translate(dialect, backend, capabilities, body)
        except adapters.DragomanError as error:
            path = _existing(body, error.path)
            if not path:
                return None
            body = without(body, path)
        else:
            return body
    return None


def _existing(body: Json, name: str | None) -> Path:
    """Return as much of a path as there is in a request."""
    path: list[str | int] = []
    for step in _STEP.findall(name or ""):
        key: str | int = int(step[1:-1]) if step.startswith("[") else step
        try:
            value_at(body, (*path, key))
        except (AssertionError, IndexError, KeyError, ValueError):
            break
        path.append(key)
    return tuple(path)


def paths(value: Json, place: Path = ()) -> Iterator[Path]:
    """Yield the paths of all parts of a value."""
    inner = enumerate(value) if isinstance(value, list) else ()
    for step, one in value.items() if isinstance(value, dict) else inner:
        yield (*place, step)
        yield from paths(one, (*place, step))


def is_listed(path: Path, value: Json, backend: str) -> bool:
    """Whether nothing may change without a value, by the exceptions of all laws."""
    field = next((step for step in reversed(path) if isinstance(step, str)), "")
    is_default = value in ({}, [], *unreported.DEFAULTS.get(field, ()))
    is_element = [value] in unreported.DEFAULTS.get(field, ())
    general = _INDEX.sub("[*]", dotted(path))
    listed = [*unreported.NOT_SENT]
    listed += unreported.NOT_SENT_TO_LEGACY if backend == "legacy" else ()
    return field == "type" or is_default or is_element or is_within(general, listed)


@pytest.mark.parametrize("profile", ["generic", "llama_cpp_python"])
@pytest.mark.parametrize(("dialect", "backend"), list(product(TOOLS, adapters.DIALECTS)))
def test_deleting_a_field_changes_the_request_or_its_losses(
    dialect: str, backend: str, profile: str
) -> None:
    found: list[str] = []
    capabilities = adapters.PROFILES[profile]
    for seed in SEEDS:
        body = accepted(dialect, backend, capabilities, request(dialect, seed))
        if body is None:
            continue
        sent = translate(dialect, backend, capabilities, body)
        # Settings that are replaced as a whole.
        changed = {loss.path for loss in sent[1] if loss.action == "changed"} - LISTS
        for path in paths(body):
            name = dotted(path)
            if is_reported(name, sent[1]) or path[0] in changed:
                continue
            try:
                other = translate(dialect, backend, capabilities, without(body, path))
            except adapters.DragomanError:
                continue
            if other == sent and not is_listed(path, value_at(body, path), backend):
                found.append(f"{seed}: {name} = {value_at(body, path)!r}")
    assert found == []
