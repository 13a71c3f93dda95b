"""The fixture `dragoman_gateway`: a gateway in front of the scripted backend."""

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from gateway.pytest_plugin.backend import Backend
from gateway.pytest_plugin.gateway_process import (
    GatewayProcess,
    run_gateway,
    serve_arguments,
    write_toml,
)
from gateway.pytest_plugin.launcher import ForkedGateway, Launcher

Table = Mapping[str, object]

# Nothing is kept after the test, and the log is for people.
_DEFAULTS: Mapping[str, Table] = {
    "state": {"url": "memory:"},
    "logging": {"format": "text"},
}
_DIALECT = "chat"


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
def run_configured(
    config: Table, backend: Backend, folder: Path, launcher: Launcher | None
) -> Generator[Gateway]:
    """Run a gateway; its log is printed at the end, so that pytest shows it if the test failed."""
    text = write_toml(_complete(config, backend))
    with _run(text, folder, launcher) as process:
        try:
            yield Gateway(process.url, "dragoman-test", backend, process)
        finally:
            sys.stdout.write(process.log)


@contextmanager
def _run(
    config: str, folder: Path, launcher: Launcher | None
) -> Generator[GatewayProcess | ForkedGateway]:
    if launcher is None:
        with run_gateway(config, folder) as process:
            yield process
        return
    arguments = [*serve_arguments(config, folder), "--port", "0"]
    forked = launcher.start(arguments, folder)
    try:
        yield forked
    finally:
        forked.stop()


def _complete(config: Table, backend: Backend) -> Table:
    """Return a configuration in which backends without a URL are the scripted one."""
    backends = cast("list[Table]", config.get("backends") or [{}])
    completed = [
        {"name": f"backend-{number}", "url": backend.url, "dialect": _DIALECT, **given}
        for number, given in enumerate(backends, 1)
    ]
    tables = {
        name: {**defaults, **cast("Table", config.get(name, {}))}
        for name, defaults in _DEFAULTS.items()
    }
    return {**config, **tables, "backends": completed}
