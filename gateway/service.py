"""The components of the service: made from a configuration, and replaced when it is reloaded."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import random
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet

import httpx
from msgspec import structs

from adapters import DIALECTS
from gateway.backends.client import BackendClient
from gateway.backends.health import BackendHealth
from gateway.backends.models import ModelList
from gateway.backends.routing import Router
from gateway.backends.transport import (
    DirectTransport,
    LibraryTransport,
    make_library_transport,
    make_transport,
)
from gateway.background.worker import BackgroundWorker
from gateway.config import ConfigError, backend_capabilities
from gateway.config.database import database_password, database_url
from gateway.config.reload import merge_reloaded
from gateway.config.schema import BackendConfig, Config, TlsConfig
from gateway.config.secret_sources import read_secret
from gateway.config.sources import ConfigSource
from gateway.context import AppContext, CurrentContext
from gateway.crypto import RANDOM_IDS, SealingKeys, new_sealing_key, parse_sealing_key
from gateway.demo.transport import DemoTransport
from gateway.http.auth import Authenticator
from gateway.http.headers import deprecation_headers
from gateway.observability.health_metrics import HealthMetrics
from gateway.observability.logging import (
    LOG,
    MAX_LOGGED_BODY_BYTES,
    exchange_logger,
    logging_config,
)
from gateway.observability.record import ExchangeRecord
from gateway.recording.recorder import Recorder
from gateway.recording.transport import CapturingTransport
from gateway.retention import retention_task
from gateway.store import Store, open_store
from gateway.turns.service import TurnService

if TYPE_CHECKING:
    from gateway.observability.tracing import Tracer

# Without a configured backend, the demo is served in each dialect, so that any client can be tried
# with any backend. The first demo backend serves all other model names.
_DEMO_BACKENDS = tuple(
    BackendConfig(
        f"demo-{name}" if number else "demo",
        "http://demo.invalid/v1",
        name,
        models=(f"demo-{name}",) if number else ("demo", f"demo-{name}"),
        default=not number,
    )
    for number, name in enumerate(DIALECTS)
)
# The settings of a backend that its transport depends on.
_TRANSPORT_SETTINGS = ("url", "transport", "proxy", "tls", "max_connections")

# A backend cannot have a name with a line break.
_PASSTHROUGH_KEY = "{}\npassthrough"

OwnTransport: TypeAlias = DirectTransport | LibraryTransport


class Service:
    """The components of a gateway process.

    A given transport is used for all backends, instead of their own.
    """

    def __init__(self, config: Config, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._given_transport = transport
        # The transports of the current backends by their names or `_PASSTHROUGH_KEY`, and those
        # that only running requests still use.
        self._transports: dict[str, OwnTransport] = {}
        self._retired: WeakSet[OwnTransport] = WeakSet()
        self.tracer = _make_tracer(config)
        self._recorder = _make_recorder(config)
        self.current = CurrentContext(self._make_context(config, {}))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Open the components, and close them at the end."""
        context = self.current.value
        config = context.config
        async with AsyncExitStack() as stack:
            password = database_password(config.state)
            context.store = await open_store(database_url(config.state), password)
            stack.push_async_callback(context.store.close)
            context.turns = TurnService(context.store, context.ids)
            context.sealing_keys = await make_sealing_keys(config, context.store)
            if self.tracer is not None:
                stack.callback(self.tracer.close)
            if self._recorder is not None:
                await stack.enter_async_context(self._recorder.running())
            stack.push_async_callback(self._close_transports)
            context.background = worker = BackgroundWorker(self.current)
            await stack.enter_async_context(worker.running())
            await stack.enter_async_context(
                retention_task(context.store, config.state.retention_days, random)
            )
            yield

    # Reload

    def reload(self, source: ConfigSource) -> None:
        """Read the configuration again and use it for new requests, unless it is invalid."""
        try:
            loaded = source.load()
            config, unchanged = merge_reloaded(self.current.value.config, loaded)
            self._apply(config)
        except ConfigError as error:
            LOG.error("configuration not reloaded", errors=error.errors)
        except Exception:  # noqa: BLE001 - the running configuration is kept after any failure
            LOG.exception("configuration not reloaded")
        else:
            LOG.info("configuration reloaded", file=source.describe())
            if unchanged:
                LOG.warning("changed keys require a restart", keys=unchanged)

    def _apply(self, config: Config) -> None:
        previous = self.current.value
        clients = {client.name: client for client in previous.router.backends}
        if self._recorder is not None:
            self._recorder.update(config, config.backends)
        transports = self._transports
        logging_config(config.logging).configure()
        try:
            context = self._make_context(config, clients)
        except BaseException:
            self._transports = transports
            logging_config(previous.config.logging).configure()
            raise
        context.take_over(previous)
        self.current.value = context
        for name, transport in transports.items():
            if self._transports.get(name) is not transport:
                transport.retire()
                self._retired.add(transport)

    # Components

    def _make_context(self, config: Config, clients: dict[str, BackendClient]) -> AppContext:
        """Return the context for a configuration; unchanged backends keep their clients."""
        backends = self._make_backends(config, clients)
        return AppContext(
            config=config,
            router=Router(backends),
            models=ModelList(backends),
            authenticator=Authenticator(config.access),
            ids=RANDOM_IDS,
            record_exchange=_exchange_recorder(config, self.tracer, self._recorder),
            tracer=self.tracer,
            capture_limit=_capture_limit(config),
            legacy_headers=deprecation_headers(config.legacy),
        )

    def _make_backends(
        self, config: Config, clients: dict[str, BackendClient]
    ) -> list[BackendClient]:
        if not config.backends:
            demo, self._transports = DemoTransport(), {}
            return [_make_backend(config, backend, demo) for backend in _DEMO_BACKENDS]
        if (given := self._given_transport) is not None:
            return [_make_backend(config, backend, given) for backend in config.backends]
        previous, self._transports = self._transports, {}
        return [
            self._make_backend(config, backend, clients.get(backend.name), previous)
            for backend in config.backends
        ]

    def _make_backend(
        self,
        config: Config,
        backend: BackendConfig,
        client: BackendClient | None,
        previous: dict[str, OwnTransport],
    ) -> BackendClient:
        """Return the existing client of a backend, or a new one with its transport, if possible."""
        name, same = backend.name, client is not None and _same_transport(client.config, backend)
        transport = (previous.get(name) if same else None) or make_transport(backend)
        self._transports[name] = transport
        passthrough = None
        if backend.passthrough_paths:
            key = _PASSTHROUGH_KEY.format(name)
            passthrough = (previous.get(key) if same else None) or make_library_transport(backend)
            self._transports[key] = passthrough
        made = _make_backend(config, backend, transport, passthrough)
        # The existing client knows what the backend refused.
        return client if client is not None and client.settings == made.settings else made

    async def _close_transports(self) -> None:
        for transport in (*self._transports.values(), *self._retired):
            await transport.aclose()
        if self._given_transport is not None:
            await self._given_transport.aclose()


