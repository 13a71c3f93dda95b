"""Runs the service: one socket, one process or several, until somebody says stop."""

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
from tempfile import TemporaryDirectory
from types import FrameType
from urllib.parse import urlsplit

import uvicorn
from prometheus_client import multiprocess
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from gateway.config.schema import BackendConfig, Config, ServerConfig
from gateway.server.protocols import GatewayHttpProtocol
from gateway.terminal import INTERRUPTED, print_error

# What `dragoman serve` says when it starts: what is served, and where.


# Host and port; those of IPv6 sockets have two numbers more, which nobody types.
Address = tuple[str, int]

_TRY = """No backend is configured: the built-in demo serves every model. Try
  curl {address}/v1/responses -H 'content-type: application/json' \\
    -d '{{"model": "demo", "input": "Hello!"}}'"""

_OPEN = """warning: whoever reaches {host} may use this gateway; `dragoman key` makes keys for it"""


def print_startup_banner(config: Config, address: Address) -> None:
    """Say what is served, before the service is there."""
    for backend in config.backends:
        _say(_describe(backend))
    if not config.backends:
        _say(_TRY.format(address=url(address)))
    if not config.access.keys and not _is_loopback(address):
        print(_OPEN.format(host=address[0]), file=sys.stderr, flush=True)  # noqa: T201 - for people


def print_listening(address: Address) -> None:
    """Say that the service is there, and where: scripts wait for this line."""
    _say(f"listening on {url(address)}")


def url(address: Address) -> str:
    """Give an address as clients write it."""
    host, port = address[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def without_secrets(base: str) -> str:
    """Leave out of a URL where people put passwords and keys."""
    parts = urlsplit(base)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _describe(backend: BackendConfig) -> str:
    rest = ("all that no other serves",) if backend.default else ()
    models = ", ".join((*backend.models, *rest))
    return f"{backend.name}: {backend.dialect} at {without_secrets(backend.url)} for {models}"


def _is_loopback(address: Address) -> bool:
    return ipaddress.ip_address(address[0].partition("%")[0]).is_loopback


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - for the person at the terminal, not for the log


_BACKLOG = 2048
# Longer than load balancers (60) and HTTP clients keep an idle connection: the side that closes
# should be the one that knows whether it is about to send something.
_IDLE_CONNECTION = 75
# A worker that says nothing for so long hangs. Starting on a busy machine may take a while.
_WORKER_SILENCE = 30
# When so many more objects are there, the garbage collector looks for cycles among them; by default
# after some hundred, which a few requests under way hold at any time.
_NEW_OBJECTS = 10_000


def run(config: Config) -> int:
    """Serve until a signal ends it; give the exit code."""
    raise_descriptor_limit()
    with listen(config.server) as listener:
        if not _has_state(config):
            return STARTUP_FAILURE
        print_startup_banner(config, listener.getsockname())
        if config.server.workers > 1:
            return _run_workers(config, listener)
        return _run_here(config, listener)


def _has_state(config: Config) -> bool:
    """Open the database once, and bring it forward; say in one line why it cannot be used."""
    from gateway.store import StoreError, open_store  # noqa: PLC0415 - only who serves needs it

    async def attempt() -> None:
        store = await open_store(config.state.url)
        await store.close()

    try:
        asyncio.run(attempt())
    except StoreError as problem:
        print_error(f"state.url: {problem}")
        return False
    return True


def listen(server: ServerConfig) -> socket.socket:
    """Open the socket that everybody calls; an error names the address."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        return socket.create_server((server.host, server.port), family=family, backlog=_BACKLOG)
    except OSError as problem:
        # Python's own sentence repeats the address in its way.
        why = problem.strerror or str(problem)
        raise OSError(
            problem.errno, why.partition(" (")[0], f"{server.host}:{server.port}"
        ) from None


def raise_descriptor_limit() -> None:
    """Allow as many open connections as the machine does; each stream takes two."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - there is none on Windows

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        # Some systems name a hard limit that they do not grant. Then the soft one stays.
        return


class _Server(uvicorn.Server):
    """Says when it accepts, and ends with a code instead of raising its signal again."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket) -> None:
        super().__init__(config)
        self._listener = listener

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print_listening(self._listener.getsockname())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Let what runs end; a second interrupt does not wait for it."""
        del frame
        if self.should_exit and sig == signal.SIGINT:
            os._exit(INTERRUPTED)
        self.should_exit = True


def _run_here(config: Config, listener: socket.socket) -> int:
    _Server(_uvicorn(config), listener).run([listener])
    return 0


def _run_workers(config: Config, listener: socket.socket) -> int:
    # Not needed, and not imported, by the many who run one process.

    with metrics_directory(config):
        workers = Workers(_uvicorn(config), [listener])
        workers.run()
    return workers.exit_code


def tune_gc() -> None:
    """Let the garbage collector leave alone what is there to stay, and look at the rest less often.

    Hardly anything that is made for a request refers to itself.
    """
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)


