"""The transform that adds a system message to each request."""

from typing import Literal

from msgspec.structs import replace

from adapters.ir.types import Message, Request, Text
from adapters.transforms.transform import Transform, TransformLosses


class AddSystemMessage(Transform, frozen=True):
    """Adds a message before all others of a request.

    The text is the same in each request, so the prompt cache of the backend is not affected.
    """

    text: str
    role: Literal["system", "developer"] = "system"

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("text must not be empty")

    def request(self, request: Request, losses: TransformLosses) -> Request:
        """Return the request with the message."""
        losses.invented("items", f"a {self.role} message was added")
        message = Message(self.role, (Text(self.text),))
        return replace(request, items=(message, *request.items))
