"""An extension of syrupy for readable snapshots: one file each, compared character by character."""

from pathlib import Path

from syrupy.data import Snapshot, SnapshotCollection
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex


class TextSnapshots(SingleFileSnapshotExtension):
    """Snapshots of unchanged text; `snapshot(name=…)` is the path of a file below `dirname`.

    Syrupy looks for unused files in the directory of the first test of a module only, so `dirname`
    must be the same for all tests of a module.
    """

    _write_mode = WriteMode.TEXT

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """Return the path of a file without its extension."""
        if not isinstance(index, str):
            raise TypeError(f"{test_location.nodeid}: a snapshot needs a name: snapshot(name=…)")
        return index

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        """Return the name with its directory, so that `-k` selects snapshots as it does tests."""
        return _name(cls.get_location(test_location=test_location, index=index))

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        """Return the only snapshot in a file."""
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
    path = Path(location).with_suffix("")
    return f"{path.parent.name}/{path.name}"


class JsonSnapshots(TextSnapshots):
    """Snapshots of JSON."""

    file_extension = "json"


class SseSnapshots(TextSnapshots):
    """Snapshots of streams."""

    file_extension = "sse"