class ApplicationFactory:
    """Makes the application in the process that serves it; can be sent to another process."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def __call__(self) -> object:
        """Make it, or end with the code that tells the parent not to try again."""
        try:
            # Not imported above: the parent of several workers does not need it.
            from gateway.app import create_app  # noqa: PLC0415

            app = create_app(self._config)
        except Exception:
            logging.getLogger(__name__).exception("startup failed")
            sys.exit(STARTUP_FAILURE)
        tune_gc()
        return app


def _uvicorn(config: Config) -> uvicorn.Config:
    server = config.server
    return uvicorn.Config(
        ApplicationFactory(config),
        factory=True,
        workers=server.workers,
        http=GatewayHttpProtocol,
        # By its name: the parent of several workers does not need it.
        ws="gateway.server.protocols:GatewayWebSocketProtocol" if server.websocket else "none",
        # Up to twice the limit a message is read, so that its sender can be told that it is too
        # large; what is larger ends the connection.
        ws_max_size=2 * server.max_body_bytes,
        # For those between us and the client, who close what is silent. A client that takes its
        # time to read, and so to answer, is not cut off.
        ws_ping_interval=server.heartbeat_interval or None,
        ws_ping_timeout=None,
        # Events are small and many: to compress each costs more than it saves.
        ws_per_message_deflate=False,
        lifespan="on",
        interface="asgi3",
        # Logging is the application's, and so is the line for each exchange.
        log_config=None,
        access_log=False,
        # Nothing here asks for the client's address, so nobody needs to be believed about it.
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_CONNECTION,
        timeout_graceful_shutdown=math.ceil(server.shutdown_timeout) or None,
        timeout_worker_healthcheck=_WORKER_SILENCE,
    )


# Several processes that share one socket, and the one that watches over them.


_METRICS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def metrics_directory(config: Config) -> Generator[None]:
    """Give the workers a place where they count together. Who named one already keeps it."""
    if not config.metrics.enabled or _METRICS_DIRECTORY in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="dragoman-metrics-") as directory:
        os.environ[_METRICS_DIRECTORY] = directory
        try:
            yield
        finally:
            del os.environ[_METRICS_DIRECTORY]


class Workers(Multiprocess):
    """Starts the workers, starts again those that die, and ends with all of them."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.exit_code = 0

    def init_processes(self) -> None:
        """Start them, and say so when the first one accepts."""
        super().init_processes()
        if self.processes[0].wait_until_ready(self.config.timeout_worker_healthcheck):
            print_listening(self.sockets[0].getsockname())

    def keep_subprocess_alive(self) -> None:
        """Replace those that died; what they had in hand no longer counts."""
        before = list(self.processes)
        super().keep_subprocess_alive()
        for process in before:
            if process.pid is not None and process.exitcode is not None:
                self._handle_dead_worker(process.pid, process.exitcode)

    def _handle_dead_worker(self, pid: int, code: int) -> None:
        print_error(f"worker {pid} ended with code {code}")
        if code == STARTUP_FAILURE:
            self.exit_code = code
        if _METRICS_DIRECTORY in os.environ:
            multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]  # they have no types

    def terminate_all(self) -> None:
        """Ask all to end. Until they have, another interrupt kills them."""
        signal.signal(signal.SIGINT, self._kill_all)
        super().terminate_all()
        # Who calls now is refused at once, instead of waiting for somebody to answer.
        for listener in self.sockets:
            listener.close()

    def _kill_all(self, _signal: int, _frame: FrameType | None) -> None:
        self.exit_code = INTERRUPTED
        for process in self.processes:
            process.kill()
