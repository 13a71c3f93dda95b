"""Say whether a recorded legacy stream is legal: a chat stream that calls by `function_call`."""

from collections.abc import Iterator

from adapters.chat.conformance import ChatRules, Form
from adapters.conformance import (
    FILLED,
    STRING,
    Object,
    Violation,
    object_at,
    object_of,
    optional,
    split,
    validate,
)


class FunctionCall:
    """The one `function_call` that a choice may make: named on its first delta only."""

    def __init__(self) -> None:
        self.called = False

    def feed(self, delta: Object) -> Iterator[str]:
        """Judge `function_call`, if the delta has one."""
        call = object_at(delta, "function_call")
        if call is None:
            return
        if self.called and "name" in call:
            yield "function_call repeats its name: clients join repeats"
        if not self.called and "name" not in call:
            yield "the first delta of function_call has no name"
        self.called = True


FORM = Form(
    calls=FunctionCall,
    delta={
        "function_call": optional(
            object_of({"name": optional(FILLED), "arguments": optional(STRING)}),
        ),
    },
    foreign="tool_calls",
    finish="function_call",
)


def check_stream(data: bytes) -> list[Violation]:
    """Say what is illegal in a recorded legacy stream; nothing, if it is legal."""
    return validate(split(data), ChatRules(FORM))
