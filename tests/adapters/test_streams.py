"""Streams of every dialect, translated for clients of the others."""

import re
from collections.abc import Sequence

import pytest
from syrupy.assertion import SnapshotAssertion

import adapters
from adapters.ir.events import TRUNCATED_STREAM, UNDECODABLE_STREAM, Failed
from adapters.sse import Decoder
from gateway.grammar_check import check_inputs_blocking
from gateway.pytest_plugin.formats import format_stream
from tests import corpus
from tests.exchange import Exchange
from tests.judges import open_responses, passable, sdk
from tests.judges.reading import read_object

Translated = tuple[bytes, tuple[adapters.Loss, ...]]

# Streams of JSON that we cannot read, but a client of the same dialect may.
UNREADABLE = ("chat-name-of-wrong-type",)
WITH_NOISE = ("chat-binary-noise-between-events",)
SUCCESSFUL_END = re.compile(
    rb'"finish_reason": ?"(?!abort|error|network_error)|"response\.(completed|incomplete)"'
)


def translate(
    case: corpus.StreamCase, target: str, pieces: Sequence[bytes], *, repair: bool = True
) -> Translated:
    exchange = Exchange(
        target,
        case.dialect,
        capabilities=case.capabilities,
        request=corpus.case_request(case),
        repair=repair,
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
def test_stream_in_its_own_dialect(
    case: corpus.StreamCase, sse_snapshot: SnapshotAssertion
) -> None:
    own = case.dialect
    output = translate(case, own, [case.body])
    assert format_stream(*output) == sse_snapshot(name=f"{corpus.pair(case, own)}/{case.name}")
    assert translate(case, own, corpus.single_bytes(case.body)) == output
    if case.name not in UNREADABLE:
        assert passable.violations(own, output[0]) == []
    if case.capabilities == adapters.Capabilities():
        # A repaired stream needs no repairs.
        assert translate(case, own, [output[0]]) == (output[0], ())


PASSED = [case for case in corpus.STREAMS if case.dialect == "responses" and not case.request]


@pytest.mark.parametrize("case", corpus.case_params(PASSED))
def test_stream_passes_without_repairs(case: corpus.StreamCase) -> None:
    output, losses = translate(case, case.dialect, [case.body], repair=False)
    pieces = corpus.single_bytes(case.body)
    assert translate(case, case.dialect, pieces, repair=False) == (output, losses)
    last = corpus.read_events(case, [case.body])[-1]
    error = last.error if isinstance(last, Failed) else None
    if case.name in WITH_NOISE:
        # Noise is not passed on, the events around it are.
        assert error is None
        assert_valid(case.dialect, output)
    elif case.body.startswith(b"{"):
        # A whole body is sent as a stream.
        assert adapters.check(case.dialect, output) == []
    elif error is None or not adapters.check(case.dialect, case.body) or case.name in UNREADABLE:
        assert output == with_lf(case.body)
    elif error.code in (TRUNCATED_STREAM, UNDECODABLE_STREAM):
        assert is_failure(output)
    else:
        # The error is the backend's own.
        assert output == with_lf(case.body)
        assert not SUCCESSFUL_END.search(output) or is_failure(output)


def with_lf(stream: bytes) -> bytes:
    """Return a stream with LF for every line ending, and an empty line after its last event."""
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removeprefix(b"\xef\xbb\xbf")
    return plain.rstrip(b"\n") + b"\n\n" if plain.strip() else plain


def is_failure(stream: bytes) -> bool:
    """Whether the last event of a stream is an error."""
    *_, last = (frame.data for frame in Decoder().feed(stream) if frame.data != b"[DONE]")
    payload = read_object(last)
    return bool(payload.get("error")) or payload.get("type") in ("error", "response.failed")
