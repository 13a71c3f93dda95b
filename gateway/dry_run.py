"""Translation without a backend, for `dragoman translate` and `POST /translate`."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct, field, structs

from adapters import (
    EMPTY_REQUEST,
    Dialect,
    DragomanError,
    IdSource,
    InvalidRequestError,
    Loss,
    Policy,
    ReplyTranslator,
    Request,
    Transform,
    TranslationOptions,
    deterministic_ids,
    get_dialect,
    own_error,
    parse_body,
    plan_reply,
    read_client_request,
    write_backend_request,
)
from adapters.errors import invalid_choice
from adapters.losses import Losses
from adapters.model_rules import BackendCapabilities
from adapters.profiles import PROFILES
from adapters.sse import BYTE_ORDER_MARK
from adapters.wire.json_object import MISSING, decode, is_present, read_body
from gateway.config.key_checks import describe
from gateway.config.schema import MAX_CHOICES, DialectName
from gateway.crypto import RANDOM_IDS
from gateway.grammar_check import check_inputs_blocking

Kind = Literal["request", "reply", "stream", "error"]


class _KindFields(Struct):
    """The fields that distinguish requests, replies and errors."""

    choices: Raw = MISSING
    object: Raw = MISSING
    error: Raw = MISSING


_KIND_FIELDS = msgspec.json.Decoder(_KindFields)


def _read_kind_fields(body: bytes) -> _KindFields:
    """Return the fields of a body; all are missing if it is invalid, which its reader reports."""
    try:
        return _KIND_FIELDS.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return _KindFields()


class Translation(Struct, frozen=True):
    """A translated body."""

    body: bytes
    losses: tuple[Loss, ...] = ()
    status: int = 200


@dataclass(frozen=True, slots=True)
class OfflineTranslator:
    """A translator of single bodies between two dialects."""

    source: str
    target: str
    ids: IdSource = RANDOM_IDS
    capabilities: BackendCapabilities = BackendCapabilities()  # noqa: RUF009 - a frozen value
    policy: Policy = "report"
    # The HTTP status of an error.
    status: int | None = None
    # The request that a reply or stream belongs to, if known.
    request: Request | None = None
    # The limit of requests that are sent once for each choice; files are not sent at all.
    max_choices: int = 1
    # The transforms of the backend.
    transforms: tuple[Transform, ...] = ()

    def _options(self, kind: Kind, model: str | None = None) -> TranslationOptions:
        """Return the options for a kind of body; the capabilities may depend on the model."""
        if model is None and self.request is not None:
            model = self.request.model
        client, backend = self.source, self.target
        if kind != "request":
            # All other kinds are sent by a backend.
            client, backend = backend, client
        return TranslationOptions(
            get_dialect(client),
            get_dialect(backend),
            self.ids,
            self.capabilities.for_model(model),
            policy=self.policy,
            # A body in the target's dialect is changed only to fit a backend's capabilities.
            rewrite=self.capabilities.rewrites(model),
            max_choices=self.max_choices,
            transforms=self.transforms,
        )

    def stream(self) -> ReplyTranslator:
        """Return a translator of a stream."""
        plan = plan_reply(self._options("stream"), self.request or EMPTY_REQUEST, streams=True)
        return ReplyTranslator(plan, streamed=True)

    def own_error(self, error: DragomanError) -> bytes:
        """Return the body of a reply for an error of the translation itself."""
        return own_error(self._options("reply"), error).body

    def detect_kind(self, body: bytes) -> Kind:
        """Return the kind of a JSON body, from its fields or from the options of the translator."""
        fields = _read_kind_fields(body.removeprefix(BYTE_ORDER_MARK))
        if fields.choices or fields.object == Raw(b'"response"'):
            return "reply"
        if self.status is not None or is_present(fields.error):
            return "error"
        return "request" if self.request is None else "reply"

    def translate(self, body: bytes, kind: Kind) -> Translation:
        """Translate one JSON body."""
        body = body.removeprefix(BYTE_ORDER_MARK)
        if kind == "error":
            return self._translate_reply(body, kind, self.status or 500)
        if not body.strip():
            raise InvalidRequestError(None, "the input is empty")
        try:
            if kind == "reply":
                return self._translate_reply(body, kind)
            parsed = parse_body(body)
            read = read_client_request(parsed, self._options(kind, parsed.model))
            # A request without a model is an example for training, which may end with a call.
            sent = write_backend_request(read, ends_open="model" not in read.body.fields)
        except RecursionError:
            raise InvalidRequestError(None, "the body is nested too deeply") from None
        return Translation(sent.body, sent.losses)

    def _translate_reply(self, body: bytes, kind: Kind, status: int = 200) -> Translation:
        plan = plan_reply(self._options(kind), self.request or EMPTY_REQUEST, streams=False)
        translator = ReplyTranslator(plan, status=status)
        translator.feed(body)
        end = translator.finish()
        if translator.faults:
            raise translator.faults[0]
        mismatches = check_inputs_blocking(translator.custom_inputs)
        return Translation(end.body, (*end.losses, *mismatches), end.status)


def read_request(body: bytes, dialect_names: tuple[str, str]) -> Request:
    """Read the request of a reply, in one of two dialects; the first if both are possible."""
    body = body.removeprefix(BYTE_ORDER_MARK)
    likely, other = map(get_dialect, dialect_names)
    found = other if _has_items(other, body) and not _has_items(likely, body) else likely
    request = found.read_request(parse_body(body), Losses(None))
    if request.include_usage is None and "include_usage" in found.unsupported_fields:
        # A dialect in which usage cannot be requested always reports it.
        return structs.replace(request, include_usage=True)
    return request


def _has_items(of: Dialect, body: bytes) -> bool:
    """Whether a request has its messages or items where a dialect has them."""
    with suppress(InvalidRequestError):
        return read_body(body).has(of.names["items"])
    return False


# `POST /translate`


class TranslateRequest(Struct, forbid_unknown_fields=True):
    """The request: JSON in `body`, or the text of a stream in `stream`."""

    source: DialectName = field(name="from")
    target: DialectName = field(name="to")
    kind: Kind | None = None
    body: Raw = MISSING
    stream: str | None = None
    # The HTTP status of an error.
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    # The request that a reply belongs to.
    request: Raw = MISSING
    profile: str | None = None
    # The name of the configured backend whose transforms are applied.
    transforms_of: str | None = None
    loss_policy: Policy = "report"
    # Use consecutive ids and a constant time.
    deterministic: bool = False


class TranslateResult(Struct, omit_defaults=True):
    """The response: JSON in `body`, or the text of a stream in `stream`."""

    kind: Kind
    status: int
    losses: list[Loss]
    body: Raw = MISSING
    stream: str | None = None


_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_TRANSLATE_REQUEST = msgspec.json.Decoder(TranslateRequest)
_FIELDS = {known.encode_name: known for known in structs.fields(TranslateRequest)}
# An error message contains at most this many characters of a value.
_MAX_SHOWN_CHARACTERS = 80


def run(
    body: bytes, transforms: Mapping[str, tuple[Transform, ...]] = MappingProxyType({})
) -> TranslateResult:
    """Return the result for the body of one request; raise a `DragomanError` if it is invalid.

    `transforms` has those of each backend by its name.
    """
    given = _read_translate_request(body)
    if given.transforms_of is not None and given.transforms_of not in transforms:
        raise invalid_choice("transforms_of", given.transforms_of, transforms)
    request = None
    if is_present(given.request):
        request = read_request(bytes(given.request), (given.target, given.source))
    translator = OfflineTranslator(
        given.source,
        given.target,
        ids=deterministic_ids() if given.deterministic else RANDOM_IDS,
        capabilities=_capabilities(given),
        policy=given.loss_policy,
        status=given.status,
        request=request,
        max_choices=MAX_CHOICES,
        transforms=() if given.transforms_of is None else transforms[given.transforms_of],
    )
    if given.stream is not None:
        return _translate_stream(translator, given.stream.encode())
    return _translate_body(translator, bytes(given.body), given.kind)


def _read_translate_request(body: bytes) -> TranslateRequest:
    given = decode(body, _OBJECT, "")
    for name in given:
        if name not in _FIELDS:
            message = f"is not a known field; known fields: {', '.join(_FIELDS)}"
            raise InvalidRequestError(name, message)
    for name, known in _FIELDS.items():
        if known.required and name not in given:
            raise InvalidRequestError(name, f"is required and must be {describe(known.type)}")
    try:
        request = decode(body, _TRANSLATE_REQUEST, "")
    except InvalidRequestError as error:
        if error.path not in given:
            raise
        legal = describe(_FIELDS[error.path].type)
        message = f"must be {legal}, not {_preview(given[error.path])}"
        raise InvalidRequestError(error.path, message) from None
    if is_present(request.body) == (request.stream is not None):
        raise InvalidRequestError("body", "or `stream` is required, not both")
    if request.stream is not None and request.kind not in (None, "stream"):
        raise InvalidRequestError("kind", f'must be "stream" with `stream`, not "{request.kind}"')
    return request


def _preview(value: Raw) -> str:
    text, limit = bytes(value).decode(errors="replace"), _MAX_SHOWN_CHARACTERS
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return {"{": "an object", "[": "an array"}.get(text[:1], shown)


def _capabilities(given: TranslateRequest) -> BackendCapabilities:
    if given.profile is not None and given.profile not in PROFILES:
        raise invalid_choice("profile", given.profile, PROFILES)
    return BackendCapabilities(given.profile)


def _translate_stream(translator: OfflineTranslator, stream: bytes) -> TranslateResult:
    reply = translator.stream()
    written = reply.feed(stream) + reply.finish(started=True).body
    losses = [*reply.losses, *check_inputs_blocking(reply.custom_inputs)]
    return TranslateResult(kind="stream", status=200, losses=losses, stream=written.decode())


def _translate_body(
    translator: OfflineTranslator, body: bytes, kind: Kind | None
) -> TranslateResult:
    kind = kind or translator.detect_kind(body)
    if kind == "stream":
        raise InvalidRequestError("stream", "is required for a stream, instead of `body`")
    translation = translator.translate(body, kind)
    losses = list(translation.losses)
    return TranslateResult(kind, translation.status, losses, Raw(translation.body))
