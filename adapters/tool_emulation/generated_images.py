"""Generated images in the history, for backends that generate no images."""

from typing import Final

from adapters.errors import InvalidRequestError
from adapters.ir.types import Image, Message, OpaqueItem, Text
from adapters.losses import Losses
from adapters.wire.images import data_url, report_image_fields
from adapters.wire.json_object import read_fields

_LABEL: Final = "This image was generated before:"


def image_as_message(item: OpaqueItem, path: str, losses: Losses) -> Message:
    """Return the user message that shows a generated image to the model.

    An item without the image, which only the server that generated it knows, is rejected: the model
    would edit nothing.
    """
    fields = read_fields(item.value, path)
    image = fields.string("result")
    if not image:
        message = f"the image {item.item_id or ''} is not available; send its `result`"
        raise InvalidRequestError(path, message)
    losses.changed(path, "generated images are sent in a user message", "capability")
    report_image_fields(item.value, path, "a user message", losses)
    url = image if image.startswith("data:") else data_url(image, fields.string("output_format"))
    return Message("user", (Text(_LABEL), Image(url)))
