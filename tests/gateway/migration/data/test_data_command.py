"""`dragoman migrate data`."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from gateway.migration.data.records import ConvertedRecord
from tests.gateway.cli import command_line as cli
from tests.gateway.migration.data import samples
from tests.gateway.waiting import wait_until
from tests.judges.samples import encoded

# The loss of every legacy request.
ADAPTED = (
    "invented parallel_tool_calls{}: "
    "the legacy API has at most one call per reply; one is requested"
)
LINE = encoded(samples.REQUEST) + b"\n"
# A record without anything to convert, which takes less time.
ALREADY_CHAT = encoded({"model": "m", "messages": [samples.QUESTION], "user": "x" * 500})
BROKEN = b'{"prompt":"a","completion":"b"}\n'


on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux lists the children of a process"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.jsonl").write_bytes(LINE + b"\n" + BROKEN + LINE)
    return tmp_path


def migrate(folder: Path, options: str, name: str = "in.jsonl") -> tuple[int, list[str]]:
    result = cli.run(f"migrate data {options}", b"", str(folder / name))
    assert result.stdout == ""
    return result.exit_code, result.stderr.splitlines()


def test_failures_are_printed_by_line(folder: Path) -> None:
    exit_code, printed = migrate(folder, f"--to chat --output {folder}/out.jsonl")
    assert exit_code == 3
    assert printed[0].startswith("dragoman: line 3: the record has no known form")
    assert printed[1:] == ["2 records converted, 1 failed", ADAPTED.format(" x2")]
    lines = (folder / "out.jsonl").read_bytes().splitlines()
    assert [len(json.loads(line)["tools"]) for line in lines] == [1, 1]


def test_internal_error_fails_one_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(record: bytes, _target: str) -> ConvertedRecord:
        if record == BROKEN.strip():
            raise ValueError("x")
        return ConvertedRecord(record)

    monkeypatch.setattr("gateway.migration.data.conversion.convert_record", convert)
    exit_code, printed = migrate(folder, f"--to chat --output {folder}/out.jsonl")
    assert exit_code == 3
    assert printed[0] == "dragoman: line 3: internal error: ValueError('x')"
    assert printed[1] == "2 records converted, 1 failed"


def test_failures_and_losses_have_files(folder: Path) -> None:
    (folder / "in.jsonl").write_bytes(encoded(samples.EXAMPLE) + b"\n" + BROKEN)
    files = f"--failures {folder}/failures --losses {folder}/losses"
    exit_code, printed = migrate(folder, f"--to responses --output {folder}/out {files}")
    assert exit_code == 3
    assert printed[0] == "1 records converted, 1 failed"
    # The totals have no line numbers.
    assert any(line.startswith("dropped messages[*].weight x2: ") for line in printed)
    (failure,) = map(json.loads, (folder / "failures").read_text().splitlines())
    assert failure["line"] == 2
    assert failure["reason"].startswith("the record has no known form")
    losses = [json.loads(line) for line in (folder / "losses").read_text().splitlines()]
    assert {loss["line"] for loss in losses} == {1}
    assert "messages[1].weight" in {loss["loss"]["path"] for loss in losses}


def test_array_stays_an_array(folder: Path) -> None:
    (folder / "in.json").write_bytes(b"[\n%s,\n%s]" % (encoded(samples.REQUEST), BROKEN))
    exit_code, printed = migrate(folder, f"--to chat --output {folder}/out.json", "in.json")
    assert exit_code == 3
    assert printed[0].startswith("dragoman: line 3, record 2: the record has no known form")
    options = f"--to chat --output {folder}/out.json --failures {folder}/failures"
    assert migrate(folder, options, "in.json")[0] == 3
    failure = json.loads((folder / "failures").read_bytes())
    assert (failure["line"], failure["record"]) == (3, 2)
    assert len(json.loads((folder / "out.json").read_bytes())) == 1


def test_empty_array_stays_one(folder: Path) -> None:
    (folder / "in.json").write_bytes(b"[]")
    assert migrate(folder, f"--to chat --output {folder}/out.json", "in.json")[0] == 0
    assert json.loads((folder / "out.json").read_bytes()) == []


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_output_is_compressed_by_its_suffix(suffix: str, folder: Path) -> None:
    (folder / "in.jsonl").write_bytes(LINE)
    output = folder / f"out.jsonl{suffix}"
    assert migrate(folder, f"--to chat --output {output}")[0] == 0
    data = output.read_bytes()
    content = (
        gzip.decompress(data)
        if suffix == ".gz"
        else zstandard.ZstdDecompressor().decompressobj().decompress(data)
    )
    assert json.loads(content)["tools"]
    # The compressed output can be converted again.
    assert migrate(folder, f"--to chat --output {folder}/again", output.name)[0] == 0
    assert (folder / "again").read_bytes() == content


def test_conversion_in_place_keeps_a_backup(folder: Path) -> None:
    (folder / "in.jsonl").write_bytes(LINE)
    options = f"--to chat --output {folder}/in.jsonl"
    result = cli.run(f"migrate data {options}", b"", str(folder / "in.jsonl"))
    assert result.exit_code == 2
    assert "--output is the input itself; add --backup FILE" in " ".join(result.stderr.split())
    assert migrate(folder, f"{options} --backup {folder}/old")[0] == 0
    assert (folder / "old").read_bytes() == LINE
    assert json.loads((folder / "in.jsonl").read_bytes())["tools"]
    result = cli.run(f"migrate data {options} --backup {folder}/old", b"", str(folder / "in.jsonl"))
    assert result.exit_code == 2


@pytest.mark.parametrize(
    "options",
    [
        "--output {0}/a --failures {0}/folder/../in.jsonl",
        "--output {0}/a --failures {0}/b --losses {0}/b",
        "--output {0}/in.jsonl --backup {0}/b --failures {0}/b",
    ],
)
def test_files_that_would_replace_each_other(options: str, folder: Path) -> None:
    (folder / "folder").mkdir()
    exit_code, printed = migrate(folder, f"--to chat {options.format(folder)}")
    assert exit_code == 2
    assert "must be different files" in " ".join(printed)


def test_failed_conversion_leaves_the_output(folder: Path) -> None:
    (folder / "in.json").write_bytes(b"[" + encoded(samples.REQUEST))
    (folder / "out.json").write_bytes(b"old")
    exit_code, printed = migrate(folder, f"--to chat --output {folder}/out.json", "in.json")
    assert exit_code == 1
    assert printed == ["dragoman: the array has no end; the file may be truncated"]
    assert (folder / "out.json").read_bytes() == b"old"
    assert {path.name for path in folder.iterdir()} == {"in.json", "in.jsonl", "out.json"}


def test_any_number_of_processes_gives_the_same_files(folder: Path) -> None:
    lines = [LINE] * 9000
    broken = [0, 1, 1700, 1701, 8999]
    for number in broken:
        lines[number] = BROKEN
    (folder / "in.jsonl").write_bytes(b"".join(lines))
    for jobs in (1, 2):
        options = f"--to chat --output {folder}/{jobs} --failures {folder}/failed-{jobs}"
        exit_code, printed = migrate(folder, f"{options} --jobs {jobs}")
        totals = ["8995 records converted, 5 failed", ADAPTED.format(" x8995")]
        assert (exit_code, printed) == (3, totals)
    assert (folder / "1").read_bytes() == (folder / "2").read_bytes()
    assert (folder / "failed-1").read_bytes() == (folder / "failed-2").read_bytes()
    failures = [json.loads(line) for line in (folder / "failed-1").read_text().splitlines()]
    assert [one["line"] for one in failures] == [number + 1 for number in broken]


def start(folder: Path, options: str) -> subprocess.Popen[str]:
    """Start a long conversion, and return when it has converted some records."""
    (folder / "in.jsonl").write_bytes(BROKEN + LINE * 30_000)
    command = [sys.executable, "-m", "gateway", "migrate", "data", str(folder / "in.jsonl")]
    options = f"--to chat --output {folder}/out.jsonl --losses {folder}/losses {options}"
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*command, *options.split()], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("dragoman: line 1: ")
    return process


def is_alive(process: int) -> bool:
    """Whether a process runs; one that has ended may wait to be removed by its parent."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children(process: int) -> list[int]:
    return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]


