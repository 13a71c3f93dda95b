"""Translates examples: lines of data sets for training and evaluation.

They are requests that name no model, and what the model should answer stands at their end. If that
is a call, it has no output because none is wanted. In a request that goes to a backend it would
get a short one instead.
"""

from msgspec.structs import replace

from adapters import Capabilities, Dialect, Policy, Request, Translation
from adapters.conversation import Call, Item, Message, Reasoning
from adapters.loss import Losses
from adapters.pairing import paired


def translate_example(
    source: Dialect, target: Dialect, body: bytes, capabilities: Capabilities, policy: Policy
) -> Translation:
    """Translate a request as it is sent, but for the calls at its end, which stay open."""
    losses = Losses(policy, source.names)
    example = _paired_but_for_answer(source.read_request(body, losses), losses)
    written = target.write_request(example, capabilities, losses)
    return Translation(written, tuple(losses))


def _paired_but_for_answer(request: Request, losses: Losses) -> Request:
    end = _end_of_history(request.items)
    history = replace(request, items=request.items[:end], paths=request.paths[:end])
    history = paired(history, losses)
    return replace(
        history,
        items=history.items + request.items[end:],
        paths=history.paths + request.paths[end:],
    )


def _end_of_history(items: tuple[Item, ...]) -> int:
    """Find where the assistant's last turn begins, if the conversation ends with one."""
    end = len(items)
    while end and _is_of_assistant(items[end - 1]):
        end -= 1
    return end


def _is_of_assistant(item: Item) -> bool:
    match item:
        case Message(role="assistant") | Call() | Reasoning():
            return True
        case _:
            return False
