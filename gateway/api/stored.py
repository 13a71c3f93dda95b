"""What the addresses of stored things share: who asks, which part of a list, and how it is told."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from litestar import Response
from msgspec import Raw, Struct

from adapters import InvalidRequestError
from adapters.wire.json_object import JsonObject, read_body
from gateway.api.paths import AnyRequest
from gateway.context import AppContext
from gateway.http import request_body as bodies
from gateway.http.headers import read_headers
from gateway.store import Item, Page

_JSON: Final = "application/json"
_ENCODER: Final = msgspec.json.Encoder()
_DEFAULT_LIMIT: Final = 20
_LIMIT: Final = re.compile(r"0*([1-9][0-9]?|100)")
_ORDERS: Final = {"asc": False, "desc": True}


class ListPage(Struct, frozen=True):
    """A part of a list, as it is told."""

    data: tuple[Raw, ...]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: str = "list"


class Deleted(Struct, frozen=True):
    """That something is no longer there."""

    id: str
    object: str
    deleted: bool = True


def owner_of(desk: AppContext, request: AnyRequest) -> str:
    """Tell to whom belongs what is asked for; refuse whoever shows no key that we know."""
    return desk.gatekeeper.authenticate(read_headers(request.scope["headers"])).owner


async def read_fields(desk: AppContext, request: AnyRequest) -> JsonObject:
    """Read the body of a request; none is as good as an empty object."""
    headers = read_headers(request.scope["headers"])
    limit = desk.config.server.max_body_bytes
    body = await bodies.read_body(request.receive, headers, limit)
    return read_body(body.strip() or b"{}")


def read_page(request: AnyRequest, *, newest_first: bool) -> Page:
    """Read which part of a list is asked for."""
    query = request.query_params
    order = query.get("order")
    if order is not None and order not in _ORDERS:
        raise InvalidRequestError("order", "expected asc or desc")
    return Page(
        after=query.get("after") or None,
        limit=_read_limit(query.get("limit")),
        newest_first=newest_first if order is None else _ORDERS[order],
    )


def _read_limit(given: str | None) -> int:
    if given is None:
        return _DEFAULT_LIMIT
    limit = _LIMIT.fullmatch(given)
    if limit is None:
        raise InvalidRequestError("limit", "expected a whole number from 1 to 100")
    return int(limit[1])


def unknown_after(page: Page) -> InvalidRequestError:
    """Say that there is nothing to go on from."""
    return InvalidRequestError(
        "after", f"nothing in this list has the id {(page.after or '')[:100]!r}"
    )


def json_response(value: object) -> Response[bytes]:
    """Answer with a value."""
    return tell_bytes(_ENCODER.encode(value))


def tell_bytes(body: bytes) -> Response[bytes]:
    """Answer with JSON that is written already."""
    return Response(body, media_type=_JSON)


def tell_items(items: Sequence[Item], *, more: bool, cursor: str | None = None) -> Response[bytes]:
    """Answer with a part of a list of items."""
    ids, bodies = [item.id for item in items], [item.body for item in items]
    return list_response(ids, bodies, more=more, cursor=cursor)


def list_response(
    ids: Sequence[str], bodies: Sequence[Raw], *, more: bool, cursor: str | None = None
) -> Response[bytes]:
    """Answer with a part of a list; clients go on behind its last id, or behind the cursor."""
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return json_response(ListPage(tuple(bodies), first, cursor or last, more))


def paginate(names: Sequence[str], page: Page) -> tuple[Sequence[int], bool]:
    """Find a part of a list that is all here: the places of what is in it, and if there is more.

    A name may be repeated. Who goes on behind it goes on behind the last of its places, or would
    come by it for ever. So that nothing is left out, a part ends with no other of them: it is
    shorter than was asked, or longer if that cannot be.
    """
    places = range(len(names))
    if page.newest_first:
        places = places[::-1]
    last = {names[place]: number for number, place in enumerate(places)}
    begin = 0
    if page.after is not None:
        if page.after not in last:
            raise unknown_after(page)
        begin = last[page.after] + 1
    end = min(begin + (page.limit or len(places)), len(places))
    for number in (*range(end, begin, -1), *range(end + 1, len(places) + 1)):
        if last[names[places[number - 1]]] < number:
            end = number
            break
    return places[begin:end], end < len(places)
