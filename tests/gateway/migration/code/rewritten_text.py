"""What a reader expects of a rewritten source, apart from what it does."""

import ast
import difflib
import io
import json
import re
import tokenize
from collections.abc import Iterator
from typing import TypeVar, cast

import libcst as cst
from libcst import matchers

Node = TypeVar("Node", bound=ast.AST)

# Names that are left only if something was forgotten. A program may have names of its own with
# `function_call` or `functions`, but not these strings and attributes.
_LEGACY_ATTRIBUTES = frozenset(("function_call", "ChatCompletion", "api_base", "acreate"))
_LEGACY_IMPORTS = frozenset(
    ("ChatCompletion", "FunctionCall", "ChatCompletionFunctionMessageParam")
)
_WRAPPED = matchers.OneOf(
    matchers.IfExp(lpar=[matchers.AtLeastN(n=1)]), matchers.ListComp(lpar=[matchers.AtLeastN(n=1)])
)
_VALUES = matchers.OneOf(
    matchers.Assign(value=_WRAPPED),
    matchers.Return(value=_WRAPPED),
    matchers.Arg(value=_WRAPPED, star=""),
)


def check_source(before: str, after: str, target: str) -> None:
    """Check a rewritten source against the original."""
    if before == after:
        return
    assert after.count("\r\n") in (0, after.count("\n")), "lines end in two ways"
    assert ("\r\n" in after) == ("\r\n" in before), "lines end in another way"
    before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    tree = ast.parse(after)
    assert _comments(after) == _comments(before), "comments were changed"
    spaces = [*_trailing_spaces(after)]
    assert spaces == [*_trailing_spaces(before)], f"spaces at the end: {spaces}"
    wrapped = [*_wrapped(after)]
    assert wrapped == [*_wrapped(before)], f"parentheses that are not needed: {wrapped}"
    misplaced = [*_misplaced(tree)]
    assert not misplaced, f"arguments are not below the others: {misplaced}"
    legacy = [*_legacy(tree, target)]
    assert not legacy, f"legacy code is left: {legacy}"
    if not _has_double_quotes(before):
        assert not _has_double_quotes(after), "the source had single quotes only"


def code_of(name: str, text: str) -> str:
    """Return a source, or the code of all cells of a notebook."""
    if not name.endswith(".ipynb"):
        return text
    cells = cast("list[dict[str, object]]", json.loads(text)["cells"])
    joined = "\n".join(
        "".join(cast("list[str]", cell["source"])) for cell in cells if cell["cell_type"] == "code"
    )
    return re.sub(r"^[%!].*$", "", joined, flags=re.MULTILINE)


def check_notebook(before: str, after: str) -> None:
    """Check that only lines of code cells differ."""
    old, new = json.loads(before), json.loads(after)
    for notebook in (old, new):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["source"] = ""
    assert new == old, "other parts of the notebook were changed"
    changes = difflib.ndiff(before.splitlines(), after.splitlines())
    removed = [line[2:] for line in changes if line.startswith("- ")]
    others = [line for line in removed if not _is_code(line.strip().removesuffix(","))]
    assert not others, f"other lines were changed: {others}"


def _is_code(line: str) -> bool:
    """Whether a line of a notebook is a source, or a line of one."""
    try:
        return isinstance(json.loads(line.removeprefix('"source": ')), str)
    except ValueError:
        return False


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(source).readline)


def _comments(source: str) -> list[str]:
    return [token.string for token in _tokens(source) if token.type == tokenize.COMMENT]


def _trailing_spaces(source: str) -> Iterator[str]:
    return (line for line in source.splitlines() if line != line.rstrip())


def _has_double_quotes(source: str) -> bool:
    strings = (token.string for token in _tokens(source) if token.type == tokenize.STRING)
    return any(string.endswith('"') and not string.endswith('"""') for string in strings)


def _wrapped(source: str) -> Iterator[str]:
    """Yield the conditional expressions in parentheses that are not needed."""
    module = cst.parse_module(source)
    for node in matchers.findall(module, _VALUES):
        inner = next(
            child
            for child in node.children
            if isinstance(child, cst.IfExp | cst.ListComp) and child.lpar
        )
        # Several lines need them, or are easier to read with them.
        if "\n" not in (written := module.code_for_node(inner)):
            yield written


def _misplaced(tree: ast.Module) -> Iterator[str]:
    """Yield the arguments on lines of their own that are not below the others."""
    for call in _of_type(tree, ast.Call):
        arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        places = [(one.lineno, one.col_offset) for one in arguments]
        lines = [call.func.end_lineno, *(one.end_lineno for one in arguments)]
        first = [
            column
            for (line, column), former in zip(places, lines, strict=False)
            if former is not None and line > former
        ]
        is_new = any(one.arg == "parallel_tool_calls" for one in call.keywords)
        if is_new and len(set(first)) > 1:
            yield ast.unparse(call)


def _legacy(tree: ast.Module, target: str) -> Iterator[str]:
    for attribute in _of_type(tree, ast.Attribute):
        written = ast.unparse(attribute)
        if attribute.attr in _LEGACY_ATTRIBUTES or written == "openai.error":
            yield written
    for statement in _of_type(tree, ast.ImportFrom):
        if statement.module is not None and statement.module.startswith("openai"):
            names = {alias.name for alias in statement.names}
            # The type `ChatCompletion` is in another module than the former class.
            is_type = statement.module.startswith("openai.types")
            is_gone = statement.module == "openai.error"
            known = _LEGACY_IMPORTS - {"ChatCompletion"} if is_type else _LEGACY_IMPORTS
            yield from sorted(names if is_gone else names & known)
    for constant in _of_type(tree, ast.Constant):
        # An item of the Responses API has this type.
        if constant.value == "function_call" and target == "chat":
            yield f"line {constant.lineno}: {constant.value}"


def _of_type(tree: ast.AST, kind: type[Node]) -> Iterator[Node]:
    return (node for node in ast.walk(tree) if isinstance(node, kind))
