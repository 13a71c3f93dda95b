"""Running the gateway: one socket and one or several processes, until a signal to stop."""

import asyncio
import gc
import ipaddress
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from urllib.parse import urlsplit

import httpx
import uvicorn
from msgspec import structs
from prometheus_client import multiprocess
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from gateway.config.database import database_password, database_url, describe_database
from gateway.config.schema import BackendConfig, Config, ServerConfig
from gateway.config.sources import DEFAULT_FILE, ConfigSource
from gateway.server.pid_file import pid_file
from gateway.server.protocols import GatewayHttpProtocol, GatewayWebSocketProtocol
from gateway.server.reload import reload_for_workers
from gateway.server.tls import ServerCertificate
from gateway.store import StoreError, open_store
from gateway.terminal import EXIT_INTERRUPTED, print_error

# Host and port; an IPv6 address has two more elements.
Address = tuple[str, int]

_BACKLOG = 2048
# Longer than the idle time of load balancers (60 s) and HTTP clients: they must close a connection
# first, because a request that crosses with the gateway's close would be lost.
_IDLE_TIMEOUT_SECONDS = 75
# A worker without a response for this long is restarted; on a busy machine its start is slow.
_WORKER_TIMEOUT_SECONDS = 30
# The number of new objects that starts a garbage collection. A few concurrent requests reach
# Python's default of some hundred.
_GC_THRESHOLD = 10_000
_METRICS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

_DEMO = """No backend is configured: the built-in demo serves every model. Try
  curl {url}/v1/responses -H 'content-type: application/json' \\
    -d '{{"model": "demo", "input": "Hello!"}}'"""
_OPEN_ACCESS = (
    "warning: anyone who can reach {host} can use this gateway; create keys with `dragoman key`"
)


