"""Thinking: whether a model thinks before its reply, how it is switched off, and what that changes.

Each server has a field of its own that switches thinking off, and some accept fewer tool choices
while their model thinks.
"""

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.dialect import Dialect
from adapters.ir.types import ExtraField, NamedToolChoice, Request, ToolChoice
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.tool_emulation.tool_choice import requires_call
from adapters.wire.json_object import parse

_NO_THINKING = "none"
# The value of each field that switches thinking off.
_SWITCHED_OFF: Mapping[str, object] = {
    "thinking": {"type": "disabled"},
    "enable_thinking": False,
    "chat_template_kwargs": {"enable_thinking": False},
}
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


def fit_thinking(
    request: Request, capabilities: Capabilities, backend: Dialect, losses: Losses
) -> tuple[Request, Capabilities]:
    """Return the request, and the capabilities that the backend has for it."""
    choices = capabilities.tool_choices_while_thinking
    if choices is not None and is_thinking(request, capabilities, backend):
        if capabilities.forced_choice_disables_thinking and _forces_call(request.tool_choice):
            reason = "the backend cannot think if a call is required; thinking is switched off"
            losses.changed("effort", reason, "capability")
            request = _without_switches(replace(request, effort=_NO_THINKING))
        else:
            capabilities = replace(capabilities, tool_choices=choices)
    if request.effort == _NO_THINKING and capabilities.thinking_switch != "reasoning_effort":
        request = _switch_off(request, capabilities, backend, losses)
    return request, capabilities


def is_thinking(request: Request, capabilities: Capabilities, backend: Dialect) -> bool:
    """Whether the model thinks, as far as that is known."""
    for name, value in _sent_fields(request, capabilities, backend):
        switch = _read_switch(name, value)
        if switch is not None:
            return switch
    if request.effort is not None:
        return request.effort != _NO_THINKING
    return capabilities.thinks_by_default


def _sent_fields(
    request: Request, capabilities: Capabilities, backend: Dialect
) -> Iterator[tuple[str, object]]:
    """Yield the extra fields that the backend receives from the client and the configuration."""
    yield from _client_fields(request, capabilities, backend)
    yield from capabilities.extra_body.items()


def _client_fields(
    request: Request, capabilities: Capabilities, backend: Dialect
) -> Iterator[tuple[str, object]]:
    """Yield the extra fields that switch thinking and that the backend receives from the client."""
    for extra in request.extras:
        if extra.name in _SWITCHED_OFF and _is_sent(extra, capabilities, backend):
            try:
                yield extra.name, parse(extra.value)
            except DECODE_ERRORS:
                # The backend rejects the value.
                continue


def _is_sent(extra: ExtraField, capabilities: Capabilities, backend: Dialect) -> bool:
    return extra.family == backend.family or extra.name in capabilities.extra_fields


def _read_switch(name: str, value: object) -> bool | None:
    """Return whether a field switches thinking on or off; None if it does neither."""
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    match name:
        case "thinking":
            kind = fields.get("type")
            return kind != "disabled" if isinstance(kind, str) else None
        case "enable_thinking":
            return value if isinstance(value, bool) else None
        case "chat_template_kwargs":
            # Templates have either name.
            given = fields.get("enable_thinking", fields.get("thinking"))
            return given if isinstance(given, bool) else None
        case _:
            return None


def _forces_call(choice: ToolChoice | None) -> bool:
    return isinstance(choice, NamedToolChoice) or requires_call(choice)


def _without_switches(request: Request) -> Request:
    """Remove the fields in which the client switches thinking on."""
    extras = tuple(extra for extra in request.extras if extra.name not in _SWITCHED_OFF)
    return replace(request, extras=extras)


def _switch_off(
    request: Request, capabilities: Capabilities, backend: Dialect, losses: Losses
) -> Request:
    """Replace the effort `none` by the backend's own field; keep what the client sets in it."""
    if backend.reasoning != "message_field":
        # The Responses API has the effort only.
        return request
    name = capabilities.thinking_switch
    value = _SWITCHED_OFF[name]
    given = next((extra for extra in request.extras if extra.name == name), None)
    if given is not None and _is_sent(given, capabilities, backend):
        value = _merged(value, given.value)
    if _switches_on(request, capabilities, backend, name):
        losses.dropped("effort", f"none contradicts the field {name}, which is sent")
        return replace(request, effort=None)
    losses.changed("effort", f"none is sent in the field {name}", "adapted")
    switch = ExtraField(backend.family, name, Raw(msgspec.json.encode(value)), None)
    others = tuple(extra for extra in request.extras if extra is not given)
    return replace(request, effort=None, extras=(*others, switch))


def _switches_on(request: Request, capabilities: Capabilities, backend: Dialect, name: str) -> bool:
    """Whether the client switches thinking on in a field."""
    sent = dict(_client_fields(request, capabilities, backend))
    return _read_switch(name, sent.get(name)) is True


def _merged(value: object, given: Raw) -> object:
    if not isinstance(value, Mapping):
        return given
    try:
        return {**cast("Mapping[str, object]", value), **_OBJECT.decode(given)}
    except DECODE_ERRORS:
        return given
