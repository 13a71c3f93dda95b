"""Judges the input of a custom tool by the tool's grammar.

A backend that is only shown a grammar may not keep to it. That is worth knowing; the input goes to
the client all the same, which will say what it thinks of it.
"""

from adapters.ir.types import CustomTool

# To judge a text takes longer than in proportion to its length, and others wait meanwhile.
LONGEST = 10_000
_SYNTAXES = ("lark", "regex")


def check_grammar(tool: CustomTool, text: str) -> str | None:
    """Say what is wrong with an input; None if nothing is, or if it cannot be judged.

    It waits for the judgement, for some seconds at most.
    """
    if not is_checkable(tool, text):
        return None
    from gateway.grammar.process import ask  # noqa: PLC0415 - slow to load, and seldom needed

    return ask(tool.syntax or "", tool.definition or "", text)


def is_checkable(tool: CustomTool, text: str) -> bool:
    """Tell whether there is a grammar that we know, and a text that is not too long for it."""
    known = tool.format == "grammar" and tool.syntax in _SYNTAXES
    return known and bool(tool.definition) and len(text) <= LONGEST
