"""The entries of a dictionary that is written as `{...}` or as `dict(...)`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import libcst as cst

from gateway.migration.code.python import syntax


class Entry:
    """A key and its value; no key for `**value` and positional arguments."""

    def __init__(self, node: cst.BaseDictElement | cst.Arg) -> None:
        self.node = node

    @property
    def name(self) -> str | None:
        """The key, if it is a string literal or a keyword."""
        match self.node:
            case cst.DictElement(key=key):
                return syntax.string(key)
            case cst.Arg(keyword=cst.Name(value=name)):
                return name
            case _:
                return None

    @property
    def value(self) -> cst.BaseExpression:
        """The value."""
        return self.node.value

    def renamed(self, name: str) -> "Entry":
        """Return the entry with another key, in the same quotes."""
        if isinstance(self.node, cst.DictElement):
            return Entry(self.node.with_changes(key=syntax.with_text(self.node.key, name)))
        return Entry(self.node.with_changes(keyword=cst.Name(name)))

    def with_value(self, value: cst.BaseExpression) -> "Entry":
        """Return the entry with another value."""
        return Entry(self.node.with_changes(value=value))

    def with_text(self, text: str) -> "Entry":
        """Return the entry with another string literal, in the same quotes."""
        return self.with_value(syntax.as_expression(syntax.with_text(self.value, text)))

    def starred(self, value: cst.BaseExpression) -> "Entry":
        """Return `**value` in the layout of the entry."""
        wrapped = value
        if not value.lpar:
            wrapped = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        if isinstance(self.node, cst.Arg):
            return Entry(
                cst.Arg(
                    wrapped,
                    star="**",
                    comma=self.node.comma,
                    whitespace_after_arg=self.node.whitespace_after_arg,
                )
            )
        return Entry(cst.StarredDictElement(wrapped, comma=self.node.comma))


class Entries:
    """The entries of one dictionary, or the arguments of a call."""

    def __init__(self, node: cst.Dict | cst.Call) -> None:
        self.node = node
        nodes: Iterable[cst.BaseDictElement | cst.Arg]
        nodes = node.elements if isinstance(node, cst.Dict) else node.args
        self.all: Sequence[Entry] = [Entry(one) for one in nodes]

    @classmethod
    def of(cls, node: cst.CSTNode) -> Self:
        """Return the entries of a node that has some."""
        assert isinstance(node, cst.Dict | cst.Call)  # noqa: S101 - callers pass only these
        return cls(node)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.all)

    def value(self, name: str) -> cst.BaseExpression | None:
        """Return the value of a key."""
        return next((one.value for one in self.all if one.name == name), None)

    @property
    def names(self) -> set[str]:
        """The keys that are string literals."""
        return {one.name for one in self.all if one.name is not None}

    def with_all(self, entries: Sequence[Entry]) -> cst.Dict | cst.Call:
        """Return the dictionary with other entries; their commas are repaired."""
        nodes = [one.node for one in entries]
        if nodes and self.all:
            final = self.all[-1].node
            for place, node in enumerate(nodes[:-1]):
                # Behind the last entry is another line end than between entries.
                if not isinstance(node.comma, cst.Comma) or node.comma is final.comma:
                    nodes[place] = node.with_changes(comma=self._comma(place))
            nodes[-1] = nodes[-1].with_changes(comma=final.comma)
            nodes = [_with_space(node, nodes[-1], final) for node in nodes]
        field = "elements" if isinstance(self.node, cst.Dict) else "args"
        return self.node.with_changes(**{field: nodes})

    def _comma(self, place: int) -> cst.Comma:
        """Return the comma of a neighbour."""
        for entry in (*reversed(self.all[:place]), *self.all):
            if entry is not self.all[-1] and isinstance(entry.node.comma, cst.Comma):
                return entry.node.comma
        return syntax.space_comma()


def _with_space(
    node: cst.BaseDictElement | cst.Arg,
    last: cst.BaseDictElement | cst.Arg,
    final: cst.BaseDictElement | cst.Arg,
) -> cst.BaseDictElement | cst.Arg:
    """Return an argument with the space before the closing parenthesis only at the end."""
    if not isinstance(node, cst.Arg) or not isinstance(final, cst.Arg):
        return node
    space = final.whitespace_after_arg if node is last else cst.SimpleWhitespace("")
    return node.with_changes(whitespace_after_arg=space)
