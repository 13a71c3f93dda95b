"""Every field that a request may have is read into the IR or as an extra field.

The openai package's own types say what a request may hold. Each of their objects is put into an
otherwise small request, with each of its fields in turn; the field counts as read if the hub's view
of the request changes with it. So a field that a new release of the package adds fails a test here
instead of vanishing on the way.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Literal, NotRequired, Required, Union, get_args, get_origin

import msgspec
from typing_extensions import get_type_hints, is_typeddict

import adapters
from adapters.chat.wire import CHAT_ONLY_FIELDS as ONLY_IN_CHAT
from adapters.conformance import Json, Object
from adapters.ir.normalize import without_paths
from adapters.ir.types import Request
from adapters.losses import Loss, Losses
from adapters.responses.wire import RESPONSES_ONLY_FIELDS as ONLY_IN_RESPONSES
from tests.judges.fields import ROOTS, request_types

# Puts a value where it belongs in a request.
Place = Callable[[Json], Json]

SHAPE_SAYS_IT = "the shape says it: the inner object has this very name"

# Fields whose absence or change makes no difference, each with the reason why it should make none.
MAKES_NO_DIFFERENCE = {
    "chat_completion_message_custom_tool_call_param.type": SHAPE_SAYS_IT,
    "chat_completion_message_function_tool_call_param.type": SHAPE_SAYS_IT,
    "response_reasoning_item_param.Content.type": "a list of contents holds nothing else",
    "response_reasoning_item_param.Summary.type": "a list of summaries holds nothing else",
}

# Parameters that go along as extras without a gravity of their own: to leave one out is a hint.
JUST_CARRIED = {
    "image": "how pictures are compressed; no other dialect has such a setting",
    "include": "asks for more of the answer; what others have too, the probabilities, is read",
}

# Parameters of clients that the package does not know.
OF_CLIENTS = {"client_metadata"}

# Objects in which an unknown field may be ignored.
CLOSED = {
    "response_input_param.ItemReference": "other dialects refuse the item as a whole",
    "response_output_text_param.AnnotationURLCitation": "four fields are all that a citation says",
    "response_output_text_param.Logprob": "no history repeats probabilities; that is reported",
    "response_output_text_param.LogprobTopLogprob": "the same",
    "response_reasoning_item_param.Content": "only its own server can use it, and gets it sealed",
    "response_reasoning_item_param.Summary": "the same",
}

# Where the types allow more than makes sense.
SAMPLES: dict[str, Json] = {
    "chat_completion_allowed_tools_param.tools": [{"type": "function", "function": {"name": "a"}}],
    "tool_choice_allowed_param.tools": [{"type": "function", "name": "a"}],
}


@cache
def fields_of(params: type) -> dict[str, object]:
    return dict(get_type_hints(params, include_extras=True))


def label(params: type) -> str:
    """Return the module of a class, with its name if the module has several."""
    module = params.__module__.rpartition(".")[2]
    alone = module.replace("_", "") == params.__name__.lower()
    return module if alone else f"{module}.{params.__name__}"


def _members(hint: object) -> list[object]:
    """Return the members of a union, or the type itself."""
    while get_origin(hint) in (Required, NotRequired, Annotated):
        hint = get_args(hint)[0]
    if get_origin(hint) not in (Union, UnionType):
        return [hint]
    return [one for arg in get_args(hint) for one in _members(arg) if one is not NoneType]


def _sample(hint: object) -> Json:
    """Make a value of a type: of a union the first, of an object what is required."""
    first = _members(hint)[0]
    if isinstance(first, type) and is_typeddict(first):
        return sample_object(first)
    origin, arguments = get_origin(first), get_args(first)
    if origin is None:
        plain: dict[object, Json] = {str: "some", int: 3, float: 0.5, bool: True, object: "any"}
        return plain[first]
    if origin is Literal:
        word: Json = arguments[0]
        return word
    return {"key": _sample(arguments[1])} if origin is dict else [_sample(arguments[0])]


def sample_object(params: type) -> Object:
    """Return a sample of the required fields, or of the first field."""
    hints = fields_of(params)
    required = [name for name, hint in hints.items() if get_origin(hint) is Required]
    return {name: sample_field(params, name) for name in required or list(hints)[:1]}


def sample_field(params: type, name: str) -> Json:
    prepared = SAMPLES.get(f"{label(params)}.{name}")
    return _sample(fields_of(params)[name]) if prepared is None else prepared


@dataclass(frozen=True, slots=True)
class Spot:
    """One class of objects, and how to put such an object into a request."""

    dialect: str
    params: type
    place: Place

    def read(self, value: Object) -> tuple[Request, tuple[Loss, ...]] | str:
        """Return the IR of the request with its losses, or the error."""
        losses = Losses(None)
        body = msgspec.json.encode(self.place(value))
        try:
            request = adapters.get_dialect(self.dialect).read_request(
                adapters.parse_body(body), losses
            )
        except adapters.DragomanError as error:
            return str(error)
        return without_paths(request), tuple(losses)


def _inner(hint: object, place: Place) -> Iterator[tuple[type, Place]]:
    """Yield the classes inside a type, each with a function that puts its object there."""
    for member in _members(hint):
        if isinstance(member, type) and is_typeddict(member):
            yield member, place
        elif get_origin(member) is dict:
            yield from _inner(get_args(member)[1], lambda value: place({"key": value}))
        elif get_origin(member) not in (None, Literal):
            yield from _inner(get_args(member)[0], lambda value: place([value]))


def _inside(spot: Spot) -> Iterator[Spot]:
    for name, hint in fields_of(spot.params).items():

        def place(value: Json, name: str = name) -> Json:
            return spot.place(sample_object(spot.params) | {name: value})

        for params, deeper in _inner(hint, place):
            yield Spot(spot.dialect, params, deeper)


def _walk() -> Iterator[Spot]:
    """Yield every class of object in a request, breadth first."""
    waiting = deque(
        Spot(dialect, params, lambda value: value)
        for dialect, union in ROOTS.items()
        for params in get_args(union)
    )
    met: set[type] = set()
    while waiting:
        spot = waiting.popleft()
        if spot.params not in met:
            met.add(spot.params)
            yield spot
            waiting.extend(_inside(spot))


SPOTS = list(_walk())


def test_walk_finds_every_type() -> None:
    assert {spot.params for spot in SPOTS} == request_types()


def assert_listed(found: set[str], listed: dict[str, str]) -> None:
    new, stale = sorted(found - listed.keys()), sorted(listed.keys() - found)
    assert not new, f"neither read nor listed with a reason: {new}"
    assert not stale, f"listed, but read by now or gone: {stale}"


def _makes_a_difference(spot: Spot, name: str) -> bool:
    small = sample_object(spot.params)
    value = sample_field(spot.params, name)
    said = spot.read(small | {name: value})
    assert not isinstance(said, str), f"{label(spot.params)}.{name}: {said}"
    without = {key: kept for key, kept in small.items() if key != name}
    # An optional value must at least differ from another one.
    other = without | ({name: "otherwise"} if isinstance(value, str) else {})
    return spot.read(without) != said or spot.read(other) != said


def test_every_field_makes_a_difference() -> None:
    ignored = {
        f"{label(spot.params)}.{name}"
        for spot in SPOTS
        for name in fields_of(spot.params)
        if not _makes_a_difference(spot, name)
    }
    assert_listed(ignored, MAKES_NO_DIFFERENCE)


def test_every_parameter_is_typed_or_has_a_gravity() -> None:
    carried: set[str] = set()
    gravities = {"chat": ONLY_IN_CHAT, "responses": ONLY_IN_RESPONSES}
    for spot in SPOTS[: 2 * len(ROOTS)]:
        known, small = gravities[spot.dialect], sample_object(spot.params)
        parameters = fields_of(spot.params).keys() | OF_CLIENTS
        assert known.keys() <= parameters, "no such parameter"
        for name in fields_of(spot.params):
            read = spot.read(small | {name: sample_field(spot.params, name)})
            assert not isinstance(read, str), f"{name}: {read}"
            extras = {extra.name for extra in read[0].extras}
            carried |= {name} & (extras - known.keys())
            assert not (known.keys() - extras) & {name}, f"{name} is typed: it needs no gravity"
    assert_listed(carried, JUST_CARRIED)


def test_unknown_field_of_any_object_is_kept_or_reported() -> None:
    samples = [(spot, sample_object(spot.params)) for spot in SPOTS]
    unseen = {
        label(spot.params)
        for spot, small in samples
        if spot.read(small) == spot.read(small | {"stranger": "from afar"})
    }
    assert_listed(unseen, CLOSED)
