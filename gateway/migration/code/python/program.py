"""The parsed modules of a program, with the parent, the scope and the place of each node."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from gateway.migration.code.groups import module_name

Scope = cst.FunctionDef | cst.Lambda | cst.ClassDef | cst.Module
Node = TypeVar("Node", bound=cst.CSTNode)
Block = cst.IndentedBlock | cst.Module

_STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
# Fields without names: walking them would take most of the time.
_LAYOUT = frozenset(
    (
        "comma",
        "semicolon",
        "header",
        "footer",
        "lpar",
        "rpar",
        "lbracket",
        "rbracket",
        "lbrace",
        "rbrace",
        "leading_lines",
        "lines_after_decorators",
        "equal",
        "dot",
    )
)
_fields_of: dict[type[cst.CSTNode], tuple[str, ...]] = {}


class Program:
    """The trees of modules that import each other, with what is known of their nodes."""

    def __init__(self, modules: Mapping[Path, cst.Module]) -> None:
        self.modules = dict(modules)
        self._paths = {module: path for path, module in modules.items()}
        self._names: dict[str, list[Path]] = {}
        for path in modules:
            self._names.setdefault(module_name(path), []).append(path)
        self._parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._scopes: dict[cst.CSTNode, Scope] = {}
        self._by_type: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        self._order: dict[cst.CSTNode, int] = {}
        for module in modules.values():
            self._walk(module)
        self._statement_lines: dict[cst.CSTNode, int] = {}
        self._positions: dict[cst.CSTNode, dict[cst.CSTNode, CodeRange]] = {}
        self._uses: dict[tuple[Scope, str], list[cst.Name]] = {}
        self.bound: dict[Scope, set[str]] = {}
        self._find_names()

    def _walk(self, module: cst.Module) -> None:
        """Visit all nodes in the order of the text, without recursion."""
        stack: list[tuple[cst.CSTNode, Scope]] = [(module, module)]
        while stack:
            node, scope = stack.pop()
            self._order[node] = len(self._order)
            self._by_type.setdefault(type(node), []).append(node)
            inner = node if isinstance(node, Scope) else scope
            children = list(_children(node))
            for field, child in reversed(children):
                self._parents[child] = node
                # Decorators, defaults and annotations are evaluated outside of a function.
                is_outside = field in ("decorators", "returns", "bases", "keywords", "name")
                self._scopes[child] = scope if is_outside else inner
                stack.append((child, self._scopes[child]))

    def imported(self, name: str, importer: cst.Module) -> cst.Module | None:
        """Return the module with a name, without its packages; one in the same folder first."""
        folder = self._paths[importer].parent
        found = sorted(self._names.get(name, ()), key=lambda path: path.parent != folder)
        return self.modules[found[0]] if found else None

    # Nodes

    def of_type(self, kind: type[Node]) -> Sequence[Node]:
        """Return all nodes of a type in the order of the text."""
        return cast("Sequence[Node]", self._by_type.get(kind, ()))

    def has(self, node: cst.CSTNode) -> bool:
        """Whether a node belongs to the program, and was not made for the rewrite."""
        return node in self._order

    def expressions(self) -> Iterator[cst.BaseExpression]:
        """Yield all expressions that can be read from a variable, an object or a call."""
        for kind in (cst.Attribute, cst.Subscript, cst.Call, cst.Name):
            yield from cast("Sequence[cst.BaseExpression]", self._by_type.get(kind, ()))

    def order(self, node: cst.CSTNode) -> int:
        """Return the place of a node among all nodes."""
        return self._order[node]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the parent of a node; None for the module."""
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, the innermost first."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def top(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the statement of the module that contains a node, or the module."""
        top = node
        for one in self.ancestors(node):
            if not isinstance(one, cst.Module):
                top = one
        return top

    def is_inside(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether a node is another one, or inside it."""
        return node is outer or any(one is outer for one in self.ancestors(node))

    def descendants(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield a node and the nodes inside it, in the order of the text."""
        stack = [node]
        while stack:
            one = stack.pop()
            yield one
            stack.extend(child for _, child in reversed(list(_children(one))))

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the statement that contains a node."""
        return next(one for one in (node, *self.ancestors(node)) if isinstance(one, _STATEMENTS))

    def block(self, statement: cst.CSTNode) -> Block | None:
        """Return the block of a statement; None if it is on the line of its `if` or `for`."""
        parent = self.parent(statement)
        return parent if isinstance(parent, Block) else None

    # Scopes

    def scope(self, node: cst.CSTNode) -> Scope:
        """Return the function or class around a node, or the module."""
        return node if isinstance(node, cst.Module) else self._scopes[node]

    def module(self, node: cst.CSTNode) -> cst.Module:
        """Return the module of a node."""
        scope = self.scope(node)
        while not isinstance(scope, cst.Module):
            scope = self.scope(scope)
        return scope

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the function around a node."""
        for one in (self.scope(node), *self.ancestors(self.scope(node))):
            if isinstance(one, cst.FunctionDef):
                return one
        return None

    def binding(self, name: cst.Name) -> Scope:
        """Return the scope whose variable a name is."""
        return self.resolve(self.scope(name), name.value)

    def resolve(self, scope: Scope, name: str) -> Scope:
        """Return the scope whose variable a name in another scope is."""
        current = scope
        while True:
            if name in self.bound.get(current, ()):
                return current
            if isinstance(current, cst.Module):
                return current
            current = self._outer(current)

    def _outer(self, scope: Scope) -> Scope:
        outer = self.scope(scope)
        while isinstance(outer, cst.ClassDef):
            outer = self.scope(outer)
        return outer

    def uses(self, scope: Scope, name: str) -> Sequence[cst.Name]:
        """Return where a variable is used, also by functions inside its scope."""
        return self._uses.get((scope, name), ())

    def names_in(self, scope: Scope) -> frozenset[str]:
        """Return all variables that a scope binds."""
        return frozenset(self.bound.get(scope, ()))

    def _find_names(self) -> None:
        free: set[tuple[Scope, str]] = set()
        statements: list[cst.Global | cst.Nonlocal]
        statements = [*self.of_type(cst.Global), *self.of_type(cst.Nonlocal)]
        for statement in statements:
            free |= {(self.scope(statement), item.name.value) for item in statement.names}
        names = [node for node in self.of_type(cst.Name) if not self.is_label(node)]
        for node in names:
            scope = self.scope(node)
            if self.is_target(node) and (scope, node.value) not in free:
                self.bound.setdefault(scope, set()).add(node.value)
        for scope, name in free:
            self.bound.setdefault(self._global_scope(scope, name), set()).add(name)
        for node in names:
            self._uses.setdefault((self.binding(node), node.value), []).append(node)

    def _global_scope(self, scope: Scope, name: str) -> Scope:
        current = self._outer(scope)
        while not isinstance(current, cst.Module) and name not in self.bound.get(current, ()):
            current = self._outer(current)
        return current

    def is_label(self, node: cst.Name) -> bool:
        """Whether a name is an attribute or a keyword and not a variable."""
        match self.parent(node):
            case cst.Attribute(attr=attr):
                return attr is node
            case cst.NameItem():
                return True
            case cst.Arg(keyword=word) | cst.MatchKeywordElement(key=word):
                return word is node
            case _:
                return False

    def is_target(self, node: cst.CSTNode) -> bool:
        """Whether a name is bound where it stands."""
        parent = self.parent(node)
        match parent:
            case cst.AssignTarget() | cst.Param() | cst.MatchAs() | cst.MatchStar():
                return not isinstance(parent, cst.Param) or parent.name is node
            case cst.NamedExpr(target=one) | cst.AnnAssign(target=one) | cst.AugAssign(target=one):
                return one is node
            case cst.For(target=one) | cst.CompFor(target=one):
                return one is node
            case cst.FunctionDef(name=one) | cst.ClassDef(name=one):
                return one is node
            case cst.AsName() | cst.ImportAlias():
                return True
            case cst.Element() | cst.StarredElement() | cst.Tuple() | cst.List():
                return self.is_target(parent)
            case _:
                return False

    # Places

    def place(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the line and the column of a node, both from 1."""
        top = self.top(node)
        if isinstance(top, cst.Module):
            return 1, 1
        start = self._ranges(top)[node].start
        return start.line + self._first_line(top), start.column + 1

    def _ranges(self, statement: cst.CSTNode) -> dict[cst.CSTNode, CodeRange]:
        """Return the places inside a statement of a module.

        The places in a whole module take as long to find as the module to parse.
        """
        if statement not in self._positions:
            part = self.module(statement).with_changes(header=[], footer=[], body=[statement])
            wrapper = MetadataWrapper(part, unsafe_skip_copy=True)
            self._positions[statement] = dict(wrapper.resolve(PositionProvider))
        return self._positions[statement]

    def _first_line(self, statement: cst.CSTNode) -> int:
        """Return how many lines are before a statement of a module."""
        if statement not in self._statement_lines:
            module = self.module(statement)
            printer = cst.Module([])
            line = len(module.header)
            for one in module.body:
                self._statement_lines[one] = line
                line += printer.code_for_node(one).count("\n")
        return self._statement_lines[statement]


def _children(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield the nodes below a node, without those that are only layout."""
    kind = type(node)
    if kind not in _fields_of:
        _fields_of[kind] = tuple(
            name
            for name in kind.__dataclass_fields__
            if "whitespace" not in name and name not in _LAYOUT
        )
    for name in _fields_of[kind]:
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield name, value
        elif isinstance(value, list | tuple):
            for child in cast("Sequence[object]", value):
                if isinstance(child, cst.CSTNode):
                    yield name, child
