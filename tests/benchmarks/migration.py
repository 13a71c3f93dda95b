"""The cost of `dragoman migrate data`.

    python -m tests.benchmarks.migration [--records NUMBER] [--rounds NUMBER] [MEASURE ...]

Files of generated legacy requests are converted by processes of their own:

- a record, compared with `dragoman translate` and in all forms of files, by CPU time;
- one process compared with two, by the clock, and by CPU time as if both cores had no other work;
- the peak memory for the whole file, compared with a tenth of it.

The time to start a command is measured with a file of one record, and subtracted; that of the two
processes is not. Needs Linux.
"""

import argparse
import gzip
import os
import random
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory

import msgspec
import zstandard
from msgspec import Struct

_WORDS = ("river", "rose", "by", "12.5 cm", '"dry"', "fields", "größer", "cloud", "\n")
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_FUNCTION = {"name": "weather", "description": "The weather.", "parameters": _SCHEMA}
_QUICK_RECORDS = 4000
_PROCESSES = 2


class Cost(Struct, frozen=True):
    """What one process took: seconds, and kilobytes of its peak memory."""

    clock: float
    processor: float
    memory: int

    def without(self, start: "Cost") -> "Cost":
        """Return the cost without that of a start."""
        return Cost(self.clock - start.clock, self.processor - start.processor, self.memory)


def _make_records(count: int) -> Iterator[bytes]:
    """Yield requests with one to three turns, which depend only on their number."""
    chance = random.Random(1)  # noqa: S311 - not for secrets

    def text(words: int) -> str:
        return " ".join(chance.choice(_WORDS) for _ in range(words))

    for number in range(count):
        messages: list[object] = []
        for _ in range(1 + number % 3):
            call = {"name": "weather", "arguments": f'{{"city":"{chance.choice(_WORDS[:2])}"}}'}
            messages += [
                {"role": "user", "content": text(20)},
                {"role": "assistant", "content": None, "function_call": call},
                {"role": "function", "name": "weather", "content": str(number)},
                {"role": "assistant", "content": text(30)},
            ]
        yield msgspec.json.encode({"model": "m", "messages": messages, "functions": [_FUNCTION]})


def _write_lines(file: Path, records: Iterable[bytes]) -> None:
    with file.open("wb") as output:
        output.writelines(record + b"\n" for record in records)


def _write_array(file: Path, records: Iterable[bytes]) -> None:
    with file.open("wb") as output:
        for number, record in enumerate(records):
            output.write((b",\n" if number else b"[\n") + record)
        output.write(b"\n]\n")


def _write_gzip(file: Path, records: Iterable[bytes]) -> None:
    with gzip.open(file, "wb", compresslevel=1) as output:
        output.writelines(record + b"\n" for record in records)


def _write_zstd(file: Path, records: Iterable[bytes]) -> None:
    with file.open("wb") as output, zstandard.ZstdCompressor().stream_writer(output) as compressed:
        for record in records:
            compressed.write(record + b"\n")


FORMS: dict[str, tuple[str, Callable[[Path, Iterable[bytes]], None]]] = {
    "JSON Lines": ("jsonl", _write_lines),
    "array": ("json", _write_array),
    "gzip": ("jsonl.gz", _write_gzip),
    "zstd": ("jsonl.zst", _write_zstd),
}


