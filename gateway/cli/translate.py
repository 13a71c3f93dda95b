"""`dragoman translate`: a request, a reply, an error or a stream, from one dialect to another."""

import io
from collections.abc import Iterable
from itertools import chain
from types import NoneType
from typing import get_args, get_origin

import msgspec
import rich_click as click
from click import argument, option
from msgspec import Struct
from msgspec.structs import FieldInfo

from adapters import (
    DIALECTS,
    Capabilities,
    DragomanError,
    InvalidReplyError,
    InvalidRequestError,
    Policy,
    deterministic_ids,
)
from adapters.capabilities import GENERIC, PROFILES
from adapters.ir.events import Failed
from adapters.translation.streams import is_broken
from gateway.cli.jsonl import is_lines, translate_lines
from gateway.crypto import RANDOM_IDS
from gateway.dry_run import BYTE_ORDER_MARK, ENOUGH, Kind, OfflineTranslator, is_stream, read_asked
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

# Translates a stream while it comes.


def translate_stream(setting: OfflineTranslator, pieces: Iterable[bytes]) -> None:
    """Write each piece as soon as it is translated.

    A stream that was cut or cannot be read is told so to its client, in the client's own words;
    whoever ran the command learns it from the `BrokenReply` that is raised at the end.
    """
    stream = setting.exchange("stream").stream()
    for piece in pieces:
        write(stream.feed(piece))
    write(stream.flush())
    say_losses(stream.losses)
    if isinstance(stream.outcome, Failed) and is_broken(stream.outcome):
        raise InvalidReplyError(None, stream.outcome.error.message)


# The options `--profile NAME` and `--capability NAME=VALUE`: what the backend takes.


_FIELDS = {field.name: field for field in msgspec.structs.fields(Capabilities)}
_NOTHING = ("null", "none", "")
# Where the context keeps the profile.
_PROFILE = f"{__name__}.profile"


def read_profile(context: click.Context, _option: click.Parameter, name: str | None) -> None:
    """Remember which bundle the single capabilities are to change."""
    context.meta[_PROFILE] = GENERIC if name is None else PROFILES[name]


def read_capabilities(
    context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> Capabilities:
    """Read all that were given; of one given twice the last counts."""
    profile: Capabilities = context.meta[_PROFILE]
    return msgspec.structs.replace(profile, **dict(map(_read_capability, given)))


def _read_capability(given: str) -> tuple[str, object]:
    name, equals, value = given.partition("=")
    field = _FIELDS.get(name.strip())
    if field is None:
        legal = ", ".join(map(_describe, _FIELDS.values()))
        raise click.BadParameter(f"there is no capability {name!r}; there are: {legal}")
    if not equals:
        raise click.BadParameter(f"{name} needs a value: {_describe(field)}")
    return field.name, _read_value(field, value.strip())


def _read_value(field: FieldInfo, value: str) -> object:
    """Read a value as the word that it is, or as JSON where a word will not do."""
    if value.lower() in _NOTHING and NoneType in get_args(field.type):
        return None
    words = value.split(",") if _is_list(field.type) and not value.startswith("[") else value
    try:
        return msgspec.convert(words, field.type, strict=False)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.json.decode(value, type=field.type)
    except (msgspec.DecodeError, RecursionError):
        raise click.BadParameter(f"{value!r} will not do for {_describe(field)}") from None


def _describe(field: FieldInfo) -> str:
    return f"{field.name}={_legal_values(field.type)}"


def _legal_values(kind: object) -> str:
    """Say in a word what may be given."""
    if kind is bool:
        return "true|false"
    if kind is int:
        return "NUMBER"
    if _is_list(kind):
        return "WORD,WORD,…"
    words = [word for word in get_args(kind) if isinstance(word, str)]
    if words:
        return "|".join(words)
    return "TEXT|null" if kind == str | None else "JSON"


def _is_list(kind: object) -> bool:
    return any(get_origin(one) is tuple for one in (kind, *get_args(kind)))


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
