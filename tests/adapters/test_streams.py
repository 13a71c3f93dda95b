"""Streams of every dialect, translated for clients of the others."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from syrupy.assertion import SnapshotAssertion

import adapters
from adapters.ir.events import TRUNCATED_STREAM, UNDECODABLE_STREAM, Failed
from adapters.sse import Decoder
from gateway.grammar_check import check_inputs_blocking
from tests import corpus
from tests.exchange import Exchange
from tests.judges import open_responses, sdk
from tests.judges.reading import JsonObject, objects_in, read_object
from tests.snapshots import format_stream

Translated = tuple[bytes, tuple[adapters.Loss, ...]]

# Streams of JSON that we cannot read, but a client of the same dialect may.
UNREADABLE = ("chat-name-of-wrong-type",)
WITH_NOISE = ("chat-binary-noise-between-events",)


def translate(case: corpus.StreamCase, target: str, pieces: Sequence[bytes]) -> Translated:
    exchange = Exchange(
        target, case.dialect, capabilities=case.capabilities, request=corpus.case_request(case)
    )
    translator = exchange.stream()
    out = b"".join([*map(translator.feed, pieces), translator.finish(started=True).body])
    return out, (*translator.losses, *check_inputs_blocking(exchange.custom_inputs))


def assert_valid(target: str, stream: bytes) -> None:
    if target == "responses":
        sdk.judge_responses_stream(stream)
        open_responses.assert_stream(stream, allow=open_responses.EVERYTHING)
    else:
        sdk.judge_chat_stream(stream)
    assert adapters.check(target, stream) == []


@pytest.mark.parametrize(("case", "target"), corpus.case_target_params(corpus.STREAMS))
def test_stream_in_another_dialect(
    case: corpus.StreamCase, target: str, sse_snapshot: SnapshotAssertion
) -> None:
    output = translate(case, target, [case.body])
    assert format_stream(*output) == sse_snapshot(name=f"{corpus.pair(case, target)}/{case.name}")
    assert translate(case, target, corpus.single_bytes(case.body)) == output
    if b"\r" not in case.body:
        with_crlf = case.body.replace(b"\n", b"\r\n")
        assert translate(case, target, corpus.single_bytes(with_crlf)) == output
    assert_valid(target, output[0])


@pytest.mark.parametrize("case", corpus.case_params(corpus.STREAMS))
def test_stream_in_its_own_dialect(case: corpus.StreamCase) -> None:
    output, losses = translate(case, case.dialect, [case.body])
    assert translate(case, case.dialect, corpus.single_bytes(case.body)) == (output, losses)
    last = corpus.read_events(case, [case.body])[-1]
    error = last.error if isinstance(last, Failed) else None
    if case.name in WITH_NOISE:
        # Noise is not passed on, the events around it are.
        assert error is None
        assert is_success(case.dialect, output)
    elif case.body.startswith(b"{"):
        # A whole body is sent as a stream.
        assert adapters.check(case.dialect, output) == []
    elif error is None or not adapters.check(case.dialect, case.body) or case.name in UNREADABLE:
        assert output == with_lf(case.body)
    elif error.code in (TRUNCATED_STREAM, UNDECODABLE_STREAM):
        assert is_failure(case.dialect, output)
    else:
        # The error is the backend's own.
        assert output == with_lf(case.body)
        assert not is_success(case.dialect, output)


def with_lf(stream: bytes) -> bytes:
    """Return a stream with LF for every line ending, and an empty line after its last event."""
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removeprefix(b"\xef\xbb\xbf")
    return plain.rstrip(b"\n") + b"\n\n" if plain.strip() else plain


def is_success(dialect: str, stream: bytes) -> bool:
    """Whether a client would take the reply for a complete one."""
    ends = {"response.completed", "response.incomplete"}
    if dialect == "responses":
        ended = any(payload.get("type") in ends for payload in payloads(stream))
    else:
        ended = any(choice.get("finish_reason") for choice in choices(stream))
    return ended and not is_failure(dialect, stream)


def is_failure(dialect: str, stream: bytes) -> bool:
    output = payloads(stream)
    if dialect == "responses":
        return any(payload.get("type") in {"error", "response.failed"} for payload in output)
    return bool(output) and bool(output[-1].get("error"))


def payloads(stream: bytes) -> list[JsonObject]:
    """Return the JSON objects of a stream that may contain noise."""
    objects: list[JsonObject] = []
    for frame in Decoder().feed(stream):
        with suppress(AssertionError):
            objects.append(read_object(frame.data))
    return objects


def choices(stream: bytes) -> Iterator[JsonObject]:
    for payload in payloads(stream):
        with suppress(AssertionError):
            yield from objects_in(payload, "choices")
