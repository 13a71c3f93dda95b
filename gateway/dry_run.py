"""Tells what a body is, where nobody said: a request, a reply, an error or a stream."""

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct, field, structs

from adapters import (
    Capabilities,
    Dialect,
    Exchange,
    IdSource,
    InvalidRequestError,
    Loss,
    Policy,
    Request,
    Translation,
    deterministic_ids,
    dialect,
    exchange,
)
from adapters.capabilities import GENERIC, PROFILES
from adapters.losses import Losses
from adapters.translation.reply_stages import UNKNOWN_REQUEST
from adapters.wire.json_object import MISSING, decode, is_present, read_body
from gateway.config.schema import DialectName
from gateway.config.validation import expected
from gateway.crypto import RANDOM_IDS
from gateway.grammar_check import check_grammar
from gateway.terminal import say

Kind = Literal["request", "reply", "stream", "error"]

# A file saved on Windows may begin with it. The stream readers skip it themselves.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
# So much of the beginning tells a stream from JSON.
ENOUGH = max(map(len, _FIELDS))

_ABSENT = Raw()
_NULL = Raw(b"null")


class Outline(Struct):
    """The fields by which bodies are told apart; the rest is not looked at."""

    model: Raw = _ABSENT
    choices: Raw = _ABSENT
    object: Raw = _ABSENT
    error: Raw = _ABSENT


_OUTLINE = msgspec.json.Decoder(Outline)


def outline(body: bytes) -> Outline:
    """Look over a body. One that cannot be read has no features: its reader says what is wrong."""
    try:
        return _OUTLINE.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return Outline()


def is_stream(head: bytes) -> bool:
    """Tell by its beginning whether something is a stream of server-sent events."""
    return head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(_FIELDS)


def detect_kind(seen: Outline, otherwise: Kind) -> Kind:
    """Tell what a JSON body is."""
    if seen.choices or seen.object == Raw(b'"response"'):
        return "reply"
    if seen.error and seen.error != _NULL:
        return "error"
    return otherwise


# How one run of `dragoman translate` translates any one body.


DEFAULT_STATUS = 500


@dataclass(frozen=True, slots=True)
class OfflineTranslator:
    """All that does not change from one body to the next."""

    source: str
    target: str
    mint: IdSource = RANDOM_IDS
    capabilities: Capabilities = GENERIC
    policy: Policy = "report"
    # None: to be guessed of each body.
    kind: Kind | None = None
    status: int | None = None
    # What the backend was asked, where somebody knows.
    asked: Request | None = None
    verbose: bool = False

    def exchange(self, kind: Kind) -> Exchange:
        """Begin an exchange: requests come from the client, everything else from the backend."""
        client, backend = self.source, self.target
        if kind != "request":
            client, backend = backend, client
        return exchange(
            client,
            backend,
            mint=self.mint,
            capabilities=self.capabilities,
            policy=self.policy,
            asked=self.asked or UNKNOWN_REQUEST,
            # Within one dialect nothing changes, unless something is said of the backend.
            rewrite=self.capabilities != GENERIC,
            check_grammar=check_grammar,
        )

    def translate(self, body: bytes, where: str = "") -> Translation:
        """Translate one whole body of any kind but a stream."""
        body = body.removeprefix(BYTE_ORDER_MARK)
        seen = outline(body)
        kind = self.kind or self.tell(detect_kind(seen, self._otherwise()), where)
        if kind == "error":
            return self.exchange(kind).error(self.status or DEFAULT_STATUS, body)
        if not body.strip():
            raise InvalidRequestError(None, "the input is empty")
        try:
            if kind == "reply":
                return self.exchange(kind).reply(body)
            # A line of a data set names no model, and may end with the call that is wanted.
            return self.exchange(kind).request(body, ends_open=not seen.model)
        except RecursionError:
            raise InvalidRequestError(None, "the JSON is nested too deeply") from None

    def tell(self, kind: Kind, where: str = "") -> Kind:
        """Say, to who wants to know, what was guessed."""
        if self.verbose:
            say(f"{where}taken for {'an' if kind == 'error' else 'a'} {kind}")
        return kind

    def _otherwise(self) -> Kind:
        """Give what the other options speak for where the body says nothing."""
        if self.status is not None:
            return "error"
        return "request" if self.asked is None else "reply"


def read_asked(likely: str, other: str, body: bytes) -> Request:
    """Read the request that led to an answer: as the backend was sent it, or as the client said it.

    Its own words tell in which of the two dialects it is; where both would do, in the likely one.
    """
    body = body.removeprefix(BYTE_ORDER_MARK)
    spoken = dialect(likely)
    if _speaks(dialect(other), body) and not _speaks(spoken, body):
        spoken = dialect(other)
    asked = spoken.read_request(body, Losses(None))
    if asked.include_usage is None and spoken.family == "responses":
        # There nobody can ask for the usage: it always comes.
        return structs.replace(asked, include_usage=True)
    return asked