@on_linux
@pytest.mark.parametrize(
    ("number", "jobs"),
    [(signal.SIGTERM, 1), (signal.SIGINT, 2), (signal.SIGKILL, 1), (signal.SIGKILL, 2)],
)
def test_stopped_conversion_leaves_nothing(number: signal.Signals, jobs: int, folder: Path) -> None:
    with start(folder, f"--jobs {jobs}") as process:
        processes = children(process.pid)
        assert (len(processes) >= jobs) == (jobs > 1)
        process.send_signal(number)
    assert process.returncode != 0
    assert {path.name for path in folder.iterdir()} == {"in.jsonl"}
    wait_until(lambda: not any(map(is_alive, processes)))


@on_linux
def test_process_that_was_killed_is_an_error(folder: Path) -> None:
    with start(folder, "--jobs 2") as process:
        os.kill(children(process.pid)[-1], signal.SIGKILL)
        assert process.stderr is not None
        printed = process.stderr.read()
    assert process.returncode == 1
    assert printed.startswith("dragoman: a process of the conversion was ended")
    assert {path.name for path in folder.iterdir()} == {"in.jsonl"}


def test_file_system_without_unnamed_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.O_TMPFILE", raising=False)
    assert migrate(folder, f"--to chat --output {folder}/out.jsonl")[0] == 3
    assert len((folder / "out.jsonl").read_bytes().splitlines()) == 2
    assert {path.name for path in folder.iterdir()} == {"in.jsonl", "out.jsonl"}
    missing = folder / "missing" / "out.jsonl"
    exit_code, printed = migrate(folder, f"--to chat --output {missing}")
    assert (exit_code, printed) == (1, [f"dragoman: {missing}: No such file or directory"])


