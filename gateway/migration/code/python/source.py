"""A parsed source, with the place, the parent and the function of each node."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider

Scope = cst.FunctionDef | cst.Lambda | cst.Module
Node = TypeVar("Node", bound=cst.CSTNode)

_STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)


class Source:
    """A tree with what is known of its nodes."""

    def __init__(self, text: str) -> None:
        """Parse a source; raises `libcst.ParserSyntaxError`."""
        wrapper = MetadataWrapper(cst.parse_module(text))
        self.module = wrapper.module
        self._positions: Mapping[cst.CSTNode, CodeRange] = wrapper.resolve(PositionProvider)
        self._parents: Mapping[cst.CSTNode, cst.CSTNode] = wrapper.resolve(ParentNodeProvider)
        # All nodes in the order of the text.
        self.nodes = tuple(_walk(self.module))
        self.functions = {
            node.name.value: node for node in self.nodes if isinstance(node, cst.FunctionDef)
        }

    def of_type(self, kind: type[Node]) -> Iterator[Node]:
        """Yield all nodes of a type."""
        return (node for node in self.nodes if isinstance(node, kind))

    def place(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the line and the column of a node, both from 1."""
        start = self._positions[node].start
        return start.line, start.column + 1

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the parent of a node; None for the module."""
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, the innermost first."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def scope(self, node: cst.CSTNode) -> Scope:
        """Return the function around a node, or the module."""
        return next(one for one in self.ancestors(node) if isinstance(one, Scope))

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the statement that contains a node."""
        return next(one for one in (node, *self.ancestors(node)) if isinstance(one, _STATEMENTS))

    def within(self, scope: cst.CSTNode, kind: type[Node]) -> Iterator[Node]:
        """Yield the nodes of a type in a function, but not those of functions inside it."""
        return (
            node for node in self.of_type(kind) if node is not scope and self.scope(node) is scope
        )

    def names(self, scope: Scope, name: str) -> list[cst.Name]:
        """Return where a scope uses a variable, apart from keywords and attributes."""
        return [
            node
            for node in self.within(scope, cst.Name)
            if node.value == name and not self._is_label(node)
        ]

    def _is_label(self, node: cst.Name) -> bool:
        """Whether a name is an attribute, a keyword or a parameter and not a variable."""
        match self.parent(node):
            case cst.Attribute(attr=attr):
                return attr is node
            case cst.Arg(keyword=word):
                return word is node
            case cst.Param(name=name):
                return name is node
            case cst.FunctionDef(name=name) | cst.ClassDef(name=name):
                return name is node
            case _:
                return False


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _walk(child)
