"""Tells a reply as a stream, piece by piece, as a model would."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator

import httpx
from msgspec.structs import replace

from adapters.dialect import BaseStreamWriter
from adapters.ir.accumulator import to_events
from adapters.ir.events import Delta, Event
from adapters.ir.types import Reply

_WORDS = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+$")
_ARGUMENTS = re.compile(r".{1,8}", re.DOTALL)


class DemoStream(httpx.AsyncByteStream):
    """The bytes of a reply, with a pause before each piece of it, so that one can watch."""

    def __init__(self, reply: Reply, writer: BaseStreamWriter, pause: float) -> None:
        self._reply = reply
        self._writer = writer
        self._pause = pause

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in chunked_events(self._reply):
            if isinstance(event, Delta):
                await asyncio.sleep(self._pause)
            for frame in self._writer.feed(event):
                yield frame
        for frame in self._writer.flush():
            yield frame


def chunked_events(reply: Reply) -> Iterator[Event]:
    """Tell a reply as events: texts word by word, arguments in short pieces."""
    for event in to_events(reply):
        if not isinstance(event, Delta):
            yield event
            continue
        pattern = _ARGUMENTS if event.channel == "arguments" else _WORDS
        for piece in pattern.findall(event.text) or [event.text]:
            yield replace(event, text=piece)
