"""Legacy functions in programs that use LangChain or LlamaIndex.

Their replacements return other objects, so a person must decide where they are used.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.values import FIELD

LANGCHAIN: Final = "langchain"
LLAMA_INDEX: Final = "llama-index"

_CREATE_AGENT = "with LangChain, use create_openai_tools_agent, or create_tool_calling_agent"
_TOOL = "use convert_to_openai_tool, whose result bind_tools accepts"
_PARSER = "use the parsers for tools, such as JsonOutputToolsParser"
_LANGCHAIN_NAMES: Final[Mapping[str, str]] = {
    "bind_functions": "use bind_tools; the reply has tool_calls and no function_call",
    "convert_to_openai_function": _TOOL,
    "convert_pydantic_to_openai_function": _TOOL,
    "format_tool_to_openai_function": _TOOL,
    "OpenAIFunctionsAgent": _CREATE_AGENT,
    "OpenAIMultiFunctionsAgent": _CREATE_AGENT,
    "create_openai_functions_agent": _CREATE_AGENT,
    "OPENAI_FUNCTIONS": _CREATE_AGENT,
    "OPENAI_MULTI_FUNCTIONS": _CREATE_AGENT,
    "OpenAIFunctionsAgentOutputParser": "use OpenAIToolsAgentOutputParser",
    "format_to_openai_functions": "use format_to_openai_tool_messages",
    "format_to_openai_function_messages": "use format_to_openai_tool_messages",
    "FunctionMessage": "use ToolMessage, which needs the tool_call_id",
    "JsonOutputFunctionsParser": _PARSER,
    "PydanticOutputFunctionsParser": _PARSER,
    "create_openai_fn_chain": "use bind_tools",
    "create_structured_output_chain": "use with_structured_output",
}
_LLAMA_NAMES: Final[Mapping[str, str]] = {
    "to_openai_function": "use to_openai_tool; current versions of LlamaIndex send tools",
    "OpenAIAgent": "use FunctionAgent of current versions of LlamaIndex, which sends tools",
    "ContextRetrieverOpenAIAgent": "use FunctionAgent of current versions of LlamaIndex",
    "RetrieverOpenAIAgent": "use FunctionAgent of current versions of LlamaIndex",
}
_CHAT_METHODS = frozenset(
    ("chat", "achat", "stream_chat", "astream_chat", "complete", "invoke", "ainvoke", "predict",
     "predict_messages", "bind")
)  # fmt: skip


class FrameworkMigration:
    """Finds the legacy parts of frameworks."""

    def __init__(self, context: Context) -> None:
        self._program = context.program
        self._report = context.report

    def migrate(self) -> None:
        """Leave all legacy parts of frameworks for a person."""
        for module in self._program.modules.values():
            roots = set(self._imported(module))
            if any(root.startswith("langchain") for root in roots):
                self._find(module, LANGCHAIN, "LangChain", _LANGCHAIN_NAMES)
            if any(root.startswith("llama_index") for root in roots):
                self._find(module, LLAMA_INDEX, "LlamaIndex", _LLAMA_NAMES)

    def _imported(self, module: cst.Module) -> Iterator[str]:
        for statement in self._program.of_type(cst.ImportFrom):
            if statement.module is not None and self._program.module(statement) is module:
                yield syntax.code(statement.module).split(".")[0]
        for imported in self._program.of_type(cst.Import):
            if self._program.module(imported) is module:
                yield from (alias.evaluated_name.split(".")[0] for alias in imported.names)

    def _find(
        self, module: cst.Module, rule: str, framework: str, names: Mapping[str, str]
    ) -> None:
        for name in self._program.of_type(cst.Name):
            is_import = isinstance(self._program.parent(name), cst.ImportAlias)
            if name.value in names and not is_import and self._program.module(name) is module:
                message = f"uses {name.value} of {framework}"
                self._report.leave(name, rule, message, names[name.value])
        for node in self._program.expressions():
            if self._program.module(node) is module and self._is_call_read(node):
                reason = f"messages of {framework} have tool_calls; read the calls there"
                self._report.leave(node, rule, "reads function_call of a message", reason)
        for call in self._program.of_type(cst.Call):
            if self._program.module(call) is module:
                self._find_argument(call, rule, framework)

    def _is_call_read(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is `message.additional_kwargs["function_call"]`."""
        match node:
            case cst.Subscript() | cst.Call():
                return syntax.names(node)[:2] == [FIELD, "additional_kwargs"]
            case _:
                return False

    def _find_argument(self, call: cst.Call, rule: str, framework: str) -> None:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _CHAT_METHODS:
            return
        for name in ("functions", FIELD):
            argument = syntax.keyword(call, name)
            if argument is not None:
                reason = f"{framework} sends tools; give them to the model as its tools"
                self._report.leave(argument, rule, f"sends {name} with {framework}", reason)
