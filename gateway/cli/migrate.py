"""`dragoman migrate`: converts what was made for legacy functions."""

import os
import signal
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import BinaryIO, Final

import msgspec
import rich_click as click
from click import argument, option
from msgspec import Struct
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from adapters import Loss
from adapters.losses import LossGroup
from gateway.cli.migrate_code import code_command
from gateway.migration.data.conversion import ConvertedBatch, Totals, convert_batches
from gateway.migration.data.input import Form, Input
from gateway.migration.data.output import back_up, open_output
from gateway.migration.data.validation import Target
from gateway.terminal import escape_controls, exit_on_error, print_message

_HELP = """Convert what was made for legacy functions.

\b
Examples:
  dragoman migrate code src
  dragoman migrate data --to chat old.jsonl --output new.jsonl
"""

_DATA_HELP = """Convert the records of FILE to the tools form or to the Responses API.

FILE is JSON Lines, a JSON array or one JSON object, also with gzip or zstd. A record is a request,
a reply, a line of an OpenAI batch file, an example for fine-tuning, a list of messages, definitions
of functions, or a thread of the Assistants API; its form is detected. The output has the form of
the input, and is compressed if its name ends with .gz or .zst. It appears only when it is complete.

Losses and failures are printed with the number of their line, and the losses of all records in
totals. Losses of the severity "adapted" are only in the totals and in --losses FILE. The exit code
is 0 if all records were converted, 3 if some failed, 2 for a usage error, and 1 if the file cannot
be read to its end or the output cannot be written; then there is no output.

\b
Examples:
  dragoman migrate data --to chat old.jsonl --output new.jsonl
  dragoman migrate data --to responses batch.jsonl.gz --output new.jsonl.zst
  dragoman migrate data --to chat data.json --output data.json --backup data.bak
"""

_SOME_FAILED: Final = 3
# Shells report a process that a signal ended with this exit code, plus the number of the signal.
_SIGNAL_EXIT: Final = 128
# The separators of records, and what stands before the first and after the last one.
_SEPARATORS: dict[Form, tuple[bytes, bytes, bytes]] = {
    "lines": (b"", b"\n", b"\n"),
    "array": (b"[\n", b",\n", b"\n]\n"),
    "value": (b"", b"\n", b"\n"),
}


_LINES: Final = msgspec.json.Encoder()


class DataOptions(Struct, frozen=True):
    """The options of `dragoman migrate data`."""

    file: Path
    target: Target
    output: Path
    failures: Path | None
    losses: Path | None
    backup: Path | None
    jobs: int
    quiet: bool


@click.group(help=_HELP)
def migrate_command() -> None:
    """Group the migrations."""


migrate_command.add_command(code_command)

_existing = click.Path(exists=True, dir_okay=False, path_type=Path)
_writable = click.Path(dir_okay=False, path_type=Path)


@migrate_command.command("data", help=_DATA_HELP)
@argument("file", type=_existing)
@option("--to", "target", required=True, type=click.Choice(["chat", "responses"]), help="New form.")
@option("--output", required=True, type=_writable, metavar="FILE", help="File to write.")
@option("--failures", type=_writable, metavar="FILE", help="File for records that failed.")
@option("--losses", type=_writable, metavar="FILE", help="File for losses, not standard error.")
@option("--backup", type=_writable, metavar="FILE", help="Copy of the input, to convert in place.")
@option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    metavar="NUMBER",
    help="Processes for large files (default: one for each core).",
)
@option("--quiet", is_flag=True, help="Print only the totals.")
def data_command(**given: object) -> None:
    """Convert one file."""
    options = msgspec.convert(given, DataOptions)
    _check_paths(options)
    totals = Totals()
    with _exit_on_sigterm(), exit_on_error(), options.file.open("rb") as source:
        records = Input(source, options.file.name)
        with ExitStack() as stack:
            output = _RecordWriter(stack.enter_context(open_output(options.output)), records.form)
            report = _Report(stack, options)
            for batch in convert_batches(records.batches(), options.target, options.jobs):
                totals.add(batch)
                output.write(batch.records)
                report.add(batch, records.position)
            output.finish()
            if options.backup is not None:
                back_up(options.file, options.backup)
    _print_totals(totals)
    if totals.failed:
        raise SystemExit(_SOME_FAILED)


