"""`dragoman serve`: its options, its messages and its exit codes."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from gateway.cli.serve import serve_command
from gateway.config import schema
from gateway.config.schema import (
    AccessConfig,
    BackendConfig,
    Config,
    LogConfig,
    RecordingConfig,
    ServerConfig,
    ServerTlsConfig,
    StateConfig,
)
from gateway.config.sources import OPTIONS, ConfigSource, variable_of
from gateway.crypto import api_key_digest
from gateway.server.run import AppFactory, print_listening, print_startup_banner
from tests.gateway import raw_http
from tests.gateway.certificates import CertificateAuthority
from tests.gateway.cli.command_line import REQUEST, one_line, run
from tests.gateway.gateway_process import COMMAND, ROOT, run_gateway
from tests.gateway.server.test_shutdown import wait_until_refused
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until

URL = "http://127.0.0.1:9/v1"
BACKEND = '[[backends]]\nname = "local"\nurl = "{url}"\ndialect = "chat"\n'


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Record the configuration instead of serving."""
    configurations: list[Config] = []

    def note(config: Config, _source: ConfigSource) -> int:
        configurations.append(config)
        return 0

    monkeypatch.setattr("gateway.server.run.run_server", note)
    return configurations


def test_defaults_are_used_without_options(served: list[Config]) -> None:
    assert run("serve").exit_code == 0
    assert served == [Config()]


