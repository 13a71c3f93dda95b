"""The base class of stages that extract blocks, such as tool calls, from the text of messages.

Text that may be the start of such a block is buffered. Buffered text is emitted before any block
that is opened later.
"""

from abc import ABC, abstractmethod

from adapters.ir.events import Closed, Delta, Event, Failed, Opened
from adapters.ir.types import Message
from adapters.stages.stage import Stage


class SplitMessage(ABC):
    """The handler of one message."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.choice = opened.choice

    @abstractmethod
    def fill(self, delta: Delta) -> list[Event]:
        """Read a delta; return the events that do not depend on later text."""

    @abstractmethod
    def close(self, closed: Closed) -> list[Event]:
        """Return the buffered events and the end of the message."""

    @abstractmethod
    def flush_before_next_block(self) -> list[Event]:
        """Return the events that must precede a block that is about to be opened."""

    @abstractmethod
    def flush(self) -> list[Event]:
        """Return the buffered events after the stream has failed."""


class MessageSplitter(Stage, ABC):
    """A stage that may make several blocks of one message."""

    @abstractmethod
    def _split(self, opened: Opened) -> SplitMessage:
        """Return the handler of a message."""

    def _open(self, event: Opened) -> list[Event]:
        events = [
            flushed
            for message in self._messages()
            if message.choice == event.choice
            for flushed in message.flush_before_next_block()
        ]
        if not isinstance(event.item, Message):
            return [*events, event]
        self._handlers[event.index] = self._split(event)
        return events

    def _fail(self, event: Failed) -> list[Event]:
        return [*(flushed for message in self._messages() for flushed in message.flush()), event]

    def _messages(self) -> list[SplitMessage]:
        return [one for one in self._handlers.values() if isinstance(one, SplitMessage)]
