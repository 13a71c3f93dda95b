"""Generated images in the history, for backends that generate no images."""

from typing import Final

import msgspec
from msgspec import Struct

from adapters.errors import InvalidRequestError
from adapters.ir.types import Image, Message, OpaqueItem, Text
from adapters.losses import Losses
from adapters.wire.json_object import decode

_LABEL: Final = "This image was generated before:"
# The types of images by the beginning of their base64.
_MEDIA_TYPES: Final = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "UklGR": "image/webp",
    "R0lGOD": "image/gif",
}


class _GeneratedImage(Struct):
    result: str | None = None


_DECODER: Final = msgspec.json.Decoder(_GeneratedImage)


def image_as_message(item: OpaqueItem, path: str, losses: Losses) -> Message:
    """Return the user message that shows a generated image to the model.

    An item without the image, which only the server that generated it knows, is rejected: the model
    would edit nothing.
    """
    image = decode(item.value, _DECODER, path).result
    if not image:
        message = f"the image {item.item_id or ''} is not available; send its `result`"
        raise InvalidRequestError(path, message)
    losses.changed(path, "generated images are sent in a user message", "capability")
    url = image if image.startswith("data:") else f"data:{_media_type(image)};base64,{image}"
    return Message("user", (Text(_LABEL), Image(url)))


def _media_type(image: str) -> str:
    types = (kind for start, kind in _MEDIA_TYPES.items() if image.startswith(start))
    return next(types, "image/png")
