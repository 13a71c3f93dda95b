"""How an expression is used by the code around it."""

from collections.abc import Sequence
from typing import Final, Literal

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.program import Program
from gateway.migration.code.python.references import References
from gateway.migration.code.python.values import FIELD, Values

# What a program may read of a call.
MEMBERS: Final = ("name", "arguments")

# "condition": only the truth counts. "none": it is compared with None. "member": its name or its
# arguments are read. "kept": a variable, a parameter or a result keeps it. "default": another
# value is used if it is empty. "message": it is in a message of the assistant. "other": the rest.
Use = Literal["condition", "none", "member", "kept", "default", "message", "other"]


class Uses:
    """Finds how expressions are used."""

    def __init__(self, program: Program, references: References, values: Values) -> None:
        self._program = program
        self._references = references
        self._values = values

    def of(self, node: cst.CSTNode) -> Use:
        """Return how an expression is used."""
        parent = self._program.parent(node)
        if self.is_condition(node):
            return "condition"
        if self.none_comparison(node) is not None:
            return "none"
        if self.member(node) is not None:
            return "member"
        match parent:
            case cst.Assign(targets=targets) if parent.value is node:
                is_kept = all(isinstance(one.target, cst.Name | cst.Attribute) for one in targets)
                return "kept" if is_kept else self._assigned(parent)
            case cst.AnnAssign(target=target):
                return "kept" if isinstance(target, cst.Name | cst.Attribute) else "other"
            case cst.NamedExpr():
                return "kept" if self._is_target_used(parent) else self.of(parent)
            case cst.Arg():
                return self._passed(parent)
            case cst.Return() | cst.Yield():
                function = self._program.function(node)
                is_followed = function is not None and bool(self._references.callers(function))
                return "kept" if is_followed else "other"
            case cst.Element() if isinstance(self._program.parent(parent), cst.Tuple):
                outer = self._program.parent(parent)
                return self.of(outer) if outer is not None else "other"
            case cst.IfExp(test=test) if test is not node:
                return self.of(parent)
            case cst.BooleanOperation(left=left, operator=cst.Or(), right=right):
                if left is node and isinstance(right, cst.Dict):
                    return "default"
                return self.of(parent)
            case cst.BooleanOperation(right=right):
                return self.of(parent) if right is node else "condition"
            case cst.DictElement(key=key) if syntax.string(key) == FIELD:
                outer = self._program.parent(parent)
                is_message = isinstance(outer, cst.Dict) and syntax.dict_value(outer, "role")
                return "message" if is_message else "other"
            case cst.Match():
                return "kept"
            case _:
                return "other"

    def _assigned(self, assign: cst.Assign) -> Use:
        target = assign.targets[0].target
        is_message = len(assign.targets) == 1 and syntax.key(target) == FIELD
        return "message" if is_message else "other"

    def _is_target_used(self, named: cst.NamedExpr) -> bool:
        return isinstance(named.target, cst.Name)

    def _passed(self, argument: cst.Arg) -> Use:
        call = self._program.parent(argument)
        if not isinstance(call, cst.Call):
            return "other"
        is_field = argument.keyword is not None and argument.keyword.value == FIELD
        if is_field and syntax.code(call.func) == "dict":
            return "message" if syntax.keyword(call, "role") is not None else "other"
        callee = self._references.callee(call)
        if is_field and isinstance(callee, cst.FunctionDef):
            named = {
                one.name.value for one in (*callee.params.params, *callee.params.kwonly_params)
            }
            if FIELD not in named:
                # It becomes a field of what the function makes.
                return "message"
        if callee is not None:
            names = [name for name, one in self._references.arguments(call) if one is argument]
            return "kept" if names else "other"
        match call.func:
            case cst.Attribute(value=owner, attr=cst.Name(value="append")):
                return "kept" if self._values.of(owner) is not None else "other"
            case _:
                return "other"

    # Conditions

    def is_condition(self, node: cst.CSTNode) -> bool:
        """Whether only the truth of an expression counts."""
        parent = self._program.parent(node)
        match parent:
            case (
                cst.If(test=test)
                | cst.While(test=test)
                | cst.IfExp(test=test)
                | cst.Assert(test=test)
                | cst.CompIf(test=test)
            ):
                return test is node
            case cst.UnaryOperation(operator=cst.Not()):
                return True
            case cst.BooleanOperation():
                return self.is_condition(parent)
            case cst.Arg():
                outer = self._program.parent(parent)
                return isinstance(outer, cst.Call) and syntax.code(outer.func) == "bool"
            case _:
                return False

    def none_comparison(self, node: cst.CSTNode) -> cst.Comparison | None:
        """Return the comparison of an expression with None around it."""
        parent = self._program.parent(node)
        if not isinstance(parent, cst.Comparison) or parent.left is not node:
            return None
        if len(parent.comparisons) != 1:
            return None
        comparator = parent.comparisons[0].comparator
        is_none = isinstance(comparator, cst.Name) and comparator.value == "None"
        return parent if is_none else None

    def member(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return the expression that reads the name or the arguments of a call."""
        parent = self._program.parent(node)
        match parent:
            case cst.Attribute(value=value, attr=cst.Name(value=name)) if value is node:
                if name in MEMBERS:
                    return parent
                call = self._program.parent(parent)
                if name == "get" and isinstance(call, cst.Call):
                    return call if syntax.method_argument(call, "get") in MEMBERS else None
            case cst.Subscript(value=owner) if owner is node:
                return parent if syntax.key(parent) in MEMBERS else None
            case cst.Arg():
                call = self._program.parent(parent)
                if isinstance(call, cst.Call) and self._is_read(call, parent):
                    return call
            case _:
                pass
        return None

    def _is_read(self, call: cst.Call, argument: cst.Arg) -> bool:
        """Whether a call is `getattr(argument, "name")`."""
        if syntax.code(call.func) not in ("getattr", "hasattr") or call.args[0] is not argument:
            return False
        return len(call.args) > 1 and syntax.string(call.args[1].value) in MEMBERS

    # Guards

    def requires(self, test: cst.BaseExpression, read: cst.BaseExpression) -> bool:
        """Whether a condition is true only if the call that is read is there."""
        return self._requires(test, self._meaning(read))

    def is_guarded(self, node: cst.CSTNode, tested: cst.BaseExpression) -> bool:
        """Whether a node is only reached if a call, read from a message or kept, is there."""
        wanted = self._meaning(tested)
        inner = node
        for outer in self._program.ancestors(node):
            match outer:
                case cst.If() | cst.IfExp() | cst.While():
                    if inner is outer.body and self._requires(outer.test, wanted):
                        return True
                    orelse = None if isinstance(outer, cst.While) else outer.orelse
                    if inner is orelse and self._excludes(outer.test, wanted):
                        return True
                case cst.BooleanOperation(left=left, operator=operator, right=right):
                    if inner is right:
                        is_and = isinstance(operator, cst.And)
                        if (self._requires if is_and else self._excludes)(left, wanted):
                            return True
                case cst.IndentedBlock(body=body) | cst.Module(body=body):
                    if self._is_left_before(body, inner, wanted):
                        return True
                case cst.ListComp() | cst.SetComp() | cst.GeneratorExp() if (
                    inner is outer.elt
                    and any(self._requires(one.test, wanted) for one in outer.for_in.ifs)
                ):
                    return True
                case cst.FunctionDef() | cst.Lambda():
                    return False
                case _:
                    pass
            inner = outer
        return False

    def _is_left_before(self, body: Sequence[cst.CSTNode], inner: cst.CSTNode, wanted: str) -> bool:
        """Whether an earlier statement ends the block if there is no call."""
        for statement in body:
            if statement is inner:
                return False
            match statement:
                case cst.If(test=test, body=branch, orelse=None) if _leaves(branch):
                    if self._excludes(test, wanted):
                        return True
                case cst.SimpleStatementLine(body=[cst.Assert(test=test)]):
                    if self._requires(test, wanted):
                        return True
                case _:
                    pass
        return False

    def _meaning(self, node: cst.BaseExpression) -> str:
        """Return the message whose call is read, or the variable that keeps it."""
        if isinstance(node, cst.NamedExpr):
            return syntax.code(node.target)
        message = message_of(node)
        return syntax.code(message) if message is not None else syntax.code(node)

    def _requires(self, test: cst.BaseExpression, wanted: str) -> bool:
        """Whether a condition is true only if there is a call."""
        match test:
            case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
                return self._requires(left, wanted) or self._requires(right, wanted)
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return self._excludes(inner, wanted)
            case cst.Comparison(left=left, comparisons=[target]):
                match target.operator:
                    case cst.In():
                        is_call = syntax.string(left) == FIELD
                        return is_call and syntax.code(target.comparator) == wanted
                    case cst.IsNot() | cst.NotEqual():
                        is_none = syntax.code(target.comparator) == "None"
                        return is_none and self._meaning(left) == wanted
                    case cst.Equal():
                        return _is_reason(left) and syntax.string(target.comparator) == FIELD
                    case _:
                        return False
            case cst.Call(func=cst.Name(value="bool"), args=[argument]):
                return self._requires(argument.value, wanted)
            case _:
                return self._values.kind(test) == "call" and self._meaning(test) == wanted

    def _excludes(self, test: cst.BaseExpression, wanted: str) -> bool:
        """Whether a condition is false only if there is a call."""
        match test:
            case cst.BooleanOperation(left=left, operator=cst.Or(), right=right):
                return self._excludes(left, wanted) or self._excludes(right, wanted)
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return self._requires(inner, wanted)
            case cst.Comparison(left=left, comparisons=[target]):
                match target.operator:
                    case cst.NotIn():
                        is_call = syntax.string(left) == FIELD
                        return is_call and syntax.code(target.comparator) == wanted
                    case cst.Is() | cst.Equal():
                        is_none = syntax.code(target.comparator) == "None"
                        return is_none and self._meaning(left) == wanted
                    case cst.NotEqual():
                        return _is_reason(left) and syntax.string(target.comparator) == FIELD
                    case _:
                        return False
            case _:
                return False


def _is_reason(node: cst.BaseExpression) -> bool:
    return "finish_reason" in syntax.names(node)[:1]


def _leaves(branch: cst.BaseSuite) -> bool:
    """Whether a branch never reaches its end."""
    if not branch.body:
        return False
    last = branch.body[-1]
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    if isinstance(last, cst.Expr):
        return syntax.code(last.value).startswith(("sys.exit(", "exit(", "quit("))
    return isinstance(last, cst.Return | cst.Continue | cst.Break | cst.Raise)


def message_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the message whose `function_call` an expression reads."""
    match node:
        case cst.Attribute(value=value, attr=cst.Name(value="function_call")):
            return value
        case cst.Subscript(value=value) if syntax.key(node) == FIELD:
            return value
        case cst.Call(func=cst.Attribute(value=value)) if (
            syntax.method_argument(node, "get") == FIELD
        ):
            return value
        case cst.Call(func=cst.Name(value="getattr"), args=[message, name, *_]) if (
            syntax.string(name.value) == FIELD
        ):
            return message.value
        case _:
            return None
