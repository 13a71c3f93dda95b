"""What every format of calls in text is."""

from collections.abc import Callable

from msgspec import Struct

from adapters.text_tools.cursor import Cursor, NotAToolCallError, Parse
from adapters.text_tools.declared import DeclaredTools
from adapters.text_tools.json_calls import TextToolCall

Calls = tuple[TextToolCall, ...]


class TextCallFormat(Struct, frozen=True):
    """One way of writing calls into a text."""

    # What a block of calls begins with.
    markers: tuple[str, ...]
    # Reads a block from its marker on; raises `NoCall` if it is none.
    parse: Callable[[Cursor, DeclaredTools], Parse[Calls]]
    # Stands for the whole answer: nothing is said before it.
    whole: bool = False

    def may_begin(self, text: str, at: int) -> bool:
        """Tell whether a text, as far as it has come, has a marker at a place."""
        return any(marker.startswith(text[at : at + len(marker)]) for marker in self.markers)


def known(calls: Calls, tools: DeclaredTools) -> Calls:
    """Take only calls of declared tools, where the markup may be meant as something else."""
    if not all(tools.knows(call.name) for call in calls):
        raise NotAToolCallError
    return calls