def _speaks(spoken: Dialect, body: bytes) -> bool:
    """Tell whether a request is in a dialect, by where it holds what is said."""
    with suppress(InvalidRequestError):
        return read_body(body).has(spoken.names["items"])
    return False


# `POST /translate`: shows what would become of a request, a reply, an error or a stream.


class TranslateRequest(Struct, forbid_unknown_fields=True):
    """What to translate: a `body` of JSON, or a `stream` as text."""

    source: DialectName = field(name="from")
    target: DialectName = field(name="to")
    kind: Kind | None = None
    body: Raw = MISSING
    stream: str | None = None
    # The status that an error came with.
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    # The request that a reply answers, in the dialect that the reply goes to.
    asked: Raw = MISSING
    profile: str | None = None
    loss: Policy = "report"
    # Count ids from 1 and let the clock stand still.
    deterministic: bool = False


class Result(Struct, omit_defaults=True):
    """What came of it."""

    kind: Kind
    status: int
    losses: list[Loss]
    body: Raw = MISSING
    stream: str | None = None


_TABLE = msgspec.json.Decoder(dict[str, Raw])
_ERRAND = msgspec.json.Decoder(TranslateRequest)
_ENDPOINT_FIELDS = {known.encode_name: known for known in structs.fields(TranslateRequest)}
# So much of a value that will not do is shown.
_LONGEST = 80


def run(body: bytes) -> Result:
    """Do one errand; raise what is wrong with it."""
    errand = _read(body)
    asked = bytes(errand.asked) if is_present(errand.asked) else None
    setting = OfflineTranslator(
        errand.source,
        errand.target,
        mint=deterministic_ids() if errand.deterministic else RANDOM_IDS,
        capabilities=_capabilities(errand),
        policy=errand.loss,
        kind=errand.kind,
        status=errand.status,
        asked=None if asked is None else read_asked(errand.target, errand.source, asked),
    )
    if errand.stream is not None:
        return _translate_stream(setting, errand.stream.encode())
    return _translate_body(setting, bytes(errand.body))


def _read(body: bytes) -> TranslateRequest:
    given = decode(body, _TABLE, "")
    for name in given:
        if name not in _ENDPOINT_FIELDS:
            raise InvalidRequestError(
                name, f"there is no such field; there are: {', '.join(_ENDPOINT_FIELDS)}"
            )
    for name, known in _ENDPOINT_FIELDS.items():
        if known.required and name not in given:
            raise InvalidRequestError(name, f"it is missing; {expected(known.type)}")
    try:
        errand = decode(body, _ERRAND, "")
    except InvalidRequestError as problem:
        if problem.path not in given:
            raise
        legal = expected(_ENDPOINT_FIELDS[problem.path].type)
        raise InvalidRequestError(
            problem.path, f"{legal}, got {_shown(given[problem.path])}"
        ) from None
    _check_place(errand)
    return errand


def _shown(value: Raw) -> str:
    """Show what was given, as it was spelled."""
    spelled = bytes(value).decode(errors="replace")
    match spelled[:1]:
        case "{":
            return "an object"
        case "[":
            return "a list"
        case _:
            return spelled if len(spelled) <= _LONGEST else f"{spelled[:_LONGEST]}…"


def _check_place(errand: TranslateRequest) -> None:
    """Refuse what is given twice, not at all, or where it does not belong."""
    if is_present(errand.body) == (errand.stream is not None):
        raise InvalidRequestError("body", "give either `body` or `stream`")
    kind = errand.kind
    if errand.stream is not None and kind not in (None, "stream"):
        where = f"{'an' if kind == 'error' else 'a'} {kind} is given in `body`"
        legal = 'expected "stream" for what is given in `stream`'
        raise InvalidRequestError("kind", f'{legal}, got "{kind}"; {where}')


def _capabilities(errand: TranslateRequest) -> Capabilities:
    if errand.profile is None:
        return GENERIC
    if errand.profile not in PROFILES:
        raise InvalidRequestError("profile", f"it is none of {', '.join(PROFILES)}")
    return PROFILES[errand.profile]


def _translate_stream(setting: OfflineTranslator, stream: bytes) -> Result:
    machine = setting.exchange("stream").stream()
    written = machine.feed(stream) + machine.flush()
    return Result(kind="stream", status=200, losses=list(machine.losses), stream=written.decode())


def _translate_body(setting: OfflineTranslator, body: bytes) -> Result:
    kind = setting.kind or detect_kind(outline(body), "request")
    if kind == "stream":
        raise InvalidRequestError("stream", "a stream is given as text, in `stream`")
    translation = dataclasses.replace(setting, kind=kind).translate(body)
    return Result(
        kind=kind,
        status=translation.status,
        losses=list(translation.losses),
        body=Raw(translation.body),
    )
