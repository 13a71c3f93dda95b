"""The programs in `programs/`, their expectations, and how they are run and rewritten."""

import json
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from click.testing import CliRunner
from msgspec import Struct

from gateway.cli.migrate_code import code_command
from tests.gateway.migration.code.model_server import ModelServer, Run
from tests.gateway.migration.code.scripted_model import Script

HERE = Path(__file__).parent
FOLDER = HERE / "programs"
TARGETS = ("chat", "responses")

# A program with "either" is rewritten or left for a person, but never wrong.
Outcome = Literal["rewritten", "person", "either"]


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """What is expected of one program; an entry of `expectations.toml`."""

    script: Script
    # What the program shows, in a few words.
    style: str
    chat: Outcome = "rewritten"
    responses: Outcome = "rewritten"
    # The functions of the program that must be called with the same arguments; by default, those
    # that the model calls.
    tools: tuple[str, ...] | None = None
    old_sdk: bool = False
    arguments: tuple[str, ...] = ()
    stdin: str = ""
    environment: dict[str, str] = {}
    # Code that the rewritten program must not have, because a reader would not accept it.
    avoid: tuple[str, ...] = ()
    # Whether the program can handle all calls of a reply in a loop, so that they are made at once.
    loops: bool = False

    @property
    def watched(self) -> Sequence[str]:
        """The names of the functions whose calls are compared."""
        if self.tools is not None:
            return self.tools
        return sorted({call.name for turn in self.script.turns for call in turn.calls})


class Decision(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a person must decide; an entry of `decisions.toml`."""

    # The rules of the findings that are left.
    rules: tuple[str, ...]
    # A part of the comment.
    reason: str


class NotYet(Struct, frozen=True, forbid_unknown_fields=True):
    """Programs without the expected outcome so far; the content of `not_yet.toml`."""

    chat: frozenset[str]
    responses: frozenset[str]
    # Programs with `loops` that request one call at a time.
    loops: frozenset[str]


PROGRAMS = msgspec.toml.decode((FOLDER / "expectations.toml").read_bytes(), type=dict[str, Program])
DECISIONS = msgspec.toml.decode((FOLDER / "decisions.toml").read_bytes(), type=dict[str, Decision])
NOT_YET = msgspec.toml.decode((FOLDER / "not_yet.toml").read_bytes(), type=NotYet)


class Outputs(Struct, frozen=True):
    """What a program did."""

    printed: str
    errors: str
    # The watched functions that were called, with their arguments; sorted, because threads and
    # tasks have no order.
    calls: tuple[tuple[str, dict[str, str]], ...]
    run: Run


class Interpreter:
    """A process that runs programs with one version of the SDK."""

    def __init__(self, *folders: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, HERE / "interpreter.py", *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, program: Program, folder: Path, run: Run) -> Outputs:
        """Run the program in a folder and return what it did; fails if it ends with an error."""
        (folder.parent / "stdin").write_text(program.stdin)
        job = {
            "folder": str(folder),
            "arguments": [entry(folder).name, *program.arguments],
            "environment": _environment(program, run.url),
            "watched": program.watched,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        code = self._process.stdout.readline().strip()
        printed, errors = ((folder.parent / name).read_text() for name in ("stdout", "stderr"))
        assert run.violations == [], "\n".join([*run.violations, errors])
        assert code == "0", f"exit code {code}\n{printed}\n{errors}"
        lines = (folder.parent / "calls.jsonl").read_text().splitlines()
        calls = sorted(lines)
        decoded = tuple(msgspec.json.decode(one, type=tuple[str, dict[str, str]]) for one in calls)
        return Outputs(printed, errors, decoded, run)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _environment(program: Program, url: str) -> dict[str, str]:
    given = {
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_API_BASE": "{url}/v1",
        "OPENAI_BASE_URL": "{url}/v1",
        **program.environment,
    }
    return {name: value.replace("{url}", url) for name, value in given.items()}


class Laboratory:
    """A server and two interpreters; what programs do before the rewrite is kept."""

    def __init__(self, server: ModelServer, old: Interpreter, new: Interpreter) -> None:
        self._server = server
        self._old = old
        self._new = new
        self._before: dict[str, Outputs] = {}

    def before(self, name: str, folder: Path) -> Outputs:
        """Run an original program with the SDK that it was written for."""
        if name not in self._before:
            program = PROGRAMS[name]
            copy_program("legacy", name, folder)
            run = self._server.start_run("legacy", program.script)
            interpreter = self._old if program.old_sdk else self._new
            self._before[name] = interpreter.run(program, folder, run)
        return self._before[name]

    def after(self, name: str, folder: Path, target: str) -> Outputs:
        """Run a rewritten program with today's SDK."""
        program = PROGRAMS[name]
        run = self._server.start_run(target, program.script)
        return self._new.run(program, folder, run)


@contextmanager
def laboratory() -> Generator[Laboratory]:
    """Start the server and the interpreters."""
    with ModelServer() as server:
        old, new = Interpreter(HERE / "old_sdk"), Interpreter()
        yield Laboratory(server, old, new)
        old.close()
        new.close()


def sources(kind: str) -> list[str]:
    """Return the names of the programs of a kind."""
    return sorted(path.stem for path in (FOLDER / kind).iterdir() if path.name != "__pycache__")


def copy_program(kind: str, name: str, folder: Path) -> None:
    """Copy the files of a program to a new folder."""
    if (source := FOLDER / kind / name).is_dir():
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
        return
    folder.mkdir(parents=True)
    [file] = (FOLDER / kind).glob(f"{name}.*")
    shutil.copy(file, folder)


def entry(folder: Path) -> Path:
    """Return the file to run."""
    if (main := folder / "main.py").exists():
        return main
    [file] = [path for path in folder.iterdir() if path.suffix in (".py", ".ipynb")]
    return file


def texts(folder: Path) -> dict[str, str]:
    """Return the text of each source of a program, with the ends of its lines."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".ipynb"))
    return {str(path.relative_to(folder)): _text(path) for path in files}


def _text(path: Path) -> str:
    with path.open("rb") as file:
        encoding, _ = tokenize.detect_encoding(file.readline)
    return path.read_bytes().decode(encoding)


class Migration(Struct, frozen=True):
    """The result of the command."""

    exit_code: int
    output: str
    # The rules of the findings that were left.
    left: frozenset[str]
    texts: dict[str, str]


class _Finding(Struct):
    rule: str
    reason: str | None


class _Report(Struct):
    findings: list[_Finding]


def migrate(folder: Path, target: str, *, write: bool = True) -> Migration:
    """Run `dragoman migrate code` for the sources of a program."""
    options = ["--format", "json", *(["--write"] if write else ["--check"])]
    # The default target is left out, which is the more common command.
    options += [] if target == "chat" else ["--to", target]
    ran = CliRunner().invoke(code_command, [*options, str(folder)])
    left: frozenset[str] = frozenset()
    if ran.exit_code in (0, 1, 3) and ran.stdout.startswith("{"):
        report = msgspec.json.decode(ran.stdout, type=_Report)
        left = frozenset(one.rule for one in report.findings if one.reason is not None)
    return Migration(ran.exit_code, ran.output, left, texts(folder))
