"""The Litestar application: addresses, plugins, and what is opened and closed with it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import random
from typing import TYPE_CHECKING

from litestar import Litestar
from litestar.middleware import DefineMiddleware
from litestar.plugins import PluginProtocol
from litestar.types import ControllerRouterHandler

from gateway.api.errors import handle_error
from gateway.api.routes import dependencies, routes
from gateway.assembly import make_sealer, make_upstreams
from gateway.backends.client import BackendClient
from gateway.backends.models import ModelList
from gateway.backends.routing import Router
from gateway.background.worker import BackgroundWorker
from gateway.config.schema import Config
from gateway.context import AppContext
from gateway.crypto import RANDOM_IDS
from gateway.http.auth import Authenticator
from gateway.observability.logging import LOG, exchange_logger, logging_config
from gateway.observability.record import ExchangeRecord
from gateway.openapi.document import SchemaPlugin, openapi_config
from gateway.retention import retention_task
from gateway.store import open_store
from gateway.turns.service import TurnService

if TYPE_CHECKING:
    from gateway.observability.tracing import Tracer


def create_app(config: Config) -> Litestar:
    """Make the application."""
    logging = logging_config(config.logging)
    logging.configure()
    upstreams = make_upstreams(config)
    tracer = _tracer(config)
    desk = AppContext(
        config=config,
        router=Router(upstreams),
        gatekeeper=Authenticator(config.access),
        mint=RANDOM_IDS,
        record_exchange=_teller(config, tracer),
        trace=_no_headers if tracer is None else tracer.start_span,
    )
    handlers: list[ControllerRouterHandler] = [*routes(desk)]
    schemas = SchemaPlugin()
    plugins: list[PluginProtocol] = [schemas]
    middleware: list[DefineMiddleware] = []
    if config.metrics.enabled:
        from gateway.observability import metrics  # noqa: PLC0415 - only where wanted

        handlers += [metrics.MetricsController, metrics.VersionedMetricsController]
        middleware.append(metrics.HTTP_METRICS.middleware)
    if tracer is not None:
        plugins.append(tracer.plugin())
    return Litestar(
        route_handlers=handlers,
        dependencies=dependencies(desk, ModelList(upstreams)),
        plugins=plugins,
        logging_config=logging,
        middleware=middleware,
        exception_handlers={Exception: handle_error},
        openapi_config=openapi_config(schemas),
        lifespan=[_opening(desk, upstreams, tracer)],
        request_max_body_size=config.server.max_body_bytes,
    )


def _opening(
    desk: AppContext, upstreams: list[BackendClient], tracer: "Tracer | None"
) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    """Open what the application needs, and close it when it ends."""

    @asynccontextmanager
    async def opening(_: Litestar) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            desk.store = await open_store(desk.config.state.url)
            stack.push_async_callback(desk.store.close)
            desk.turns = TurnService(desk.store, desk.mint)
            desk.sealing_keys = await make_sealer(desk.config, desk.store)
            if tracer is not None:
                stack.callback(tracer.close)
            for transport in {upstream.transport for upstream in upstreams}:
                stack.push_async_callback(transport.aclose)
            desk.background = node = BackgroundWorker(desk)
            await stack.enter_async_context(node.running())
            await stack.enter_async_context(
                retention_task(desk.store, desk.config.state.retention_days, random)
            )
            yield

    return opening


def _tracer(config: Config) -> "Tracer | None":
    if config.tracing.endpoint is None:
        return None
    from gateway.observability.tracing import Tracer  # noqa: PLC0415 - an extra, and slow to import

    return Tracer(config.tracing)


def _teller(config: Config, tracer: "Tracer | None") -> Callable[[ExchangeRecord], None]:
    """Put together what is told at the end of each exchange."""
    tellers: list[Callable[[ExchangeRecord], None]] = [exchange_logger()]
    if config.metrics.enabled:
        from gateway.observability.metrics import record_metrics  # noqa: PLC0415 - only where wanted

        tellers.append(record_metrics)
    if tracer is not None:
        tellers.append(tracer.end_span)

    def tell(record: ExchangeRecord) -> None:
        for one in tellers:
            try:
                one(record)
            except Exception:  # noqa: BLE001 - the exchange went well, whoever cannot write it down
                LOG.exception("exchange not recorded")

    return tell


def _no_headers(_: ExchangeRecord) -> dict[str, str]:
    return {}