def run_server(
    config: Config,
    source: ConfigSource | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> int:
    """Serve until a signal to stop; return the exit code.

    The source of the configuration is None if it does not come from the user. A transport for all
    backends, instead of their own, requires that there is one worker.
    """
    _raise_descriptor_limit()
    _ignore_reload_signal()
    with pid_file(config.server.pid_file), _listen(config.server) as listener:
        if not _migrate_store(config):
            return STARTUP_FAILURE
        print_startup_banner(config, listener.getsockname(), source)
        if config.server.workers == 1:
            factory = AppFactory(config, transport, source)
            _Server(_uvicorn_config(config, factory), listener).run([listener])
            return 0
        with _metrics_directory(config), TemporaryDirectory(prefix="dragoman-config-") as folder:
            factory = AppFactory(config, None, _with_copy(source, Path(folder)))
            workers = _Workers(_uvicorn_config(config, factory), [listener], factory)
            workers.run()
        return workers.exit_code


def _ignore_reload_signal() -> None:
    """Ignore SIGHUP, which ends a process by default, until it is handled."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _with_copy(source: ConfigSource | None, folder: Path) -> ConfigSource | None:
    """Return the source for workers: a copy of the file that the parent has checked."""
    return None if source is None else structs.replace(source, copy=folder / DEFAULT_FILE)


def _raise_descriptor_limit() -> None:
    """Raise the limit of open connections to that of the system; each stream needs two."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - not available on Windows

    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    except (ValueError, OSError):
        # Some systems report a hard limit that they do not grant; the soft limit remains.
        return


def _listen(server: ServerConfig) -> socket.socket:
    """Open the listening socket; raise an `OSError` with the address."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        return socket.create_server((server.host, server.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python's message repeats the address in its own format.
        message = (error.strerror or str(error)).partition(" (")[0]
        raise OSError(error.errno, message, f"{server.host}:{server.port}") from None


def _migrate_store(config: Config) -> bool:
    """Migrate the database by opening it once; return False after printing an error."""

    async def open_and_close() -> None:
        state = config.state
        store = await open_store(database_url(state), database_password(state))
        await store.close()

    try:
        asyncio.run(open_and_close())
    except StoreError as error:
        print_error(f"state.url: {error}")
        return False
    return True


# Messages


def print_startup_banner(
    config: Config, address: Address, source: ConfigSource | None = None
) -> None:
    """Print the file, the database and the backends, and what a user should be aware of."""
    if source is not None:
        _print(f"configuration: {source.describe()}")
    _print(f"store: {describe_database(config.state)}")
    for backend in config.backends:
        _print(f"backend {_describe(backend)}")
    if not config.backends:
        _print(_DEMO.format(url=_url(address, tls=config.server.tls.cert_file is not None)))
    if config.recording.directory is not None:
        _print(f"recording every exchange in {config.recording.directory}")
    if not config.access.keys and not _is_loopback(address):
        print(_OPEN_ACCESS.format(host=address[0]), file=sys.stderr, flush=True)  # noqa: T201 - for the terminal


def print_listening(address: Address, *, tls: bool = False) -> None:
    """Print the address; scripts wait for this line."""
    _print(f"listening on {_url(address, tls=tls)}")


def _url(address: Address, *, tls: bool) -> str:
    host, port = address[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _describe(backend: BackendConfig) -> str:
    rest = ("all other models",) if backend.default else ()
    models = ", ".join((*backend.served_models, *rest))
    parts = urlsplit(backend.url)
    # Without the parts of a URL that may contain passwords and keys.
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    return f"{backend.name}: {backend.dialect} at {url} for {models}"


def _is_loopback(address: Address) -> bool:
    return ipaddress.ip_address(address[0].partition("%")[0]).is_loopback


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - for the terminal, not for the log


# uvicorn


def _uvicorn_config(config: Config, factory: "AppFactory") -> uvicorn.Config:
    server = config.server
    return uvicorn.Config(
        factory,
        factory=True,
        workers=server.workers,
        ssl_certfile=server.tls.cert_file,
        ssl_keyfile=server.tls.key_file,
        ssl_context_factory=ServerCertificate(server.tls) if server.tls.cert_file else None,
        http=GatewayHttpProtocol,
        ws=GatewayWebSocketProtocol if server.websocket else "none",
        # A message of up to twice the limit is rejected with an error; a larger one closes the
        # connection.
        ws_max_size=2 * server.max_body_bytes,
        # Pings keep proxies from closing an idle connection. There is no timeout for the pong,
        # because a client that reads slowly sends it late.
        ws_ping_interval=server.heartbeat_interval or None,
        ws_ping_timeout=None,
        # Events are small and frequent: compressing them costs more than it saves.
        ws_per_message_deflate=False,
        lifespan="on",
        interface="asgi3",
        # The application configures logging and logs each exchange.
        log_config=None,
        access_log=False,
        # The client's address is not used, so no proxy needs to be trusted.
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_TIMEOUT_SECONDS,
        timeout_graceful_shutdown=math.ceil(server.shutdown_timeout) or None,
        timeout_worker_healthcheck=_WORKER_TIMEOUT_SECONDS,
    )


class AppFactory:
    """Creates the application in the process that serves it; can be pickled."""

    def __init__(
        self,
        config: Config,
        transport: httpx.AsyncBaseTransport | None = None,
        source: ConfigSource | None = None,
    ) -> None:
        # Replaced in the parent of several workers, so that new workers have the current one.
        self.config = config
        self._transport = transport
        self.source = source

    def __call__(self) -> object:
        """Create the application, or exit with the code after which the parent does not retry."""
        try:
            # Imported here because the parent of several workers does not need it.
            from gateway.app import create_app  # noqa: PLC0415

            app = create_app(self.config, self._transport, self.source)
        except Exception:
            logging.getLogger(__name__).exception("startup failed")
            sys.exit(STARTUP_FAILURE)
        # Exclude long-lived objects from garbage collection, and collect less often, because
        # requests create hardly any reference cycles.
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
        return app


class _Server(uvicorn.Server):
    """A server that prints its address, and returns after a signal instead of raising it again."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket) -> None:
        super().__init__(config)
        self._listener = listener

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print_listening(self._listener.getsockname(), tls=self.config.is_ssl)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the shutdown, or exit at once after a second Ctrl-C."""
        del frame
        if self.should_exit and sig == signal.SIGINT:
            os._exit(EXIT_INTERRUPTED)
        self.should_exit = True


# Workers


@contextmanager
def _metrics_directory(config: Config) -> Generator[None]:
    """Create a directory in which workers share metrics, unless the environment names one."""
    if not config.metrics.enabled or _METRICS_DIRECTORY in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="dragoman-metrics-") as directory:
        os.environ[_METRICS_DIRECTORY] = directory
        try:
            yield
        finally:
            del os.environ[_METRICS_DIRECTORY]


class _Workers(Multiprocess):
    """A supervisor that restarts dead workers, unless they cannot start at all."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[socket.socket], factory: AppFactory
    ) -> None:
        super().__init__(config, sockets)
        self.exit_code = 0
        self._factory = factory

    def init_processes(self) -> None:
        """Start the workers; print the address when the first one accepts connections."""
        super().init_processes()
        if self.processes[0].wait_until_ready(self.config.timeout_worker_healthcheck):
            print_listening(self.sockets[0].getsockname(), tls=self.config.is_ssl)

    def handle_hup(self) -> None:
        """Read the configuration again; if it is valid, send the signal to all workers."""
        factory = self._factory
        if factory.source is None:
            return
        config = reload_for_workers(factory.source, factory.config)
        if config is None:
            return
        factory.config = config
        for process in self.processes:
            # A process that is still starting would end. If it gets too late, it is replaced.
            ready = process.wait_until_ready(self.config.timeout_worker_healthcheck)
            if ready and process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have died, and remove their metrics."""
        before = list(self.processes)
        super().keep_subprocess_alive()
        for process in before:
            if process.pid is not None and process.exitcode is not None:
                self._handle_dead_worker(process.pid, process.exitcode)

    def _handle_dead_worker(self, pid: int, code: int) -> None:
        print_error(f"worker {pid} exited with code {code}")
        if code == STARTUP_FAILURE:
            self.exit_code = code
        if _METRICS_DIRECTORY in os.environ:
            multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]  # it has no types

    def terminate_all(self) -> None:
        """Stop all workers, and kill them after another Ctrl-C."""
        signal.signal(signal.SIGINT, self._kill_all)
        super().terminate_all()
        # Close the sockets, so that new connections are refused instead of waiting in the backlog.
        for listener in self.sockets:
            listener.close()

    def _kill_all(self, _signal: int, _frame: FrameType | None) -> None:
        self.exit_code = EXIT_INTERRUPTED
        for process in self.processes:
            process.kill()
