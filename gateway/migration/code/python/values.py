"""What the expressions of a program are: replies, their messages and the calls in them.

Values are followed through variables, attributes, parameters, results of functions and generators,
also between modules. The order of statements is not considered.
"""

from collections.abc import Iterator
from typing import Final

import libcst as cst
from msgspec import Struct

from gateway.migration.code.python import syntax
from gateway.migration.code.python.program import Program, Scope
from gateway.migration.code.python.references import References

CALL: Final = "call"
FIELD: Final = "function_call"


class Value(Struct, frozen=True):
    """What an expression is.

    Its kind is "sender" for a function that sends requests, "reply" (also a stream and its chunks),
    "choices", "choice", "message" (also a delta), "call", "function" (the function of a call,
    without its id), "field" for other fields of replies, and "iterator", "tuple" or "record" for
    a collection of such values.
    """

    kind: str
    # Whether its fields are read as items of a dictionary.
    is_dict: bool = False
    # Whether it comes from version 0.28 of the SDK, whose replies are objects and dictionaries.
    is_old: bool = False
    # The values in a collection, with their keys.
    parts: "tuple[tuple[str, Value | None], ...]" = ()
    # Whether it is a part of a streamed reply.
    is_delta: bool = False

    def part(self, key: str) -> "Value | None":
        """Return a value in this collection."""
        return dict(self.parts).get(key)


_SDK_FIELDS: Final = frozenset(
    ("choices", "message", "delta", "function_call", "content", "role", "usage", "finish_reason")
)
_FIELDS: Final = {
    ("reply", "choices"): "choices",
    ("choice", "message"): "message",
    ("choice", "delta"): "message",
    ("message", FIELD): CALL,
}
# Calls that return what their first argument is.
_SAME = frozenset(
    (
        "run",
        "run_until_complete",
        "wait_for",
        "shield",
        "create_task",
        "ensure_future",
        "copy",
        "deepcopy",
        "iter",
        "list",
        "aiter",
        "reversed",
        "enumerate_",
    )
)
_DUMPS = frozenset(("model_dump", "to_dict", "to_dict_recursive", "dict"))
_WRAPPERS = frozenset(("to_thread", "run_in_executor", "submit", "call_with_retry", "retry_call"))
_SENDERS = (
    "chat.completions.create",
    "chat.completions.parse",
    "chat.completions.stream",
    "ChatCompletion.create",
    "ChatCompletion.acreate",
    "with_raw_response.create",
)
_OLD_SENDERS = ("ChatCompletion.create", "ChatCompletion.acreate")
_MAXIMUM_PASSES = 25


