"""The fixture `dragoman_gateway`: a gateway in front of the scripted backend."""

import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from gateway.pytest_plugin.backend import Backend
from gateway.pytest_plugin.gateway_process import (
    COMMAND,
    GatewayProcess,
    GatewayStartError,
    run_server,
    serve_arguments,
    write_toml,
)
from gateway.pytest_plugin.launcher import ForkedGateway, Launcher
from gateway.pytest_plugin.record_modes import must_record, record_mode, recordings_folder

Table = Mapping[str, object]

# Nothing is kept after the test, and the log is for people.
_DEFAULTS: Mapping[str, Table] = {
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


@contextmanager
def run_for_test(
    item: pytest.Item,
    config: Table,
    backend: Backend,
    folder: Path,
    launcher: Launcher | None,
) -> Generator[Gateway]:
    """Run a gateway for a test: in front of the scripted backend, or with recordings."""
    recordings = recordings_folder(item)
    if recordings is None:
        text = write_toml(_complete(config, backend))
        running = _run(serve_arguments(text, folder), backend, folder, launcher)
    elif must_record(record_mode(item.config), recordings):
        text = write_toml(_complete(_recording(config, recordings), backend))
        # A backend without a key of its own gets that of the client.
        key = os.environ.get("OPENAI_API_KEY", _API_KEY)
        running = _run(serve_arguments(text, folder), backend, folder, launcher, api_key=key)
    else:
        running = _run(["replay", str(recordings)], backend, folder, launcher)
    with running as gateway:
        yield gateway


def _recording(config: Table, recordings: Path) -> Table:
    """Return a configuration with which the exchanges are recorded."""
    if not any("url" in table for table in _backends(config)):
        pytest.fail("dragoman_config needs a backend with a `url`, to record it", pytrace=False)
    recording = {**cast("Table", config.get("recording", {})), "directory": str(recordings)}
    return {**config, "recording": recording}


@contextmanager
def _run(
    arguments: Sequence[str],
    backend: Backend,
    folder: Path,
    launcher: Launcher | None,
    *,
    api_key: str = _API_KEY,
) -> Generator[Gateway]:
    """Run a command; its log is printed at the end, so that pytest shows it if the test failed."""
    with _run_process(arguments, folder, launcher) as process:
        try:
            yield Gateway(process.url, api_key, backend, process)
        finally:
            sys.stdout.write(process.log)


@contextmanager
def _run_process(
    arguments: Sequence[str], folder: Path, launcher: Launcher | None
) -> Generator[GatewayProcess | ForkedGateway]:
    with ExitStack() as stack:
        process: GatewayProcess | ForkedGateway
        try:
            if launcher is None:
                process = stack.enter_context(run_server([*COMMAND, *arguments], folder))
            else:
                process = launcher.start([*arguments, "--port", "0"], folder)
                stack.callback(process.stop)
        except GatewayStartError as error:
            # The log names the fault, usually in the configuration.
            pytest.fail(str(error), pytrace=False)
        yield process


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
