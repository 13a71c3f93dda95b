"""The Litestar application with its routes, and the components that it opens and closes."""

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import random
from typing import TYPE_CHECKING

import httpx
from litestar import Litestar
from litestar.middleware import DefineMiddleware
from litestar.plugins import PluginProtocol
from litestar.types import ControllerRouterHandler

from adapters import DIALECTS
from gateway.api.common import add_request_id, handle_error
from gateway.api.routes import dependencies, route_handlers
from gateway.backends.client import BackendClient
from gateway.backends.models import ModelList
from gateway.backends.routing import Router
from gateway.backends.transport import make_transport
from gateway.background.worker import BackgroundWorker
from gateway.config import backend_capabilities
from gateway.config.database import database_password, database_url
from gateway.config.schema import BackendConfig, Config
from gateway.context import AppContext
from gateway.crypto import RANDOM_IDS, SealingKeys, new_sealing_key, parse_sealing_key
from gateway.demo.transport import DemoTransport
from gateway.http.auth import Authenticator
from gateway.http.headers import deprecation_headers
from gateway.http.paths import rewrite_paths
from gateway.observability.logging import (
    LOG,
    MAX_LOGGED_BODY_BYTES,
    exchange_logger,
    logging_config,
)
from gateway.observability.record import ExchangeRecord
from gateway.openapi.document import SchemaPlugin, openapi_config
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


def create_app(config: Config, transport: httpx.AsyncBaseTransport | None = None) -> Litestar:
    """Return the application for a configuration.

    A given transport is used for all backends, instead of their own.
    """
    logging = logging_config(config.logging)
    logging.configure()
    backends = _make_backends(config, transport)
    tracer = _make_tracer(config)
    recorder = _make_recorder(config, backends)
    context = AppContext(
        config=config,
        router=Router(backends),
        authenticator=Authenticator(config.access),
        ids=RANDOM_IDS,
        record_exchange=_exchange_recorder(config, tracer, recorder),
        tracer=tracer,
        capture_limit=_capture_limit(config),
        legacy_headers=deprecation_headers(config.legacy),
    )
    handlers: list[ControllerRouterHandler] = [*route_handlers(context)]
    schemas = SchemaPlugin()
    plugins: list[PluginProtocol] = [schemas]
    middleware: list[DefineMiddleware] = []
    if config.metrics.enabled:
        from gateway.observability import metrics  # noqa: PLC0415 - only if enabled

        handlers += [metrics.MetricsController, metrics.VersionedMetricsController]
        middleware.append(metrics.HTTP_METRICS.middleware)
    if tracer is not None:
        plugins.append(tracer.plugin())
    app = Litestar(
        route_handlers=handlers,
        dependencies=dependencies(context, ModelList(backends)),
        plugins=plugins,
        logging_config=logging,
        middleware=middleware,
        exception_handlers={Exception: handle_error},
        before_send=[add_request_id],
        openapi_config=openapi_config(schemas),
        lifespan=[_lifespan(context, backends, recorder)],
        request_max_body_size=config.server.max_body_bytes,
    )
    # Litestar runs its middleware only after routing.
    app.asgi_handler = rewrite_paths(app.asgi_handler)
    return app


def _lifespan(
    context: AppContext, backends: Sequence[BackendClient], recorder: Recorder | None
) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    """Return a context manager that opens and closes the components of the service."""

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            state = context.config.state
            context.store = await open_store(database_url(state), database_password(state))
            stack.push_async_callback(context.store.close)
            context.turns = TurnService(context.store, context.ids)
            context.sealing_keys = await make_sealing_keys(context.config, context.store)
            if context.tracer is not None:
                stack.callback(context.tracer.close)
            if recorder is not None:
                await stack.enter_async_context(recorder.running())
            for transport in {backend.transport for backend in backends}:
                stack.push_async_callback(transport.aclose)
            context.background = worker = BackgroundWorker(context)
            await stack.enter_async_context(worker.running())
            await stack.enter_async_context(
                retention_task(context.store, context.config.state.retention_days, random)
            )
            yield

    return lifespan


def _make_backends(
    config: Config, transport: httpx.AsyncBaseTransport | None
) -> list[BackendClient]:
    if not config.backends:
        demo = DemoTransport()
        return [_make_backend(config, backend, demo) for backend in _DEMO_BACKENDS]
    return [
        _make_backend(config, backend, transport or make_transport(backend))
        for backend in config.backends
    ]


def _make_backend(
    config: Config, backend: BackendConfig, transport: httpx.AsyncBaseTransport
) -> BackendClient:
    if config.recording.directory is not None:
        transport = CapturingTransport(transport, backend.name)
    return BackendClient(
        backend,
        transport,
        capabilities=backend_capabilities(backend),
        timeouts=backend.timeouts or config.timeouts,
        retries=backend.retries or config.retries,
        # A key that was read from a file often ends with a line break.
        key=os.environ.get(backend.api_key_env or "", "").strip() or None,
    )


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


def _make_tracer(config: Config) -> "Tracer | None":
    if config.tracing.endpoint is None:
        return None
    from gateway.observability.tracing import Tracer  # noqa: PLC0415 - an extra, and slow to import

    return Tracer(config.tracing)


def _make_recorder(config: Config, backends: Sequence[BackendClient]) -> Recorder | None:
    if config.recording.directory is None:
        return None
    count: Callable[[str], None] | None = None
    if config.metrics.enabled:
        from gateway.observability.metrics import count_recording  # noqa: PLC0415 - only if enabled

        count = count_recording
    return Recorder(config, [backend.config for backend in backends], count)


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
