"""Images in replies: data URLs, and the base64 that some dialects have instead."""

import re

from msgspec import Raw
from msgspec.json import Encoder

from adapters.ir.types import Family, Item, OpaqueItem
from adapters.losses import Losses
from adapters.wire.json_object import NULL, JsonObject, read_fields

_DATA_URL = re.compile(r"data:image/([\w.+-]+)(?:;[^,;]*)*;base64,")
# The formats whose media type has another name.
_FORMATS = {"jpg": "jpeg", "svg+xml": "svg"}
_MEDIA_TYPES = {"svg": "svg+xml"}
# The first characters of base64, by format.
_BEGINNINGS = {"iVBORw0KGgo": "png", "/9j/": "jpeg", "UklGR": "webp", "R0lGOD": "gif"}
# The fields of a generated image that its URL contains, and those that every item has.
_IMAGE_FIELDS = frozenset(("type", "id", "status", "result", "output_format"))

_ENCODER = Encoder()


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return the format of an image and its base64; None if the URL does not contain them."""
    match = _DATA_URL.match(url)
    if match is None:
        return None
    return _FORMATS.get(match[1], match[1]), url[match.end() :]


def data_url(base64: str, image_format: str | None) -> str:
    """Return a data URL; an unknown format follows from the beginning of the data."""
    known = image_format or next(
        (name for start, name in _BEGINNINGS.items() if base64.startswith(start)), "png"
    )
    return f"data:image/{_MEDIA_TYPES.get(known, known)};base64,{base64}"


def chat_image(url: str, number: int) -> dict[str, object]:
    """Return an image in the form that servers of Chat Completions send.

    The specification has no images in replies, but the servers that send them agree on this form.
    """
    return {"type": "image_url", "image_url": {"url": url}, "index": number}


def raw_image(url: str) -> Raw:
    """Return an image in that form, encoded."""
    return Raw(_ENCODER.encode(chat_image(url, 0)))


def read_chat_image(fields: JsonObject, raw: Raw, family: Family) -> OpaqueItem | None:
    """Read an image of a Chat reply; None if it has no URL."""
    address = fields.text_or_fields("image_url")
    url = address.string("url") if isinstance(address, JsonObject) else address
    return OpaqueItem(family, "image", raw, image=url) if url else None


def report_image_fields(raw: Raw, path: str, label: str, losses: Losses) -> None:
    """Report the fields of a generated image that are not sent together with it."""
    for name, value in read_fields(raw, path).take_all().items():
        if name not in _IMAGE_FIELDS and value != NULL:
            losses.dropped(f"{path}.{name}", f"{label} does not support this field")


def image_of(item: Item) -> str | None:
    """Return the URL of the image in an item."""
    return item.image if isinstance(item, OpaqueItem) else None
