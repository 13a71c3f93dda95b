r"""The core of Dragoman, which translates between tool-calling dialects and reports losses.

    import adapters

    request = adapters.translate_request(body, client="responses", backend="chat")
    print(request.body, *request.losses, sep="\n")     # for the backend
    reply = adapters.translate_reply(backend_body, request)
    print(reply.body, *reply.losses, sep="\n")         # for the client

A stream is translated chunk by chunk:

    stream = adapters.ReplyTranslator(request.reply_plan, streamed=True)
    sent = stream.feed(chunk)                          # for each chunk
    sent = stream.finish().body                        # once at the end

A recorded stream is checked against the rules of its dialect:

    for violation in adapters.check("chat", recorded):
        print(violation.line, violation.message)

The package has no I/O, no clock and no randomness: ids and the time come from `ids`, by default
from the content of the request.
"""

from collections.abc import Iterable, Mapping
from typing import cast, get_args

import msgspec

from adapters.capabilities import GENERIC, Capabilities
from adapters.chat import CHAT
from adapters.conformance import Violation
from adapters.dialect import DEFAULT_REPLY_OPTIONS, Dialect, ReplyOptions
from adapters.errors import (
    DragomanError,
    InvalidReplyError,
    InvalidRequestError,
    TransformError,
    UnsupportedRequestError,
    invalid_choice,
)
from adapters.ids import IdSource, content_ids, deterministic_ids
from adapters.ir.types import EMPTY_REQUEST, Request
from adapters.legacy import LEGACY
from adapters.losses import Loss, Policy, Severity
from adapters.model_rules import BackendCapabilities
from adapters.profiles import PROFILES
from adapters.reasoning.sealed import Sealer
from adapters.responses import RESPONSES
from adapters.tool_emulation import CustomInput
from adapters.transforms import EventTransform, ItemTransform, Transform, TransformLosses
from adapters.translation.reply import ReplyEnd, ReplyTranslator, own_error
from adapters.translation.request import (
    BackendRequest,
    ClientRequest,
    ReplyPlan,
    TranslationOptions,
    plan_reply,
    read_client_request,
    write_backend_request,
)
from adapters.wire.json_object import InputItem, RequestBody, parse_body

__version__ = "0.1.0"

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (CHAT, RESPONSES, LEGACY)}


def get_dialect(name: str | Dialect, argument: str = "dialect") -> Dialect:
    """Return the dialect with this name; raise `InvalidRequestError` if there is none.

    A dialect itself is accepted, too. The error names the `argument`.
    """
    if isinstance(name, Dialect):
        return name
    if name not in DIALECTS:
        raise invalid_choice(argument, name, DIALECTS)
    return DIALECTS[name]


def dialects_by_path() -> dict[str, list[Dialect]]:
    """Return the dialects of each endpoint."""
    paths: dict[str, list[Dialect]] = {}
    for one in DIALECTS.values():
        paths.setdefault(one.path, []).append(one)
    return paths


# JSON as bytes, or the object itself.
Body = bytes | bytearray | memoryview | Mapping[str, object]


def translate_request(  # noqa: PLR0913 - each is one choice of the caller, most with a default
    body: Body,
    *,
    client: str | Dialect,
    backend: str | Dialect,
    profile: str | None = None,
    capabilities: Capabilities | None = None,
    reply_options: ReplyOptions = DEFAULT_REPLY_OPTIONS,
    policy: Policy = "report",
    model: str | None = None,
    ids: IdSource | None = None,
    transforms: Iterable[Transform] = (),
) -> BackendRequest:
    """Translate a request from the dialect `client` to the dialect `backend`.

    The capabilities of the backend are given either as `capabilities` or by the name of a
    `profile`; `model` is the backend's own name for the model. The `transforms` change the request
    in their order, and its reply in the reverse order. Raises `InvalidRequestError` if the request
    or an option is invalid, `UnsupportedRequestError` if it cannot be translated, and
    `TransformError` if a transform fails.
    """
    if policy not in get_args(Policy):
        raise invalid_choice("policy", policy, get_args(Policy))
    data = _encode(body)
    dialects = get_dialect(client, "client"), get_dialect(backend, "backend")
    parsed = parse_body(data)
    options = TranslationOptions(
        *dialects,
        ids or content_ids(data),
        _choose_capabilities(profile, capabilities, model or parsed.model),
        reply_options,
        policy,
        rewrite=capabilities is not None or profile is not None,
        transforms=tuple(transforms),
    )
    return write_backend_request(read_client_request(parsed, options), model=model)


def translate_reply(body: Body, request: BackendRequest, *, status: int = 200) -> ReplyEnd:
    """Translate a backend's whole reply to a request from `translate_request`.

    Raises `InvalidReplyError` if the reply cannot be read, `TransformError` if a transform fails.
    """
    translator = ReplyTranslator(request.reply_plan, status=status)
    sent = translator.feed(_encode(body))
    end = translator.finish(started=bool(sent))
    if translator.faults:
        raise translator.faults[0]
    return msgspec.structs.replace(end, body=sent + end.body) if sent else end


def _to_dict(value: object) -> dict[object, object]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    raise TypeError(f"objects of type {type(value).__name__} cannot be written as JSON")


# The encoder supports no mappings but dicts.
_ENCODER = msgspec.json.Encoder(enc_hook=_to_dict)


def _encode(body: Body) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    return _ENCODER.encode(body)


def _choose_capabilities(
    profile: str | None, capabilities: Capabilities | None, model: str | None
) -> Capabilities:
    if profile is None:
        return capabilities or GENERIC
    if capabilities is not None:
        raise InvalidRequestError(
            "profile",
            "cannot be combined with capabilities; to change a profile, give only "
            "capabilities=msgspec.structs.replace(adapters.PROFILES[...], ...)",
        )
    if profile not in PROFILES:
        raise invalid_choice("profile", profile, PROFILES)
    return BackendCapabilities(profile).for_model(model)


def check(name: str | Dialect, stream: bytes) -> list[Violation]:
    """Return all violations of a dialect's rules in a recorded stream."""
    return get_dialect(name).check_stream(stream)


__all__ = [
    "DIALECTS",
    "EMPTY_REQUEST",
    "PROFILES",
    "BackendRequest",
    "Capabilities",
    "ClientRequest",
    "CustomInput",
    "Dialect",
    "DragomanError",
    "EventTransform",
    "IdSource",
    "InputItem",
    "InvalidReplyError",
    "InvalidRequestError",
    "ItemTransform",
    "Loss",
    "Policy",
    "ReplyEnd",
    "ReplyOptions",
    "ReplyPlan",
    "ReplyTranslator",
    "Request",
    "RequestBody",
    "Sealer",
    "Severity",
    "Transform",
    "TransformError",
    "TransformLosses",
    "TranslationOptions",
    "UnsupportedRequestError",
    "Violation",
    "check",
    "content_ids",
    "deterministic_ids",
    "dialects_by_path",
    "get_dialect",
    "own_error",
    "parse_body",
    "plan_reply",
    "read_client_request",
    "translate_reply",
    "translate_request",
    "write_backend_request",
]
