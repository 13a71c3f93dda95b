"""The types of requests in the openai package.

A test requires that each of their fields is read, or listed with the reason why not. So a field
that a new release of the package adds fails a test.
"""

from collections.abc import Iterator
from typing import get_args

from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams
from typing_extensions import get_type_hints, is_typeddict

# Each is a union of a streaming and a plain class.
ROOTS: dict[str, object] = {"chat": CompletionCreateParams, "responses": ResponseCreateParams}


def request_types() -> set[type]:
    """Return the types of all objects in a Chat or a Responses request."""
    found: set[type] = set()
    pending = [params for union in ROOTS.values() for params in get_args(union)]
    while pending:
        params = pending.pop()
        if params not in found:
            found.add(params)
            hints = get_type_hints(params).values()
            pending += [inner for hint in hints for inner in _typed_dicts(hint)]
    return found


def _typed_dicts(hint: object) -> Iterator[type]:
    """Yield the TypedDicts inside unions, lists, Required[...] and the like."""
    if isinstance(hint, type) and is_typeddict(hint):
        yield hint
    for argument in get_args(hint):
        yield from _typed_dicts(argument)