def test_link_and_mode_of_the_output_stay(folder: Path) -> None:
    (folder / "real").write_bytes(b"old")
    (folder / "real").chmod(0o640)
    (folder / "link.gz").symlink_to("real")
    assert migrate(folder, f"--to chat --output {folder}/link.gz")[0] == 3
    assert (folder / "link.gz").is_symlink()
    assert (folder / "real").stat().st_mode & 0o777 == 0o640
    assert gzip.decompress((folder / "real").read_bytes())


def test_output_to_a_pipe_is_written_directly(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with os.fdopen(os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        assert migrate(folder, f"--to chat --output {folder}/pipe")[0] == 3
        assert len(reader.read().splitlines()) == 2
    assert (folder / "pipe").is_fifo()


def test_backup_of_a_compressed_file_is_its_copy(folder: Path) -> None:
    before = gzip.compress(LINE)
    (folder / "in.jsonl.gz").write_bytes(before)
    options = f"--to chat --output {folder}/in.jsonl.gz --backup {folder}/old.gz"
    assert migrate(folder, options, "in.jsonl.gz")[0] == 0
    assert (folder / "old.gz").read_bytes() == before


# The peak memory of a process that runs the command with the arguments of the script. That of
# `getrusage` includes the process that started it, so it is only used for its own processes.
PEAK = """
import re, resource, sys
from pathlib import Path
from gateway.cli.commands import main
try:
    main(sys.argv[1:])
finally:
    own = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
    print(max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
"""
FORMS = {
    "array": (b"[", b",", b"]", "in.json"),
    "zstd": (b"", b"\n", b"\n", "in.jsonl.zst"),
}


@on_linux
@pytest.mark.parametrize(("form", "jobs"), [("array", 1), ("zstd", 2)])
def test_memory_does_not_grow_with_the_file(form: str, jobs: int, folder: Path) -> None:
    """The peak memory is nearly the same for four times the records."""
    before, between, after, name = FORMS[form]
    peaks: list[int] = []
    # Even the smaller file is larger than what is read ahead.
    for count in (10_000 * jobs, 40_000 * jobs):
        data = before + between.join([ALREADY_CHAT] * count) + after
        data = zstandard.compress(data) if form == "zstd" else data
        (folder / name).write_bytes(data)
        options = ["--to", "chat", "--output", str(folder / "out"), "--jobs", str(jobs)]
        command = [sys.executable, "-c", PEAK, "migrate", "data", str(folder / name), *options]
        ran = subprocess.run(command, capture_output=True, check=True, text=True)  # noqa: S603 - our own command
        peaks.append(int(ran.stdout))
    assert peaks[1] < peaks[0] * 1.2, peaks