class Values:
    """Finds what expressions are."""

    def __init__(self, program: Program, references: References) -> None:
        self._program = program
        self._references = references
        self._variables: dict[tuple[Scope, str], Value] = {}
        self._attributes: dict[str, Value] = {}
        self._results: dict[cst.FunctionDef, Value] = {}
        self._is_changed = True
        self._is_stable = False
        self._uses_names = False
        self._known: dict[cst.CSTNode, Value | None] = {}
        # Functions that send a request with all keyword arguments that they receive.
        self.forwarders: dict[cst.FunctionDef, Value] = {}
        # Variables that are a call at one place, and something else at another one.
        self._mixed: set[tuple[Scope, str]] = set()
        # Dictionaries that accumulate the name and the arguments of a streamed call.
        self.accumulators = set(self._find_accumulators())
        # What is known of a request comes first: an expression can also be recognized by the names
        # in it, which tell less.
        for uses_names in (False, True):
            self._uses_names = uses_names
            self._find_all()
        self._is_stable = True

    def _find_accumulators(self) -> Iterator[cst.Dict]:
        program = self._program
        targets: list[cst.BaseExpression] = [one.target for one in program.of_type(cst.AugAssign)]
        targets += [one.target for one in program.of_type(cst.AssignTarget)]
        added = {
            syntax.code(target.value)
            for target in targets
            if isinstance(target, cst.Subscript) and syntax.key(target) == "arguments"
        }
        for assign in program.of_type(cst.Assign):
            name = syntax.code(assign.targets[0].target)
            if not isinstance(assign.value, cst.Dict):
                continue
            names = {key for key, _ in syntax.dict_items(assign.value)}
            if name in added and names == {"name", "arguments"}:
                yield assign.value
            call = syntax.dict_value(assign.value, FIELD)
            is_added = any(one.startswith(name) and FIELD in one for one in added)
            if is_added and "role" in names and isinstance(call, cst.Dict):
                yield call

    def _find_all(self) -> None:
        self._is_changed = True
        passes = 0
        while self._is_changed and passes < _MAXIMUM_PASSES:
            self._is_changed = False
            passes += 1
            self._pass()

    def of(self, node: cst.CSTNode) -> Value | None:
        """Return what an expression is; None if that is not known."""
        if self._is_stable and node in self._known:
            return self._known[node]
        value = self._infer(node)
        if self._is_stable:
            self._known[node] = value
        return value

    def is_mixed(self, name: cst.Name) -> bool:
        """Whether a variable is a call at one place, and another part of a reply elsewhere."""
        return (self._program.binding(name), name.value) in self._mixed

    def kind(self, node: cst.CSTNode) -> str | None:
        """Return the kind of an expression."""
        value = self.of(node)
        return None if value is None else value.kind

    def variables(self, scope: Scope) -> Iterator[tuple[str, Value]]:
        """Yield the variables of a scope whose values are known."""
        for (one, name), value in self._variables.items():
            if one is scope:
                yield name, value

    def attributes(self) -> Iterator[tuple[str, Value]]:
        """Yield the attributes of the program's own objects whose values are known."""
        yield from self._attributes.items()

    def has_attribute(self, name: str) -> bool:
        """Whether a program's own objects have a call as this attribute."""
        return name in self._attributes

    # Assignments

    def _pass(self) -> None:
        program = self._program
        for node in program.of_type(cst.Assign):
            value = self.of(node.value)
            for target in node.targets:
                self._bind(target.target, value)
        for named in program.of_type(cst.NamedExpr):
            self._bind(named.target, self.of(named.value))
        for annotated in program.of_type(cst.AnnAssign):
            if annotated.value is not None:
                self._bind(annotated.target, self.of(annotated.value))
        loops: list[cst.For | cst.CompFor]
        loops = [*program.of_type(cst.For), *program.of_type(cst.CompFor)]
        for loop in loops:
            self._bind_elements(loop.target, loop.iter)
        for item in program.of_type(cst.WithItem):
            if item.asname is not None:
                self._bind(item.asname.name, self.of(item.item))
        for statement in program.of_type(cst.Return):
            if statement.value is not None:
                self._return(statement, self.of(statement.value))
        for given in program.of_type(cst.Yield):
            if isinstance(given.value, cst.BaseExpression):
                self._return(given, _iterator(self.of(given.value)))
        for call in program.of_type(cst.Call):
            self._bind_arguments(call)
            self._bind_append(call)
            self._find_forwarder(call)
        for match in program.of_type(cst.Match):
            for case in match.cases:
                if isinstance(case.pattern, cst.MatchAs) and case.pattern.name is not None:
                    self._bind(case.pattern.name, self.of(match.subject))

    def _bind(self, target: cst.CSTNode, value: Value | None) -> None:
        if value is None:
            return
        match target:
            case cst.Name():
                self._set_variable(self._program.binding(target), target.value, value)
            case cst.Attribute(attr=cst.Name(value=name)):
                if name not in _SDK_FIELDS or name == FIELD:
                    self._set_attribute(name, value)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for place, element in enumerate(elements):
                    self._bind(element.value, value.part(str(place)))
            case _:
                pass

    def _bind_elements(self, target: cst.BaseExpression, iterated: cst.BaseExpression) -> None:
        if isinstance(iterated, cst.Call) and syntax.code(iterated.func) == "enumerate":
            if isinstance(target, cst.Tuple) and iterated.args:
                self._bind(target.elements[-1].value, self._element(iterated.args[0].value))
            return
        self._bind(target, self._element(iterated))

    def _element(self, iterated: cst.BaseExpression) -> Value | None:
        value = self.of(iterated)
        match value:
            case Value(kind="iterator"):
                return value.part("")
            case Value(kind="choices"):
                return Value("choice", value.is_dict, value.is_old)
            case Value(kind="reply"):
                return Value("reply", value.is_dict, value.is_old, is_delta=True)
            case _:
                return None

    def _set_variable(self, scope: Scope, name: str, value: Value) -> None:
        former = self._variables.get((scope, name))
        if former is None:
            self._variables[scope, name] = value
            self._is_changed = True
        elif former.kind != value.kind and CALL in (former.kind, value.kind):
            self._mixed.add((scope, name))

    def _set_attribute(self, name: str, value: Value) -> None:
        if name not in self._attributes:
            self._attributes[name] = value
            self._is_changed = True

    def _return(self, node: cst.CSTNode, value: Value | None) -> None:
        function = self._program.function(node)
        if function is not None and value is not None and function not in self._results:
            self._results[function] = value
            self._is_changed = True

    def _bind_arguments(self, call: cst.Call) -> None:
        callee = self._references.callee(call)
        if callee is None:
            return
        for name, argument in self._references.arguments(call):
            value = self.of(argument.value)
            if value is None:
                continue
            if isinstance(callee, cst.FunctionDef):
                self._set_variable(callee, name, value)
            else:
                constructor = self._references.constructor(callee)
                if constructor is not None:
                    self._set_variable(constructor, name, value)
                elif value.kind == CALL or name not in _SDK_FIELDS:
                    self._set_attribute(name, value)

    def _find_forwarder(self, call: cst.Call) -> None:
        """Find a function that passes all its keyword arguments on to a request."""
        sender = self.of(call.func)
        function = self._program.function(call)
        if sender is None or sender.kind != "sender" or function is None:
            return
        star = function.params.star_kwarg
        if star is None or function in self.forwarders:
            return
        passed = (argument.value for argument in call.args if argument.star == "**")
        if any(syntax.code(one) == star.name.value for one in passed):
            self.forwarders[function] = sender
            self._is_changed = True

    def _bind_append(self, call: cst.Call) -> None:
        """Follow a call or a chunk that is added to a list."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "append":
            return
        value = self.of(call.args[0].value) if len(call.args) == 1 else None
        if value is not None and value.kind in (CALL, "tuple", "record", "choice", "reply"):
            self._bind(call.func.value, _iterator(value))

    # Expressions

    def _infer(self, node: cst.CSTNode) -> Value | None:
        match node:
            case cst.Name():
                return self._infer_name(node)
            case cst.Attribute():
                return self._infer_attribute(node)
            case cst.Subscript():
                return self._infer_subscript(node)
            case cst.Call():
                return self._infer_call(node)
            case cst.Await(expression=value) | cst.NamedExpr(value=value):
                return self.of(value)
            case cst.IfExp(body=body, orelse=orelse):
                return self.of(body) or self.of(orelse)
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                is_or = isinstance(operator, cst.Or)
                return self._with_default(self.of(left), right) if is_or else self.of(right)
            case cst.Tuple(elements=elements):
                values = [self.of(element.value) for element in elements]
                parts = tuple((str(place), value) for place, value in enumerate(values))
                return Value("tuple", parts=parts) if any(values) else None
            case cst.Dict():
                return self._infer_dict(node)
            case cst.List(elements=[element, *_]):
                return _iterator(_as_function(self.of(element.value)))
            case cst.ListComp(elt=element) | cst.GeneratorExp(elt=element):
                return _iterator(self.of(element))
            case _:
                return None

    def _with_default(self, value: Value | None, default: cst.BaseExpression) -> Value | None:
        """Return the value of `value or default`."""
        if value is not None and value.kind == CALL and isinstance(default, cst.Dict):
            return Value("function", value.is_dict, value.is_old)
        return value or self.of(default)

    def _infer_dict(self, node: cst.Dict) -> Value | None:
        if node in self.accumulators and not isinstance(
            self._program.parent(node), cst.DictElement
        ):
            return Value(CALL, is_dict=True)
        values = [
            (name, _as_function(self.of(element.value)))
            for name, element in syntax.dict_items(node)
        ]
        if not any(value for _, value in values) or syntax.dict_value(node, "role") is not None:
            return None
        return Value("record", is_dict=True, parts=tuple(values))

    def _infer_name(self, node: cst.Name) -> Value | None:
        scope = self._program.binding(node)
        value = self._variables.get((scope, node.value))
        if value is None:
            definition = self._references.definition(node)
            if isinstance(definition, cst.FunctionDef) and definition in self.forwarders:
                return self.forwarders[definition]
        return value

    def _infer_attribute(self, node: cst.Attribute) -> Value | None:
        name = node.attr.value
        owner = self.of(node.value)
        if owner is not None and owner.kind != "sender":
            return self._step(owner, name, is_dict=False)
        if name in ("create", "acreate", "parse", "stream") and syntax.code(node).endswith(
            _SENDERS
        ):
            return Value("sender", is_old=syntax.code(node).endswith(_OLD_SENDERS))
        if name in self._attributes and (name != FIELD or _is_self(node.value)):
            return self._attributes[name]
        prop = self._references.definition(node)
        if isinstance(prop, cst.FunctionDef) and _is_property(prop):
            return self._results.get(prop)
        return self._read(name, is_dict=False, owner=node.value)

    def _infer_subscript(self, node: cst.Subscript) -> Value | None:
        owner = self.of(node.value)
        name = syntax.key(node)
        if name is not None:
            if owner is not None:
                return self._step(owner, name, is_dict=True)
            return self._read(name, is_dict=True, owner=node.value)
        if owner is None:
            return None
        match owner.kind:
            case "choices":
                return Value("choice", owner.is_dict, owner.is_old, is_delta=owner.is_delta)
            case "iterator":
                return owner.part("")
            case "tuple":
                return owner.part(syntax.code(node.slice[0].slice)) if node.slice else None
            case "field":
                return owner
            case _:
                return None

    def _step(self, owner: Value, name: str, *, is_dict: bool) -> Value | None:
        """Return the value of a field."""
        if owner.kind == "record":
            return owner.part(name)
        # A variable can be something else at another place, so the name decides.
        kind = CALL if name == FIELD else _FIELDS.get((owner.kind, name))
        if kind is not None:
            owner_is_dict = owner.is_dict if owner.kind != "field" else is_dict
            is_delta = name == "delta" or owner.is_delta
            return Value(kind, owner_is_dict, owner.is_old, is_delta=is_delta)
        return Value("field", owner.is_dict, owner.is_old) if owner.is_old else None

    def _infer_call(self, node: cst.Call) -> Value | None:
        func = node.func
        method = func.attr.value if isinstance(func, cst.Attribute) else None
        called = self.of(func)
        callee = self._references.callee(node)
        if isinstance(callee, cst.FunctionDef) and callee in self._results:
            return self._results[callee]
        if called is not None and called.kind == "sender":
            return Value("reply", is_old=called.is_old)
        if method == "get" and isinstance(func, cst.Attribute) and node.args:
            return self._infer_get(node, func.value)
        if is_getattr(node):
            name = syntax.string(node.args[1].value) or ""
            owner = self.of(node.args[0].value)
            if owner is not None:
                return self._step(owner, name, is_dict=False)
            return self._read(name, is_dict=False, owner=node.args[0].value)
        if isinstance(callee, cst.FunctionDef):
            return None
        arguments = [argument.value for argument in node.args]
        senders = [value for one in arguments if (value := self.of(one)) and value.kind == "sender"]
        if senders:
            name = method or syntax.code(func)
            is_partial = name not in _WRAPPERS
            return Value("sender" if is_partial else "reply", is_old=senders[0].is_old)
        return self._infer_conversion(node, method or syntax.code(func))

    def _infer_get(self, node: cst.Call, owner: cst.BaseExpression) -> Value | None:
        name = syntax.string(node.args[0].value)
        value = self.of(owner)
        if name is None:
            return None
        if value is not None:
            found = self._step(value, name, is_dict=True)
        else:
            found = self._read(name, is_dict=True, owner=owner)
        if found is not None and found.kind == CALL and len(node.args) > 1:
            is_none = syntax.code(node.args[1].value) == "None"
            return found if is_none else Value("function", found.is_dict, found.is_old)
        return found

    def _read(self, name: str, *, is_dict: bool, owner: cst.BaseExpression) -> Value | None:
        """Return the value of a field of an object that is not known."""
        if not self._uses_names:
            return None
        if name == "choices":
            return Value("choices", is_dict)
        if name == FIELD and not set(syntax.names(owner)) & _FOREIGN:
            return Value(CALL, is_dict, is_delta="delta" in syntax.names(owner))
        return None

    def _infer_conversion(self, node: cst.Call, name: str) -> Value | None:
        owner = self.of(node.func.value) if isinstance(node.func, cst.Attribute) else None
        if owner is not None and name in _DUMPS:
            owner = _as_function(owner) or owner
            return Value(owner.kind, is_dict=True, is_delta=owner.is_delta)
        if owner is not None and name in ("parse", "copy", "model_copy", "result"):
            return owner
        if not node.args:
            return None
        first = self.of(node.args[-1 if name == "cast" else 0].value)
        if first is None:
            return None
        if name == "dict":
            return Value(first.kind, is_dict=True)
        if name in ("next", "anext"):
            return first.part("") if first.kind == "iterator" else first
        return first if name in _SAME or name == "cast" else None


def is_getattr(node: cst.CSTNode) -> bool:
    """Whether an expression is `getattr(value, "name", ...)`."""
    match node:
        case cst.Call(func=cst.Name(value="getattr"), args=[_, name, *_]):
            return syntax.string(name.value) is not None
        case _:
            return False


def _is_self(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value in ("self", "cls")


def _is_property(function: cst.FunctionDef) -> bool:
    names = {syntax.code(one.decorator) for one in function.decorators}
    return bool(names & {"property", "cached_property", "functools.cached_property"})


def _iterator(value: Value | None) -> Value | None:
    return None if value is None else Value("iterator", parts=(("", value),))


def _as_function(value: Value | None) -> Value | None:
    """Return what is kept of a value whose uses cannot be followed."""
    if value is not None and value.kind == CALL:
        return Value("function", value.is_dict, value.is_old)
    return value


# Owners of these names have other things called `function_call`, for example in Gemini's SDK.
_FOREIGN = frozenset(
    ("part", "parts", "candidate", "candidates", "item", "node", "ast", "self", "additional_kwargs")
)