def test_options_override_the_file(served: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(
        '[server]\nhost = "127.0.0.2"\nport = 1\nheartbeat_interval = 3\n'
        '[logging]\nlevel = "error"\n' + BACKEND.format(url=URL)
    )
    options = (
        "--port 2 --workers 4 --log-format text --log-bodies --record d --backend https://h/v1"
    )
    result = run(f"serve --config {file} {options} --dialect responses --profile openai")
    assert result.exit_code == 0
    server = ServerConfig(host="127.0.0.2", port=2, workers=4, heartbeat_interval=3)
    log = LogConfig(level="error", format="text", bodies=True)
    backend = BackendConfig("backend", "https://h/v1", "responses", profile="openai")
    recording = RecordingConfig("d")
    assert served == [Config(server=server, logging=log, recording=recording, backends=(backend,))]


def test_file_in_the_working_directory_is_used(
    served: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dragoman.toml").write_text("[server]\nport = 1\n")
    (tmp_path / "other.toml").write_text("[server]\nport = 2\n")
    (tmp_path / "third.toml").write_text("[server]\nport = 3\n")
    assert run("serve").exit_code == 0
    monkeypatch.setenv("DRAGOMAN_CONFIG", "other.toml")
    assert run("serve").exit_code == 0
    assert run("serve --config third.toml").exit_code == 0
    assert [config.server.port for config in served] == [1, 2, 3]


# The variables of all options but --config, and what they set.
VARIABLE_VALUES = {
    "DRAGOMAN_HOST": "127.0.0.2",
    "DRAGOMAN_PORT": "2",
    "DRAGOMAN_WORKERS": "4",
    "DRAGOMAN_PID_FILE": "p",
    "DRAGOMAN_TLS_CERT_FILE": "{folder}/localhost.pem",
    "DRAGOMAN_TLS_KEY_FILE": "{folder}/localhost.key",
    "DRAGOMAN_BACKEND": "https://h/v1",
    "DRAGOMAN_DIALECT": "responses",
    "DRAGOMAN_PROFILE": "openai",
    "DRAGOMAN_STATE_URL": "sqlite:other.db",
    "DRAGOMAN_LOG_FORMAT": "text",
    "DRAGOMAN_LOG_BODIES": "1",
    "DRAGOMAN_RECORD": "d",
}


def test_every_option_has_a_variable(
    served: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {variable_of(name) for name in OPTIONS} == {*VARIABLE_VALUES, "DRAGOMAN_CONFIG"}
    for name, value in VARIABLE_VALUES.items():
        monkeypatch.setenv(name, value.format(folder=tmp_path))
    cert_file, key_file = map(str, CertificateAuthority(tmp_path).issue("localhost"))
    file = tmp_path / "dragoman.toml"
    file.write_text('[state]\nurl_env = "NOT_SET"\n' + BACKEND.format(url=URL))
    assert run(f"serve --config {file} --port 3").exit_code == 0
    server = ServerConfig(
        host="127.0.0.2", port=3, workers=4, pid_file="p", tls=ServerTlsConfig(cert_file, key_file)
    )
    assert served == [
        Config(
            server=server,
            logging=LogConfig(format="text", bodies=True),
            recording=RecordingConfig("d"),
            state=StateConfig("sqlite:other.db"),
            backends=(BackendConfig("backend", "https://h/v1", "responses", profile="openai"),),
        )
    ]
    assert {option.opts[0] for option in serve_command.params} == {*OPTIONS}


def test_variables_of_kubernetes_services_are_ignored(
    served: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_PORT", "tcp://10.0.0.7:8080")
    assert run("serve").exit_code == 0
    assert served == [Config()]


def test_file_is_used_without_options(served: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[logging]\nbodies = true\n" + BACKEND.format(url=URL))
    assert run(f"serve --config {file} --host localhost").exit_code == 0
    server, log = ServerConfig(host="localhost"), LogConfig(bodies=True)
    backend = BackendConfig("local", URL, "chat")
    assert served == [Config(server=server, logging=log, backends=(backend,))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (f"--backend {URL}", "--backend requires --dialect: chat, responses or legacy."),
        ("--dialect chat", "--dialect requires --backend."),
        ("--profile openai", "--profile requires --backend."),
        ("--record=", "--record is empty; use . for the current folder."),
        ("--backend h:1 --dialect chat", "--backend: expected a URL, http://… or https://…"),
        ("--backend http://h:x --dialect chat", "--backend: expected a URL with a valid host"),
        ("--backend http://h/responses --dialect chat", "the base URL without /responses"),
        (f"--backend {URL} --dialect chat --profile none", "--profile: expected one of"),
        (f"--backend {URL} --dialect klingon", "klingon"),
        ("--port 65536", "65536"),
        ("--workers 0", "--workers"),
        ("--host ''", "--host is empty; use 0.0.0.0 for all addresses."),
        ("--log-format xml", "xml"),
    ],
)
def test_invalid_option_is_a_usage_error(options: str, message: str, served: list[Config]) -> None:
    result = run(f"serve {options}")
    # The message is wrapped in a frame.
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == 2
    assert served == []


def test_workers_require_a_shared_database(served: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('[state]\nurl = "memory:"\n')
    result = run(f"serve --config {file} --workers 3")
    remedy = 'use "sqlite:FILE" or "postgresql://…"'
    problem = '3 workers cannot share "memory:"'
    assert one_line(result.stderr) == f"dragoman: {file}: state.url: {problem}; {remedy}"
    assert result.exit_code == 78
    assert served == []


def test_banner_lists_backends_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    url = "http://me:secret@h/v1?key=secret"
    backends = (
        BackendConfig("a", "http://h/v1", "chat", models=("x*", "y")),
        BackendConfig("b", url, "responses", models=(), default=True),
    )
    state = StateConfig("postgres://me:secret@db:1/x?password=secret")
    source = ConfigSource(Path("/etc/dragoman.toml"))
    print_startup_banner(Config(state=state, backends=backends), ("127.0.0.1", 1), source)
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "configuration: /etc/dragoman.toml",
        "store: postgres://me@db:1/x",
        "backend a: chat at http://h/v1 for x*, y",
        "backend b: responses at http://h/v1 for all other models",
    ]
    assert printed.err == ""


def test_banner_names_the_folder_of_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    print_startup_banner(Config(recording=RecordingConfig("folder")), ("127.0.0.1", 1))
    assert "recording every exchange in folder\n" in capsys.readouterr().out


def test_banner_explains_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    print_startup_banner(Config(), ("::1", 8080), ConfigSource())
    printed = capsys.readouterr().out
    assert printed.startswith(
        "configuration: none (no dragoman.toml here)\nstore: sqlite:dragoman.db\n"
    )
    assert "curl http://[::1]:8080/v1/responses" in printed


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 - nothing is bound
def test_banner_warns_of_open_access(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_startup_banner(Config(), (host, 8080))
    warning = f"warning: anyone who can reach {host} can use"
    assert one_line(capsys.readouterr().err).startswith(warning)
    with_keys = Config(access=AccessConfig((schema.KeyConfig("ci", api_key_digest("key")),)))
    print_startup_banner(with_keys, (host, 8080))
    assert capsys.readouterr().err == ""


def test_address_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_listening(("127.0.0.1", 8080))
    print_listening(("::1", 8443), tls=True)
    assert capsys.readouterr().out == (
        "listening on http://127.0.0.1:8080\nlistening on https://[::1]:8443\n"
    )


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "serve", *options]
    return subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, cwd=ROOT
    )


def test_errors_in_the_file_are_printed(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('loss_policy = "gain"\n[server]\nport = "x"\n')
    result = serve("--config", str(file))
    assert result.stderr.splitlines() == [
        f'dragoman: {file}: loss_policy: expected one of "refuse", "report", got "gain"',
        f'dragoman: {file}: server.port: expected an integer from 0 to 65535, got "x"',
    ]
    assert (result.stdout, result.returncode) == ("", 78)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_port_in_use_is_reported(workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = serve("--port", str(port), "--workers", workers)
    assert one_line(result.stderr) == f"dragoman: 127.0.0.1:{port}: Address already in use"
    assert (result.stdout, result.returncode) == ("", 1)


def test_application_that_fails_to_start_is_not_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def create_app(*_: object) -> object:
        raise TypeError("broken on purpose")

    monkeypatch.setattr("gateway.app.create_app", create_app)
    with pytest.raises(SystemExit) as exit_info:
        AppFactory(Config())()
    assert exit_info.value.code == 3
    assert "broken on purpose" in caplog.text


def test_workers_share_directories_that_are_removed(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    text = "[server]\nworkers = 2\n"
    with run_gateway(text, tmp_path, {"TMPDIR": str(temporary)}) as gateway:
        for path in ("/health", "/metrics"):
            assert raw_http.send(gateway, "GET", path).status == 200
        names = [path.name.rpartition("-")[0] for path in temporary.iterdir()]
        assert sorted(names) == ["dragoman-config", "dragoman-metrics"]
        gateway.terminate()
        assert gateway.wait() == 0
    assert list(temporary.iterdir()) == []
    assert "Traceback" not in gateway.log


@pytest.mark.parametrize("workers", [1, 2])
def test_second_interrupt_ends_the_process_at_once(workers: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as backend:
        backend.settimeout(TIMEOUT_SECONDS)
        url = f"http://127.0.0.1:{backend.getsockname()[1]}/v1"
        text = f"[server]\nworkers = {workers}\n" + BACKEND.format(url=url)
        with run_gateway(text, tmp_path) as gateway, raw_http.connect(gateway.port) as client:
            client.sendall(raw_http.request_bytes("/v1/chat/completions", REQUEST))
            with backend.accept()[0]:
                gateway.process.send_signal(signal.SIGINT)
                wait_until_refused(gateway)
                assert gateway.process.poll() is None
                gateway.process.send_signal(signal.SIGINT)
                assert gateway.wait() == 130


def test_dead_worker_is_replaced(tmp_path: Path) -> None:
    with run_gateway("[server]\nworkers = 2\n", tmp_path) as gateway:
        children = Path(f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children")
        # The first child is Python's resource tracker.
        worker = children.read_text().split()[-1]
        os.kill(int(worker), signal.SIGKILL)
        wait_until(lambda: f"dragoman: worker {worker} exited with code -9\n" in gateway.lines)
        assert raw_http.send(gateway, "GET", "/health").status == 200
        gateway.terminate()
        assert gateway.wait() == 0
