"""Verification that a rewritten program has the same conversation as the original."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct
from rich.console import Console

from adapters.legacy import LEGACY
from gateway.recording.diff_output import print_differences, summarize
from gateway.terminal import escape_controls
from gateway.verification.conversation import (
    Conversation,
    RequestPair,
    pair_requests,
    read_conversation,
)
from gateway.verification.program import ProgramRun, copy_folder, run_program
from gateway.verification.server import run_recording_gateway

# The last lines of the standard error of a program that failed.
_SHOWN_LINES: Final = 10


class Version(Struct, frozen=True):
    """One version of the program: how it ended, and its conversation."""

    command: str
    run: ProgramRun
    conversation: Conversation


class Verification(Struct, frozen=True):
    """Both versions of a program."""

    original: Version
    rewritten: Version
    pairs: list[RequestPair]

    def faults(self) -> list[str]:
        """Return why the rewritten program is not proved to do the same; none if it is."""
        before, after = self.original.conversation, self.rewritten.conversation
        codes = self.original.run.exit_code, self.rewritten.run.exit_code
        found = [
            (codes[0] != 0, "the original program failed"),
            (not before.requests, "the original program sent no request to the given base URL"),
            (not before.dialects[LEGACY.name], "the original program sent no legacy request"),
            (bool(after.dialects[LEGACY.name]), "the rewritten program sent legacy requests"),
            (bool(after.rejected), "requests of the rewritten program were rejected"),
            (any(_differ(pair) for pair in self.pairs), "the requests differ"),
            (before.tool_runs() != after.tool_runs(), "the tools or their arguments differ"),
            (codes[0] != codes[1], "the exit codes differ"),
        ]
        return [text for is_found, text in found if is_found]


class Commands(Struct, frozen=True):
    """The commands that run the two versions; they may need different packages."""

    original: str
    rewritten: str


def verify(
    folder: Path, texts: Mapping[Path, bytes], commands: Commands, replies: Path | None = None
) -> Verification:
    """Run a program in two copies of its folder, one with other texts, and compare them.

    The files of the user are not changed. The model is the demo, or the recorded replies.
    """
    with TemporaryDirectory(prefix="dragoman-verify-") as temporary:
        original = _run(folder, {}, commands.original, Path(temporary, "original"), replies)
        rewritten = _run(folder, texts, commands.rewritten, Path(temporary, "rewritten"), replies)
    pairs = pair_requests(original.conversation.requests, rewritten.conversation.requests)
    return Verification(original, rewritten, pairs)


def _run(
    folder: Path,
    texts: Mapping[Path, bytes],
    command: str,
    temporary: Path,
    replies: Path | None,
) -> Version:
    # The copy has the same name, which programs may print.
    copy = temporary / (folder.name or "program")
    copy_folder(folder, copy)
    for path, text in texts.items():
        (copy / path).write_bytes(text)
    recordings = temporary / "recordings"
    with run_recording_gateway(recordings, replies) as address:
        run = run_program(command, copy, address)
    return Version(command, run, read_conversation(recordings))


# The report


def print_report(console: Console, found: Verification) -> None:
    """Print both conversations, what differs and the verdict."""
    _print_version(console, "original", found.original)
    _print_version(console, "rewritten", found.rewritten)
    _print_requests(console, found.pairs)
    _print_tools(console, found)
    if found.original.run.stdout != found.rewritten.run.stdout:
        console.print("output: differs, which is no fault if it has times or random values")
    faults = found.faults()
    console.print("verified" if not faults else f"not verified: {'; '.join(faults)}")


def _print_version(console: Console, name: str, version: Version) -> None:
    counts = version.conversation.dialects
    requests = ", ".join(f"{count} {dialect}" for dialect, count in sorted(counts.items()))
    code = version.run.exit_code
    ended = "ended after a timeout" if code is None else f"exit code {code}"
    console.print(f"{name}: {escape_controls(version.command)}")
    console.print(f"  {ended}, requests: {requests or 'none'}")
    for reason in version.conversation.rejected:
        console.print(f"  rejected: {escape_controls(reason)}")
    if code != 0:
        for line in version.run.stderr.splitlines()[-_SHOWN_LINES:]:
            console.print(f"  {escape_controls(line)}")


def _print_requests(console: Console, pairs: list[RequestPair]) -> None:
    equal = sum(not _differ(pair) for pair in pairs)
    console.print(f"requests: {equal} equal, {len(pairs) - equal} different")
    for pair in pairs:
        if pair.rewritten is None:
            console.print(f"  request {pair.original}: only in the original program")
        elif pair.original is None:
            console.print(f"  request {pair.rewritten}: only in the rewritten program")
        elif pair.differences:
            console.print(f"  request {pair.original}: {summarize(pair.differences)}")
            print_differences(console, pair.differences, "    ")


def _differ(pair: RequestPair) -> bool:
    return bool(pair.differences) or None in (pair.original, pair.rewritten)


def _print_tools(console: Console, found: Verification) -> None:
    before = Counter(found.original.conversation.tool_runs())
    after = Counter(found.rewritten.conversation.tool_runs())
    console.print("tools:" if before or after else "tools: none were called")
    for mark, runs in ((" ", before & after), ("-", before - after), ("+", after - before)):
        for run, count in sorted(runs.items()):
            times = "" if count == 1 else f" x{count}"
            console.print(f"{mark} {escape_controls(str(run))}{times}")
