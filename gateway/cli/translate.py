"""`dragoman translate`: a request, a reply, an error or a stream, from one dialect to another."""

import io
from itertools import chain

import msgspec
import rich_click as click
from click import argument, option
from msgspec import Struct

from adapters import (
    DIALECTS,
    Capabilities,
    DragomanError,
    InvalidRequestError,
    Policy,
    deterministic_ids,
)
from adapters.profiles import PROFILES
from gateway.cli.capability import read_capabilities, read_profile
from gateway.cli.jsonl import is_lines, translate_lines
from gateway.cli.streams import translate_stream
from gateway.crypto.ids import RANDOM_IDS
from gateway.dry_runs.kinds import BYTE_ORDER_MARK, ENOUGH, Kind, is_stream
from gateway.dry_runs.translator import OfflineTranslator, read_asked
from gateway.terminal import (
    PIECE_SIZE,
    STANDARD_INPUT,
    exit_on_error,
    fail,
    open_input,
    read_pieces,
    say_losses,
    write,
)

_HELP = """Translate FILE, or standard input, from one dialect to another.

Losses are told on standard error, one a line. A .jsonl file is translated line by line; batch
files are recognised.

\b
Examples:
  dragoman translate --from chat --to responses request.json
  dragoman translate --from chat --to responses --kind stream stream.sse
  dragoman translate --from legacy --to chat --keep-going examples.jsonl
"""

_DIALECT = click.Choice(list(DIALECTS))


class Options(Struct, frozen=True):
    """What was asked for on the command line."""

    source: str
    target: str
    file: str
    capabilities: Capabilities
    policy: Policy
    kind: Kind | None
    status: int | None
    request: str | None
    lines: bool
    keep_going: bool
    deterministic: bool
    indent: bool
    verbose: bool


@click.command(help=_HELP)
@argument("file", default=STANDARD_INPUT, type=click.Path(allow_dash=True))
@option("--from", "source", required=True, type=_DIALECT, help="The dialect of the input.")
@option("--to", "target", required=True, type=_DIALECT, help="The dialect to write.")
@option(
    "--kind",
    type=click.Choice(["request", "reply", "stream", "error"]),
    help="What the input is; left out, it is guessed.",
)
@option(
    "--request",
    metavar="FILE",
    help="For a reply or a stream: the request that led to it, in either of the two dialects.",
)
@option(
    "--status",
    type=click.IntRange(100, 599),
    metavar="NUMBER",
    help="For an error: the HTTP status that it came with (500).",
)
@option(
    "--loss",
    "policy",
    type=click.Choice(["report", "refuse"]),
    default="report",
    help="Report what the target cannot do, or refuse the request.",
)
@option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    is_eager=True,
    expose_value=False,
    callback=read_profile,
    help="What kind of server the backend is.",
)
@option(
    "--capability",
    "capabilities",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_capabilities,
    help="What the backend takes, for example developer_role=true. Can be repeated.",
)
@option("--lines", is_flag=True, help="Read JSON Lines, whatever the file is called.")
@option("--keep-going", is_flag=True, help="Put an error in the place of a bad line, and go on.")
@option("--indent", is_flag=True, help="Write JSON on many lines, for people.")
@option("--deterministic", is_flag=True, help="Count ids and stop the clock.")
@option("--verbose", is_flag=True, help="Say what the input was taken for.")
def translate(**given: object) -> None:
    """Translate one input."""
    options = msgspec.convert(given, Options)
    lines = options.lines or is_lines(options.file)
    _refuse_contradictions(options, lines=lines)
    with exit_on_error():
        setting = _setting(options)
        with open_input(options.file) as source:
            if not lines:
                _translate_one(setting, source, indent=options.indent)
            elif not translate_lines(setting, source, keep_going=options.keep_going):
                raise SystemExit(1)


def _refuse_contradictions(options: Options, *, lines: bool) -> None:
    """Refuse options that have nothing to act on: who gives them means something else."""
    kind = options.kind
    if options.status is not None and kind not in (None, "error"):
        raise click.UsageError(f"--status is for errors, not for --kind {kind}.")
    if options.request is not None and kind == "request":
        raise click.UsageError("--request is for replies and streams, not for --kind request.")
    if options.keep_going and not lines:
        raise click.UsageError("--keep-going is for JSON Lines; add --lines.")
    if lines and options.indent:
        raise click.UsageError("--indent cannot be: in JSON Lines each line is one body.")
    if lines and kind == "stream":
        raise click.UsageError("--kind stream cannot be: a line holds a whole body, no stream.")


def _setting(options: Options) -> OfflineTranslator:
    asked = None
    if options.request is not None:
        with open_input(options.request) as source:
            body = source.read()
        try:
            asked = read_asked(options.source, options.target, body)
        except DragomanError as problem:
            fail(f"{options.request}: {problem}")
    return OfflineTranslator(
        options.source,
        options.target,
        mint=deterministic_ids() if options.deterministic else RANDOM_IDS,
        capabilities=options.capabilities,
        policy=options.policy,
        kind=options.kind,
        status=options.status,
        asked=asked,
        verbose=options.verbose,
    )


def _translate_one(setting: OfflineTranslator, source: io.BufferedReader, *, indent: bool) -> None:
    head = _read_head(source)
    if setting.kind == "stream" or (setting.kind is None and is_stream(head)):
        if not head.strip():
            raise InvalidRequestError(None, "the input is empty")
        if setting.kind is None:
            setting.tell("stream")
        translate_stream(setting, chain((head,), read_pieces(source)))
        return
    translation = setting.translate(head + source.read())
    write(_laid_out(translation.body, indent=indent) + b"\n")
    say_losses(translation.losses)


def _read_head(source: io.BufferedReader) -> bytes:
    """Read as little as tells a stream from JSON, so that a slow stream need not be waited for."""
    head = b""
    while len(head) < PIECE_SIZE and len(head.lstrip()) < len(BYTE_ORDER_MARK) + ENOUGH:
        piece = source.read1(PIECE_SIZE)
        if not piece:
            break
        head += piece
    return head


def _laid_out(body: bytes, *, indent: bool) -> bytes:
    body = body.rstrip()
    if not indent:
        return body
    try:
        return msgspec.json.format(body, indent=2)
    except (msgspec.DecodeError, RecursionError):
        # An error body that passes through as it is may be anything.
        return body
