"""The command line writes the same as the core for every case of the corpus."""

from pathlib import Path

import pytest

import adapters
from adapters.ir.events import TRUNCATED_STREAM, UNDECODABLE_STREAM, Failed
from tests import corpus
from tests.corpus import ReplyCase, StreamCase
from tests.exchange import Exchange
from tests.gateway.cli.command_line import one_line, translate


@pytest.mark.parametrize(("case", "target"), corpus.case_target_params(corpus.STREAMS))
def test_stream_is_translated_as_by_the_core(case: StreamCase, target: str, tmp_path: Path) -> None:
    options = f"--from {case.dialect} --to {target} --kind stream"
    arguments = _request_option(case, tmp_path)
    stream = Exchange(target, case.dialect, request=corpus.case_request(case)).stream()
    expected = stream.feed(case.body) + stream.finish(started=True).body
    result = translate(options, case.body, *arguments)
    if not case.body.strip():
        assert one_line(result.stderr) == "dragoman: the input is empty"
    elif not arguments or case.dialect != "responses":
        # Unlike `case_request`, the command assumes that usage was requested from Responses.
        assert result.stdout_bytes == expected
    assert result.exit_code == int(_is_broken(case))


def _request_option(case: StreamCase | ReplyCase, folder: Path) -> tuple[str, ...]:
    if not bytes(case.request):
        return ()
    (folder / "request.json").write_bytes(bytes(case.request))
    return ("--request", str(folder / "request.json"))


def _is_broken(case: StreamCase) -> bool:
    """Whether a stream is truncated or invalid, not one that reports an error."""
    events = corpus.read_events(case, [case.body])
    return any(
        isinstance(event, Failed) and event.error.code in (UNDECODABLE_STREAM, TRUNCATED_STREAM)
        for event in events
    )


@pytest.mark.parametrize("target", corpus.DIALECTS)
@pytest.mark.parametrize("source", corpus.DIALECTS)
def test_lines_are_translated_as_single_requests(source: str, target: str) -> None:
    """Requests without a model are left out: they are translated as training examples."""
    plain = adapters.Capabilities()
    bodies = [
        corpus.on_wire(case.body)
        for case in corpus.REQUESTS
        if case.dialect == source and case.capabilities == plain and b'"model"' in bytes(case.body)
    ]
    options = f"--from {source} --to {target} --kind request --lines --keep-going"
    result = translate(options, b"\n".join(bodies))
    expected = [_translated_request(source, target, body) for body in bodies]
    assert result.stdout_bytes == b"".join(expected)


def _translated_request(source: str, target: str, body: bytes) -> bytes:
    exchange = Exchange(source, target)
    try:
        return exchange.request(body).body + b"\n"
    except adapters.DragomanError as error:
        return exchange.own_error(error).body + b"\n"


@pytest.mark.parametrize(("case", "target"), corpus.case_target_params(corpus.REPLIES))
def test_reply_is_translated_as_by_the_core(case: ReplyCase, target: str, tmp_path: Path) -> None:
    options = f"--from {case.dialect} --to {target} --kind reply"
    result = translate(options, bytes(case.body), *_request_option(case, tmp_path))
    exchange = Exchange(target, case.dialect, request=corpus.case_request(case))
    assert (result.stdout_bytes, result.exit_code) == _translated_reply(exchange, bytes(case.body))


def _translated_reply(exchange: Exchange, body: bytes) -> tuple[bytes, int]:
    try:
        return exchange.reply(body).body + b"\n", 0
    except adapters.InvalidReplyError:
        return b"", 1


@pytest.mark.parametrize(("case", "target"), corpus.case_target_params(corpus.ERRORS))
def test_error_is_translated_as_by_the_core(case: corpus.ErrorCase, target: str) -> None:
    options = f"--from {case.dialect} --to {target} --kind error --status {case.status}"
    exchange = Exchange(target, case.dialect)
    expected = exchange.error(case.status, case.wire_body()).body
    assert translate(options, case.wire_body()).stdout_bytes == expected + b"\n"
