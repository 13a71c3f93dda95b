"""`dragoman replay`: serves recorded replies, or sends recorded requests again."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import rich_click as click
from click import argument, echo, option
from msgspec import Struct

from adapters import InvalidRequestError
from gateway.cli.diff import EXIT_DIFFERENT, EXIT_INVALID
from gateway.config.schema import MEMORY_URL, Config, ServerConfig, StateConfig
from gateway.config.value_checks import check_url
from gateway.recording.diff_output import make_console, print_differences, summarize
from gateway.recording.recording_diff import NamedRecording, read_recordings
from gateway.recording.replay_index import RecordedReply, ReplyReader
from gateway.terminal import exit_on_error, print_message

_HELP = """Serve the recorded replies in DIR, or send the recorded requests to a server.

The replay is a gateway whose backends are the recordings, so clients of every dialect can use it,
streamed or not. A request gets the recorded reply to a request with the same meaning. Replies to
equal requests are sent in the order of the recordings, the last one again and again. Other requests
get an error that names the differences from the nearest recording.

With --against, the recorded requests of clients are sent to a gateway or a backend, and the
differences from the recorded replies are printed. The exit code is then 0 if nothing differs, 1 if
something does, and 2 for an invalid input.

\b
Examples:
  dragoman replay recordings
  dragoman replay recordings --port 9000 --pace recorded
  dragoman replay recordings --cut 20
"""

# The violations of each stream that are printed.
_MAX_VIOLATIONS = 3
_AT_ONCE, _AS_RECORDED = "instant", "recorded"


class Options(Struct, frozen=True):
    """The options of the command."""

    folder: Path
    host: str
    port: int
    # A multiple of the recorded pace; None to send everything at once.
    pace: float | None
    cut: int | None
    raw: bool
    against: str | None
    api_key_env: str | None
    concurrency: int


def _read_pace(_context: click.Context, _parameter: click.Parameter, text: str) -> float | None:
    if text == _AT_ONCE:
        return None
    try:
        pace = 1.0 if text == _AS_RECORDED else float(text)
    except ValueError:
        pace = 0
    if not 0 < pace < float("inf"):
        raise click.BadParameter(f"expected instant, recorded or a number such as 2, not {text!r}")
    return pace


@click.command(help=_HELP)
@argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@option("--host", default="127.0.0.1", help="Address to listen on (default: 127.0.0.1).")
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    help="Port to listen on; 0 selects a free one (default: 8080).",
)
@option(
    "--pace",
    metavar="PACE",
    default=_AT_ONCE,
    callback=_read_pace,
    help="instant, recorded, or a multiple of the recorded pace such as 2 (default: instant).",
)
@option("--cut", type=click.IntRange(0), metavar="N", help="Break each stream off after N events.")
@option(
    "--raw",
    is_flag=True,
    help="Send the bytes of the backend to clients of its dialect, whatever its capabilities.",
)
@option(
    "--against",
    metavar="URL",
    help="Send the recorded requests to the server with this base URL.",
)
@option(
    "--api-key-env", metavar="NAME", help="With --against: environment variable with the API key."
)
@option(
    "--concurrency",
    type=click.IntRange(1),
    metavar="N",
    default=4,
    help="With --against: number of requests at the same time (default: 4).",
)
def replay_command(**given: object) -> None:
    """Replay recordings."""
    options = Options(**given)  # type: ignore[arg-type]  # click has checked the types
    _check_options(options)
    with exit_on_error(EXIT_INVALID):
        recordings = read_recordings(options.folder)
        if options.against is not None:
            raise SystemExit(_resend(recordings, options, options.against))
        replies = _read_replies(recordings)
        if not replies:
            message = f"{options.folder} contains no replies of backends"
            raise InvalidRequestError(None, message)
        _print_violations(replies)
        code = _serve(replies, options)
    raise SystemExit(code)


def _check_options(options: Options) -> None:
    """Reject combinations of options that have no effect."""
    if options.against is None:
        if options.api_key_env is not None:
            raise click.UsageError("--api-key-env requires --against.")
        return
    for name in ("pace", "cut", "raw"):
        if getattr(options, name) not in (None, False):
            raise click.UsageError(f"--{name} cannot be used with --against.")


def _read_replies(recordings: Sequence[NamedRecording]) -> list[RecordedReply]:
    """Return all replies; print the names of recordings that cannot be replayed."""
    replies, reader = list[RecordedReply](), ReplyReader()
    for one in recordings:
        found = reader.read(one)
        if not found:
            print_message(f"skipped: {one.folder.name}: no whole request and reply of a backend")
        replies += found
    return replies


def _print_violations(replies: Sequence[RecordedReply]) -> None:
    """Print what breaks the rules of the dialect in the recorded streams."""
    for reply in replies:
        violations = reply.violations()
        for violation in violations[:_MAX_VIOLATIONS]:
            print_message(
                f"warning: {reply.name}: line {violation.line} of the backend's stream: "
                f"{violation.message}"
            )
        if len(violations) > _MAX_VIOLATIONS:
            more = len(violations) - _MAX_VIOLATIONS
            print_message(f"warning: {reply.name}: {more} more violations")


# Serving


def _serve(replies: Sequence[RecordedReply], options: Options) -> int:
    # Imported here because it takes half a second, which --against does not need.
    from gateway.recording.replay_transport import (  # noqa: PLC0415
        ReplayTransport,
        replay_backends,
    )
    from gateway.server.run import run_server  # noqa: PLC0415

    backends = replay_backends(replies, raw=options.raw)
    config = Config(
        server=ServerConfig(host=options.host, port=options.port),
        state=StateConfig(url=MEMORY_URL),
        backends=tuple(backend.config for backend in backends),
    )
    noun = "reply" if len(replies) == 1 else "replies"
    echo(f"{len(replies)} recorded {noun} in {options.folder}")
    transport = ReplayTransport(backends, speed=options.pace, cut=options.cut)
    return run_server(config, transport=transport)


# Sending requests again


def _resend(recordings: Sequence[NamedRecording], options: Options, url: str) -> int:
    for error in check_url(url, "--against"):
        raise click.UsageError(error)
    key = None
    if options.api_key_env is not None:
        key = os.environ.get(options.api_key_env, "").strip() or None
        if key is None:
            raise click.UsageError(f"--api-key-env: {options.api_key_env} is not set or empty.")
    different = asyncio.run(_print_comparisons(recordings, options, url, key))
    return EXIT_DIFFERENT if different else 0


async def _print_comparisons(
    recordings: Sequence[NamedRecording], options: Options, url: str, key: str | None
) -> int:
    """Print what differs in each reply, and return the number of replies that differ."""
    # Imported here because httpx takes long to import.
    from gateway.recording.resent_requests import resend_requests, resendable  # noqa: PLC0415

    chosen = resendable(recordings)
    if len(chosen) < len(recordings):
        print_message(f"{len(recordings) - len(chosen)} recordings have no whole client request")
    console, different = make_console(), 0
    comparisons = resend_requests(chosen, url, key=key, concurrency=options.concurrency)
    async with aclosing(comparisons) as results:
        async for result in results:
            console.print(f"{result.name}: {summarize(result.differences)}")
            print_differences(console, result.differences, "  ")
            different += bool(result.differences)
    total = len(chosen)
    console.print(f"{total} exchanges: {total - different} equal, {different} different")
    return different
