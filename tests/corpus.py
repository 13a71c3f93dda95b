"""The corpus: the cases of this project, and helpers for the tests that run them.

The expected outputs, one for each target dialect, are snapshots.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace

import adapters
from adapters.dialect import BaseStreamReader, ReplyContext
from adapters.ir.events import Event
from adapters.ir.types import EMPTY_REQUEST
from adapters.losses import Losses
from adapters.sse import Decoder
from gateway.pytest_plugin.cases import (
    BackendCase,
    Case,
    ErrorCase,
    ReplyCase,
    RequestCase,
    StreamCase,
    StrictCapabilities,
    on_wire,
    read_json_case,
    read_stream_case,
)
from tests.event_order import check_order

__all__ = [
    "BackendCase",
    "Case",
    "ErrorCase",
    "ReplyCase",
    "RequestCase",
    "StreamCase",
    "StrictCapabilities",
    "on_wire",
]

CASES = Path(__file__).parent / "cases"
DIALECTS = tuple(adapters.DIALECTS)

Sentence = Annotated[str, Meta(min_length=20)]
# A public bug report: owner/repository#number.
Report = Annotated[str, Meta(pattern=r"^[\w.-]+/[\w.-]+#\d+$")]

AnyCase = TypeVar("AnyCase", bound=Case)


class _Description(Struct):
    """What this project requires of a case, and others may omit."""

    point: Sentence
    reports: tuple[Report, ...]


def load(kind: str, case_type: type[AnyCase]) -> list[AnyCase]:
    """Load the JSON cases of one kind, ordered by name."""
    paths = sorted((CASES / kind).glob("*.json"))
    return [check_description(read_json_case(path, case_type)) for path in paths]


def check_description(case: AnyCase) -> AnyCase:
    try:
        msgspec.convert(case, _Description, from_attributes=True)
    except msgspec.ValidationError as error:
        raise ValueError(f"{case.name}: {error}") from error
    return case


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
STREAMS = [
    check_description(read_stream_case(path)) for path in sorted((CASES / "streams").glob("*.sse"))
]
