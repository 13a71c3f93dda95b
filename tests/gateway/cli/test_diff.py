"""`dragoman diff`: comparison of files and of folders with recordings."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from gateway.recording.format import (
    BackendCall,
    Client,
    Exchange,
    Recording,
    make_body,
    write_recording,
)
from tests.gateway.cli import command_line as cli
from tests.gateway.gateway_process import COMMAND, ROOT

HELLO = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
REQUEST = b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}'
CHANGED = b'{"model":"n","messages":[{"role":"user","content":"Bye\\u001b"}]}'
REPLY = b'{"object":"chat.completion","choices":[{"message":{"content":"Hello!"}}]}'


def record(folder: Path, request: bytes = REQUEST, reply: bytes = REPLY, *, id_: str = "1") -> None:
    bodies = {
        "client-request": make_body(request),
        "backend-request": make_body(request),
        "backend-reply": make_body(reply),
        "client-reply": make_body(reply),
    }
    client = Client("chat", status=200, headers={"user-agent": f"sdk/{id_}"})
    call = BackendCall("b", "chat", status=200, reads=((float(id_), len(reply)),))
    exchange = Exchange(1, id=id_, time=f"2026-01-0{id_}", model="m", client=client, calls=(call,))
    write_recording(folder, Recording(exchange, bodies))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_with_the_same_meaning_are_equal(folder: Path) -> None:
    (folder / "a.json").write_bytes(REQUEST)
    (folder / "b.json").write_bytes(REQUEST.replace(b":", b" : "))
    result = cli.run("diff a.json b.json")
    assert (result.stdout, result.exit_code) == ("no differences\n", 0)


def test_differences_of_files_are_printed(folder: Path) -> None:
    (folder / "a.json").write_bytes(REQUEST)
    (folder / "b.json").write_bytes(CHANGED)
    result = cli.run("diff a.json b.json")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "model",
        '  - "m"',
        '  + "n"',
        "messages[0].content",
        '  - "Hi"',
        '  + "Bye\\u001b"',
        "2 differences: 2 changed",
    ]


def test_long_values_are_shown_around_their_difference(folder: Path) -> None:
    for name, letter in (("a.json", b"x"), ("b.json", b"y")):
        (folder / name).write_bytes(b'{"a":"' + b"0" * 5000 + letter + b"1" * 5000 + b'"}')
    lines = cli.run("diff a.json b.json").stdout.splitlines()
    assert [line[:5] for line in lines[1:3]] == ["  - …", "  + …"]
    assert "0x1" in lines[1]
    assert "0y1" in lines[2]
    assert max(map(len, lines)) < 500


def test_recordings_of_the_same_exchange_are_equal(folder: Path) -> None:
    record(folder / "a", id_="1")
    record(folder / "b", id_="2")
    result = cli.run("diff a b")
    assert (result.stdout, result.exit_code) == ("no differences\n", 0)


def test_difference_of_recordings_names_the_file(folder: Path) -> None:
    record(folder / "a")
    record(folder / "b", reply=REPLY.replace(b"Hello!", b"Bye!"))
    result = cli.run("diff a b")
    assert result.exit_code == 1
    assert "backend-reply: choices[0].message.content" in result.stdout
    assert result.stdout.endswith("2 differences: 2 changed\n")


def test_recordings_in_folders_are_paired_by_their_requests(folder: Path) -> None:
    record(folder / "a/1")
    record(folder / "a/2", HELLO)
    record(folder / "b/1", HELLO)
    record(folder / "b/2", reply=REPLY.replace(b"Hello!", b"Bye!"))
    result = cli.run("diff a b")
    assert result.exit_code == 1
    assert "a/1, b/2: 2 differences: 2 changed" in result.stdout
    assert result.stdout.endswith("2 exchanges: 1 equal, 1 different\n")


def test_recordings_without_a_counterpart_are_printed(folder: Path) -> None:
    record(folder / "a/1")
    record(folder / "b/1", HELLO)
    result = cli.run("diff a b")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "a/1: only in A",
        "b/1: only in B",
        "2 exchanges: 0 equal, 2 different",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("a.json missing.json", "does not exist"),
        ("a.json recordings", "A and B must be two folders or two files."),
        ("recordings recordings --dialect chat", "--dialect is for files"),
        ("a.json page.html", "page.html: the body is neither a stream nor JSON"),
        ("a.json reply.json", "a request cannot be compared with a reply"),
        ("deep.json deep.json", "the body is nested too deeply"),
        ("recordings empty", "empty contains no recordings"),
        ("recordings invalid", "format is required"),
    ],
)
def test_invalid_inputs_exit_with_2(folder: Path, arguments: str, message: str) -> None:
    (folder / "a.json").write_bytes(REQUEST)
    (folder / "reply.json").write_bytes(REPLY)
    (folder / "page.html").write_text("<html>")
    (folder / "deep.json").write_text("[" * 900 + "]" * 900)
    (folder / "empty").mkdir()
    (folder / "invalid").mkdir()
    (folder / "invalid/exchange.json").write_text("{}")
    record(folder / "recordings/1")
    result = cli.run(f"diff {arguments}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_differences_have_colours_in_a_terminal(
    folder: Path, variables: dict[str, str], *, coloured: bool
) -> None:
    (folder / "a.json").write_text("[1]")
    (folder / "b.json").write_text("[2]")
    reader, terminal = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    done = subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, "diff", "a.json", "b.json"],
        stdout=terminal,
        cwd=folder,
        env=environment | variables,
        check=False,
    )
    os.close(terminal)
    output = os.read(reader, 65536)
    os.close(reader)
    assert done.returncode == 1
    assert (b"\x1b[31m" in output) is coloured
