"""A driver as a process: runs go in, results come out."""

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct

from tests.clients.backend import ANSWERS, CALLS, FAREWELL, QUESTION, RESULTS
from tests.judges.reading import JsonObject

# The time that a run may take. The first one of a process includes the imports.
_RUN_SECONDS = 60


class Run(Struct, frozen=True):
    """One conversation: where it is sent, and how."""

    base_url: str
    model: str
    stream: bool

    def encode(self) -> str:
        fields: JsonObject = {
            "base_url": self.base_url,
            "model": self.model,
            "stream": self.stream,
            "prompts": [QUESTION, FAREWELL],
            "results": {call.name: result for call, result in zip(CALLS, RESULTS, strict=True)},
        }
        return json.dumps(fields) + "\n"


class _Result(Struct, frozen=True):
    """What a client did: the names and cities of its calls, its answers, or its error."""

    calls: list[tuple[str, str]] = []
    texts: list[str] = []
    error: str | None = None


_RESULT: Final = msgspec.json.Decoder(_Result)


def run_driver(command: Sequence[str], folder: Path, runs: Sequence[Run]) -> Iterator[str | None]:
    """Return for each run why it failed, or None; a driver that hangs or ends is started again."""
    remaining = [*runs]
    while remaining:
        with _Driver(command, folder) as driver:
            for place, run in enumerate(remaining):
                result = driver.run(run)
                if isinstance(result, str):
                    yield result
                    remaining = remaining[place + 1 :]
                    break
                yield _fault(result)
            else:
                return


def _fault(result: _Result) -> str | None:
    """Return what is wrong with the result of a run."""
    if result.error is not None:
        return result.error
    calls = [(call.name, json.loads(call.arguments)["city"]) for call in CALLS]
    if sorted(result.calls) != sorted(calls):
        return f"calls: {result.calls}"
    texts = result.texts
    if len(texts) != len(ANSWERS):
        return f"texts: {texts}"
    right = [answer in text for answer, text in zip(ANSWERS, texts, strict=True)]
    return None if all(right) else f"texts: {texts}"


class _Driver:
    """A process of a driver, whose standard error is appended to a file in its folder."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        keys = {"OPENAI_API_KEY": "sk-test", "AZURE_OPENAI_API_KEY": "sk-test"}
        with (folder / "stderr.log").open("a") as log:
            self._process = subprocess.Popen(  # noqa: S603 - from clients.toml
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=environment | keys,
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._reader.join()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self._lines.put(line)
        self._lines.put("")

    def run(self, run: Run) -> _Result | str:
        """Return the result of a run, or why there is none."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(run.encode())
            self._process.stdin.flush()
            line = self._lines.get(timeout=_RUN_SECONDS)
        except (BrokenPipeError, queue.Empty) as error:
            return f"no result: {error!r}"
        return _RESULT.decode(line) if line else "the driver ended without a result"
