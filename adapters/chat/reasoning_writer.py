"""Tells a Chat client what the model thought, in the field that the client wants it in."""

from collections.abc import Iterator

from adapters.chat.frames import Frames
from adapters.chat.parts import TEXT_SEPARATOR
from adapters.ir.events import Delta
from adapters.ir.types import Item, Reasoning
from adapters.losses import Losses
from adapters.template import PLACEHOLDER

NO_PLACE = "Chat Completions has no place for reasoning"


def reasoning_text(items: tuple[Item, ...]) -> str:
    """Give all that was thought, summarised or not."""
    return TEXT_SEPARATOR.join(text for text in _texts(items) if text)


def _texts(items: tuple[Item, ...]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Reasoning):
            yield from item.summary + item.content


class ReasoningWriter:
    """The thoughts of one choice on their way out."""

    def __init__(self, frames: Frames, choice: int, field: str | None, losses: Losses) -> None:
        self._template = frames.template(choice, {field: PLACEHOLDER}) if field else None
        self._losses = losses
        # The block and the part that was told last, if any was.
        self._place: tuple[int, int] | None = None

    def fill(self, event: Delta) -> list[bytes]:
        """Write a piece; an empty line stands between parts, as it does between texts."""
        if not event.text:
            return []
        if self._template is None:
            self._losses.dropped("reasoning", NO_PLACE)
            return []
        place = (event.index, event.part)
        begins = self._place not in (None, place)
        self._place = place
        return [self._template.fill(TEXT_SEPARATOR + event.text if begins else event.text)]
