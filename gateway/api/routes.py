"""All routes. Every path is served with and without the prefix `/v1`; see also `http/paths.py`."""

from collections.abc import Sequence

from litestar import Router
from litestar.di import Provide
from litestar.types import ControllerRouterHandler

from gateway.api.common import authenticate
from gateway.api.compaction import compaction_handlers
from gateway.api.completions import CompletionController
from gateway.api.conversations import ConversationController, ConversationItemController
from gateway.api.create import create_handlers
from gateway.api.input_tokens import input_token_handlers
from gateway.api.models import ModelController
from gateway.api.operations import OperationsController, openapi_document
from gateway.api.passthrough import passthrough_handler
from gateway.api.responses import ResponseController
from gateway.api.translate import TranslateController
from gateway.context import CurrentContext


def route_handlers(current: CurrentContext) -> Sequence[ControllerRouterHandler]:
    """Return all routes."""
    handlers: list[ControllerRouterHandler] = [
        ResponseController,
        CompletionController,
        ConversationController,
        ConversationItemController,
        ModelController,
        TranslateController,
        OperationsController,
        # After the controllers: Litestar cannot add a controller to the path of a function.
        *create_handlers(current),
        *compaction_handlers(current),
        *input_token_handlers(current),
        passthrough_handler(current),
    ]
    return [
        *handlers,
        Router("/v1", route_handlers=handlers, include_in_schema=False),
        openapi_document,
    ]


def dependencies(current: CurrentContext) -> dict[str, Provide]:
    """Return the dependencies that handlers receive as arguments."""
    return {
        "context": Provide(lambda: current.value, sync_to_thread=False),
        "models": Provide(lambda: current.value.models, sync_to_thread=False),
        "principal": Provide(authenticate, sync_to_thread=False),
    }
