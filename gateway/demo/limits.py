"""What an answer may cost, and what it costs: a token is about four characters."""

from collections.abc import Iterable
from itertools import chain

from msgspec.structs import replace

from adapters.ir.types import (
    Choice,
    Finish,
    FunctionTool,
    Item,
    Message,
    Request,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
)
from gateway.demo.question import text_of_parts

_CHARACTERS = 4


def tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    return -(-len(text) // _CHARACTERS)


def usage_of(request: Request, choices: Iterable[Choice]) -> Usage:
    """Say what an answer costs."""
    tools = (tool for tool in request.tools if isinstance(tool, FunctionTool))
    declared = sum(len(tool.parameters or b"") // _CHARACTERS for tool in tools)
    asked = tokens(request.instructions or "") + declared + _sum(request.items)
    said = _sum(chain.from_iterable(choice.items for choice in choices))
    return Usage(asked, said, asked + said)


def _sum(items: Iterable[Item]) -> int:
    return sum(tokens(_text_of(item)) for item in items)


def _text_of(item: Item) -> str:
    match item:
        case Message():
            return text_of_parts(item.content)
        case ToolCall():
            return item.arguments
        case ToolOutput():
            return item.output if isinstance(item.output, str) else text_of_parts(item.output)
        case _:
            return ""


def limited(items: tuple[Item, ...], limit: int | None) -> Choice:
    """End an answer where it may cost no more."""
    left = sum(tokens(_text_of(item)) for item in items) if limit is None else limit
    kept: list[Item] = []
    for item in items:
        needed = tokens(_text_of(item))
        if needed > left:
            kept += [_cut(item, left * _CHARACTERS)] if left or not kept else []
            return Choice(tuple(kept), Finish("length", "length"))
        kept.append(item)
        left -= needed
    called = any(isinstance(item, ToolCall) for item in items)
    return Choice(tuple(kept), Finish("calls", "tool_calls") if called else Finish("stop", "stop"))


def _cut(item: Item, length: int) -> Item:
    """Give the beginning of an item."""
    match item:
        case Message():
            text = text_of_parts(item.content)[:length]
            return replace(item, content=(Text(text),), status="incomplete")
        case ToolCall():
            return replace(item, arguments=item.arguments[:length], status="incomplete")
        case _:
            return item


def stopped(text: str, stops: Iterable[str]) -> str:
    """End a text before the first of the words that are to end it."""
    places = (text.find(stop) for stop in stops if stop)
    return text[: min((place for place in places if place >= 0), default=len(text))]
