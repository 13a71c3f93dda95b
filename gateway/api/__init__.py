"""The addresses of the service, each also without `/v1`."""

from collections.abc import Mapping, Sequence

from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler
from litestar.types import ASGIApp

from gateway.api.compaction import compaction_handlers
from gateway.api.completions import completion_handlers
from gateway.api.conversation_items import conversation_item_handlers
from gateway.api.conversations import conversation_handlers
from gateway.api.create import exchange_handlers
from gateway.api.input_tokens import counting_handlers
from gateway.api.models import model_handlers
from gateway.api.operations import operation_handlers
from gateway.api.responses import response_handlers
from gateway.api.translate import translate_handlers
from gateway.backends.models import ModelList
from gateway.context import AppContext
from gateway.openapi import show_schema


def handlers(
    desk: AppContext, models: ModelList, fronts: Mapping[str, ASGIApp]
) -> Sequence[HTTPRouteHandler | WebsocketRouteHandler]:
    """Give all of them."""
    return [
        *exchange_handlers(desk, fronts),
        *response_handlers(desk),
        *completion_handlers(desk),
        *conversation_handlers(desk),
        *conversation_item_handlers(desk),
        *compaction_handlers(desk),
        *counting_handlers(desk),
        *model_handlers(desk.gatekeeper, models),
        *translate_handlers(desk.gatekeeper, desk.config.server.max_body_bytes),
        *operation_handlers(),
        show_schema,
    ]
