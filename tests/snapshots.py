"""Snapshots with one readable file per case, compared byte by byte.

    snapshots/requests/chat-to-responses/forced-tool.json
    snapshots/streams/chat-to-responses/parallel-calls.sse
    snapshots/ir/chat/streams/parallel-calls.json

A test names its file below the folder of its module:
`snapshot(name="chat-to-responses/forced-tool")`.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from syrupy.data import Snapshot, SnapshotCollection
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex

from adapters import Loss

SNAPSHOTS = Path(__file__).parent.parent / "snapshots"


class TextSnapshots(SingleFileSnapshotExtension):
    """Snapshots of unchanged text, in files that the test names."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return the folder of a test module.

        Syrupy looks for unused files in the folder of a module's first test only, so this must not
        be the folder of one pair.
        """
        return str(SNAPSHOTS / test_location.basename.removeprefix("test_"))

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """Return the path of a file below the folder of its module."""
        if not isinstance(index, str):
            raise TypeError(f"{test_location.nodeid}: a snapshot has a name: snapshot(name=…)")
        return index

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        """Return the whole path, so that `-k` selects snapshots as it does tests."""
        return _name(cls.get_location(test_location=test_location, index=index))

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        collection = SnapshotCollection(location=snapshot_location)
        collection.add(Snapshot(name=_name(snapshot_location)))
        return collection

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> str | None:
        """Read a file with its line endings unchanged."""
        del snapshot_name, session_id
        path = Path(snapshot_location)
        return path.read_bytes().decode() if path.exists() else None

    @classmethod
    def write_snapshot_collection(
        cls, *, snapshot_collection: SnapshotCollection, name_order: dict[str, int] | None = None
    ) -> None:
        """Write a file with its line endings unchanged."""
        del name_order
        snapshot = next(iter(snapshot_collection))
        Path(snapshot_collection.location).write_bytes(str(snapshot.data).encode())


def _name(location: str) -> str:
    return Path(location).relative_to(SNAPSHOTS).with_suffix("").as_posix()


class JsonSnapshots(TextSnapshots):
    file_extension = "json"


class SseSnapshots(TextSnapshots):
    file_extension = "sse"


class LossSnapshots(TextSnapshots):
    """Losses, one per line, in one folder for all modules."""

    file_extension = "txt"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        del test_location
        return str(SNAPSHOTS / "losses")


def format_json(value: object) -> str:
    """Return indented JSON with its keys in the given order."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def format_stream(stream: bytes, losses: Iterable[Loss]) -> str:
    """Return a stream as its client gets it, with the losses as comments before it."""
    head = "".join(f": lost {line}\n" for line in format_losses(losses))
    return head + ("\n" if head else "") + stream.decode()


def format_losses(losses: Iterable[Loss]) -> list[str]:
    return [f"{loss} ({loss.severity})" for loss in losses]
