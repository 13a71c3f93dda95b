"""Rules of a legacy stream: those of Chat, with `function_call`."""

from collections.abc import Iterator

from adapters.chat.conformance import CallRules, ChatRules
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
    """The one `function_call` of a choice: only its first delta has a name."""

    def __init__(self) -> None:
        self.called = False

    def feed(self, delta: Object) -> Iterator[str]:
        """Check `function_call`, if the delta has one."""
        call = object_at(delta, "function_call")
        if call is None:
            return
        if self.called and "name" in call:
            yield "function_call repeats its name; clients concatenate repeated values"
        if not self.called and "name" not in call:
            yield "the first delta of function_call has no name"
        self.called = True


FUNCTION_CALL_RULES = CallRules(
    calls=FunctionCall,
    delta={
        "function_call": optional(
            object_of({"name": optional(FILLED), "arguments": optional(STRING)}),
        ),
    },
    foreign_field="tool_calls",
    finish_reason="function_call",
)


def check_stream(data: bytes) -> list[Violation]:
    """Return the violations in a recorded legacy stream."""
    return validate(split(data), ChatRules(FUNCTION_CALL_RULES))
