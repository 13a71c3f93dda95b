"""Where machines ask how the service is."""

from collections.abc import Sequence

from litestar import get, head
from litestar.handlers import HTTPRouteHandler

from gateway.api.paths import versioned
from gateway.openapi import HealthOperation, ReadyOperation


@get(versioned("/health"), sync_to_thread=False, operation_class=HealthOperation)
def health() -> dict[str, str]:
    """Say that the process lives."""
    return {"status": "ok"}


@get(versioned("/ready"), sync_to_thread=False, operation_class=ReadyOperation)
def ready() -> dict[str, str]:
    """Say that requests are taken; once the service stops, nobody is connected to ask."""
    return {"status": "ready"}


@head([*versioned("/health"), *versioned("/ready")], sync_to_thread=False, include_in_schema=False)
def show_status() -> None:
    """Answer probes that ask for no more than the status."""


def operation_handlers() -> Sequence[HTTPRouteHandler]:
    """Give them all."""
    return [health, ready, show_status]
