"""The histories of recorded requests that continue a response by its id.

A replay has no state of the recorded server: its gateway sends the whole history instead. So a
recorded request is compared with its history, too.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from adapters import Dialect, DragomanError, Request, parse_body
from adapters.ir.types import Item
from adapters.losses import Losses
from gateway.recording.documents import read_document, read_reply
from gateway.recording.format import Body

_FIELD: Final = "previous_response_id"


class StoredHistories:
    """The items of all conversations so far, by the ids of their last responses."""

    def __init__(self) -> None:
        self._items: dict[str, tuple[Item, ...]] = {}

    def read_request(self, data: bytes, dialect: Dialect) -> Request:
        """Read a request with the history that it refers to, if that was recorded.

        Raises `DragomanError` if the request is invalid.
        """
        request = dialect.read_request(parse_body(data), Losses(None))
        reference = request.find_extra(dialect.family, _FIELD)
        previous: object = None if reference is None else msgspec.json.decode(reference)
        if not isinstance(previous, str) or previous not in self._items:
            return request
        history = self._items[previous]
        return replace(
            request,
            items=(*history, *request.items),
            paths=(*[_FIELD] * len(history), *(path for _, path in request.items_with_paths())),
            extras=tuple(extra for extra in request.extras if extra.name != _FIELD),
        )

    def add(self, request: Request, dialect: Dialect, reply: Body) -> None:
        """Add the conversation that ends with a reply, unless the reply is invalid."""
        try:
            read = read_reply(read_document(reply.data, dialect.name))
        except DragomanError:
            return
        if read.id and read.error is None:
            items = (item for choice in read.choices for item in choice.items)
            self._items[read.id] = (*request.items, *items)
