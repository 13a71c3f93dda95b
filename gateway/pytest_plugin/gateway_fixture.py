"""The fixture `dragoman_gateway`: a gateway in front of the scripted backend."""

import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import pytest

from gateway.pytest_plugin.backend import Backend
from gateway.pytest_plugin.episodes import run_front
from gateway.pytest_plugin.gateway_process import (
    COMMAND,
    GatewayProcess,
    GatewayStartError,
    run_server,
    serve_arguments,
    write_toml,
)
from gateway.pytest_plugin.launcher import ForkedGateway, Launcher
from gateway.pytest_plugin.record_modes import (
    prepare_recordings,
    record_mode,
    recordings_folder,
    remove_unanswered,
)
from gateway.recording.format import find_recordings

Table = Mapping[str, object]

# Nothing is kept after the test, the log is for people, and backends may fail on purpose.
_DEFAULTS: Mapping[str, Table] = {
    "circuit_breaker": {"failures": 0},
    "state": {"url": "memory:"},
    "logging": {"format": "text"},
}
_DIALECT = "chat"
_API_KEY = "dragoman-test"


class Gateway(NamedTuple):
    """A running gateway, its base URL for clients and its scripted backend."""

    url: str
    api_key: str
    backend: Backend
    process: GatewayProcess | ForkedGateway

    @property
    def log(self) -> str:
        """The log so far."""
        return self.process.log


@contextmanager
def run_launcher() -> Generator[Launcher | None]:
    """Run the process that starts gateways; None where there is no such process."""
    if sys.platform != "linux":
        yield None
        return
    with Launcher() as launcher:
        yield launcher


class GatewayRunner:
    """Runs the gateways of one test, with files in its own folder."""

    def __init__(self, backend: Backend, folder: Path, launcher: Launcher | None) -> None:
        self._backend = backend
        self._folder = folder
        self._launcher = launcher

    @contextmanager
    def run_for_test(self, item: pytest.Item, config: Table) -> Generator[Gateway]:
        """Run a gateway in front of the scripted backend, or of the recordings of a marked test."""
        recordings = recordings_folder(item)
        with ExitStack() as stack:
            if recordings is None:
                _reject_other_hosts(config)
                yield stack.enter_context(self._serve(config))
                return
            mode = record_mode(item.config)
            recorded = prepare_recordings(mode, recordings)
            if recorded and mode != "new_episodes":
                yield stack.enter_context(self._replay(recordings))
                return
            # When the gateway has ended.
            stack.callback(remove_unanswered, recordings, {*find_recordings(recordings)})
            # A backend without a key of its own gets that of the client.
            key = os.environ.get("OPENAI_API_KEY", _API_KEY)
            recording = stack.enter_context(self._serve(_recording(config, recordings)))
            url = recording.url
            if recorded:
                replay = stack.enter_context(self._replay(recordings))
                url = stack.enter_context(run_front(replay.url, recording.url))
            yield recording._replace(url=url, api_key=key)

    @contextmanager
    def _serve(self, config: Table) -> Generator[Gateway]:
        text = write_toml(_complete(config, self._backend))
        with self._run(serve_arguments(text, self._folder), self._folder) as gateway:
            yield gateway

    @contextmanager
    def _replay(self, recordings: Path) -> Generator[Gateway]:
        folder = self._folder / "replay"
        folder.mkdir()
        with self._run(["replay", str(recordings)], folder) as gateway:
            yield gateway

    @contextmanager
    def _run(self, arguments: Sequence[str], folder: Path) -> Generator[Gateway]:
        """Run a command; its log is printed, so that pytest shows it if the test failed."""
        with self._run_process(arguments, folder) as process:
            try:
                yield Gateway(process.url, _API_KEY, self._backend, process)
            finally:
                sys.stdout.write(process.log)

    @contextmanager
    def _run_process(
        self, arguments: Sequence[str], folder: Path
    ) -> Generator[GatewayProcess | ForkedGateway]:
        with ExitStack() as stack:
            process: GatewayProcess | ForkedGateway
            try:
                if self._launcher is None:
                    process = stack.enter_context(run_server([*COMMAND, *arguments], folder))
                else:
                    process = self._launcher.start([*arguments, "--port", "0"], folder)
                    stack.callback(process.stop)
            except GatewayStartError as error:
                # The log names the fault, usually in the configuration.
                pytest.fail(str(error), pytrace=False)
            yield process


def _reject_other_hosts(config: Table) -> None:
    """Fail a test that would use the network without recording it."""
    for url in (str(table["url"]) for table in _backends(config) if "url" in table):
        if not _is_loopback(urlsplit(url).hostname or ""):
            fault = f"the backend {url} is called only while a test is recorded"
            remedy = "mark the test with dragoman_recordings, or leave out the `url`"
            pytest.fail(f"{fault}; {remedy}", pytrace=False)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _recording(config: Table, recordings: Path) -> Table:
    """Return a configuration with which the exchanges are recorded."""
    if not any("url" in table for table in _backends(config)):
        pytest.fail("dragoman_config needs a backend with a `url`, to record it", pytrace=False)
    recording = {**cast("Table", config.get("recording", {})), "directory": str(recordings)}
    return {**config, "recording": recording}


def _backends(config: Table) -> Sequence[Table]:
    return cast("Sequence[Table]", config.get("backends") or [{}])


def _complete(config: Table, backend: Backend) -> Table:
    """Return a configuration in which backends without a URL are the scripted one."""
    completed = [
        {"name": f"backend-{number}", "url": backend.url, "dialect": _DIALECT, **given}
        for number, given in enumerate(_backends(config), 1)
    ]
    tables = {
        name: {**defaults, **cast("Table", config.get(name, {}))}
        for name, defaults in _DEFAULTS.items()
    }
    return {**config, **tables, "backends": completed}
