"""The whole corpus through the command line, which writes what the core gives."""

from pathlib import Path

import pytest

import adapters
from adapters.ir.events import TRUNCATED_STREAM, UNDECODABLE_STREAM, Failed
from tests.corpus import (
    DIALECTS,
    ERRORS,
    REPLIES,
    REQUESTS,
    STREAMS,
    ErrorCase,
    ReplyCase,
    StreamCase,
    asked,
    crossings,
    on_wire,
    read_events,
)
from tests.gateway.cli.command_line import one_line, translate


@pytest.mark.parametrize(("case", "target"), crossings(STREAMS))
def test_stream_is_as_the_core_tells_it(case: StreamCase, target: str, tmp_path: Path) -> None:
    options = f"--from {case.dialect} --to {target} --kind stream"
    more = _context(case, tmp_path)
    stream = adapters.exchange(
        target, case.dialect, mint=adapters.deterministic_ids(), asked=asked(case)
    ).stream()
    expected = stream.feed(case.body) + stream.flush()
    result = translate(options, case.body, *more)
    if not case.body.strip():
        assert one_line(result.stderr) == "dragoman: the input is empty"
    elif not more or case.dialect != "responses":
        # The command knows that the Responses API gives the usage unasked; `asked` does not say so.
        assert result.stdout_bytes == expected
    assert result.exit_code == int(_is_broken(case))


def _context(case: StreamCase | ReplyCase, folder: Path) -> tuple[str, ...]:
    if not bytes(case.request):
        return ()
    (folder / "sent.json").write_bytes(bytes(case.request))
    return ("--request", str(folder / "sent.json"))


def _is_broken(case: StreamCase) -> bool:
    """A stream that reports a failure is translated well; one that is a failure is not."""
    events = read_events(case, [case.body])
    return any(
        isinstance(e, Failed) and e.error.code in (UNDECODABLE_STREAM, TRUNCATED_STREAM)
        for e in events
    )


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_requests_go_line_by_line_as_one_by_one(source: str, target: str) -> None:
    """Requests without a model are examples, which are not sent as they are."""
    plain = adapters.Capabilities()
    bodies = [
        on_wire(case.body)
        for case in REQUESTS
        if case.dialect == source and case.capabilities == plain and b'"model"' in bytes(case.body)
    ]
    options = f"--from {source} --to {target} --kind request --lines --keep-going"
    result = translate(options, b"\n".join(bodies))
    assert result.stdout_bytes == b"".join(_sent(source, target, body) for body in bodies)


def _sent(source: str, target: str, body: bytes) -> bytes:
    exchange = adapters.exchange(source, target, mint=adapters.deterministic_ids())
    try:
        return exchange.request(body).body + b"\n"
    except adapters.DragomanError as problem:
        return exchange.problem(problem).body + b"\n"


@pytest.mark.parametrize(("case", "target"), crossings(REPLIES))
def test_reply_is_as_the_core_tells_it(case: ReplyCase, target: str, tmp_path: Path) -> None:
    more = _context(case, tmp_path)
    result = translate(f"--from {case.dialect} --to {target} --kind reply", bytes(case.body), *more)
    exchange = adapters.exchange(
        target, case.dialect, mint=adapters.deterministic_ids(), asked=asked(case)
    )
    assert (result.stdout_bytes, result.exit_code) == _told(exchange, bytes(case.body))


def _told(exchange: adapters.Exchange, body: bytes) -> tuple[bytes, int]:
    try:
        return exchange.reply(body).body + b"\n", 0
    except adapters.InvalidReplyError:
        return b"", 1


@pytest.mark.parametrize(("case", "target"), crossings(ERRORS))
def test_error_is_as_the_core_tells_it(case: ErrorCase, target: str) -> None:
    options = f"--from {case.dialect} --to {target} --kind error --status {case.status}"
    exchange = adapters.exchange(target, case.dialect, mint=adapters.deterministic_ids())
    expected = exchange.error(case.status, case.answer()).body
    assert translate(options, case.answer()).stdout_bytes == expected + b"\n"
