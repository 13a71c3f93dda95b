"""`POST /translate`: shows what would become of a request, a reply, an error or a stream."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field, structs

from adapters import Capabilities, InvalidRequestError, Loss, Policy, deterministic_ids
from adapters.capabilities import GENERIC
from adapters.profiles import PROFILES
from adapters.wire.json_object import MISSING, decode, is_present
from gateway.config.messages import expected
from gateway.config.schema import DialectName
from gateway.crypto.ids import RANDOM_IDS
from gateway.dry_runs.kinds import Kind, detect_kind, outline
from gateway.dry_runs.translator import OfflineTranslator, read_asked


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
_FIELDS = {known.encode_name: known for known in structs.fields(TranslateRequest)}
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
        if name not in _FIELDS:
            raise InvalidRequestError(
                name, f"there is no such field; there are: {', '.join(_FIELDS)}"
            )
    for name, known in _FIELDS.items():
        if known.required and name not in given:
            raise InvalidRequestError(name, f"it is missing; {expected(known.type)}")
    try:
        errand = decode(body, _ERRAND, "")
    except InvalidRequestError as problem:
        if problem.path not in given:
            raise
        legal = expected(_FIELDS[problem.path].type)
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
    translation = replace(setting, kind=kind).translate(body)
    return Result(
        kind=kind,
        status=translation.status,
        losses=list(translation.losses),
        body=Raw(translation.body),
    )
