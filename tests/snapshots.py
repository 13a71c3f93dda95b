"""Pages: what came out of a case, one readable file each, compared to the letter.

    snapshots/requests/chat-to-responses/forced-tool.json
    snapshots/streams/chat-to-responses/parallel-calls.sse
    snapshots/hub/chat/streams/parallel-calls.json

A test names its page below the folder of its module: `pages(name="chat-to-responses/forced-tool")`.
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


class Pages(SingleFileSnapshotExtension):
    """Keeps text as it is, in a file that the test names."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Give the folder of a test module.

        Syrupy looks for orphans here, and only in the folder of a module's first test: so it must
        not be the folder of one pair.
        """
        return str(SNAPSHOTS / test_location.basename.removeprefix("test_"))

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """Give the path of a page below the folder of its module."""
        if not isinstance(index, str):
            raise TypeError(f"{test_location.nodeid}: a page has a name: pages(name=…)")
        return index

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        """Name a page by its whole path, so that `-k` tells pages apart as it does tests."""
        return _name(cls.get_location(test_location=test_location, index=index))

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        """Name the page that a file holds."""
        collection = SnapshotCollection(location=snapshot_location)
        collection.add(Snapshot(name=_name(snapshot_location)))
        return collection

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> str | None:
        """Read a page with its line ends as they are."""
        del snapshot_name, session_id
        path = Path(snapshot_location)
        return path.read_bytes().decode() if path.exists() else None

    @classmethod
    def write_snapshot_collection(
        cls,
        *,
        snapshot_collection: SnapshotCollection,
        name_order: dict[str, int] | None = None,
    ) -> None:
        """Write a page with its line ends as they are."""
        del name_order
        page = next(iter(snapshot_collection))
        Path(snapshot_collection.location).write_bytes(str(page.data).encode())


def _name(location: str) -> str:
    return Path(location).relative_to(SNAPSHOTS).with_suffix("").as_posix()


class JsonPages(Pages):
    """Indented JSON."""

    file_extension = "json"


class StreamPages(Pages):
    """The bytes of a stream."""

    file_extension = "sse"


class LossPages(Pages):
    """Losses, a line each: they have a folder of their own, whoever finds them."""

    file_extension = "txt"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Give the folder of losses."""
        del test_location
        return str(SNAPSHOTS / "losses")


def json_page(value: object) -> str:
    """Write JSON for people, its keys in the order in which they were said."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def stream_page(stream: bytes, losses: Iterable[Loss]) -> str:
    """Write a stream as its client gets it; what was lost stands before it as comments."""
    head = "".join(f": lost {line}\n" for line in loss_lines(losses))
    return head + ("\n" if head else "") + stream.decode()


def loss_lines(losses: Iterable[Loss]) -> list[str]:
    """Say what was lost, in the order in which it was."""
    return [f"{loss} ({loss.severity})" for loss in losses]
