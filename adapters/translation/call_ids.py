"""The forms of call ids that backends require."""

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from adapters.capabilities import CallIdFormat
from adapters.ids import mistral_call_id, short_call_id, stable_hash


class CallIdRule(Struct, frozen=True):
    """A form of call ids, and the reason to report if an id is replaced."""

    # Returns a valid id unchanged.
    valid: Callable[[str], str]
    reason: str
    # The form of an id that consists of the name of the tool and the number of the call; None for
    # other ids.
    numbered: str | None = None

    def expected(self, call_id: str, name: str, number: int) -> str:
        """Return the id for the call with this number in the conversation."""
        if self.numbered is None:
            return self.valid(call_id)
        return self.numbered.format(name=name, number=number)


_NUMBERED: dict[CallIdFormat, str] = {
    "functions_name_number": "functions.{name}:{number}",
    "name_number": "{name}_{number}",
}
_NUMBERED_REASON = "call ids must have the number of the call; replaced"


@lru_cache(maxsize=64)
def call_id_rule(form: CallIdFormat, minimum: int = 0) -> CallIdRule:
    """Return the rule for a form and a minimum length of ids."""
    if form == "alphanumeric_9":
        reason = "call ids must have 9 letters or digits; hashed"
        return CallIdRule(mistral_call_id, reason)
    if form in _NUMBERED:
        return CallIdRule(short_call_id, _NUMBERED_REASON, _NUMBERED[form])
    if not minimum:
        return CallIdRule(short_call_id, "call ids are limited to 64 characters; hashed")

    def valid(call_id: str) -> str:
        long_enough = len(call_id) >= minimum
        return short_call_id(call_id) if long_enough else "call_" + stable_hash(call_id)

    return CallIdRule(valid, f"call ids must have {minimum} to 64 characters; hashed")


ANY_CALL_ID = call_id_rule("any")
