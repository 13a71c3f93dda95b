"""A process that runs programs: it imports their packages once, and forks for each program.

It reads a job in each line of standard input, and writes a line when the program has ended. The
argument is a folder for the import path. Functions of the program whose calls are watched are
written to `calls.jsonl` in the order of their calls.
"""

import functools
import inspect
import json
import os
import runpy
import signal
import ssl
import sys
import threading
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

if sys.argv[1:]:
    # A package that reads the environment of the program when it is imported.
    sys.path.insert(0, sys.argv[1])
else:
    # Its import takes longer than most programs, also that of the parts that it imports late.
    import openai

    # Each client loads the certificates, which takes longer than the rest of most programs.
    ssl.create_default_context = functools.cache(  # type: ignore[assignment]  # has the same use
        ssl.create_default_context
    )
    _client = openai.OpenAI(api_key="none")
    _resources = _client.chat.completions, _client.responses

_TIMEOUT_SECONDS = 30


def main() -> None:
    """Run all jobs."""
    for line in sys.stdin:
        job = json.loads(line)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _run(job)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(job: dict[str, Any]) -> None:
    """Run a program in the forked process, which ends here."""
    signal.alarm(_TIMEOUT_SECONDS)
    folder = Path(job["folder"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(folder.parent / name, flags), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
    for name, value in job["environment"].items():
        os.environ[name] = value
        if not value:
            del os.environ[name]
    code = 0
    try:
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        sys.argv = job["arguments"]
        with _Watch(folder, frozenset(job["watched"])):
            _execute(folder / job["arguments"][0])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - a program may raise anything
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _execute(file: Path) -> None:
    if file.suffix != ".ipynb":
        runpy.run_path(str(file), run_name="__main__")
        return
    cells = json.loads(file.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = [
        line
        for source in sources
        if not source.startswith("%%")
        for line in source.split("\n")
        if not line.startswith(("%", "!"))
    ]
    exec(compile("\n".join(lines), str(file), "exec"), {"__name__": "__main__"})  # noqa: S102 - the notebook


class _Watch:
    """Records the calls of some functions in the files of a folder."""

    def __init__(self, folder: Path, names: frozenset[str]) -> None:
        self._folder = str(folder)
        self._names = names
        self._output = (folder.parent / "calls.jsonl").open("w", encoding="utf-8")
        # A coroutine has one frame for several calls; kept, so that no other has its address.
        self._frames: list[FrameType] = []

    def __enter__(self) -> None:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._output.close()

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or frame.f_code.co_name not in self._names:
            return
        if not frame.f_code.co_filename.startswith(self._folder) or frame in self._frames:
            return
        self._frames.append(frame)
        found = inspect.getargvalues(frame)
        names = [*found.args, found.varargs, found.keywords]
        given = {name: repr(found.locals[name]) for name in names if name and name != "self"}
        self._output.write(json.dumps([frame.f_code.co_name, given]) + "\n")


if __name__ == "__main__":
    main()
