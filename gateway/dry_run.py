"""`POST /translate`: shows what would become of a request, a reply, an error or a stream."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from adapters import Capabilities, InvalidInput, Loss, Policy, counting
from adapters.capabilities import GENERIC
from adapters.fields import ABSENT, is_said
from adapters.profiles import PROFILES
from gateway.commands.kinds import Kind, guess, outline
from gateway.commands.setting import Setting, read_asked
from gateway.configuration import DialectName
from gateway.minting import RANDOM


class Errand(Struct, forbid_unknown_fields=True):
    """What to translate: a `body` of JSON, or a `stream` as text."""

    source: DialectName = field(name="from")
    target: DialectName = field(name="to")
    kind: Kind | None = None
    body: Raw = ABSENT
    stream: str | None = None
    # The status that an error came with.
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    # The request that a reply answers, in the dialect that the reply goes to.
    asked: Raw = ABSENT
    profile: str | None = None
    loss: Policy = "report"
    # Count ids from 1 and let the clock stand still.
    deterministic: bool = False


class Result(Struct, omit_defaults=True):
    """What came of it."""

    kind: Kind
    status: int
    losses: list[Loss]
    body: Raw = ABSENT
    stream: str | None = None


_ERRAND = msgspec.json.Decoder(Errand)


def run(body: bytes) -> Result:
    """Do one errand; raise what is wrong with it."""
    errand = _read(body)
    asked = bytes(errand.asked) if is_said(errand.asked) else None
    setting = Setting(
        errand.source,
        errand.target,
        mint=counting() if errand.deterministic else RANDOM,
        capabilities=_capabilities(errand),
        policy=errand.loss,
        kind=errand.kind,
        status=errand.status,
        asked=None if asked is None else read_asked(errand.target, errand.source, asked),
    )
    if errand.stream is not None:
        return _translate_stream(setting, errand.stream.encode())
    return _translate_body(setting, bytes(errand.body))


def _read(body: bytes) -> Errand:
    try:
        errand = _ERRAND.decode(body)
    except msgspec.ValidationError as problem:
        raise InvalidInput(None, str(problem)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise InvalidInput(None, f"malformed JSON: {problem}") from None
    if is_said(errand.body) == (errand.stream is not None):
        raise InvalidInput("body", "give either `body` or `stream`")
    return errand


def _capabilities(errand: Errand) -> Capabilities:
    if errand.profile is None:
        return GENERIC
    if errand.profile not in PROFILES:
        raise InvalidInput("profile", f"it is none of {', '.join(PROFILES)}")
    return PROFILES[errand.profile]


def _translate_stream(setting: Setting, stream: bytes) -> Result:
    machine = setting.exchange("stream").stream()
    written = machine.feed(stream) + machine.flush()
    return Result(kind="stream", status=200, losses=list(machine.losses), stream=written.decode())


def _translate_body(setting: Setting, body: bytes) -> Result:
    kind = setting.kind or guess(outline(body), "request")
    if kind == "stream":
        raise InvalidInput("stream", "a stream is given as text, in `stream`")
    translation = replace(setting, kind=kind).translate(body)
    return Result(
        kind=kind,
        status=translation.status,
        losses=list(translation.losses),
        body=Raw(translation.body),
    )
