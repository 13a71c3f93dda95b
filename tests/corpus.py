"""The corpus: one file for each case, and what a test needs to run it.

A case says what comes from one dialect. Nothing here says what must come out: that is kept as a
page for each target dialect, see `tests.snapshots`.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
import pytest
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

import adapters
from adapters.dialect import ReplyContext
from adapters.ir.events import Event, check_order
from adapters.ir.types import EMPTY_REQUEST
from adapters.losses import Losses
from adapters.sse import Decoder

CASES = Path(__file__).parent / "cases"
DIALECTS = tuple(adapters.DIALECTS)

# JSON that a case does not have: msgspec does not take `Raw | None`.
ABSENT = Raw(b"")

DialectName = Literal["chat", "responses", "legacy"]
Sentence = Annotated[str, Meta(min_length=20)]
# A public bug report: owner/repository#number.
Report = Annotated[str, Meta(pattern=r"^[\w.-]+/[\w.-]+#\d+$")]


class Abilities(adapters.Capabilities, frozen=True, forbid_unknown_fields=True):
    """What the target backend can do; a misspelled ability is an error."""


class Case(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every case has."""

    # What the case shows and what must be right about the result.
    point: Sentence
    # The dialect in which its body is written.
    dialect: DialectName
    # Public bug reports of other projects that the case covers.
    reports: tuple[Report, ...] = ()
    # The name of its file.
    name: str = ""

    def others(self) -> Iterator[str]:
        """Name the dialects that the case is to be translated to."""
        return (name for name in DIALECTS if name != self.dialect)


class RequestCase(Case, frozen=True, kw_only=True):
    """What a client asks."""

    body: Raw
    capabilities: Abilities = Abilities()
    policy: adapters.Policy = "report"


class AnswerCase(Case, frozen=True, kw_only=True):
    """What a backend answers."""

    # What the backend had been sent, in its own dialect.
    request: Raw = ABSENT
    # The dialect of a client, if the request is what that client said: then the answer is for it.
    client: DialectName | None = None
    capabilities: Abilities = Abilities()

    def others(self) -> Iterator[str]:
        """Name the dialects that the case is to be translated to."""
        return super().others() if self.client is None else iter((self.client,))


class ReplyCase(AnswerCase, frozen=True, kw_only=True):
    """What a backend answers, whole."""

    body: Raw


class ErrorCase(Case, frozen=True, kw_only=True):
    """What a backend, or something before it, answers with an error status."""

    status: int
    body: Raw = ABSENT
    body_text: str | None = None

    def answer(self) -> bytes:
        """Give the body as it goes over the wire."""
        assert bool(bytes(self.body)) != (self.body_text is not None), "either body or body_text"
        return on_wire(self.body) if self.body_text is None else self.body_text.encode()


class StreamCase(AnswerCase, frozen=True, kw_only=True):
    """What a backend answers, streamed: the exact bytes, which may be cut or broken."""

    body: bytes


AnyCase = TypeVar("AnyCase", bound=Case)
JsonCase = TypeVar("JsonCase", RequestCase, ReplyCase, ErrorCase)


# Loading


def load(kind: str, form: type[JsonCase]) -> list[JsonCase]:
    """Load the JSON cases of one kind, in the order of their names."""
    return [_load_json(path, form) for path in sorted((CASES / kind).glob("*.json"))]


def _load_json(path: Path, form: type[JsonCase]) -> JsonCase:
    try:
        case = msgspec.json.decode(path.read_bytes(), type=form)
    except msgspec.MsgspecError as problem:
        raise ValueError(f"{path.name}: {problem}") from problem
    return msgspec.structs.replace(case, name=path.stem)


def load_streams() -> list[StreamCase]:
    """Load the stream cases, in the order of their names."""
    return [load_stream(path) for path in sorted((CASES / "streams").glob("*.sse"))]


def load_stream(path: Path) -> StreamCase:
    """Load one stream case."""
    head, _, body = path.read_bytes().partition(b"\n\n")
    fields = dict(_read_head(head.decode()))
    try:
        return StreamCase(
            name=path.stem,
            body=body,
            point=msgspec.convert(fields.pop("point"), Sentence),
            reports=msgspec.convert(fields.pop("reports", "").split(), tuple[Report, ...]),
            dialect=msgspec.convert(fields.pop("dialect"), DialectName),
            capabilities=msgspec.json.decode(fields.pop("capabilities", "{}"), type=Abilities),
            client=msgspec.convert(fields.pop("client", None), DialectName | None),
            request=_read_request(fields),
        )
    except (KeyError, ValueError) as problem:
        raise ValueError(f"{path.name}: {problem!r}") from problem


def _read_head(head: str) -> Iterator[tuple[str, str]]:
    """Split the comment lines before a stream: `: name value`, where the value may be empty."""
    for line in head.split("\n"):
        assert line.startswith(": "), f"not a line of a header: {line!r}"
        name, _, value = line.removeprefix(": ").partition(" ")
        yield name, value


def _read_request(fields: dict[str, str]) -> Raw:
    request = fields.pop("request", "")
    if fields:
        raise ValueError(f"unknown lines in the header: {sorted(fields)}")
    return Raw(request.encode())


# Running


def crossings(cases: Iterable[AnyCase]) -> list[object]:
    """Pair each case with each dialect that is not its own, as parameters of a test."""
    return [
        pytest.param(case, target, id=f"{pair(case, target)}/{case.name}")
        for case in cases
        for target in case.others()
    ]


def alone(cases: Iterable[AnyCase]) -> list[object]:
    """Give each case as parameters of a test."""
    return [pytest.param(case, id=f"{case.dialect}/{case.name}") for case in cases]


def pair(case: Case, target: str) -> str:
    """Name the direction of a translation."""
    return f"{case.dialect}-to-{target}"


def on_wire(body: Raw) -> bytes:
    """Give JSON as programs send it; the files are indented for people."""
    return msgspec.json.format(bytes(body), indent=-1)


def asked(case: AnswerCase) -> adapters.Request:
    """Read what had been asked, if the case says so."""
    if not bytes(case.request):
        return EMPTY_REQUEST
    spoken = case.client or case.dialect
    request = adapters.dialect(spoken).read_request(
        adapters.parse_body(bytes(case.request)), Losses(None)
    )
    if spoken == "responses":
        # There nobody can ask for the usage: it always comes.
        return replace(request, include_usage=True)
    return request


def surroundings(case: AnswerCase) -> ReplyContext:
    """Make what a reader of the case's dialect needs; ids count from 1."""
    return ReplyContext(asked(case), adapters.deterministic_ids(), Losses(None))


def in_bytes(data: bytes) -> list[bytes]:
    """Cut everywhere."""
    return [data[place : place + 1] for place in range(len(data))]


def read_events(case: StreamCase, pieces: Sequence[bytes]) -> list[Event]:
    """Read a stream as the hub sees it, and hold it to the grammar."""
    decoder = Decoder()
    reader = adapters.dialect(case.dialect).read_stream(surroundings(case))
    frames = [frame for piece in pieces for frame in decoder.feed(piece)] + decoder.flush()
    events = [event for frame in frames for event in reader.feed(frame)]
    return check_order([*events, *reader.flush()])


REQUESTS = load("requests", RequestCase)
REPLIES = load("replies", ReplyCase)
ERRORS = load("errors", ErrorCase)
STREAMS = load_streams()
