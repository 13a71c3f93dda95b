"""What a call in a text says, and the JSON shapes in which models say it."""

from collections.abc import Iterator

from msgspec import Raw, Struct
from msgspec.json import Decoder

from adapters.json_text import DECODE_ERRORS
from adapters.text_tools.cursor import NotAToolCallError

Object = dict[str, Raw]

_OBJECT = Decoder(Object)
_OBJECTS: Decoder[Object | list[Object]] = Decoder(Object | list[Object])
_LIST = Decoder(list[Object])
_TEXT = Decoder(str)

# All that an object may hold which stands alone and is to be taken for a call. One that describes
# itself is the declaration of a tool, and one with an answer in it is an answer.
_CALL_KEYS = frozenset(("name", "arguments", "parameters", "function", "id", "type", "index"))
_LIST_KEYS = frozenset(("tool_calls", "role", "content"))
_NOTHING = (b"null", b'""')


class TextToolCall(Struct, frozen=True):
    """A call in a text: its name, and its arguments as the model spelled them."""

    name: str
    arguments: str


def read_calls(text: str, *, alone: bool = False) -> tuple[TextToolCall, ...]:
    """Read the calls that some JSON means; JSON that stands alone must be nothing but calls.

    Raises `NoCall` if it means none.
    """
    try:
        value = _OBJECTS.decode(text)
        objects = value if isinstance(value, list) else [value]
        calls = tuple(call for one in objects for call in _read_object(one, alone=alone))
    except (*DECODE_ERRORS, UnicodeEncodeError):
        raise NotAToolCallError from None
    if not calls:
        raise NotAToolCallError
    return calls


def _read_object(spelled: Object, *, alone: bool) -> Iterator[TextToolCall]:
    listed = spelled.get("tool_calls")
    if listed is None:
        yield _read_call(spelled, alone=alone)
        return
    if spelled.keys() - _LIST_KEYS or bytes(spelled.get("content", b"null")) not in _NOTHING:
        raise NotAToolCallError
    for one in _LIST.decode(listed):
        yield _read_call(one, alone=alone)


def _read_call(spelled: Object, *, alone: bool) -> TextToolCall:
    """Read one call; `function` may be wrapped around it, as Chat does."""
    if alone and spelled.keys() - _CALL_KEYS:
        raise NotAToolCallError
    inner = spelled.get("function")
    if inner is not None:
        return _read_call(_OBJECT.decode(inner), alone=alone)
    arguments = spelled.get("arguments", spelled.get("parameters"))
    name = _TEXT.decode(spelled.get("name", b'""'))
    if not name or (alone and arguments is None):
        raise NotAToolCallError
    return TextToolCall(name, _spelled(arguments))


def _spelled(arguments: Raw | None) -> str:
    """Give arguments as they were spelled; Chat has them in a string."""
    text = "" if arguments is None else bytes(arguments).decode()
    match text[:1]:
        case '"':
            return _TEXT.decode(text)
        case "{":
            return text
        case _ if text in ("", "null"):
            return ""
        case _:
            raise NotAToolCallError
