"""The calls of custom tools, for those who know only functions.

A function takes JSON: the raw input of a custom call becomes its one field.
"""

from adapters.conversation import Call
from adapters.loss import Losses
from adapters.template import encode

CUSTOM_CALL = "there are no custom calls here; its input is wrapped in JSON"


def wrapped(call: Call, path: str, losses: Losses) -> str:
    """Give the arguments of a call as a function has them."""
    if call.kind == "function":
        return call.arguments
    losses.changed(path, CUSTOM_CALL)
    arguments = encode({"input": call.arguments}).decode()
    # Input that breaks off must not look whole (P144).
    return arguments if call.status != "incomplete" else arguments.removesuffix('"}')
