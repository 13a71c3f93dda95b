"""What can be missing from the memory.

What belongs to somebody else, what was never there and what is no longer there are told alike.
"""

from gateway.errors import OpenAIMessageError

# So much of a name is repeated to whoever asked for it.
_SHOWN = 100


class ObjectNotFoundError(OpenAIMessageError):
    """Something is not there; its name stands in the sentence."""

    status = 404

    def __init__(self, path: str, kind: str, name: str) -> None:
        shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
        super().__init__(path, f"{kind} with id '{shown}' not found.")


class ResponseNotFoundError(ObjectNotFoundError):
    """A response that was asked for is not there."""

    code = "response_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("id", "Response", name)


class CompletionNotFoundError(ObjectNotFoundError):
    """A stored completion that was asked for is not there."""

    code = "completion_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("completion_id", "Chat completion", name)


class PreviousResponseNotFoundError(ObjectNotFoundError):
    """The response that a request continues is not there."""

    status = 400
    code = "previous_response_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("previous_response_id", "Previous response", name)


class PreviousResponseUnfinishedError(OpenAIMessageError):
    """The response that a request continues is still being made."""

    status = 400
    code = "previous_response_not_completed"

    def __init__(self, name: str, status: str) -> None:
        shown = f"Previous response with id '{name[:_SHOWN]}' is still {status}"
        super().__init__("previous_response_id", f"{shown}; it can be continued when it has ended.")


class ConversationNotFoundError(ObjectNotFoundError):
    """The conversation that a request goes on with is not there."""

    code = "conversation_not_found"

    def __init__(self, name: str, path: str = "conversation") -> None:
        super().__init__(path, "Conversation", name)


class ItemNotFoundError(ObjectNotFoundError):
    """An item that a request refers to is not there."""

    code = "item_not_found"

    def __init__(self, path: str, name: str) -> None:
        super().__init__(path, "Item", name)
