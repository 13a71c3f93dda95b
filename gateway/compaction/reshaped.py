"""Sends, as `/responses/compact` answers, what was answered to a request for a summary."""

from collections.abc import Callable

from litestar.types import Message, Send
from litestar.types.asgi_types import HTTPResponseBodyEvent, HTTPResponseStartEvent

from adapters import InvalidReplyError
from gateway import statuses
from gateway.errors import write_error_body


class Reshaped:
    """Sends an answer that was made for another address as this one gives it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: HTTPResponseStartEvent | None = None
        # Set once what comes is a response; None: there is none to be made of it.
        self.reshape: Callable[[bytes], bytes | None] | None = None

    async def send(self, message: Message) -> None:
        """Send a piece; whole responses come in one."""
        if message["type"] == "http.response.start":
            if self.reshape is not None and message["status"] == statuses.WHOLE:
                self._start = message
                return
        elif message["type"] == "http.response.body" and self._start and self.reshape:
            await self._send_made(self._start, self.reshape(message["body"]))
            return
        await self._send(message)

    async def _send_made(self, start: HTTPResponseStartEvent, body: bytes | None) -> None:
        status = start["status"]
        if body is None:
            problem = InvalidReplyError(None, "the backend was asked for a summary and gave none")
            status, body = problem.status, write_error_body(problem)
        others = [one for one in start["headers"] if one[0] != b"content-length"]
        begin: HTTPResponseStartEvent = {
            "type": "http.response.start",
            "status": status,
            "headers": [*others, (b"content-length", b"%d" % len(body))],
        }
        rest: HTTPResponseBodyEvent = {
            "type": "http.response.body",
            "body": body,
            "more_body": False,
        }
        await self._send(begin)
        await self._send(rest)
