"""`dragoman diff`: compares recordings, or requests, replies and streams in files."""

from pathlib import Path

import rich_click as click
from click import argument, option
from rich.console import Console

from adapters import DIALECTS, InvalidRequestError
from gateway.recording.diff_output import make_console, print_differences, summarize
from gateway.recording.documents import Document, compare_documents, read_document
from gateway.recording.recording_diff import (
    NamedRecording,
    compare_recordings,
    pair_recordings,
    read_recordings,
)
from gateway.terminal import exit_on_error, open_input

_HELP = """Compare A and B by meaning, and print what differs.

A and B are two recordings, two folders of recordings, or two files with a request, a reply or a
stream. Recordings in folders are paired by the requests of their clients. If the dialects of two
files differ, B is translated to that of A.

Ids, dates, the order of keys, the chunks of streams and redacted values are ignored.

The exit code is 0 if nothing differs, 1 if something does, and 2 for an invalid input.

\b
Examples:
  dragoman diff before after
  dragoman diff old.json new.json
"""

EXIT_DIFFERENT = 1
EXIT_INVALID = 2


@click.command(help=_HELP)
@argument("left", metavar="A", type=click.Path(exists=True))
@argument("right", metavar="B", type=click.Path(exists=True))
@option(
    "--dialect",
    type=click.Choice(list(DIALECTS)),
    help="Dialect of both files (default: detected).",
)
def diff_command(left: str, right: str, dialect: str | None) -> None:
    """Compare two inputs."""
    folders = Path(left).is_dir(), Path(right).is_dir()
    if folders[0] != folders[1]:
        raise click.UsageError("A and B must be two folders or two files.")
    if folders[0] and dialect is not None:
        raise click.UsageError("--dialect is for files; recordings have their dialects.")
    console = make_console()
    with exit_on_error(EXIT_INVALID):
        if folders[0]:
            different = _diff_folders(console, Path(left), Path(right))
        else:
            different = _diff_files(console, left, right, dialect)
    raise SystemExit(EXIT_DIFFERENT if different else 0)


def _diff_files(console: Console, left: str, right: str, dialect: str | None) -> bool:
    documents = _read_file(left, dialect), _read_file(right, dialect)
    differences = compare_documents(*documents)
    print_differences(console, differences)
    console.print(summarize(differences))
    return bool(differences)


def _read_file(name: str, dialect: str | None) -> Document:
    with open_input(name) as source:
        data = source.read()
    try:
        return read_document(data, dialect)
    except InvalidRequestError as error:
        raise InvalidRequestError(None, f"{name}: {error}") from None


def _diff_folders(console: Console, left: Path, right: Path) -> bool:
    sides = read_recordings(left), read_recordings(right)
    if [one.folder for side in sides for one in side] == [left, right]:
        # Two single recordings are compared although their requests may differ.
        differences = compare_recordings(sides[0][0].recording, sides[1][0].recording)
        print_differences(console, differences)
        console.print(summarize(differences))
        return bool(differences)
    pairs = pair_recordings(*sides)
    equal = sum([not _print_pair(console, one, other) for one, other in pairs])
    console.print(f"{len(pairs)} exchanges: {equal} equal, {len(pairs) - equal} different")
    return equal < len(pairs)


def _print_pair(
    console: Console, left: NamedRecording | None, right: NamedRecording | None
) -> bool:
    """Print what differs between two recordings, and return whether anything does."""
    if left is not None and right is not None:
        differences = compare_recordings(left.recording, right.recording)
        if differences:
            console.print(f"{left.folder}, {right.folder}: {summarize(differences)}")
            print_differences(console, differences, "  ")
        return bool(differences)
    only = left or right
    if only is not None:
        console.print(f"{only.folder}: only in {'A' if left else 'B'}")
    return True
