"""The folders of the snapshots.

    snapshots/requests/chat-to-responses/forced-tool.json
    snapshots/streams/chat-to-responses/parallel-calls.sse
    snapshots/ir/chat/streams/parallel-calls.json

A test names its file below the folder of its module:
`snapshot(name="chat-to-responses/forced-tool")`.
"""

from pathlib import Path

from syrupy.location import PyTestLocation

from gateway.pytest_plugin.snapshots import JsonSnapshots, SseSnapshots, TextSnapshots

SNAPSHOTS = Path(__file__).parent.parent / "snapshots"


class _ModuleFolder(TextSnapshots):
    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(SNAPSHOTS / test_location.basename.removeprefix("test_"))


class ModuleJsonSnapshots(_ModuleFolder, JsonSnapshots):
    """JSON in the folder of the test module."""


class ModuleSseSnapshots(_ModuleFolder, SseSnapshots):
    """Streams in the folder of the test module."""


class LossSnapshots(TextSnapshots):
    """Losses, one per line, in one folder for all modules."""

    file_extension = "txt"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        del test_location
        return str(SNAPSHOTS / "losses")