def _same_transport(one: BackendConfig, other: BackendConfig) -> bool:
    """Whether two backends can share a transport; files of certificates may have changed."""
    has_files = structs.replace(other.tls, verify=True) != TlsConfig()
    return not has_files and all(
        getattr(one, name) == getattr(other, name) for name in _TRANSPORT_SETTINGS
    )


def _make_backend(
    config: Config,
    backend: BackendConfig,
    transport: httpx.AsyncBaseTransport,
    passthrough: httpx.AsyncBaseTransport | None = None,
) -> BackendClient:
    if config.recording.directory is not None:
        transport = CapturingTransport(transport, backend.name)
    health = BackendHealth(
        backend.name,
        backend.circuit_breaker or config.circuit_breaker,
        backend.retries or config.retries,
        _health_metrics(config),
    )
    client = BackendClient(
        backend,
        transport,
        capabilities=backend_capabilities(backend),
        timeouts=backend.timeouts or config.timeouts,
        health=health,
        key=read_secret(backend.api_key_env, backend.api_key_file),
    )
    client.passthrough_transport = passthrough or transport
    return client


async def make_sealing_keys(config: Config, store: Store) -> SealingKeys:
    """Return the configured sealing keys, or the key that all nodes on one database share.

    The shared key is in the database, so anyone with a copy of it can open and create sealed texts.
    """
    names = (config.sealing.key_env, *config.sealing.previous_key_envs)
    parsed = [parse_sealing_key(os.environ.get(name, "")) for name in names if name is not None]
    # Invalid keys were rejected when the configuration was read.
    keys = [key for key in parsed if key is not None]
    first, *older = keys or [await store.secrets.get_or_create("sealing key", new_sealing_key())]
    return SealingKeys(first, older)


def _health_metrics(config: Config) -> HealthMetrics | None:
    if not config.metrics.enabled:
        return None
    from gateway.observability.metrics import BackendMetrics  # noqa: PLC0415 - only if enabled

    return BackendMetrics()


def _make_tracer(config: Config) -> "Tracer | None":
    if config.tracing.endpoint is None:
        return None
    from gateway.observability.tracing import Tracer  # noqa: PLC0415 - an extra, and slow to import

    return Tracer(config.tracing)


def _make_recorder(config: Config) -> Recorder | None:
    if config.recording.directory is None:
        return None
    count: Callable[[str], None] | None = None
    if config.metrics.enabled:
        from gateway.observability.metrics import count_recording  # noqa: PLC0415 - only if enabled

        count = count_recording
    return Recorder(config, config.backends or _DEMO_BACKENDS, count)


def _capture_limit(config: Config) -> int:
    """Return the limit for each body that is kept for the log or a recording."""
    logged = MAX_LOGGED_BODY_BYTES if config.logging.bodies else 0
    recorded = 0 if config.recording.directory is None else config.recording.max_body_bytes
    return max(logged, recorded)


def _exchange_recorder(
    config: Config, tracer: "Tracer | None", recorder: Recorder | None
) -> Callable[[ExchangeRecord], None]:
    """Return a function that writes an exchange to the log, the metrics and the traces."""
    recorders: list[Callable[[ExchangeRecord], None]] = [
        exchange_logger(bodies=config.logging.bodies)
    ]
    if config.metrics.enabled:
        from gateway.observability.metrics import record_metrics  # noqa: PLC0415 - only if enabled

        recorders.append(record_metrics)
    if tracer is not None:
        recorders.append(tracer.end_span)
    if recorder is not None:
        recorders.append(recorder.record)

    def record_exchange(exchange: ExchangeRecord) -> None:
        for record in recorders:
            try:
                record(exchange)
            except Exception:  # noqa: BLE001 - a failed record must not fail the exchange
                LOG.exception("exchange not recorded")

    return record_exchange
