"""Stored chat completions."""

import re
from typing import Annotated, Final

import msgspec
from litestar import Controller, Response, delete, get, post
from litestar.di import NamedDependency, Provide
from litestar.params import PathParameter, QueryParameter
from msgspec import Raw

from adapters.wire.json_object import NULL
from gateway.api.common import (
    AnyRequest,
    Authenticated,
    Context,
    RequestedPage,
    json_response,
    list_response,
    oldest_first,
    paginate,
    read_fields,
    unknown_cursor,
)
from gateway.context import AppContext
from gateway.errors import CompletionNotFoundError
from gateway.openapi import objects
from gateway.openapi.document import BODY_ERRORS, STORE_ERRORS, errors, request_body, responses
from gateway.store import Completion
from gateway.turns.metadata import check_metadata, read_metadata_update

_METADATA_PARAMETER: Final = re.compile(r"metadata\[(.*)\]", re.DOTALL)

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_MESSAGES: Final = msgspec.json.Decoder(list[dict[str, Raw]])
_ENCODER: Final = msgspec.json.Encoder()

CompletionId = Annotated[str, PathParameter(description="The id of the completion.")]
ModelFilter = Annotated[
    str | None, QueryParameter(description="Only completions that were requested for this model.")
]


def read_metadata_filter(request: AnyRequest) -> dict[str, str]:
    """Read the metadata by which a list of completions is filtered."""
    parameters = request.query_params.items()
    matches = ((_METADATA_PARAMETER.fullmatch(name), value) for name, value in parameters)
    return check_metadata({match[1]: value for match, value in matches if match})


class CompletionController(Controller):
    """The endpoints of stored chat completions."""

    path = "/chat/completions"
    tags = ("Chat Completions",)
    dependencies = {"page": Provide(oldest_first, sync_to_thread=False)}  # noqa: RUF012 - as Litestar declares it

    @get(
        operation_id="listChatCompletions",
        summary="List stored completions",
        description="`metadata[key]=value` selects completions with this metadata value.",
        dependencies={"metadata": Provide(read_metadata_filter, sync_to_thread=False)},
        responses=responses(objects.CompletionList, "One page of the list.", STORE_ERRORS),
    )
    async def list_completions(
        self,
        context: Context,
        principal: Authenticated,
        page: RequestedPage,
        metadata: NamedDependency[dict[str, str]],
        model: ModelFilter = None,
    ) -> Response[bytes]:
        """Return one page of the stored completions."""
        completions = context.store.completions
        listing = await completions.list(principal.owner, page, model, metadata)
        if listing is None:
            raise unknown_cursor(page)
        ids = [completion.id for completion in listing.data]
        data = [completion_body(completion) for completion in listing.data]
        return list_response(ids, data, has_more=listing.has_more)

    @get(
        "/{completion_id:str}",
        operation_id="getChatCompletion",
        summary="Return a stored completion",
        responses=responses(objects.StoredCompletion, "The completion.", STORE_ERRORS),
    )
    async def retrieve(
        self, context: Context, principal: Authenticated, completion_id: CompletionId
    ) -> Response[bytes]:
        """Return a stored completion."""
        completion = await _find(context, principal.owner, completion_id)
        return json_response(completion_body(completion))

    @post(
        "/{completion_id:str}",
        status_code=200,
        operation_id="updateChatCompletion",
        summary="Replace the metadata of a stored completion",
        dependencies=request_body(objects.MetadataRequest),
        responses=responses(objects.StoredCompletion, "The completion.", BODY_ERRORS),
    )
    async def update(
        self,
        request: AnyRequest,
        context: Context,
        principal: Authenticated,
        completion_id: CompletionId,
    ) -> Response[bytes]:
        """Replace the metadata of a stored completion."""
        metadata = read_metadata_update(await read_fields(request, context))
        if not await context.store.completions.update_metadata(
            principal.owner, completion_id, metadata
        ):
            raise CompletionNotFoundError(completion_id)
        completion = await _find(context, principal.owner, completion_id)
        return json_response(completion_body(completion))

    @delete(
        "/{completion_id:str}",
        status_code=200,
        operation_id="deleteChatCompletion",
        summary="Delete a stored completion",
        response_description="The completion is deleted.",
        responses=errors(STORE_ERRORS),
    )
    async def remove(
        self, context: Context, principal: Authenticated, completion_id: CompletionId
    ) -> objects.Deleted:
        """Delete a stored completion."""
        if not await context.store.completions.delete(principal.owner, completion_id):
            raise CompletionNotFoundError(completion_id)
        return objects.Deleted(completion_id, "chat.completion.deleted", deleted=True)

    @get(
        "/{completion_id:str}/messages",
        operation_id="listChatCompletionMessages",
        summary="List the request messages of a stored completion",
        responses=responses(objects.MessageList, "One page of the list.", STORE_ERRORS),
    )
    async def list_messages(
        self,
        context: Context,
        principal: Authenticated,
        completion_id: CompletionId,
        page: RequestedPage,
    ) -> Response[bytes]:
        """Return one page of the messages that a completion was requested with."""
        messages = request_messages(await _find(context, principal.owner, completion_id))
        ids = [*messages]
        indexes, more = paginate(ids, page)
        selected = [ids[index] for index in indexes]
        return list_response(selected, [messages[one] for one in selected], has_more=more)


async def _find(context: AppContext, owner: str, completion_id: str) -> Completion:
    """Load a completion of an owner; raise `CompletionNotFoundError` if it does not exist."""
    completion = await context.store.completions.load(owner, completion_id)
    if completion is None:
        raise CompletionNotFoundError(completion_id)
    return completion


def completion_body(completion: Completion) -> Raw:
    """Return a completion as it was sent to the client, with its current metadata."""
    current: dict[str, object] = {"id": completion.id, "metadata": completion.metadata}
    return Raw(_ENCODER.encode(_OBJECT.decode(completion.body) | current))


def request_messages(completion: Completion) -> dict[str, Raw]:
    """Return the messages of a completion's request by their ids."""
    messages = _MESSAGES.decode(completion.messages)
    named = ((f"{completion.id}-{index}", message) for index, message in enumerate(messages))
    return {name: Raw(_ENCODER.encode(_with_id(name, message))) for name, message in named}


def _with_id(message_id: str, message: dict[str, Raw]) -> dict[str, object]:
    """Return a message with its id, and with content parts in `content_parts`."""
    content = message.get("content", NULL)
    text, parts = (NULL, content) if bytes(content).startswith(b"[") else (content, NULL)
    replaced: dict[str, object] = {"id": message_id, "content": text, "content_parts": parts}
    return {"id": message_id} | message | replaced
