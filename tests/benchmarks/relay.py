"""The minimum for a proxy in Python: it copies bytes on uvloop and parses nothing.

python -m tests.benchmarks.relay BACKEND_PORT
"""

import asyncio
import sys
from typing import cast

import uvloop

from tests.benchmarks.processes import serve


class Side(asyncio.Protocol):
    """One end of a relayed connection, which forwards to the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: asyncio.Transport | None = None
        # Data received before the other end was connected.
        self.early = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early += data
        else:
            self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # whatever ended this side ends the other one too
        if self.other is not None:
            self.other.close()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume_reading()


class Front(Side):
    """The end at the client, which opens the one at the backend."""

    def __init__(self, backend_port: int) -> None:
        super().__init__()
        self._backend_port = backend_port
        self._joining: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._joining = asyncio.get_running_loop().create_task(self._join())

    async def _join(self) -> None:
        loop = asyncio.get_running_loop()
        _, back = await loop.create_connection(Side, "127.0.0.1", self._backend_port)
        self.other, back.other = back.transport, self.transport
        if self.other is not None:
            self.other.write(self.early)


if __name__ == "__main__":
    uvloop.run(serve(lambda: Front(int(sys.argv[1]))))
