"""`dragoman migrate data`."""

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from tests.gateway.cli import command_line as cli
from tests.gateway.migration.data import samples
from tests.gateway.waiting import wait_until
from tests.judges.samples import encoded

LINE = encoded(samples.REQUEST) + b"\n"
BROKEN = b'{"prompt":"a","completion":"b"}\n'


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
    assert printed[-1] == "2 records converted, 1 failed"
    lines = (folder / "out.jsonl").read_bytes().splitlines()
    assert [len(json.loads(line)["tools"]) for line in lines] == [1, 1]


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
    (folder / "in.json").write_bytes(b"[%s, %s]" % (encoded(samples.REQUEST), BROKEN))
    exit_code, printed = migrate(folder, f"--to chat --output {folder}/out.json", "in.json")
    assert exit_code == 3
    assert printed[0].startswith("dragoman: line 2: ")
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


def test_failed_conversion_leaves_the_output(folder: Path) -> None:
    (folder / "in.json").write_bytes(b"[" + encoded(samples.REQUEST))
    (folder / "out.json").write_bytes(b"old")
    exit_code, printed = migrate(folder, f"--to chat --output {folder}/out.json", "in.json")
    assert exit_code == 1
    assert printed == ["dragoman: the array has no end; the file may be truncated"]
    assert (folder / "out.json").read_bytes() == b"old"
    assert {path.name for path in folder.iterdir()} == {"in.json", "in.jsonl", "out.json"}


def test_same_output_for_any_number_of_processes(folder: Path) -> None:
    (folder / "in.jsonl").write_bytes(LINE * 3000)
    for jobs in (1, 2):
        exit_code, printed = migrate(folder, f"--to chat --output {folder}/{jobs} --jobs {jobs}")
        assert (exit_code, printed) == (0, ["3000 records converted, 0 failed"])
    assert (folder / "1").read_bytes() == (folder / "2").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_stopped_conversion_leaves_no_output(number: signal.Signals, folder: Path) -> None:
    (folder / "in.jsonl").write_bytes(LINE * 100_000)
    command = [sys.executable, "-m", "gateway", "migrate", "data", str(folder / "in.jsonl")]
    options = ["--to", "chat", "--output", str(folder / "out"), "--jobs", "1"]
    with subprocess.Popen([*command, *options]) as process:  # noqa: S603 - our own command

        def is_running() -> bool:
            return any(path.stat().st_size for path in folder.glob(".out.*"))

        wait_until(is_running)
        process.send_signal(number)
    assert process.returncode != 0
    assert not (folder / "out").exists()
    if number != signal.SIGKILL:
        assert {path.name for path in folder.iterdir()} == {"in.jsonl"}


def test_memory_does_not_grow_with_the_file(folder: Path) -> None:
    """A process reports its peak memory, which is nearly the same for ten times the records."""
    script = (
        "import resource, sys; from gateway.cli.commands import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks: list[int] = []
    for count in (2_000, 20_000):
        (folder / "in.jsonl").write_bytes(LINE * count)
        options = ["--to", "chat", "--output", str(folder / "out"), "--jobs", "1"]
        command = [sys.executable, "-c", script, "migrate", "data", str(folder / "in.jsonl")]
        ran = subprocess.run([*command, *options], capture_output=True, check=True, text=True)  # noqa: S603 - our own command
        peaks.append(int(ran.stdout))
    assert peaks[1] < peaks[0] * 1.2
