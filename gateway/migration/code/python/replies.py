"""Reads of `function_call` in replies, and of `finish_reason`."""

from collections.abc import Callable

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.syntax import as_expression, expression
from gateway.migration.code.python.uses import message_of
from gateway.migration.code.python.values import CALL, FIELD, Value

READ = "read-function-call"
FINISH_REASON = "finish-reason"

_MESSAGE = "reads function_call of a reply"
_REASON_MESSAGE = 'compares finish_reason with "function_call"'
_ASSIGNED = "the call of a message is changed here; change its tool_calls"

Convert = Callable[[cst.BaseExpression], cst.BaseExpression]


class ReplyMigration:
    """Rewrites what a program reads of its replies."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._program = context.program
        self._report = context.report
        self._target = context.target

    def migrate(self) -> None:
        """Rewrite all reads, and the uses of the variables that keep a call."""
        for node in self._program.expressions():
            value = self._context.values.of(node)
            if value is None or value.kind not in (CALL, "function") or self._is_part(node):
                continue
            if self._context.is_read(node):
                self._migrate_read(node, value)
            elif value.kind == CALL:
                self._migrate_kept(node, value)
        for comparison in self._program.of_type(cst.Comparison):
            self._migrate_comparison(comparison)
        for call in self._program.of_type(cst.Call):
            self._migrate_hasattr(call)
        for match in self._program.of_type(cst.Match):
            self._migrate_match(match)

    def _is_part(self, node: cst.CSTNode) -> bool:
        """Whether a node is bound here, or only wraps another one with the same value."""
        if isinstance(node, cst.Call) and message_of(node) is None:
            return True
        if isinstance(node, cst.Name) and self._program.is_label(node):
            return True
        return self._program.is_target(node) or isinstance(
            self._program.parent(node), cst.Param | cst.Annotation
        )

    # Reads of a message

    def _migrate_read(self, node: cst.BaseExpression, value: Value) -> None:
        parent = self._program.parent(node)
        message = message_of(node)
        if message is not None and self._context.request_dicts.is_request_dict(message):
            return
        if isinstance(parent, cst.AssignTarget | cst.Del):
            if self._is_harmless_change(node, parent):
                return
            if isinstance(parent, cst.Del) and isinstance(node, cst.Subscript):
                self._rewrite(node, lambda read: syntax.with_key(read, "tool_calls"))
                return
            self._report.leave(node, READ, _MESSAGE, _ASSIGNED)
            return
        if self._is_tried(node):
            reason = "a KeyError tells whether there is a call; test tool_calls instead"
            self._report.leave(node, READ, _MESSAGE, reason)
            return
        if self._is_text(node):
            reason = "the text of a call differs; write its name and arguments"
            self._report.leave(node, READ, _MESSAGE, reason)
            return
        loop_variable = self._context.loops.variable(node)
        if loop_variable is not None:
            self._migrate_in_loop(node, value, loop_variable)
            return
        target = self._target
        use = self._context.uses.of(node)
        if value.kind == "function":
            use = "default" if use not in ("condition", "none", "message") else use
        match use:
            case "condition":
                self._rewrite(node, target.has_calls)
            case "none":
                self._migrate_none(node, target.has_calls)
            case "member":
                self._rewrite(node, self._function(node, value, target.first_call))
            case "kept" if self._is_mixed(node):
                reason = "the variable is a call here, and something else at another place"
                self._report.leave(node, READ, _MESSAGE, reason)
            case "kept":
                is_there = self._context.uses.is_guarded(node, node) or self._is_required(node)
                self._rewrite(node, target.first_call if is_there else self._any_call(node))
            case "default":
                self._rewrite(node, self._function_or_none(node, value))
            case "message":
                self._report.find(node, READ, _MESSAGE)
            case "other":
                if self._context.uses.is_guarded(node, node):
                    self._rewrite(node, self._function(node, value, target.first_call))
                else:
                    self._rewrite(node, self._function_or_none(node, value))

    def _is_mixed(self, node: cst.BaseExpression) -> bool:
        """Whether the variable that a call is assigned to is also something else."""
        parent = self._program.parent(node)
        targets: list[cst.BaseExpression] = []
        match parent:
            case cst.Assign():
                targets = [one.target for one in parent.targets]
            case cst.NamedExpr(target=target) | cst.AnnAssign(target=target):
                targets = [target]
            case _:
                pass
        root = syntax.root(node)
        names = [one for one in targets if isinstance(one, cst.Name)]
        is_reused = root is not None and any(one.value == root.value for one in names)
        return is_reused or any(map(self._context.values.is_mixed, names))

    def _is_required(self, node: cst.BaseExpression) -> bool:
        """Whether the variable of a call is only used for its name and its arguments."""
        match self._program.parent(node):
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)]):
                uses = self._program.uses(self._program.binding(target), target.value)
            case _:
                return False
        reads = [use for use in uses if not self._program.is_target(use)]
        return bool(reads) and all(self._context.uses.of(use) == "member" for use in reads)

    def _is_tried(self, node: cst.BaseExpression) -> bool:
        """Whether the program handles the exception of a missing item here."""
        if not isinstance(node, cst.Subscript):
            return False
        inner: cst.CSTNode = node
        for outer in self._program.ancestors(node):
            if isinstance(outer, cst.Try) and inner is outer.body:
                types = [one.type for one in outer.handlers if one.type is not None]
                if any("KeyError" in syntax.code(one) for one in types):
                    return not self._context.uses.is_guarded(node, node)
            inner = outer
        return False

    def _is_text(self, node: cst.BaseExpression) -> bool:
        """Whether the text form of a whole call is used."""
        parent = self._program.parent(node)
        call = self._program.parent(parent) if isinstance(parent, cst.Arg) else None
        return isinstance(call, cst.Call) and syntax.code(call.func) in ("str", "repr")

    def _is_harmless_change(self, node: cst.BaseExpression, parent: cst.CSTNode) -> bool:
        """Whether an assignment is a request or a message of the history, migrated there."""
        if not isinstance(parent, cst.AssignTarget) or not isinstance(node, cst.Subscript):
            return False
        return isinstance(node.value, cst.Name | cst.Attribute)

    def _migrate_in_loop(self, node: cst.BaseExpression, value: Value, variable: str) -> None:
        use = self._context.uses.of(node)
        if use == "message":
            self._report.find(node, READ, _MESSAGE)
            return

        def of_variable(_: cst.BaseExpression) -> cst.BaseExpression:
            return cst.Name(variable)

        is_function = use in ("member", "other")
        self._rewrite(
            node, self._function(node, value, of_variable) if is_function else of_variable
        )

    def _migrate_none(self, node: cst.BaseExpression, convert: Convert) -> None:
        comparison = self._context.uses.none_comparison(node)
        assert comparison is not None  # noqa: S101 - the use is one with None
        is_equal = isinstance(comparison.comparisons[0].operator, cst.Is | cst.Equal)

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Comparison)  # noqa: S101 - an edit of a comparison
            calls = convert(changed.left)
            negated = expression("not {calls}", calls=calls) if is_equal else calls
            return syntax.with_parentheses_of(changed, negated)

        self._report.find(node, READ, _MESSAGE)
        self._report.edits(READ).replace(comparison, edit)

    def _rewrite(self, node: cst.BaseExpression, convert: Convert) -> None:
        self._report.rewrite(node, READ, _MESSAGE, lambda one: convert(as_expression(one)))

    def _any_call(self, node: cst.BaseExpression) -> Convert:
        """Return a conversion to the call or None, in parentheses only where they are needed."""
        if not self._is_alone(node):
            return self._target.any_call
        return lambda read: syntax.bare(self._target.any_call(read))

    def _is_alone(self, node: cst.BaseExpression) -> bool:
        """Whether an expression needs no parentheses."""
        parent = self._program.parent(node)
        return isinstance(parent, cst.Assign | cst.AnnAssign | cst.Arg | cst.Return)

    def _function(self, node: cst.BaseExpression, value: Value, convert: Convert) -> Convert:
        """Return a conversion to the function in a call."""
        if not self._target.has_function_field:
            return convert
        return lambda read: self.function_of(node, convert(read), value)

    def function_of(
        self, node: cst.CSTNode, call: cst.BaseExpression, value: Value
    ) -> cst.BaseExpression:
        """Return the function in a call."""
        if not self._target.has_function_field:
            return call
        is_dict = self._context.is_dict(value, node)
        return expression('{call}["function"]' if is_dict else "{call}.function", call=call)

    def _function_or_none(self, node: cst.BaseExpression, value: Value) -> Convert:
        """Return a conversion to the function of a call, or to an empty value."""

        def convert(read: cst.BaseExpression) -> cst.BaseExpression:
            default = _default(read)
            call = self._target.any_call(_without_default(read))
            if not self._target.has_function_field:
                return expression("{call} or {default}", call=call, default=default)
            found = self._target.has_calls(_without_default(read))
            first = self.function_of(node, self._target.first_call(read), value)
            function = expression(
                "({first} if {found} else {default})", first=first, found=found, default=default
            )
            return syntax.bare(function) if self._is_alone(node) else function

        return convert

    # Variables, attributes and parameters that keep a call

    def _migrate_kept(self, node: cst.BaseExpression, value: Value) -> None:
        use = self._context.uses.of(node)
        if not self._target.has_function_field:
            return
        if use == "member":
            edit = self._with_function(node, value)
        elif use == "other" and not self._is_type(node):
            edit = self._with_function(node, value)
            is_object = isinstance(self._program.parent(node), cst.Attribute | cst.Subscript)
            if not is_object and not self._context.uses.is_guarded(node, node):
                edit = self._with_function_or_none(node, value)
        else:
            return
        self._report.edits(READ).replace(node, edit)

    def _is_type(self, node: cst.CSTNode) -> bool:
        return isinstance(self._program.parent(node), cst.Annotation | cst.Param)

    def _with_function(
        self, node: cst.BaseExpression, value: Value
    ) -> Callable[[cst.CSTNode], cst.CSTNode]:
        return lambda call: self.function_of(node, as_expression(call), value)

    def _with_function_or_none(
        self, node: cst.BaseExpression, value: Value
    ) -> Callable[[cst.CSTNode], cst.CSTNode]:
        def edit(call: cst.CSTNode) -> cst.CSTNode:
            one = as_expression(call)
            function = self.function_of(node, one, value)
            found = expression("({function} if {call} else None)", function=function, call=one)
            return syntax.bare(found) if self._is_alone(node) else found

        return edit

    # Conditions

    def _migrate_comparison(self, comparison: cst.Comparison) -> None:
        for target, left in _pairs(comparison):
            for side, other in ((left, target.comparator), (target.comparator, left)):
                if syntax.string(side) == FIELD:
                    self._migrate_string(comparison, side, other, target.operator)
                else:
                    self._migrate_group(side, other)

    def _migrate_string(
        self,
        comparison: cst.Comparison,
        side: cst.BaseExpression,
        other: cst.BaseExpression,
        operator: cst.BaseCompOp,
    ) -> None:
        if isinstance(operator, cst.In | cst.NotIn) and side is comparison.left:
            if self._context.is_message(other):
                self._migrate_membership(comparison, other)
        elif self._context.is_reason(other):
            self._migrate_reason(side)

    def _migrate_reason(self, side: cst.BaseExpression) -> None:
        if self._target.name == "responses":
            self._report.find(side, FINISH_REASON, _REASON_MESSAGE)
            return
        self._report.rewrite(
            side, FINISH_REASON, _REASON_MESSAGE, lambda one: syntax.with_text(one, "tool_calls")
        )

    def _migrate_group(self, side: cst.BaseExpression, other: cst.BaseExpression) -> None:
        """Rewrite `finish_reason in ("stop", "function_call")`."""
        if isinstance(side, cst.Name) and self._context.is_reason(other):
            side = self._literal(side)
        if isinstance(side, cst.Tuple | cst.List | cst.Set) and self._context.is_reason(other):
            for element in side.elements:
                if syntax.string(element.value) == FIELD:
                    self._migrate_reason(element.value)

    def _literal(self, name: cst.Name) -> cst.BaseExpression:
        """Return the collection that a variable is, if it is assigned once."""
        for use in self._program.uses(self._program.binding(name), name.value):
            target = self._program.parent(use)
            assign = self._program.parent(target) if isinstance(target, cst.AssignTarget) else None
            if isinstance(assign, cst.Assign):
                match assign.value:
                    case cst.Call(args=[argument]):
                        return argument.value
                    case _:
                        return assign.value
        return name

    def _migrate_membership(self, comparison: cst.Comparison, message: cst.BaseExpression) -> None:
        """Rewrite `"function_call" in message`."""
        value = self._context.values.of(message)
        self._report.find(comparison, READ, _MESSAGE)

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Comparison)  # noqa: S101 - an edit of a comparison
            [target] = changed.comparisons
            if isinstance(target.operator, cst.Is | cst.IsNot):
                # The membership has become a read of an object.
                found = self._target.has_calls(changed.left)
                is_not = isinstance(target.operator, cst.Is)
                return expression("not {found}", found=found) if is_not else found
            is_not = isinstance(target.operator, cst.NotIn)
            is_dict = value is None or self._context.is_dict(value, message)
            template = '{m}.get("function_call")' if is_dict else "{m}.function_call"
            read = expression(template, m=target.comparator)
            found = self._target.has_calls(read)
            negated = expression("not {found}", found=found) if is_not else found
            return syntax.with_parentheses_of(changed, negated)

        self._report.edits(READ).replace(comparison, edit)

    def _migrate_hasattr(self, call: cst.Call) -> None:
        """Rewrite `hasattr(message, "function_call")`, which is true for all objects of the SDK."""
        match call:
            case cst.Call(func=cst.Name(value="hasattr"), args=[message, name]):
                if syntax.string(name.value) != FIELD or self._context.is_own(message.value):
                    return
            case _:
                return

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Call)  # noqa: S101 - an edit of a call
            read = expression(
                'getattr({message}, "function_call", None)', message=changed.args[0].value
            )
            return syntax.with_parentheses_of(changed, self._target.has_calls(read))

        self._report.rewrite(call, READ, _MESSAGE, edit)

    # `match`

    def _migrate_match(self, match: cst.Match) -> None:
        for case in match.cases:
            self._migrate_pattern(case.pattern, match.subject)

    def _migrate_pattern(self, pattern: cst.MatchPattern, subject: cst.BaseExpression) -> None:
        match pattern:
            case cst.MatchValue(value=value) if syntax.string(value) == FIELD:
                if self._context.is_reason(subject):
                    self._migrate_reason(value)
            case cst.MatchOr(patterns=patterns):
                for alternative in patterns:
                    self._migrate_pattern(alternative.pattern, subject)
            case cst.MatchTuple(patterns=patterns) | cst.MatchList(patterns=patterns):
                elements = subject.elements if isinstance(subject, cst.Tuple) else ()
                for part, element in zip(patterns, elements, strict=False):
                    if isinstance(part, cst.MatchSequenceElement):
                        self._migrate_pattern(part.value, element.value)
            case cst.MatchMapping(elements=items):
                for item in items:
                    if syntax.pattern_string(item.key) == FIELD:
                        self._leave_pattern(item)
            case cst.MatchClass(kwds=words):
                for word in words:
                    if word.key.value == FIELD:
                        self._leave_pattern(word)
            case cst.MatchAs(pattern=cst.MatchPattern() as inner):
                self._migrate_pattern(inner, subject)
            case _:
                pass

    def _leave_pattern(self, node: cst.CSTNode) -> None:
        reason = "a pattern matches function_call; match tool_calls, a list of calls"
        self._report.leave(node, READ, _MESSAGE, reason)


def _pairs(
    comparison: cst.Comparison,
) -> list[tuple[cst.ComparisonTarget, cst.BaseExpression]]:
    """Return each comparison with its left side."""
    lefts = [comparison.left, *(target.comparator for target in comparison.comparisons)]
    return list(zip(comparison.comparisons, lefts, strict=False))


def _default(read: cst.BaseExpression) -> cst.BaseExpression:
    """Return what a read returns if there is no call."""
    if isinstance(read, cst.Call):
        place = 2 if isinstance(read.func, cst.Name) else 1
        if len(read.args) > place:
            return read.args[place].value
    return cst.Name("None")


def _without_default(read: cst.BaseExpression) -> cst.BaseExpression:
    """Return a read that returns None if there is no call."""
    if isinstance(read, cst.Call) and isinstance(read.func, cst.Attribute):
        return read.with_changes(args=read.args[:1])
    return read
