"""`dragoman translate`: translates a request, a reply, an error or a stream."""

import io
from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec
import rich_click as click
from click import argument, option
from msgspec import Struct

from adapters import (
    DIALECTS,
    DragomanError,
    InvalidReplyError,
    InvalidRequestError,
    Policy,
    Request,
    deterministic_ids,
)
from adapters.model_rules import BackendCapabilities
from adapters.profiles import PROFILES
from adapters.sse import STREAM_PREFIX_BYTES, is_stream
from gateway.cli.capability_options import read_capabilities, read_profile
from gateway.cli.jsonl import JsonlTranslator, describe_kind, is_jsonl
from gateway.cli.transform_option import read_transforms
from gateway.crypto import RANDOM_IDS
from gateway.dry_run import Kind, OfflineTranslator, read_request
from gateway.grammar_check import check_inputs_blocking
from gateway.terminal import (
    CHUNK_BYTES,
    STANDARD_INPUT,
    exit_on_error,
    fail,
    open_input,
    print_losses,
    print_message,
    read_chunks,
    write_output,
)

_HELP = """Translate FILE, or standard input, from one dialect to another.

Losses are printed to standard error, one per line. A .jsonl or .ndjson file is translated line by
line; OpenAI's batch files are recognized.

\b
Examples:
  dragoman translate --from chat --to responses request.json
  dragoman translate --from chat --to responses --kind stream stream.sse
  dragoman translate --from legacy --to chat --keep-going examples.jsonl
"""

_DIALECT = click.Choice(list(DIALECTS))


class Options(Struct, frozen=True):
    """The options of the command."""

    source: str
    target: str
    file: str
    capabilities: BackendCapabilities
    # Transforms, which msgspec accepts only as objects of any type.
    transforms: tuple[Any, ...]
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
@option("--from", "source", required=True, type=_DIALECT, help="Dialect of the input.")
@option("--to", "target", required=True, type=_DIALECT, help="Dialect of the output.")
@option(
    "--kind",
    type=click.Choice(["request", "reply", "stream", "error"]),
    help="Kind of the input (default: detected).",
)
@option(
    "--request",
    metavar="FILE",
    help="For a reply or a stream: the request it belongs to, in either of the two dialects.",
)
@option(
    "--status",
    type=click.IntRange(100, 599),
    metavar="NUMBER",
    help="For an error: its HTTP status (default: 500).",
)
@option(
    "--loss-policy",
    "policy",
    type=click.Choice(["report", "refuse"]),
    default="report",
    help="Report what the target does not support, or reject the request (default: report).",
)
@option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    is_eager=True,
    expose_value=False,
    callback=read_profile,
    help="Capabilities of a known kind of backend.",
)
@option(
    "--capability",
    "capabilities",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_capabilities,
    help="A capability of the backend, for example developer_role=true. Can be repeated.",
)
@option(
    "--transform",
    "transforms",
    metavar="PATH[=OPTIONS]",
    multiple=True,
    callback=read_transforms,
    help="A transform of the backend, for example adapters.transforms:RedactText="
    """'{"patterns": ["secret"]}'. Can be repeated.""",
)
@option("--lines", is_flag=True, help="Read JSON Lines, whatever the name of the file.")
@option("--keep-going", is_flag=True, help="Write an error in place of an invalid line.")
@option("--indent", is_flag=True, help="Indent the JSON output.")
@option("--deterministic", is_flag=True, help="Use consecutive ids and a constant time.")
@option("--verbose", is_flag=True, help="Print the detected kind of the input.")
def translate_command(**given: object) -> None:
    """Translate one input."""
    options = msgspec.convert(given, Options)
    lines = options.lines or is_jsonl(options.file)
    _check_options(options, lines=lines)
    with exit_on_error():
        translator = _make_translator(options)
        with open_input(options.file) as source:
            if not lines:
                _translate_input(options, translator, source)
            else:
                jsonl = JsonlTranslator(
                    translator, options.kind, keep_going=options.keep_going, verbose=options.verbose
                )
                if not jsonl.translate(source):
                    raise SystemExit(1)


def _check_options(options: Options, *, lines: bool) -> None:
    """Reject combinations of options that have no effect."""
    kind = options.kind
    if options.status is not None and kind not in (None, "error"):
        raise click.UsageError(f"--status is for errors, not for --kind {kind}.")
    if options.request is not None and kind == "request":
        raise click.UsageError("--request is for replies and streams, not for --kind request.")
    if options.keep_going and not lines:
        raise click.UsageError("--keep-going is for JSON Lines; add --lines.")
    if lines and options.indent:
        raise click.UsageError("--indent cannot be used with JSON Lines.")
    if lines and kind == "stream":
        raise click.UsageError("--kind stream cannot be used with JSON Lines.")


def _make_translator(options: Options) -> OfflineTranslator:
    return OfflineTranslator(
        options.source,
        options.target,
        ids=deterministic_ids() if options.deterministic else RANDOM_IDS,
        capabilities=options.capabilities,
        transforms=options.transforms,
        policy=options.policy,
        status=options.status,
        request=_read_request(options),
    )


def _read_request(options: Options) -> Request | None:
    if options.request is None:
        return None
    with open_input(options.request) as source:
        body = source.read()
    try:
        return read_request(body, (options.source, options.target))
    except DragomanError as error:
        fail(f"{options.request}: {error}")


def _translate_input(
    options: Options, translator: OfflineTranslator, source: io.BufferedReader
) -> None:
    head = _read_head(source)
    kind, body = options.kind, b""
    if kind is None and is_stream(head):
        kind = "stream"
    elif kind != "stream":
        body = head + source.read()
        kind = kind or translator.detect_kind(body)
    if options.verbose and options.kind is None:
        print_message(describe_kind(kind))
    if kind == "stream":
        if not head.strip():
            raise InvalidRequestError(None, "the input is empty")
        _translate_stream(translator, chain((head,), read_chunks(source)))
        return
    translation = translator.translate(body, kind)
    write_output(_format(translation.body, indent=options.indent) + b"\n")
    print_losses(translation.losses)


def _translate_stream(translator: OfflineTranslator, chunks: Iterable[bytes]) -> None:
    """Write each chunk as soon as it is translated.

    If the stream is truncated or invalid, write an error in the target's dialect and raise it.
    """
    stream = translator.stream()
    for chunk in chunks:
        write_output(stream.feed(chunk))
    end = stream.finish(started=True)
    write_output(end.body)
    print_losses([*stream.losses, *check_inputs_blocking(stream.custom_inputs)])
    if stream.faults:
        raise stream.faults[0]
    if end.error is not None and end.error_origin == "gateway":
        raise InvalidReplyError(None, end.error.message)


def _read_head(source: io.BufferedReader) -> bytes:
    """Read just enough to detect a stream, because its next bytes may arrive late."""
    head = b""
    while len(head) < CHUNK_BYTES and len(head.lstrip()) < STREAM_PREFIX_BYTES:
        chunk = source.read1(CHUNK_BYTES)
        if not chunk:
            break
        head += chunk
    return head


def _format(body: bytes, *, indent: bool) -> bytes:
    body = body.rstrip()
    if not indent:
        return body
    try:
        return msgspec.json.format(body, indent=2)
    except (msgspec.DecodeError, RecursionError):
        # An error body is forwarded unchanged and need not be JSON.
        return body
