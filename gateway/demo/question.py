"""What the user asks, and what has been done about it since."""

import re
from collections.abc import Iterator
from itertools import dropwhile, groupby

from msgspec import Struct

from adapters.ir.normalize import PendingCalls
from adapters.ir.types import Item, Message, Part, Text, ToolCall, ToolOutput
from gateway.demo.words import word_set

# Names do not go on over a comma, a quotation mark or the end of a sentence.
_PHRASE = re.compile(r"[^\w\s'\u2019-]+|\n")
_NUMBER = re.compile(r"(?<![\w.,])-?\d+(?:\.\d+)?(?!\w)")
# Words that are capitalised only because a sentence begins with them, and others that name nothing.
_OPENERS = word_set(
    "a add an and any are book calculate call can celsius check compare convert could create did do"
    " does fahrenheit fetch find for friday get give has have hello hey hi how i i'd i'm if in is"
    " it list look make may monday my of ok on our please play run saturday say search send set"
    " should show so sunday tell thanks that the then there these this thursday to translate"
    " tuesday use was we weather wednesday what what's when where which who why will"
    " with would write you your"
)
# Longer numbers are none that a parameter would take.
_DIGITS = 15


class Question(Struct, frozen=True):
    """The user's words, and what is named and counted in them."""

    text: str = ""
    subjects: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()


class Result(Struct, frozen=True):
    """What a tool answered; the call is unknown where the history no longer holds it."""

    call: ToolCall | None
    output: ToolOutput

    @property
    def name(self) -> str:
        """Give the name of the tool, as far as anybody said it."""
        named = self.output.name if self.call is None else self.call.name
        return named or "The tool"


class Turn(Struct, frozen=True):
    """A question, the calls that were made for it, and their results."""

    question: Question
    calls: tuple[ToolCall, ...] = ()
    results: tuple[Result, ...] = ()


def read_turn(items: tuple[Item, ...]) -> Turn:
    """Read what the user asked last, and what came after it."""
    asked = [number for number, item in enumerate(items) if is_of_user(item)]
    last = asked[-1] if asked else -1
    text = _text_of(items[last]) if asked else ""
    since = items[last + 1 :]
    calls = tuple(item for item in since if isinstance(item, ToolCall))
    return Turn(read_question(text), calls, tuple(_results(since)))


def is_of_user(item: Item) -> bool:
    """Tell whether the user says this."""
    return isinstance(item, Message) and item.role == "user"


def _text_of(item: Item) -> str:
    return text_of_parts(item.content) if isinstance(item, Message) else ""


def text_of_parts(parts: tuple[Part, ...]) -> str:
    """Join the texts of some parts."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _results(items: tuple[Item, ...]) -> Iterator[Result]:
    """Give each output with the call that it answers."""
    waiting = PendingCalls()
    for item in items:
        if isinstance(item, ToolCall):
            waiting.add(item)
        elif isinstance(item, ToolOutput):
            yield Result(_take(waiting, item), item)


def _take(waiting: PendingCalls, output: ToolOutput) -> ToolCall | None:
    if output.call_id is None:
        return waiting.take_by_name(output.name)
    return waiting.take_by_id(output.call_id)


def read_question(text: str) -> Question:
    """Find what is named and counted in a text."""
    # Each once, in the order of the text.
    subjects = dict.fromkeys(name for phrase in _PHRASE.split(text) for name in _names(phrase))
    numbers = (found for found in _NUMBER.findall(text) if len(found) <= _DIGITS)
    return Question(text.strip(), tuple(subjects), tuple(map(_number, numbers)))


def _names(phrase: str) -> Iterator[str]:
    """Give the names in a phrase: capitalised words, and those in a row as one (New York)."""
    for capitalised, words in groupby(phrase.split(), lambda word: word[0].isupper()):
        name = " ".join(dropwhile(_opens, words))
        if capitalised and name:
            yield name


def _opens(word: str) -> bool:
    return word.lower().replace("\u2019", "'") in _OPENERS


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
