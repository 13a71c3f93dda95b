"""Recordings of a test: replayed in place of the backend, or made anew with the real one."""

import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Literal, cast

import pytest

from gateway.recording.format import find_recordings, read_recording

# The words of vcrpy.
RecordMode = Literal["none", "once", "new_episodes", "all"]

_DEFAULT_FOLDER = "recordings"
_UNSAFE = re.compile(r"[^\w.]+")


def record_mode(config: pytest.Config) -> RecordMode:
    """Return the mode of this run: CI servers never record."""
    given = cast("RecordMode", config.getoption("dragoman_record"))
    return "none" if _in_ci() else given


def _in_ci() -> bool:
    return bool(os.environ.get("CI"))


def recordings_folder(item: pytest.Item) -> Path | None:
    """Return the folder of a test's recordings; None if it is not marked.

    `@pytest.mark.dragoman_recordings("folder")` names a folder beside the test file; without a
    name, it is that of the test in `recordings`.
    """
    marker = item.get_closest_marker("dragoman_recordings")
    if marker is None:
        return None
    name = _UNSAFE.sub("-", item.name).strip("-.")
    folder = marker.args[0] if marker.args else f"{_DEFAULT_FOLDER}/{item.path.stem}/{name}"
    return item.path.parent / str(folder)


def remove_unanswered(folder: Path, kept: Collection[Path]) -> None:
    """Delete the recordings without any reply, unless they are to be kept.

    A test whose backend cannot be reached could otherwise not be recorded later.
    """
    for path in [one for one in find_recordings(folder) if one not in kept]:
        calls = read_recording(path).exchange.calls
        if all(call.status is None for call in calls):
            shutil.rmtree(path)


def prepare_recordings(mode: RecordMode, folder: Path) -> bool:
    """Return whether a test has recordings, which are deleted if it must be recorded again."""
    if mode == "all":
        for recording in list(find_recordings(folder)):
            shutil.rmtree(recording)
    recorded = next(find_recordings(folder), None) is not None
    if mode == "none" and not recorded:
        where = " where the variable CI is not set" if _in_ci() else ""
        remedy = f"make them with --dragoman-record once{where}"
        pytest.fail(f"there are no recordings in {folder}; {remedy}", pytrace=False)
    return recorded
