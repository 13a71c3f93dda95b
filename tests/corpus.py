"""The corpus: one file per case, and helpers for the tests that run them.

A case is an input in one dialect. The expected outputs, one for each target dialect, are snapshots.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
import pytest
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

import adapters
from adapters.dialect import BaseStreamReader, ReplyContext
from adapters.ir.events import Event
from adapters.ir.types import EMPTY_REQUEST
from adapters.losses import Losses
from adapters.sse import Decoder
from tests.event_order import check_order

CASES = Path(__file__).parent / "cases"
DIALECTS = tuple(adapters.DIALECTS)

# Missing JSON, because msgspec does not support `Raw | None`.
MISSING = Raw(b"")

DialectName = Literal["chat", "responses", "legacy"]
Sentence = Annotated[str, Meta(min_length=20)]
# A public bug report: owner/repository#number.
Report = Annotated[str, Meta(pattern=r"^[\w.-]+/[\w.-]+#\d+$")]


class StrictCapabilities(adapters.Capabilities, frozen=True, forbid_unknown_fields=True):
    """Capabilities of a backend; an unknown name is an error."""


class Case(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    # What the case shows.
    point: Sentence
    # The dialect of its body.
    dialect: DialectName
    # Public bug reports of other projects that the case covers.
    reports: tuple[Report, ...] = ()
    # The name of its file.
    name: str = ""

    def others(self) -> Iterator[str]:
        return (name for name in DIALECTS if name != self.dialect)


class RequestCase(Case, frozen=True, kw_only=True):
    body: Raw
    capabilities: StrictCapabilities = StrictCapabilities()
    policy: adapters.Policy = "report"


class BackendCase(Case, frozen=True, kw_only=True):
    """A reply of a backend, whole or streamed."""

    # The request, in the dialect of the backend or of `client`.
    request: Raw = MISSING
    # The dialect of the request, if it is the client's; the reply is then only for that client.
    client: DialectName | None = None
    capabilities: StrictCapabilities = StrictCapabilities()

    def others(self) -> Iterator[str]:
        return super().others() if self.client is None else iter((self.client,))


class ReplyCase(BackendCase, frozen=True, kw_only=True):
    body: Raw


class StreamCase(BackendCase, frozen=True, kw_only=True):
    """The exact bytes of a streamed reply, which may be truncated or broken."""

    body: bytes


class ErrorCase(Case, frozen=True, kw_only=True):
    """An error response of a backend, or of a proxy in front of it."""

    status: int
    body: Raw = MISSING
    body_text: str | None = None

    def wire_body(self) -> bytes:
        """Return the body as it is sent."""
        assert bool(bytes(self.body)) != (self.body_text is not None), "either body or body_text"
        return on_wire(self.body) if self.body_text is None else self.body_text.encode()


AnyCase = TypeVar("AnyCase", bound=Case)


def load(kind: str, case_type: type[AnyCase]) -> list[AnyCase]:
    """Load the JSON cases of one kind, ordered by name."""
    paths = sorted((CASES / kind).glob("*.json"))
    return [_decode(path, path.read_bytes(), case_type) for path in paths]


def _decode(path: Path, fields: bytes, case_type: type[AnyCase]) -> AnyCase:
    try:
        return replace(msgspec.json.decode(fields, type=case_type), name=path.stem)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path.name}: {error}") from error


def load_stream(path: Path) -> StreamCase:
    header, _, body = path.read_bytes().partition(b"\n\n")
    lines = dict(_read_header(header.decode()))
    json_fields = {"capabilities", "request"}
    fields = {
        name: Raw(value.encode()) if name in json_fields else value for name, value in lines.items()
    }
    reports = lines.get("reports", "").split()
    encoded = msgspec.json.encode({**fields, "reports": reports, "body": ""})
    return replace(_decode(path, encoded, StreamCase), body=body)


def _read_header(header: str) -> Iterator[tuple[str, str]]:
    """Read the comment lines before a stream: `: name value`."""
    for line in header.split("\n"):
        assert line.startswith(": "), f"not a line of a header: {line!r}"
        name, _, value = line.removeprefix(": ").partition(" ")
        yield name, value


def case_target_params(cases: Iterable[AnyCase]) -> list[object]:
    """Return each case with each of its target dialects, as parameters of a test."""
    return [
        pytest.param(case, target, id=f"{pair(case, target)}/{case.name}")
        for case in cases
        for target in case.others()
    ]


def case_params(cases: Iterable[AnyCase]) -> list[object]:
    return [pytest.param(case, id=f"{case.dialect}/{case.name}") for case in cases]


def pair(case: Case, target: str) -> str:
    return f"{case.dialect}-to-{target}"


def on_wire(body: Raw) -> bytes:
    """Return JSON without the indentation of the case files."""
    return msgspec.json.format(bytes(body), indent=-1)


def case_request(case: BackendCase) -> adapters.Request:
    """Read the request of a case, if it has one."""
    if not bytes(case.request):
        return EMPTY_REQUEST
    dialect = case.client or case.dialect
    body = adapters.parse_body(bytes(case.request))
    request = adapters.get_dialect(dialect).read_request(body, Losses(None))
    # Responses clients always get usage.
    return replace(request, include_usage=True) if dialect == "responses" else request


def reply_context(case: BackendCase) -> ReplyContext:
    """Return the context for a reader of the case, with ids that count from 1."""
    return ReplyContext(case_request(case), adapters.deterministic_ids(), Losses(None))


def single_bytes(data: bytes) -> list[bytes]:
    return [data[place : place + 1] for place in range(len(data))]


def read_events(case: StreamCase, chunks: Sequence[bytes]) -> list[Event]:
    return read_chunks(adapters.get_dialect(case.dialect).read_stream(reply_context(case)), chunks)


def read_chunks(reader: BaseStreamReader, chunks: Sequence[bytes]) -> list[Event]:
    """Read a stream into IR events, and check their order."""
    decoder = Decoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.flush()
    events = [event for frame in frames for event in reader.feed(frame)]
    return check_order([*events, *reader.flush()])


REQUESTS = load("requests", RequestCase)
REPLIES = load("replies", ReplyCase)
ERRORS = load("errors", ErrorCase)
STREAMS = [load_stream(path) for path in sorted((CASES / "streams").glob("*.sse"))]
