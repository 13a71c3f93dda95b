"""`dragoman serve`: what it is told, what it says, and how it ends."""

import http.client
import os
import signal
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from gateway.config.schema import (
    AccessConfig,
    BackendConfig,
    Config,
    KeyConfig,
    LogConfig,
    ServerConfig,
)
from gateway.crypto import api_key_digest
from gateway.server.run import ApplicationFactory, print_listening, print_startup_banner
from tests.gateway.cli.command_line import one_line, run
from tests.gateway.keeping import until
from tests.gateway.process import COMMAND, ROOT, Gateway, running
from tests.gateway.scripted import PATIENCE

QUESTION = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
URL = "http://127.0.0.1:9/v1"
SILENT = '[[backends]]\nname = "silent"\nurl = "{url}"\ndialect = "chat"\n'


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Take note of what would be served."""
    configurations: list[Config] = []

    def note(config: Config) -> int:
        configurations.append(config)
        return 0

    monkeypatch.setattr("gateway.server.run.run", note)
    return configurations


# What it is told


def test_without_options_everything_is_as_by_default(served: list[Config]) -> None:
    assert run("serve").exit_code == 0
    assert served == [Config()]


def test_options_win_over_the_file(served: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(
        '[server]\nhost = "127.0.0.2"\nport = 1\nheartbeat_interval = 3\n'
        '[logging]\nlevel = "error"\n' + SILENT.format(url=URL)
    )
    options = "--port 2 --workers 4 --log-format text --log-bodies --backend https://h/v1"
    result = run(f"serve --config {file} {options} --dialect responses --profile openai")
    assert result.exit_code == 0
    assert served == [
        Config(
            server=ServerConfig(host="127.0.0.2", port=2, workers=4, heartbeat_interval=3),
            logging=LogConfig(level="error", format="text", bodies=True),
            backends=(BackendConfig("backend", "https://h/v1", "responses", profile="openai"),),
        )
    ]


def test_what_is_not_said_stays_as_the_file_says(served: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[logging]\nbodies = true\n" + SILENT.format(url=URL))
    assert run(f"serve --config {file} --host localhost").exit_code == 0
    assert served == [
        Config(
            server=ServerConfig(host="localhost"),
            logging=LogConfig(bodies=True),
            backends=(BackendConfig("silent", URL, "chat"),),
        )
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (f"--backend {URL}", "--backend needs --dialect: chat, responses or legacy."),
        ("--dialect chat", "--dialect is said of a --backend; add --backend URL."),
        ("--profile openai", "--profile is said of a --backend; add --backend URL."),
        ("--backend h:1 --dialect chat", "--backend: expected a URL, http://… or https://…"),
        ("--backend http://h:x --dialect chat", "--backend: expected a host and perhaps a port"),
        ("--backend http://h/responses --dialect chat", "what comes before /responses"),
        (f"--backend {URL} --dialect chat --profile none", "--profile: expected one of"),
        (f"--backend {URL} --dialect klingon", "klingon"),
        ("--port 65536", "65536"),
        ("--workers 0", "--workers"),
        ("--host ''", "--host is empty; 0.0.0.0 stands for all addresses."),
        ("--log-format xml", "xml"),
    ],
)
def test_wrong_options_are_told(options: str, told: str, served: list[Config]) -> None:
    result = run(f"serve {options}")
    # The message stands in a frame, on as many lines as it needs.
    said = " ".join(result.stderr.replace("│", " ").split())
    assert told in said
    assert result.exit_code == 2
    assert served == []


def test_workers_that_the_options_ask_for_need_a_memory_that_they_share(
    served: list[Config], tmp_path: Path
) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('[state]\nurl = "memory:"\n')
    result = run(f"serve --config {file} --workers 3")
    assert one_line(result.stderr) == (
        'dragoman: state.url: expected "sqlite:FILE" or "postgresql://…", which 3 workers share, '
        'got "memory:", which each would have for itself'
    )
    assert result.exit_code == 78
    assert served == []


# What it says


def test_start_names_the_backends_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    backends = (
        BackendConfig("a", "http://h/v1", "chat", models=("x*", "y")),
        BackendConfig(
            "b", "http://me:secret@h/v1?key=secret", "responses", models=(), default=True
        ),
    )
    print_startup_banner(Config(backends=backends), ("127.0.0.1", 1))
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "a: chat at http://h/v1 for x*, y",
        "b: responses at http://h/v1 for all that no other serves",
    ]
    assert said.err == ""


def test_start_says_how_to_try_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    print_startup_banner(Config(), ("::1", 8080))
    assert "curl http://[::1]:8080/v1/responses" in capsys.readouterr().out


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 - nothing is bound
def test_open_door_is_told(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_startup_banner(Config(), (host, 8080))
    assert one_line(capsys.readouterr().err).startswith(f"warning: whoever reaches {host} may use")
    locked = Config(access=AccessConfig((KeyConfig("ci", api_key_digest("key")),)))
    print_startup_banner(locked, (host, 8080))
    assert capsys.readouterr().err == ""


def test_address_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_listening(("127.0.0.1", 8080))
    assert capsys.readouterr().out == "listening on http://127.0.0.1:8080\n"


# How it ends


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, "serve", *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=ROOT,
    )


def test_mistakes_in_the_file_end_it_before_it_listens(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('loss_policy = "gain"\n[server]\nport = "x"\n')
    ended = serve("--config", str(file))
    assert ended.stderr.splitlines() == [
        f'dragoman: {file}: loss_policy: expected one of "refuse", "report", got "gain"',
        f'dragoman: {file}: server.port: expected a whole number from 0 to 65535, got "x"',
    ]
    assert (ended.stdout, ended.returncode) == ("", 78)


def test_wrong_options_end_it_before_it_listens() -> None:
    ended = serve("--backend", URL)
    assert "--dialect" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (ended.stdout, ended.returncode) == ("", 2)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_port_in_use_is_told(workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve("--port", str(port), "--workers", workers)
    assert one_line(ended.stderr) == f"dragoman: 127.0.0.1:{port}: Address already in use"
    assert (ended.stdout, ended.returncode) == ("", 1)


def test_application_that_cannot_be_made_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def create_app(*_: object) -> object:
        raise TypeError("broken on purpose")

    monkeypatch.setattr("gateway.app.create_app", create_app)
    with pytest.raises(SystemExit) as ended:
        ApplicationFactory(Config())()
    assert ended.value.code == 3
    assert "broken on purpose" in caplog.text


def connect(gateway: Gateway) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE)


def get(gateway: Gateway, path: str) -> tuple[int, bytes]:
    with closing(connect(gateway)) as client:
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.read()


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with running(SILENT.format(url=URL), tmp_path) as gateway:
        assert get(gateway, "/health")[0] == 200
        gateway.terminate()
        assert gateway.wait() == 0
    assert gateway.lines[0] == f"silent: chat at {URL} for *\n"
    assert "Traceback" not in gateway.log


def test_workers_count_together_and_leave_nothing_behind(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    text = "[server]\nworkers = 2\n"
    with running(text, tmp_path, {"TMPDIR": str(temporary)}) as gateway:
        assert get(gateway, "/health")[0] == 200
        assert get(gateway, "/metrics")[0] == 200
        assert [path.name.rpartition("-")[0] for path in temporary.iterdir()] == [
            "dragoman-metrics"
        ]
        gateway.terminate()
        assert gateway.wait() == 0
    assert list(temporary.iterdir()) == []
    assert "Traceback" not in gateway.log


def refuses(gateway: Gateway) -> bool:
    try:
        socket.create_connection(("127.0.0.1", gateway.port), PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("workers", [1, 2])
def test_second_interrupt_does_not_wait(workers: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as backend:
        backend.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{backend.getsockname()[1]}/v1"
        text = f"[server]\nworkers = {workers}\n" + SILENT.format(url=url)
        with running(text, tmp_path) as gateway, closing(connect(gateway)) as client:
            client.request("POST", "/v1/chat/completions", QUESTION)
            with backend.accept()[0]:
                gateway.process.send_signal(signal.SIGINT)
                until(lambda: refuses(gateway))
                assert gateway.process.poll() is None
                gateway.process.send_signal(signal.SIGINT)
                assert gateway.wait() == 130


def test_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with running("[server]\nworkers = 2\n", tmp_path) as gateway:
        children = Path(f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children")
        # The first child is Python's own, which counts semaphores.
        victim = children.read_text().split()[-1]
        os.kill(int(victim), signal.SIGKILL)
        until(lambda: f"dragoman: worker {victim} ended with code -9\n" in gateway.lines)
        assert get(gateway, "/health")[0] == 200
        gateway.terminate()
        assert gateway.wait() == 0
