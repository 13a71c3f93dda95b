"""Fields of the Assistants API: the settings of runs, and what has no place in a conversation."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from adapters import Loss

JsonObject = dict[str, object]

# The ids, times and states of all objects, and the usage of runs, which is no part of a request.
_BOOKKEEPING = frozenset(
    (
        *("id", "object", "thread_id", "run_id", "assistant_id", "status", "usage"),
        *("created_at", "started_at", "expires_at", "expired_at", "completed_at", "cancelled_at"),
        *("failed_at", "incomplete_at"),
    )
)
# The fields that are converted, or whose losses are reported with more detail.
_CONVERTED = {
    "thread": frozenset(("metadata", "messages", "runs", "run_steps", "steps")),
    "thread.message": frozenset(("role", "content", "attachments")),
    "thread.run": frozenset(("run_steps", "steps", "messages")),
    "thread.run.step": frozenset(("type", "step_details")),
}


def _tool_choice(value: object) -> object:
    """Return a tool choice in the form of the Responses API."""
    if not isinstance(value, dict):
        return value
    choice = cast("dict[str, object]", value)
    inner = choice.get("function")
    return {**cast("JsonObject", inner), "type": "function"} if isinstance(inner, dict) else choice


def _text(value: object) -> object:
    """Return a response format in the form of the Responses API; None for the default."""
    if not isinstance(value, dict):
        return None
    format_ = cast("dict[str, object]", value)
    inner = format_.get("json_schema")
    schema = cast("JsonObject", inner) if isinstance(inner, dict) else {}
    return {"format": {**schema, "type": format_.get("type")}}


def _same(value: object) -> object:
    return value


# The settings of a run, with the fields of a Responses request.
_SETTINGS: dict[str, tuple[str, Callable[[object], object]]] = {
    "model": ("model", _same),
    "instructions": ("instructions", _same),
    "tools": ("tools", _same),
    "tool_choice": ("tool_choice", _tool_choice),
    "parallel_tool_calls": ("parallel_tool_calls", _same),
    "temperature": ("temperature", _same),
    "top_p": ("top_p", _same),
    "max_completion_tokens": ("max_output_tokens", _same),
    "response_format": ("text", _text),
    "reasoning_effort": ("reasoning", lambda effort: {"effort": effort}),
}
# What runs have unless it is set; the same as without the field.
_DEFAULTS: JsonObject = {
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "top_p": 1.0,
    "response_format": "auto",
    "truncation_strategy": {"type": "auto", "last_messages": None},
}


def _is_set(name: str, value: object) -> bool:
    is_empty = value is None or value in ("", [], {})
    return not is_empty and (name not in _DEFAULTS or value != _DEFAULTS[name])


def dropped_fields(kind: str, fields: JsonObject, path: str) -> Iterable[Loss]:
    """Yield the losses of the fields of an object that a conversation does not have."""
    known = _BOOKKEEPING | _CONVERTED[kind] | (_SETTINGS if kind == "thread.run" else {}).keys()
    for name, value in fields.items():
        if name not in known and _is_set(name, value):
            yield Loss("dropped", f"{path}.{name}".lstrip("."), "a conversation has no such field")


def read_settings(
    runs: Sequence[tuple[JsonObject, str]], losses: list[Loss]
) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the settings of the last run as fields of a Responses request, and their paths."""
    if not runs:
        return {}, ()
    last, last_path = runs[-1]
    reason = "only the settings of the last run are converted"
    losses += [
        Loss("dropped", f"{path}.{name}", reason)
        for run, path in runs[:-1]
        for name in _SETTINGS
        if _is_set(name, run.get(name)) and run[name] != last.get(name)
    ]
    settings: JsonObject = {}
    paths: list[str] = []
    for name, (target, convert) in _SETTINGS.items():
        if _is_set(name, last.get(name)):
            settings[target] = convert(last[name])
            paths.append(f"{last_path}.{name}".lstrip("."))
    return settings, tuple(paths)
