"""Takes an answer in place of a client: what is sent to it are the messages of ASGI."""

from abc import ABC, abstractmethod

from litestar.types import Message

from gateway.http.headers import Headers


class Sink(ABC):
    """One answer; its `send` is what a `Client` is given."""

    def __init__(self) -> None:
        # There once the answer has begun.
        self.status = 0
        self.headers: Headers = []

    async def send(self, message: Message) -> None:
        """Take a message of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = list(message["headers"])
        elif message["type"] == "http.response.body":
            await self.take(message["body"], more=message["more_body"])

    @abstractmethod
    async def take(self, piece: bytes, *, more: bool) -> None:
        """Take a piece of the body; the answer goes on when this returns."""


class Gathered(Sink):
    """Keeps an answer until it is whole."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    async def take(self, piece: bytes, *, more: bool) -> None:
        """Take a piece of it."""
        del more  # it is read when it is over
        self._pieces.append(piece)

    @property
    def body(self) -> bytes:
        """Give all of it."""
        return b"".join(self._pieces)
