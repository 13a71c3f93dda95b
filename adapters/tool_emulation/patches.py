"""The patch in the input of the custom tool `apply_patch`.

Models trained on other tools wrap the patch: in a shell command, in a code block, or in JSON. The
client then rejects it, and the model tries again (https://github.com/farion1231/cc-switch/issues/3669).
The input of other tools may be wrapped on purpose, so it is never changed.
"""

import json
from collections.abc import Iterator
from typing import Literal

from adapters.wire.json_object import Json

PATCH_TOOL = "apply_patch"
PATCH_FOUND = "the text around the patch is removed"

_BEGIN, _END = "*** Begin Patch", "*** End Patch"


class PatchParser:
    """An incremental parser that returns the patch in an input.

    An input that begins with the patch is returned as it arrives, without the text after its end.
    Any other input is held until it is complete.
    """

    def __init__(self) -> None:
        self._state: Literal["start", "patch", "ended", "held"] = "start"
        # Text that was not returned yet.
        self._held: list[str] = []
        # The beginning of the current line of the patch, which may be its last one.
        self._line = ""

    def feed(self, piece: str) -> str:
        """Parse a piece of the input, and return the part of the patch in it."""
        if self._state == "patch":
            return self._read_patch(piece)
        self._held.append(piece)
        if self._state != "start":
            return ""
        text = "".join(self._held)
        beginning = text.lstrip()
        if beginning.startswith(_BEGIN):
            self._state = "patch"
            self._held.clear()
            return self._read_patch(text)
        if not _BEGIN.startswith(beginning):
            self._state = "held"
        return ""

    def _read_patch(self, piece: str) -> str:
        text = "\n" + self._line + piece
        end = text.find("\n" + _END)
        if end < 0:
            # A longer line cannot be the last one.
            line = text.rpartition("\n")[2]
            self._line = line if _END.startswith(line) else "+"
            return piece
        self._state = "ended"
        rest = text[end + 1 + len(_END) :]
        self._held.append(rest)
        return piece[: len(piece) - len(rest)]

    def finish(self, *, is_complete: bool) -> tuple[str, bool]:
        """Return the rest of the patch, and whether the text around it was removed."""
        text = "".join(self._held)
        if not is_complete or not text.strip():
            return text, False
        if self._state == "ended":
            return "", True
        patch = find_patch(text)
        return (text, False) if patch is None else (patch, True)


def find_patch(text: str) -> str | None:
    """Return the patch in a text or in the strings of JSON; None if there is none."""
    for candidate in (*_strings(text), text):
        start, end = candidate.find(_BEGIN), candidate.rfind(_END)
        if 0 <= start < end:
            return candidate[start : end + len(_END)] + "\n"
    return None


def _strings(text: str) -> Iterator[str]:
    """Yield the strings in a text, if it is JSON."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return
    try:
        # Not strict, because models leave line breaks in strings unescaped.
        value: Json = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return
    values = [value]
    while values:
        match values.pop():
            case str() as found:
                yield found
            case list() as found:
                values += reversed(found)
            case dict() as found:
                values += reversed(list(found.values()))
            case _:
                pass
