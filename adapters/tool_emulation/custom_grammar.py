"""How a custom tool is shown to a model that can only be told of functions.

The function has one required string. The grammar of the input stands in the description of that
string, where the model reads it when it fills the string (P026). A regular expression that a JSON
Schema can express becomes its `pattern`, so that backends that hold a model to the schema hold it
to the expression, too.
"""

import re

import msgspec
from msgspec import Raw

from adapters.ir.types import CustomTool, FunctionTool
from adapters.tool_emulation.custom_tools import FIELD

_RAW_TEXT = "Pass the raw text, all of it, as `input`."
# Descriptions may say that the text must not be wrapped.
_ALL_THE_SAME = "Here it is a function. "

# The signs of an expression that mean the same in a JSON Schema: an escape, a class, a group that
# does not capture, a quantifier, or one character. Groups are not referred to: they may get other
# numbers.
_ESCAPE = r"\\(?:[dDwWsSbBnrtfv^$\\.*+?()\[\]{}|/]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})"
_CLASS = rf"\[\^?(?:{_ESCAPE}|\\-|[^\]\[\\])+\]"
_QUANTIFIER = r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?"
_SIGN = re.compile(rf"{_ESCAPE}|{_CLASS}|\(\?:?|{_QUANTIFIER}|.", re.DOTALL)
# What means something else there, or nothing: any other escape, a bracket or a brace that is none
# of those above, flags and named groups, quantifiers that give nothing back, and operations on
# classes.
_UNKNOWN = re.compile(r"[\\\[\]{}]|\(\?|(?:[*+?]|\{.*\})\+|\[.*(?:--|&&|~~|\|\|).*", re.DOTALL)


def as_function(tool: CustomTool, *, strict: bool) -> FunctionTool:
    """Give the function that stands for a custom tool.

    Where a backend can be held to a schema, it is held to an expression.
    """
    pattern = json_schema_pattern(tool)
    told = f"{tool.description}\n\n{_ALL_THE_SAME}" if tool.description else ""
    schema = {
        "type": "object",
        "properties": {FIELD: _input_schema(tool, pattern)},
        "required": [FIELD],
        "additionalProperties": False,
    }
    return FunctionTool(
        name=tool.name,
        description=told + _RAW_TEXT,
        parameters=Raw(msgspec.json.encode(schema)),
        strict=strict and pattern is not None,
        extras=tuple(extra for extra in tool.extras if not extra.name.startswith("format.")),
    )


def _input_schema(tool: CustomTool, pattern: str | None) -> dict[str, str]:
    schema = {"type": "string", "description": _describe(tool)}
    return schema if pattern is None else schema | {"pattern": pattern}


def _describe(tool: CustomTool) -> str:
    """Describe the input in words, with its grammar."""
    if tool.format != "grammar" or not tool.definition:
        return "The raw text."
    kind = "regular expression" if tool.syntax == "regex" else f"{tool.syntax or 'lark'} grammar"
    return f"The raw text. All of it must match this {kind}:\n{tool.definition}"


def json_schema_pattern(tool: CustomTool) -> str | None:
    """Give the expression of a custom tool as a JSON Schema has it: anchored at both ends."""
    if tool.format != "grammar" or tool.syntax != "regex" or not tool.definition:
        return None
    signs: list[str] = _SIGN.findall(tool.definition)
    if any(map(_UNKNOWN.fullmatch, signs)) or not _is_sound(tool.definition):
        return None
    if _has_alternatives(signs):
        # Between alternatives the anchors would fall apart. A group that does not capture would do,
        # but not every backend knows those.
        return f"^({tool.definition})$"
    before = "" if signs[0] == "^" else "^"
    after = "" if signs[-1] == "$" else "$"
    return before + tool.definition + after


def _is_sound(expression: str) -> bool:
    try:
        re.compile(expression)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _has_alternatives(signs: list[str]) -> bool:
    """Tell whether there are alternatives outside of all groups."""
    depth = 0
    for sign in signs:
        depth += sign.startswith("(") - (sign == ")")
        if sign == "|" and not depth:
            return True
    return False
