"""The demo as an httpx transport: it replies to requests without opening a socket."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import msgspec
from msgspec.structs import replace

import adapters
from adapters import (
    BackendRequest,
    Dialect,
    DragomanError,
    IdSource,
    ReplyTranslator,
    TranslationOptions,
)
from gateway.demo.chat import read_request, stream_reply
from gateway.demo.reply import DEMO_MODEL, write_reply

# Long enough for a person to see that the reply is streamed.
DELTA_DELAY_SECONDS = 0.02

_CHAT = adapters.get_dialect("chat")
# The demo reads all messages and tools of Chat Completions, and images in any of them.
_CAPABILITIES = replace(adapters.PROFILES["openai"], multimodal_tool_outputs=True)


class DemoTransport(httpx.AsyncBaseTransport):
    """A backend with `/models` and the paths of all dialects, under any host and prefix."""

    def __init__(
        self, *, ids: IdSource | None = None, delta_delay: float = DELTA_DELAY_SECONDS
    ) -> None:
        self._ids = ids or IdSource(secrets.token_hex, time.time)
        self._delta_delay = delta_delay
        self._created = self._ids.now()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Reply to one request."""
        path = request.url.path.rstrip("/")
        if request.method == "POST":
            for name, dialects in adapters.dialects_by_path().items():
                if path.endswith(name):
                    return self._create(await request.aread(), dialects)
        if request.method == "GET" and path.endswith("/models"):
            model = {"object": "model", "created": self._created, "owned_by": "dragoman"}
            models = {"object": "list", "data": [{"id": DEMO_MODEL, **model}]}
            return self._send(200, msgspec.json.encode(models))
        message = f"the demo backend does not support {request.method} {request.url.path}"
        error = {"message": message, "type": "invalid_request_error", "param": None}
        return self._send(404, msgspec.json.encode({"error": {**error, "code": "unknown_url"}}))

    def _create(self, body: bytes, dialects: list[Dialect]) -> httpx.Response:
        """Reply in that of the dialects to which the body belongs."""
        dialect, translated = dialects[0], None
        try:
            parsed = adapters.parse_body(body)
            dialect = next(one for one in dialects if one.matches(parsed))
            if dialect is not _CHAT:
                translated = adapters.translate_request(
                    body,
                    client=dialect.name,
                    backend=_CHAT.name,
                    capabilities=_CAPABILITIES,
                    ids=self._ids,
                )
                dialect, body = _CHAT, translated.body
            request = read_request(body)
            reply = write_reply(request, self._ids)
        except DragomanError as error:
            end = adapters.own_error(TranslationOptions(dialect, _CHAT, self._ids), error)
            return self._send(end.status, end.body, translated)
        if not request.stream:
            return self._send(200, msgspec.json.encode(reply), translated)
        options = request.stream_options or {}
        frames = stream_reply(reply, with_usage=bool(options.get("include_usage")))
        headers = self._headers("text/event-stream; charset=utf-8")
        return httpx.Response(200, headers=headers, content=self._stream(frames, translated))

    async def _stream(
        self, frames: Iterator[bytes], translated: BackendRequest | None
    ) -> AsyncIterator[bytes]:
        translator = translated and ReplyTranslator(translated.reply_plan, streamed=True)
        for frame in frames:
            await asyncio.sleep(self._delta_delay)
            sent = translator.feed(frame) if translator else frame
            if sent:
                yield sent
        if translator:
            yield translator.finish(started=True).body

    def _send(
        self, status: int, body: bytes, translated: BackendRequest | None = None
    ) -> httpx.Response:
        if translated is not None:
            end = adapters.translate_reply(body, translated, status=status)
            status, body = end.status, end.body
        headers = self._headers("application/json") | {"content-length": str(len(body))}
        # With `content` the body would count as read, unlike one from a socket.
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"content-type": content_type, "x-request-id": self._ids.id("req_")}
