"""One turn of an assistant, as Chat groups it: one message, with all that is in it."""

from adapters.chat.parts import TEXT_SEPARATOR
from adapters.ir.types import Message, Reasoning, Refusal, Text, ToolCall


class AssistantTurn:
    """What an assistant thought, said and called before anybody else spoke."""

    __slots__ = ("calls", "messages", "thoughts")

    def __init__(self) -> None:
        self.thoughts: list[tuple[Reasoning, str]] = []
        self.messages: list[tuple[Message, str]] = []
        self.calls: list[tuple[ToolCall, str]] = []

    def __bool__(self) -> bool:
        return bool(self.thoughts or self.messages or self.calls)

    def take(self, item: Message | ToolCall | Reasoning, path: str) -> None:
        """Take one more item of the turn."""
        match item:
            case Message():
                self.messages.append((item, path))
            case ToolCall():
                self.calls.append((item, path))
            case Reasoning():
                self.thoughts.append((item, path))

    def text(self) -> str:
        """Give all that was said."""
        texts = (
            "".join(part.text for part in message.content if isinstance(part, Text))
            for message, _ in self.messages
        )
        return TEXT_SEPARATOR.join(text for text in texts if text)

    def refusal(self) -> str:
        """Give all that was declined."""
        return "".join(
            part.text
            for message, _ in self.messages
            for part in message.content
            if isinstance(part, Refusal)
        )
