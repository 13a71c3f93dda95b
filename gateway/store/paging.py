"""Lists in parts."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from gateway.store.records import Listing, Page

T = TypeVar("T")

Order: TypeAlias = Literal["ASC", "DESC"]

# More than there can be.
_ALL: Final = 2**31


def order_of(page: Page) -> Order:
    """Say the order as SQL does."""
    return "DESC" if page.newest_first else "ASC"


def size_of(page: Page) -> int:
    """Say how many rows to read: one more than is wanted, which tells whether there is more."""
    return _ALL if page.limit is None else page.limit + 1


def listing(found: Sequence[T], page: Page) -> Listing[T]:
    """Make a part of a list of what was found."""
    if page.limit is None or len(found) <= page.limit:
        return Listing(tuple(found), more=False)
    return Listing(tuple(found[: page.limit]), more=True)
