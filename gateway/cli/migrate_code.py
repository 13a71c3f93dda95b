"""`dragoman migrate code`: finds and rewrites source code with legacy functions."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
import rich_click as click
from click import argument, option
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from gateway.cli.migrate_verify import VerifyOptions, verify_changes
from gateway.migration.code.files import find_sources, uncommitted_files
from gateway.migration.code.reports import REPORTS, summary
from gateway.migration.code.rules import RULES
from gateway.migration.code.run import FileResult, Results, migrate_files
from gateway.terminal import exit_on_error, print_error, print_message, write_output

_HELP = """Find legacy functions in source code, and rewrite what is safe to rewrite.

PATH is a file or a folder with Python sources or notebooks. JavaScript and TypeScript are searched,
but not rewritten. Each finding is printed as FILE:LINE:COLUMN RULE MESSAGE, followed by a summary.

Without --write, nothing is changed; the exit code is 0 if nothing legacy was found, else 1. With
--write it is 0 if everything was rewritten, and 3 if something is left. A program is rewritten
completely or not at all; where a person must decide, a comment that begins with "# dragoman:"
explains why. The exit code is 2 if a source cannot be read.

With --verify, COMMAND is run in two copies of the working directory, with the original and with the
rewritten sources. OPENAI_BASE_URL and OPENAI_API_KEY, and the names of Azure and of openai 0.28,
are set to a gateway that records all requests; its model is the built-in demo. The exit code is 0
if both programs sent the same requests and ran the same tools, and 1 if not.

--only and --except select rules. Rules of a family depend on each other, so a program is only
rewritten if all rules of the family that found something in it are selected.

\b
Examples:
  dragoman migrate code src
  dragoman migrate code --write src
  dragoman migrate code --write --to responses src
  dragoman migrate code --check --format sarif src
  dragoman migrate code --verify "python app.py" src
  dragoman migrate code --explain read-function-call
"""

_FOUND: Final = 1
_ERROR: Final = 2
_NEEDS_DECISION: Final = 3
# A progress bar is shown for more files than this.
_MANY_FILES: Final = 50


class CodeOptions(Struct, frozen=True):
    """The options of `dragoman migrate code`."""

    paths: tuple[Path, ...]
    write: bool
    check: bool
    force: bool
    javascript: bool
    to: Literal["chat", "responses"]
    format: str
    only: tuple[str, ...]
    leave: tuple[str, ...]
    verify: str | None
    verify_original: str | None
    verify_replies: Path | None

    @property
    def rules(self) -> frozenset[str]:
        """The selected rules."""
        return frozenset(self.only or RULES) - frozenset(self.leave)


def _explain(context: click.Context, _parameter: click.Parameter, rule: str | None) -> None:
    """Print the explanation of a rule and exit."""
    if rule is not None:
        found = RULES[rule]
        click.echo(f"{rule}: {found.summary}\n\n{found.explanation}\n\nFamily: {found.family}")
        context.exit()


_rule = click.Choice(list(RULES))


@click.command("code", help=_HELP)
@argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@option("--write", is_flag=True, help="Rewrite the sources.")
@option("--check", is_flag=True, help="Change nothing; for continuous integration.")
@option("--force", is_flag=True, help="Rewrite files with changes that are not committed.")
@option("--javascript", is_flag=True, help="Let JavaScript and TypeScript count for the exit code.")
@option(
    "--to",
    type=click.Choice(["chat", "responses"]),
    default="chat",
    help="Rewrite to Chat Completions with tools, or to the Responses API.",
)
@option("--format", type=click.Choice(list(REPORTS)), default="text", help="Form of the report.")
@option("--only", type=_rule, multiple=True, metavar="RULE", help="Apply only this rule.")
@option("--except", "leave", type=_rule, multiple=True, metavar="RULE", help="Skip this rule.")
@option(
    "--verify",
    metavar="COMMAND",
    help="Run the program before and after the rewrite, in copies of the working directory, and"
    " compare its requests. With --write, write only if they are equal.",
)
@option(
    "--verify-original",
    metavar="COMMAND",
    help="With --verify: another command for the original program, for example with openai 0.28.",
)
@option(
    "--verify-replies",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="With --verify: recordings whose replies are used, instead of the demo's.",
)
@option(
    "--explain",
    type=_rule,
    metavar="RULE",
    is_eager=True,
    expose_value=False,
    callback=_explain,
    help="Explain a rule.",
)
def code_command(**given: object) -> None:
    """Migrate sources."""
    options = msgspec.convert(given, CodeOptions)
    if options.write and options.check:
        raise click.UsageError("--check changes nothing; use it without --write.")
    verification = _verification(options)
    with exit_on_error(_ERROR):
        paths = list(find_sources(options.paths))
        with _progress(len(paths)) as advance:
            results = migrate_files(paths, advance, options.to, options.rules)
        files = [_selected(result, options.rules) for result in results.files]
        files = [file for file in files if file.findings or file.is_changed]
        # A program without a rewritten source has nothing to compare.
        if verification is not None and any(file.is_changed for file in files):
            verify_changes(files, verification)
            if not options.write and not results.errors:
                return
        if options.write:
            _write(files, force=options.force)
        write_output(REPORTS[options.format](files).encode("utf-8", "backslashreplace"))
        print_message_lines(summary(files, written=options.write))
    raise SystemExit(_exit_code(results, files, options))


def _verification(options: CodeOptions) -> VerifyOptions | None:
    if options.verify is None:
        if options.verify_original is not None or options.verify_replies is not None:
            raise click.UsageError("--verify-original and --verify-replies need --verify.")
        return None
    return VerifyOptions(options.verify, options.verify_original, options.verify_replies)


def _selected(result: FileResult, rules: frozenset[str]) -> FileResult:
    """Return a result with the findings of the selected rules."""
    findings = tuple(one for one in result.findings if one.rule in rules)
    return msgspec.structs.replace(result, findings=findings)


def _write(files: Sequence[FileResult], *, force: bool) -> None:
    changed = [file for file in files if file.is_changed]
    if not force and (uncommitted := uncommitted_files([file.file.path for file in changed])):
        names = ", ".join(map(str, uncommitted))
        raise click.UsageError(f"{names}: changes are not committed; commit them, or add --force.")
    for file in changed:
        file.file.write(file.text)


def print_message_lines(text: str) -> None:
    """Write lines to standard error."""
    for line in text.splitlines():
        print_message(line)


def _exit_code(results: Results, files: Sequence[FileResult], options: CodeOptions) -> int:
    for error in results.errors:
        print_error(f"{error.path}: {error.message}")
    if results.errors:
        return _ERROR
    counted = [file for file in files if options.javascript or not file.is_javascript]
    if options.write:
        left = any(one.reason is not None for file in counted for one in file.findings)
        return _NEEDS_DECISION if left else 0
    return _FOUND if counted else 0


@contextmanager
def _progress(count: int) -> Generator[Callable[[int], None]]:
    """Show a progress bar on a terminal if there are many files."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=count <= _MANY_FILES) as bar:
        task = bar.add_task("", total=count)
        yield lambda count: bar.advance(task, count)
