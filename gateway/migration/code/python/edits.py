"""Changes to syntax trees, which are collected first and applied together."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

import libcst as cst
from msgspec import Struct

Edit = Callable[[cst.CSTNode], cst.CSTNode]
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
# The source of a statement; a function returns it, or None, when all other changes are known.
Code = str | Callable[[], str | None]
# Returns the statements that replace some, which were changed themselves.
Group = Callable[[Sequence[Statement]], Sequence[Statement]]
CodeT = TypeVar("CodeT")

COMMENT = "# dragoman: "

# The quotes of a short string without a prefix, where it can only be one.
_LITERAL = re.compile(r"""(?:[(\[{,=:]|return) ?(['"])(?!\1)""")


class Change(Struct, frozen=True):
    """One change of a node, or of the statements up to another one."""

    kind: Literal["edit", "before", "after", "remove", "group", "comment"]
    node: cst.CSTNode
    edit: Edit | None = None
    group: Group | None = None
    last: Statement | None = None
    code: Code = ""


class Changes:
    """A list of changes."""

    def __init__(self) -> None:
        self.all: list[Change] = []

    def replace(self, node: cst.CSTNode, edit: Edit) -> None:
        """Change a node after the nodes inside it were changed."""
        self.all.append(Change("edit", node, edit=edit))

    def insert_before(self, statement: cst.CSTNode, code: Code) -> None:
        """Insert a statement before another one, unless it is inserted there already."""
        self.all.append(Change("before", statement, code=code))

    def insert_after(self, statement: cst.CSTNode, code: Code) -> None:
        """Insert a statement after another one, unless it is inserted there already."""
        self.all.append(Change("after", statement, code=code))

    def remove(self, statement: cst.CSTNode) -> None:
        """Remove a statement of a block."""
        self.all.append(Change("remove", statement))

    def group(self, first: Statement, last: Statement, group: Group) -> None:
        """Replace some statements of a block."""
        self.all.append(Change("group", first, last=last, group=group))

    def add_comment(self, statement: cst.CSTNode, reason: str) -> None:
        """Insert a comment before a statement, unless it has this comment already."""
        self.all.append(Change("comment", statement, code=reason))


class Edits:
    """Applies changes to trees. Those of a node and of nodes inside it are both applied."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._edits: dict[cst.CSTNode, list[Edit]] = {}
        self._before: dict[cst.CSTNode, list[Code]] = {}
        self._after: dict[cst.CSTNode, list[Code]] = {}
        self._comments: dict[cst.CSTNode, list[str]] = {}
        self._groups: dict[cst.CSTNode, Change] = {}
        self._removed: set[cst.CSTNode] = set()
        self._touched: set[cst.CSTNode] = set()
        for change in changes:
            self._add(change)

    def _add(self, change: Change) -> None:
        node = change.node
        self._touched.add(node)
        match change:
            case Change(kind="edit", edit=edit) if edit is not None:
                self._edits.setdefault(node, []).append(edit)
            case Change(kind="before", code=code):
                _add_once(self._before.setdefault(node, []), code)
            case Change(kind="after", code=code):
                _add_once(self._after.setdefault(node, []), code)
            case Change(kind="comment", code=str() as code):
                _add_once(self._comments.setdefault(node, []), code)
            case Change(kind="group"):
                self._groups[node] = change
            case _:
                self._removed.add(node)

    def has_changes(
        self, module: cst.Module, find_top: Callable[[cst.CSTNode], cst.CSTNode]
    ) -> bool:
        """Whether a module has changes."""
        body = set(module.body)
        return any(node is module or find_top(node) in body for node in self._touched)

    def apply(self, module: cst.Module, find_top: Callable[[cst.CSTNode], cst.CSTNode]) -> str:
        """Return the source of a changed module; only its changed statements are visited."""
        changed = {find_top(node) for node in self._touched}
        if module.body:
            # The lines before the first statement belong to the module.
            written = _comments(module.header)
            comments = self._comments.get(module.body[0], [])
            comments[:] = [reason for reason in comments if COMMENT + reason not in written]
        applier = _Applier(self)
        body = [as_statement(one.visit(applier)) if one in changed else one for one in module.body]
        body = self._in_style(module, body, changed)
        updated = self.block(module, module.with_changes(body=body))
        for edit in self._edits.get(module, ()):
            updated = edit(updated)
        assert isinstance(updated, cst.Module)  # noqa: S101 - edits do not change the type
        return updated.code

    def _in_style(
        self, module: cst.Module, body: Sequence[Statement], changed: set[cst.CSTNode]
    ) -> list[Statement]:
        """Return statements whose new strings have the quotes that the module has."""
        styles = Counter(_LITERAL.findall(module.code))
        if styles['"'] >= styles["'"]:
            return list(body)
        return [
            as_statement(one.visit(_SingleQuotes(_printer.code_for_node(original))))
            if original in changed
            else one
            for original, one in zip(module.body, body, strict=True)
        ]

    def visited(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return a node with its edits, and with those inside it."""
        visited = node.visit(_Applier(self))
        assert isinstance(visited, cst.CSTNode)  # noqa: S101 - edits remove no expression
        return visited

    def changed(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        """Return a node with its edits."""
        for edit in self._edits.get(original, ()):
            updated = edit(updated)
        if isinstance(original, cst.IndentedBlock):
            return self.block(original, updated)
        if isinstance(original, Statement):
            return self._commented(original, updated)
        return updated

    def block(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        """Return a block with its inserted, removed and grouped statements."""
        assert isinstance(original, cst.Module | cst.IndentedBlock)  # noqa: S101 - for the type
        assert isinstance(updated, cst.Module | cst.IndentedBlock)  # noqa: S101 - for the type
        if not self._touched.intersection(original.body):
            return updated
        pairs = list(zip(original.body, updated.body, strict=True))
        body: list[Statement] = []
        place = 0
        while place < len(pairs):
            change = self._groups.get(pairs[place][0])
            if change is None or change.group is None:
                body += self._expanded([pairs[place]])
                place += 1
                continue
            end = next(
                index for index in range(place, len(pairs)) if pairs[index][0] is change.last
            )
            body += change.group(self._expanded(pairs[place : end + 1]))
            place = end + 1
        if not body:
            body = [_parse("pass\n")]
        return updated.with_changes(body=body)

    def _expanded(self, pairs: Iterable[tuple[cst.CSTNode, cst.CSTNode]]) -> list[Statement]:
        found: list[Statement] = []
        for original, updated in pairs:
            statement = as_statement(updated)
            before = _parse_all(self._before.get(original, ()))
            if before and statement.leading_lines:
                # Comments and empty lines stay in front.
                before[0] = before[0].with_changes(leading_lines=statement.leading_lines)
                statement = statement.with_changes(leading_lines=[])
            found += before
            if original not in self._removed:
                found.append(statement)
            found += _parse_all(self._after.get(original, ()))
        return found

    def _commented(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        new = [COMMENT + reason for reason in self._comments.get(original, ())]
        if not new:
            return updated
        leading: Sequence[cst.EmptyLine] = as_statement(updated).leading_lines
        written = _comments(leading)
        lines = [cst.EmptyLine(comment=cst.Comment(one)) for one in new if one not in written]
        return updated.with_changes(leading_lines=[*leading, *lines])


def _add_once(codes: list[CodeT], code: CodeT) -> None:
    if code not in codes:
        codes.append(code)


def _parse_all(codes: Iterable[Code]) -> list[Statement]:
    found = [code if isinstance(code, str) else code() for code in codes]
    return [_parse(code) for code in found if code is not None]


def _parse(code: str) -> Statement:
    return cst.parse_statement(code)


def as_statement(node: object) -> Statement:
    """Return a node that is a statement."""
    assert isinstance(node, Statement)  # noqa: S101 - a statement stays one
    return node


def _comments(lines: Sequence[cst.EmptyLine]) -> set[str]:
    return {line.comment.value for line in lines if line.comment is not None}


class _Applier(cst.CSTTransformer):
    def __init__(self, edits: Edits) -> None:
        super().__init__()
        self._edits = edits

    def on_leave(  # type: ignore[override]  # libcst types the result by the node's own class
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        changed = self._edits.changed(original_node, updated_node)
        if isinstance(changed, cst.FormattedString) and isinstance(
            original_node, cst.FormattedString
        ):
            return _with_other_quotes(original_node, changed)
        return changed


def _with_other_quotes(original: cst.FormattedString, changed: cst.FormattedString) -> cst.CSTNode:
    """Return a changed f-string whose expressions do not contain its own quotes."""
    if _printer.code_for_node(original) == _printer.code_for_node(changed):
        return changed
    quotes = _Quotes(changed.quote)
    return changed.with_changes(parts=[_as_part(part.visit(quotes)) for part in changed.parts])


def _as_part(node: object) -> cst.BaseFormattedStringContent:
    assert isinstance(node, cst.BaseFormattedStringContent)  # noqa: S101 - a part stays one
    return node


class _SingleQuotes(cst.CSTTransformer):
    """Writes strings that the original does not have with single quotes."""

    def __init__(self, original: str) -> None:
        super().__init__()
        self._original = original

    def leave_SimpleString(  # noqa: N802 - a name of libcst
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.BaseExpression:
        del original_node
        value = updated_node.value
        if updated_node.quote != '"' or "'" in value or value in self._original:
            return updated_node
        return updated_node.with_changes(value=value.replace('"', "'"))


class _Quotes(cst.CSTTransformer):
    def __init__(self, quote: str) -> None:
        super().__init__()
        self._quote = quote

    def leave_SimpleString(  # noqa: N802 - a name of libcst
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.BaseExpression:
        del original_node
        other = "'" if self._quote == '"' else '"'
        if updated_node.quote != self._quote or other in updated_node.raw_value:
            return updated_node
        value = f"{updated_node.prefix}{other}{updated_node.raw_value}{other}"
        return updated_node.with_changes(value=value)


_printer = cst.Module([])
