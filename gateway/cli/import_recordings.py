"""`dragoman import`: converts the files of other tools to recordings."""

from collections import Counter
from pathlib import Path

import rich_click as click
from click import argument, echo, option

from gateway.terminal import exit_on_error, fail, print_message

_HELP = """Convert vcrpy cassettes and HAR files to recordings.

Only requests to the endpoints of the dialects are converted; all others are counted. Secrets are
redacted in the same way as by `dragoman serve --record`.

\b
Examples:
  dragoman import cassette.yaml --output imported
  dragoman import session.har cassette.json --output imported
"""


@click.command(name="import", help=_HELP)
@argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@option(
    "--output",
    metavar="DIR",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the recordings.",
)
def import_command(files: tuple[Path, ...], output: Path) -> None:
    """Import files."""
    imported, skipped = 0, Counter[str]()
    for file in files:
        with exit_on_error():
            imported += _import_file(file, output, skipped)
    noun = "recording" if imported == 1 else "recordings"
    echo(f"{imported} {noun} written to {output}")
    for request, count in skipped.items():
        print_message(f"skipped: {request}" if count == 1 else f"skipped {count} times: {request}")


def _import_file(file: Path, output: Path, skipped: Counter[str]) -> int:
    """Write the recordings of one file, and return their number."""
    # Imported here because other commands do not need it.
    from gateway.recording.format import recording_name, write_recording  # noqa: PLC0415
    from gateway.recording.http_exchange import ImportFormatError, split_url  # noqa: PLC0415
    from gateway.recording.imported_recording import (  # noqa: PLC0415
        make_recording,
        read_exchanges,
    )

    written = 0
    try:
        exchanges = read_exchanges(file)
    except ImportFormatError as error:
        fail(f"cannot import {file}: {error}")
    for number, exchange in enumerate(exchanges, start=1):
        recording = make_recording(exchange)
        if recording is None:
            url = split_url(exchange.url)
            skipped[f"{exchange.method} {url.hostname or ''}{url.path}"] += 1
            continue
        # The number keeps the order of the exchanges, some of which have no time.
        folder = output / f"{file.stem}-{number:04}-{recording_name(recording.exchange)}"
        if folder.exists():
            fail(f"{folder} exists; remove it or choose another folder")
        write_recording(folder, recording)
        written += 1
    return written
