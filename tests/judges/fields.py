"""The fields of requests, read from the types of the openai package.

A test demands that each field listed here is mapped, or named with the reason why not, so that a
field which a new release of the package adds fails a test instead of vanishing.
"""

from collections.abc import Collection, Iterator
from typing import get_args

from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams
from typing_extensions import get_type_hints, is_typeddict

# The two entry points are each a union of a streaming and a plain class: one name for both.
ROOTS: dict[str, object] = {
    "CompletionCreateParams": CompletionCreateParams,
    "ResponseCreateParams": ResponseCreateParams,
}


def request_fields(opaque: Collection[str] = ()) -> dict[str, set[str]]:
    """List the field names of every object in a Chat or a Responses request, by class name.

    A public class stands under its bare name; a helper declared beside it is prefixed by the
    module, as `completion_create_params.PromptCacheOptions`, for several share a name. Classes in
    `opaque` are carried as they are: neither they nor what only they hold is listed. A name that
    no longer exists fails, so that the list cannot go stale.
    """
    found: dict[str, set[str]] = {}
    met: dict[str, type] = {}
    pending = [(root, member) for root, union in ROOTS.items() for member in get_args(union)]
    while pending:
        name, params = pending.pop()
        hints = get_type_hints(params)
        found.setdefault(name, set()).update(hints)
        for inner in (inner for hint in hints.values() for inner in _typed_dicts(hint)):
            inner_name = _name(inner)
            if inner_name not in met and inner_name not in opaque:
                pending.append((inner_name, inner))
            same = met.setdefault(inner_name, inner) is inner
            assert same, f"two classes are called {inner_name}: their fields would be mixed up"
    stale = set(opaque) - met.keys()
    assert not stale, f"no such class in a request: {sorted(stale)}"
    return found


def _typed_dicts(hint: object) -> Iterator[type]:
    """Yield the TypedDicts inside unions, lists, Required[...] and the like."""
    if isinstance(hint, type) and is_typeddict(hint):
        yield hint
    for argument in get_args(hint):
        yield from _typed_dicts(argument)


def _name(params: type) -> str:
    # The package gives each public class a module of its own name; helpers live beside it and
    # are called `Function` or `Text` in several modules.
    module = params.__module__.rpartition(".")[2]
    if module.replace("_", "") == params.__name__.lower():
        return params.__name__
    return f"{module}.{params.__name__}"
