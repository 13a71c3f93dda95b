"""Streams of every dialect, told to clients of the others as they come."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from syrupy.assertion import SnapshotAssertion

import adapters
from adapters.ir.events import TRUNCATED_STREAM, UNDECODABLE_STREAM, Event, Failed
from adapters.ir.types import Error
from adapters.sse import Decoder
from gateway.grammar_check import check_inputs_blocking
from tests.corpus import (
    STREAMS,
    StreamCase,
    case_params,
    case_request,
    case_target_params,
    pair,
    read_events,
    single_bytes,
)
from tests.exchange import Exchange
from tests.judges import open_responses, sdk
from tests.judges.reading import JsonObject, objects_in, read_object
from tests.snapshots import format_stream

Told = tuple[bytes, tuple[adapters.Loss, ...]]


def tell(case: StreamCase, target: str, pieces: Sequence[bytes]) -> Told:
    exchange = Exchange(
        target,
        case.dialect,
        capabilities=case.capabilities,
        request=case_request(case),
    )
    machine = exchange.stream()
    out = b"".join([*map(machine.feed, pieces), machine.finish(started=True).body])
    return out, (*machine.losses, *check_inputs_blocking(exchange.custom_inputs))


def judge(target: str, stream: bytes) -> None:
    if target == "responses":
        sdk.judge_responses_stream(stream)
        open_responses.assert_stream(stream, allow=open_responses.EVERYTHING)
    else:
        sdk.judge_chat_stream(stream)
    assert adapters.check(target, stream) == []


@pytest.mark.parametrize(("case", "target"), case_target_params(STREAMS))
def test_stream_in_another_dialect(
    case: StreamCase, target: str, sse_snapshot: SnapshotAssertion
) -> None:
    told = tell(case, target, [case.body])
    assert format_stream(*told) == sse_snapshot(name=f"{pair(case, target)}/{case.name}")
    assert tell(case, target, single_bytes(case.body)) == told
    if b"\r" not in case.body:
        assert tell(case, target, single_bytes(case.body.replace(b"\n", b"\r\n"))) == told
    judge(target, told[0])


# Streams of JSON that we cannot read; a client of the same dialect may.
ODD = ("chat-name-of-wrong-type",)
NOISY = ("chat-binary-noise-between-events",)


@pytest.mark.parametrize("case", case_params(STREAMS))
def test_stream_in_its_own_dialect(case: StreamCase) -> None:
    told, losses = tell(case, case.dialect, [case.body])
    assert tell(case, case.dialect, single_bytes(case.body)) == (told, losses)
    fault = fault_of(read_events(case, [case.body]))
    if case.name in NOISY:
        # What is no text is not passed on; the events around it are.
        assert fault is None
        assert is_success(case.dialect, told)
    elif case.body.startswith(b"{"):
        # No stream at all, but a body: it is told as a stream.
        assert adapters.check(case.dialect, told) == []
    elif fault is None or not adapters.check(case.dialect, case.body) or case.name in ODD:
        assert told == with_plain_ends(case.body)
    elif fault.code in (TRUNCATED_STREAM, UNDECODABLE_STREAM):
        assert tells_failure(case.dialect, told)
    else:
        # The backend told the error itself, in its own words.
        assert told == with_plain_ends(case.body)
        assert not is_success(case.dialect, told)


def fault_of(events: Sequence[Event]) -> Error | None:
    last = events[-1]
    return last.error if isinstance(last, Failed) else None


def with_plain_ends(stream: bytes) -> bytes:
    """Give a stream with LF for every line end, and an empty line after its last event."""
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removeprefix(b"\xef\xbb\xbf")
    return plain.rstrip(b"\n") + b"\n\n" if plain.strip() else plain


def is_success(dialect: str, stream: bytes) -> bool:
    """Tell whether a client would take the answer for a whole one."""
    ends = {"response.completed", "response.incomplete"}
    if dialect == "responses":
        ended = any(payload.get("type") in ends for payload in payloads(stream))
    else:
        ended = any(choice.get("finish_reason") for choice in choices(stream))
    return ended and not tells_failure(dialect, stream)


def tells_failure(dialect: str, stream: bytes) -> bool:
    told = payloads(stream)
    if dialect == "responses":
        return any(payload.get("type") in {"error", "response.failed"} for payload in told)
    return bool(told) and bool(told[-1].get("error"))


def payloads(stream: bytes) -> list[JsonObject]:
    """Give the JSON objects of a stream that may hold noise as well."""
    found: list[JsonObject] = []
    for frame in Decoder().feed(stream):
        with suppress(AssertionError):
            found.append(read_object(frame.data))
    return found


def choices(stream: bytes) -> Iterator[JsonObject]:
    for payload in payloads(stream):
        with suppress(AssertionError):
            yield from objects_in(payload, "choices")
