"""The Litestar application with its routes."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
from litestar import Litestar
from litestar.config.cors import CORSConfig
from litestar.middleware import DefineMiddleware
from litestar.plugins import PluginProtocol
from litestar.types import ControllerRouterHandler

from gateway.api.common import add_request_id, handle_error
from gateway.api.routes import dependencies, route_handlers
from gateway.config.schema import Config
from gateway.config.sources import ConfigSource
from gateway.http.paths import rewrite_paths
from gateway.observability.logging import logging_config
from gateway.openapi.document import SchemaPlugin, openapi_config
from gateway.service import Service

# The headers of replies that pages of other sites may read.
_EXPOSED_HEADERS = [
    *("dragoman-loss", "dragoman-token-count-source", "retry-after", "x-request-id"),
    # They announce the end of legacy functions.
    *("deprecation", "link", "sunset"),
]


def create_app(
    config: Config,
    transport: httpx.AsyncBaseTransport | None = None,
    source: ConfigSource | None = None,
) -> Litestar:
    """Return the application for a configuration.

    A given transport is used for all backends, instead of their own. With a source, the
    configuration is read again when the process receives SIGHUP.
    """
    logging = logging_config(config.logging)
    logging.configure()
    service = Service(config, transport)
    handlers: list[ControllerRouterHandler] = [*route_handlers(service.current)]
    schemas = SchemaPlugin()
    plugins: list[PluginProtocol] = [schemas]
    middleware: list[DefineMiddleware] = []
    if config.metrics.enabled:
        from gateway.observability import metrics  # noqa: PLC0415 - only if enabled

        handlers += [metrics.MetricsController, metrics.VersionedMetricsController]
        middleware.append(metrics.HTTP_METRICS.middleware)
    if service.tracer is not None:
        plugins.append(service.tracer.plugin())
    app = Litestar(
        route_handlers=handlers,
        dependencies=dependencies(service.current),
        plugins=plugins,
        logging_config=logging,
        middleware=middleware,
        exception_handlers={Exception: handle_error},
        before_send=[add_request_id],
        cors_config=_cors_config(config.server.cors_origins),
        openapi_config=openapi_config(schemas),
        lifespan=[_lifespan(service, source)],
        request_max_body_size=config.server.max_body_bytes,
    )
    # Litestar runs its middleware only after routing.
    app.asgi_handler = rewrite_paths(app.asgi_handler)
    return app


def _cors_config(origins: Sequence[str]) -> CORSConfig | None:
    """Return the settings for pages of other sites, or None if they may not use the gateway."""
    if not origins:
        return None
    return CORSConfig(allow_origins=[*origins], expose_headers=_EXPOSED_HEADERS)


def _lifespan(
    service: Service, source: ConfigSource | None
) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    """Return a context manager that opens and closes the components of the service."""

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        async with service.running():
            if source is not None and hasattr(signal, "SIGHUP"):
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGHUP, service.reload, source)
            yield

    return lifespan