def _run(*arguments: str) -> Cost:
    """Run a command of the gateway, and return its cost with that of its processes."""
    before = time.perf_counter()
    command = [sys.executable, "-m", "gateway", *arguments]
    process = Popen(command, stdout=DEVNULL, stderr=DEVNULL)  # noqa: S603 - our own command
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: exit code {process.returncode}")
    clock = time.perf_counter() - before
    return Cost(clock, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


class Benchmark:
    """The measures, in rounds, so that a slow minute of the machine affects all alike."""

    def __init__(self, folder: Path, forms: Collection[str], records: int, rounds: int) -> None:
        self._folder = folder
        self._forms = {name: FORMS[name] for name in forms}
        self._records = records
        self._rounds = rounds
        for name, (suffix, write) in self._forms.items():
            write(folder / f"all.{suffix}", _make_records(records))
            write(folder / f"tenth.{suffix}", _make_records(records // 10))
            write(folder / f"one.{suffix}", _make_records(1))
            size = (folder / f"all.{suffix}").stat().st_size / 1e6
            _print(f"{name}: {records} records, {size:.1f} MB")

    def _migrate(self, suffix: str, target: str, jobs: int, size: str) -> Cost:
        return _run(
            *("migrate", "data", "--quiet", "--to", target, "--jobs", str(jobs)),
            *("--output", str(self._folder / "output"), str(self._folder / f"{size}.{suffix}")),
        )

    def _translate(self, target: str, size: str) -> Cost:
        file = self._folder / f"{size}.jsonl"
        return _run("translate", "--from", "legacy", "--to", target, str(file))

    def _median(self, *runs: Callable[[str], Cost]) -> list[Cost]:
        """Return the cost of each run without its start."""
        samples: list[list[Cost]] = [[] for _ in runs]
        for _ in range(self._rounds):
            for sample, run in zip(samples, runs, strict=True):
                start = run("one")
                sample.append(run("all").without(start))
        return [
            Cost(
                median(one.clock for one in sample),
                median(one.processor for one in sample),
                max(one.memory for one in sample),
            )
            for sample in samples
        ]

    def compare_with_translate(self, target: str) -> None:
        """Print the CPU time of a record in all forms."""
        runs = [partial(self._migrate, suffix, target, 1) for suffix, _ in self._forms.values()]
        translated, *costs = self._median(partial(self._translate, target), *runs)
        each = 1e6 / self._records
        _print(f"\nA record to {target}, in microseconds of CPU time")
        _print(f"  dragoman translate         {translated.processor * each:8.1f}")
        for name, cost in zip(self._forms, costs, strict=True):
            ratio = cost.processor / translated.processor
            _print(f"  migrate data, {name:<12} {cost.processor * each:8.1f}  x{ratio:.2f}")

    def compare_processes(self) -> None:
        """Print the rate of two processes, compared with one."""
        _print("\nRecords per second: one process, two processes")
        for name, (suffix, _) in self._forms.items():
            one, two = self._median(
                partial(self._migrate, suffix, "chat", 1),
                partial(self._migrate, suffix, "chat", _PROCESSES),
            )
            by_processor = _PROCESSES * one.processor / two.processor
            _print(
                f"  {name:<12} {self._records / one.clock:10.0f} {self._records / two.clock:10.0f}"
                f"  x{one.clock / two.clock:.2f} by the clock, x{by_processor:.2f} by CPU time"
            )

    def compare_memory(self) -> None:
        """Print the peak memory, which does not depend on the size of the file."""
        _print("\nPeak memory of a process in MB: a tenth of the file, the whole file")
        for name, (suffix, _) in self._forms.items():
            for jobs in (1, _PROCESSES):
                tenth = self._migrate(suffix, "chat", jobs, "tenth").memory / 1024
                all_ = self._migrate(suffix, "chat", jobs, "all").memory / 1024
                _print(
                    f"  {name:<12} {jobs} processes {tenth:8.1f} {all_:8.1f}  x{all_ / tenth:.2f}"
                )


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measures", nargs="*", help="chat, responses, processes, memory")
    parser.add_argument("--records", type=int, default=100_000, help="for example 1000000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few records in one form, one round")
    options = parser.parse_args()
    forms, records, rounds = list(FORMS), options.records, options.rounds
    if options.quick:
        forms, records, rounds = forms[:1], _QUICK_RECORDS, 1
    with TemporaryDirectory() as folder:
        benchmark = Benchmark(Path(folder), forms, records, rounds)
        measures: dict[str, Callable[[], None]] = {
            "chat": lambda: benchmark.compare_with_translate("chat"),
            "responses": lambda: benchmark.compare_with_translate("responses"),
            "processes": benchmark.compare_processes,
            "memory": benchmark.compare_memory,
        }
        for name in options.measures or measures:
            measures[name]()


if __name__ == "__main__":
    main()
