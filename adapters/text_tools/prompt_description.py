"""Describes tools to a model, and how it is to call them.

The tags are those of Hermes, which most open models have been trained on.
"""

from msgspec.json import Encoder

from adapters.ir.types import FunctionTool, NamedToolChoice, ToolChoice, ToolChoiceMode
from adapters.wire.json_schema import EMPTY_SCHEMA

_ENCODER = Encoder()

_DECLARED = """\
# Tools

You can call tools. Each line between <tools> and </tools> declares one of them, with the JSON \
Schema of its arguments:
<tools>
{tools}
</tools>

To call a tool, write one JSON object with its name and its arguments between <tool_call> and \
</tool_call>, in just this form:
<tool_call>
{{"name": "name_of_the_tool", "arguments": {{"name_of_an_argument": "value"}}}}
</tool_call>
"""
_SEVERAL = "To make several calls at once, write several such blocks, one after the other."
_ONE = "Make at most one call in each of your answers."
_RESULTS = (
    "Write nothing after your calls. Their results follow in the next message, each between"
    " <tool_response> and </tool_response>, in the order of the calls."
)
_AUTO = "Call tools only where they help; otherwise answer in plain words."
_REQUIRED = "Your next answer must call at least one of these tools."
_NAMED = "Your next answer must call the tool {name}, and no other."


def described(
    tools: tuple[FunctionTool, ...], choice: ToolChoice | None, *, several: bool = True
) -> str:
    """Say which tools there are, how they are called, and what is wanted of them now."""
    declared = _DECLARED.format(tools="\n".join(map(_declared, tools)))
    rules = (_SEVERAL if several else _ONE, _RESULTS, _wanted(choice))
    return declared + "\n" + "\n".join(rules)


def _declared(tool: FunctionTool) -> str:
    declaration: dict[str, object] = {"name": tool.name}
    if tool.description is not None:
        declaration["description"] = tool.description
    declaration["parameters"] = EMPTY_SCHEMA if tool.parameters is None else tool.parameters
    return _ENCODER.encode(declaration).decode()


def _wanted(choice: ToolChoice | None) -> str:
    match choice:
        case NamedToolChoice(name=name):
            return _NAMED.format(name=name)
        case ToolChoiceMode(mode="required"):
            return _REQUIRED
        case _:
            return _AUTO