def _check_paths(options: DataOptions) -> None:
    """Reject outputs that would replace the input or each other."""
    in_place = options.output.exists() and options.output.samefile(options.file)
    if in_place and options.backup is None:
        raise click.UsageError("--output is the input itself; add --backup FILE to keep a copy.")
    if not in_place and options.backup is not None:
        raise click.UsageError("--backup is only for --output with the name of the input.")
    if options.backup is not None and options.backup.exists():
        raise click.UsageError(f"--backup {options.backup} exists already; name a new file.")
    optional = (options.failures, options.losses, options.backup)
    others = [path.resolve() for path in optional if path is not None]
    different = {options.file.resolve(), options.output.resolve(), *others}
    if len(different) < len(others) + 1 + (not in_place):
        raise click.UsageError(
            "--output, --failures, --losses and --backup must be different files."
        )


@contextmanager
def _exit_on_sigterm() -> Generator[None]:
    """Raise an exception on SIGTERM, so that temporary files are removed."""

    def exit_now(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(_SIGNAL_EXIT + number)

    former = signal.signal(signal.SIGTERM, exit_now)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


class _RecordWriter:
    """Writes records with the separators of the input's form."""

    def __init__(self, file: BinaryIO, form: Form) -> None:
        self._file = file
        self._before, self._between, self._after = _SEPARATORS[form]
        self._is_empty = True

    def write(self, records: list[bytes]) -> None:
        """Write the records of a batch."""
        if records:
            self._file.write(self._before if self._is_empty else self._between)
            self._file.write(self._between.join(records))
            self._is_empty = False

    def finish(self) -> None:
        """Write what stands after the last record."""
        if not self._is_empty:
            self._file.write(self._after)
        elif self._before:
            self._file.write(b"[]\n")


class _FailureLine(Struct, omit_defaults=True):
    line: int
    record: int | None
    reason: str


class _LossLine(Struct, omit_defaults=True):
    line: int
    record: int | None
    loss: Loss


class _Report:
    """Reports failures, losses and the progress of a conversion."""

    def __init__(self, stack: ExitStack, options: DataOptions) -> None:
        self._failures = _open_optional(stack, options.failures)
        self._losses = _open_optional(stack, options.losses)
        self._is_quiet = options.quiet
        self._progress = progress = Progress(
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = progress.add_task("", total=options.file.stat().st_size)
        if progress.console.is_terminal and not options.quiet:
            stack.enter_context(progress)

    def add(self, batch: ConvertedBatch, position: int) -> None:
        """Report a batch; `position` is how much of the input was read."""
        failures, losses = batch.failures, batch.losses
        if self._failures is not None:
            lines = (_FailureLine(one.place.line, one.place.record, one.reason) for one in failures)
            self._failures.write(_LINES.encode_lines(lines))
        else:
            self._print([f"dragoman: {one.place}: {one.reason}" for one in failures])
        if self._losses is not None:
            found = (_LossLine(place.line, place.record, loss) for place, loss in losses)
            self._losses.write(_LINES.encode_lines(found))
        else:
            # Those that are only adapted are the same in most records.
            shown = ((place, loss) for place, loss in losses if loss.severity != "adapted")
            self._print([f"{place}: {loss}" for place, loss in shown])
        self._progress.update(self._task, completed=position)

    def _print(self, messages: Sequence[str]) -> None:
        """Print lines, all at once because the progress bar is drawn again each time."""
        if messages and not self._is_quiet:
            text = "\n".join(map(escape_controls, messages))
            if self._progress.console.is_terminal:
                self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                click.echo(text, err=True)


def _open_optional(stack: ExitStack, path: Path | None) -> BinaryIO | None:
    return None if path is None else stack.enter_context(open_output(path))


def _print_totals(totals: Totals) -> None:
    print_message(f"{totals.converted} records converted, {totals.failed} failed")
    for loss, count in totals.losses.most_common():
        print_message(str(LossGroup(loss, count)))
    if totals.other_losses:
        print_message(f"{totals.other_losses} losses of further kinds")
