"""`dragoman migrate code --verify`: runs both versions of a program and compares their requests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import rich_click as click
from msgspec import Struct

from gateway.migration.code.run import FileResult
from gateway.recording.diff_output import make_console

FAILED: Final = 1


class VerifyOptions(Struct, frozen=True):
    """The options of the verification."""

    command: str
    original_command: str | None
    replies: Path | None


def verify_changes(files: Sequence[FileResult], options: VerifyOptions) -> None:
    """Print a report; exit with code 1 unless both versions have the same conversation."""
    # Imported here because it takes half a second, which other runs do not need.
    from gateway.verification.verify import Commands, print_report, verify  # noqa: PLC0415

    folder = Path.cwd()
    texts = {
        _relative(file.file.path, folder): file.text.encode(file.file.encoding)
        for file in files
        if file.is_changed
    }
    commands = Commands(options.original_command or options.command, options.command)
    found = verify(folder, texts, commands, options.replies)
    print_report(make_console(), found)
    if found.faults():
        raise SystemExit(FAILED)


def _relative(path: Path, folder: Path) -> Path:
    resolved = path.resolve()
    if not resolved.is_relative_to(folder.resolve()):
        raise click.UsageError(
            f"--verify: {path} is not below the working directory, in which the program is run."
        )
    return resolved.relative_to(folder.resolve())
