"""The recorder of a gateway process: hands finished exchanges to the process that writes them."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from gateway.config.database import database_password, database_url
from gateway.config.schema import BackendConfig, Config
from gateway.config.secret_sources import read_secret
from gateway.observability.capture import Capture, is_unstored
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.recording.exchange_writer import FinishedExchange
from gateway.recording.secrets import field_secrets, header_secrets, url_secrets
from gateway.recording.writer_process import LENGTH_BYTES, WriterResult, WriterSettings

# While more bytes than this wait to be written, exchanges are not recorded.
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
# How long a shutdown waits for what is still to be written.
_SHUTDOWN_SECONDS: Final = 10.0
_RESTART_SECONDS: Final = 1.0
# How often recordings that are not written are logged.
_LOG_SECONDS: Final = 10.0
# The endpoint counts tokens, and creates no reply.
_UNRECORDED: Final = "/input_tokens"
_ENCODER: Final = msgspec.msgpack.Encoder()
_RESULT: Final = msgspec.json.Decoder(WriterResult)


class Recorder:
    """Records exchanges without delay: what cannot be written in time is dropped.

    `count` is called with the outcome of each recording, unless it is None.
    """

    def __init__(
        self, config: Config, backends: Iterable[BackendConfig], count: Callable[[str], None] | None
    ) -> None:
        backends = [*backends]
        self._config = config.recording
        self._count = count
        self._secrets = {*config_secrets(config, backends)}
        self._settings = self._make_settings(backends)
        self._process: Process | None = None
        self._next_log = float("-inf")
        self._unlogged = 0

    def update(self, config: Config, backends: Iterable[BackendConfig]) -> None:
        """Redact the secrets of another configuration, too, and note its backends."""
        backends = [*backends]
        self._secrets |= {*config_secrets(config, backends)}
        self._settings = self._make_settings(backends)
        if self._process is not None:
            self._send(self._process, self._settings)

    def _make_settings(self, backends: list[BackendConfig]) -> bytes:
        return _ENCODER.encode(WriterSettings(self._config, backends, sorted(self._secrets)))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the process that writes, and start it again if it ends."""
        await self._start()
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait((task,))
            await self._finish()

    def record(self, record: ExchangeRecord) -> None:
        """Record a finished exchange."""
        capture = record.capture
        if capture is None or record.path.endswith(_UNRECORDED):
            return
        if self._config.skip_store_false and is_unstored(capture):
            return
        if self._process is None:
            self._note(WriterResult("dropped", "the process that writes recordings is not running"))
        elif not self._send(self._process, _ENCODER.encode(_finished(record, capture))):
            self._note(WriterResult("dropped", "too many recordings wait to be written"))

    async def _run(self) -> None:
        """Count what is written; start the process again whenever it ends."""
        while True:
            await self._read_results()
            LOG.warning("the process that writes recordings ended")
            await asyncio.sleep(_RESTART_SECONDS)
            await self._start()

    async def _start(self) -> None:
        command = (sys.executable, "-m", "gateway.recording.writer_process")
        try:
            # A session of its own, so that Ctrl-C in a terminal does not reach it.
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        except OSError as error:
            LOG.warning("recordings cannot be written", error=str(error))
        else:
            self._send(self._process, self._settings)

    def _send(self, process: Process, frame: bytes) -> bool:
        """Send a frame; return False if too much is waiting."""
        stdin = process.stdin
        if stdin is None:
            raise AssertionError("the process was started with a pipe")
        if stdin.transport.get_write_buffer_size() + len(frame) > MAX_WAITING_BYTES:
            return False
        stdin.writelines((len(frame).to_bytes(LENGTH_BYTES), frame))
        return True

    async def _read_results(self) -> None:
        process = self._process
        if process is not None and process.stdout is not None:
            async for line in process.stdout:
                self._note(_RESULT.decode(line))
            self._process = None
            await process.wait()

    async def _finish(self) -> None:
        """Wait until all is written, but not for long."""
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            async with asyncio.timeout(_SHUTDOWN_SECONDS):
                await self._read_results()
        except TimeoutError:
            LOG.warning("recordings not written before the shutdown")
            process.kill()
            await process.wait()

    def _note(self, result: WriterResult) -> None:
        if self._count is not None:
            self._count(result.outcome)
        if result.outcome == "written":
            return
        self._unlogged += 1
        now = asyncio.get_running_loop().time()
        if now >= self._next_log:
            self._next_log = now + _LOG_SECONDS
            LOG.warning("exchanges not recorded", reason=result.reason, count=self._unlogged)
            self._unlogged = 0


def _finished(record: ExchangeRecord, capture: Capture) -> FinishedExchange:
    return FinishedExchange(
        record.path,
        record.client_dialect,
        record.model,
        record.status,
        record.outcome,
        record.error_code,
        record.time_to_first_byte,
        record.elapsed(),
        record.losses,
        capture,
    )


def config_secrets(config: Config, backends: Sequence[BackendConfig]) -> Iterator[str]:
    """Yield the secrets of a configuration."""
    variables = (
        config.sealing.key_env,
        *config.sealing.previous_key_envs,
    )
    yield from (os.environ.get(name, "").strip() for name in variables if name is not None)
    keys = (read_secret(backend.api_key_env, backend.api_key_file) for backend in backends)
    yield from (key for key in keys if key is not None)
    if (password := database_password(config.state)) is not None:
        yield password()
    urls = (
        database_url(config.state),
        config.tracing.endpoint,
        *(backend.proxy for backend in backends),
    )
    for url in urls:
        yield from url_secrets(url or "")
    for backend in backends:
        yield from header_secrets(backend.headers.items())
        # Fixed fields of requests and options of transforms may have credentials.
        yield from field_secrets(msgspec.json.decode(msgspec.json.encode(backend)))
