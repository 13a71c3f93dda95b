"""The process that writes recordings: `python -m gateway.recording.writer_process`.

It is separate so that redaction takes no time from the exchanges of the gateway. It reads frames
from standard input, the settings first, and writes the result of each recording to standard output.
It ends at the end of its input, also when the gateway was killed.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import BinaryIO, Final, Literal

import msgspec
from msgspec import Struct

from gateway.config.schema import BackendConfig, RecordingConfig
from gateway.recording.exchange_writer import FinishedExchange, RecordingMaker
from gateway.recording.format import recording_name, write_recording

# The bytes that hold the length of a frame.
LENGTH_BYTES: Final = 4
_NICENESS: Final = 5
# The directory is measured again after this time, because other processes write into it; if that
# takes long, after a multiple of its duration.
_MEASURE_SECONDS: Final = 5.0
_MEASURE_FACTOR: Final = 20


class WriterSettings(Struct, tag=True):
    """The first frame, and any later frame after which other settings apply."""

    recording: RecordingConfig
    backends: list[BackendConfig]
    # The secrets of the configuration.
    secrets: list[str]


class WriterResult(Struct):
    """What became of a recording, as a line of JSON."""

    outcome: Literal["written", "failed", "dropped"]
    # Why it was not written.
    reason: str = ""


class _Directory:
    """The directory of the recordings, and how much is in it."""

    def __init__(self, config: RecordingConfig) -> None:
        self.path = Path(config.directory or ".")
        self._config = config
        self._next_measure = float("-inf")
        self._recordings = 0
        self._bytes = 0

    def limit_reached(self) -> str:
        """Return the limit that is reached, or an empty string."""
        if monotonic() >= self._next_measure:
            self._measure()
        if self._recordings >= self._config.max_recordings:
            return f"the directory has {self._recordings} recordings, see recording.max_recordings"
        if self._bytes >= self._config.max_total_bytes:
            return f"the directory has {self._bytes} bytes, see recording.max_total_bytes"
        return ""

    def note_written(self, size: int) -> None:
        """Count a recording."""
        self._recordings += 1
        self._bytes += size

    def _measure(self) -> None:
        started = monotonic()
        self._recordings = self._bytes = 0
        for parent, folders, files in os.walk(self.path):
            if parent == str(self.path):
                self._recordings = len(folders)
            for file in files:
                with suppress(OSError):
                    self._bytes += (Path(parent) / file).stat().st_size
        now = monotonic()
        self._next_measure = now + max(_MEASURE_SECONDS, _MEASURE_FACTOR * (now - started))


class Writer:
    """Writes recordings into a directory."""

    def __init__(self, settings: WriterSettings) -> None:
        self._directory = _Directory(settings.recording)
        self._maker = RecordingMaker(settings.secrets, settings.backends)

    def update(self, settings: WriterSettings) -> None:
        """Use other secrets and backends; the directory stays the same."""
        self._maker = RecordingMaker(settings.secrets, settings.backends)

    def write(self, exchange: FinishedExchange) -> WriterResult:
        """Write one exchange, unless a limit is reached."""
        try:
            if reason := self._directory.limit_reached():
                return WriterResult("dropped", reason)
            recording = self._maker.make(exchange)
            folder = self._directory.path / recording_name(recording.exchange)
            size = write_recording(folder, recording)
        except OSError as error:
            return WriterResult("failed", f"{self._directory.path}: {error.strerror or error}")
        except Exception as error:  # noqa: BLE001 - a fault must not end the process
            # The message could contain a part of the exchange.
            return WriterResult("failed", f"{type(error).__name__} while the recording was made")
        self._directory.note_written(size)
        return WriterResult("written")


def read_frames(source: BinaryIO) -> Iterator[bytes]:
    """Yield the frames of a stream; ignore an incomplete one at its end."""
    while len(head := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        length = int.from_bytes(head)
        frame = source.read(length)
        if len(frame) == length:
            yield frame


def main() -> None:
    """Write recordings until the end of the input."""
    # A signal to stop is sent to the gateway, which then closes the input.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    frames = read_frames(sys.stdin.buffer)
    writer = Writer(msgspec.msgpack.decode(next(frames), type=WriterSettings))
    decoder = msgspec.msgpack.Decoder(FinishedExchange | WriterSettings)
    for frame in frames:
        decoded = decoder.decode(frame)
        if isinstance(decoded, WriterSettings):
            writer.update(decoded)
            continue
        result = writer.write(decoded)
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
