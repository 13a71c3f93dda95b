"""Functions and classes of a program, and where they are called."""

from collections.abc import Iterator, Sequence

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.program import Program, Scope

Definition = cst.FunctionDef | cst.ClassDef
# Methods of lists, dictionaries, strings and clients: their names do not identify a method.
_COMMON = frozenset(dir(list)) | frozenset(dir(dict)) | frozenset(dir(str)) | {"create", "send"}


class References:
    """Finds the definition of a called name, also in other modules of the program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._definitions: dict[tuple[Scope, str], Definition] = {}
        self._methods: dict[str, list[cst.FunctionDef]] = {}
        # The module and the name in it that an import binds; no name for the module itself.
        self._imports: dict[tuple[Scope, str], tuple[str, str | None]] = {}
        self._callers: dict[Definition, list[cst.Call]] = {}
        self._find_definitions()
        self._find_imports()
        for call in program.of_type(cst.Call):
            callee = self.callee(call)
            if callee is not None:
                self._callers.setdefault(callee, []).append(call)

    def _find_definitions(self) -> None:
        definitions: list[Definition] = [
            *self._program.of_type(cst.FunctionDef),
            *self._program.of_type(cst.ClassDef),
        ]
        for node in definitions:
            scope = self._program.scope(node)
            self._definitions[scope, node.name.value] = node
            if isinstance(node, cst.FunctionDef) and isinstance(scope, cst.ClassDef):
                self._methods.setdefault(node.name.value, []).append(node)

    def _find_imports(self) -> None:
        for node in self._program.of_type(cst.ImportFrom):
            if isinstance(node.names, cst.ImportStar):
                continue
            module = syntax.code(node.module).split(".")[-1] if node.module else ""
            for alias in node.names:
                name = alias.evaluated_name
                key = self._program.scope(node), alias.evaluated_alias or name
                self._imports[key] = (module, name) if module else (name, None)
        for statement in self._program.of_type(cst.Import):
            for alias in statement.names:
                name = alias.evaluated_name.split(".")[-1]
                bound = alias.evaluated_alias or alias.evaluated_name.split(".")[0]
                self._imports[self._program.scope(statement), bound] = name, None

    # Definitions

    def callee(self, call: cst.Call) -> Definition | None:
        """Return the function or class of the program that is called."""
        return self.definition(call.func)

    def definition(self, node: cst.BaseExpression) -> Definition | None:
        """Return the function or class of the program that an expression is."""
        match node:
            case cst.Name():
                return self._named(node)
            case cst.Attribute(value=cst.Name(value="self" | "cls"), attr=cst.Name(value=name)):
                own = self._own_method(node, name)
                return own or self._unique_method(name)
            case cst.Attribute(value=value, attr=cst.Name(value=name)):
                return self._member(value, name)
            case _:
                return None

    def _named(self, node: cst.Name) -> Definition | None:
        scope = self._program.binding(node)
        found = self._definitions.get((scope, node.value))
        return found or self._imported(scope, node.value)

    def _imported(self, scope: Scope, name: str) -> Definition | None:
        module, member = self._imports.get((scope, name), ("", None))
        other = self._program.imported(module, self._program.module(scope))
        if member is None or other is None:
            return None
        return self._definitions.get((other, member)) or self._reexported(other, member)

    def _reexported(self, module: cst.Module, name: str) -> Definition | None:
        origin, member = self._imports.get((module, name), ("", None))
        other = self._program.imported(origin, module)
        if member is None or other is None:
            return None
        return self._definitions.get((other, member))

    def imported_name(self, node: cst.Name) -> tuple[str, str | None]:
        """Return the module, and the name in it, that a variable was imported from."""
        return self._imports.get((self._program.binding(node), node.value), ("", None))

    def imported_module(self, node: cst.BaseExpression) -> str | None:
        """Return the last part of the name of the module that a variable is."""
        if isinstance(node, cst.Name):
            found = self._imports.get((self._program.binding(node), node.value))
            if found is not None:
                return found[1] or found[0]
        return None

    def _member(self, owner: cst.BaseExpression, name: str) -> Definition | None:
        module = self.imported_module(owner)
        if module is not None:
            other = self._program.imported(module, self._program.module(owner))
            if other is not None:
                return self._definitions.get((other, name))
        owned = self.definition(owner) if isinstance(owner, cst.Name) else None
        if isinstance(owned, cst.ClassDef):
            return self._definitions.get((owned, name))
        return None if module is not None else self._unique_method(name)

    def _own_method(self, node: cst.CSTNode, name: str) -> Definition | None:
        for outer in self._program.ancestors(node):
            if isinstance(outer, cst.ClassDef):
                return self._definitions.get((outer, name))
        return None

    def _unique_method(self, name: str) -> cst.FunctionDef | None:
        found = self._methods.get(name, [])
        return found[0] if len(found) == 1 and name not in _COMMON else None

    # Callers

    def callers(self, definition: Definition) -> Sequence[cst.Call]:
        """Return all calls of a function or a class."""
        return self._callers.get(definition, ())

    def is_only_called(self, function: cst.FunctionDef) -> bool:
        """Whether a function is called and never used as a value."""
        program = self._program
        callers = self.callers(function)
        scope = program.scope(function)
        if isinstance(scope, cst.ClassDef):
            return bool(callers) and len(self._methods[function.name.value]) == 1
        uses = [
            use
            for use in program.uses(scope, function.name.value)
            if use is not function.name and not isinstance(program.parent(use), cst.ImportAlias)
        ]
        functions = [call.func for call in callers]
        return bool(callers) and all(any(use is one for one in functions) for use in uses)

    # Arguments

    def arguments(self, call: cst.Call) -> Iterator[tuple[str, cst.Arg]]:
        """Yield the arguments of a call with the names of their parameters."""
        callee = self.callee(call)
        names = self._positional(call, callee)
        is_plain = True
        for place, argument in enumerate(call.args):
            is_plain = is_plain and not argument.star
            if argument.keyword is not None:
                yield argument.keyword.value, argument
            elif is_plain and place < len(names):
                yield names[place], argument

    def _positional(self, call: cst.Call, callee: Definition | None) -> list[str]:
        if isinstance(callee, cst.ClassDef):
            constructor = self._definitions.get((callee, "__init__"))
            if isinstance(constructor, cst.FunctionDef):
                return parameter_names(constructor)[1:]
            return [name for name, _ in class_fields(callee)]
        if callee is None:
            return []
        names = parameter_names(callee)
        is_method = isinstance(self._program.scope(callee), cst.ClassDef)
        by_class = isinstance(call.func, cst.Attribute) and isinstance(
            self.definition(call.func.value), cst.ClassDef
        )
        return names[1:] if is_method and not by_class and not _is_static(callee) else names

    def constructor(self, definition: cst.ClassDef) -> cst.FunctionDef | None:
        """Return the `__init__` of a class."""
        found = self._definitions.get((definition, "__init__"))
        return found if isinstance(found, cst.FunctionDef) else None


def _is_static(function: cst.FunctionDef) -> bool:
    return any(syntax.code(one.decorator) == "staticmethod" for one in function.decorators)


def parameter_names(function: cst.FunctionDef) -> list[str]:
    """Return the names of the positional parameters of a function."""
    parameters = (*function.params.posonly_params, *function.params.params)
    return [one.name.value for one in parameters]


def class_fields(definition: cst.ClassDef) -> Iterator[tuple[str, cst.AnnAssign]]:
    """Yield the annotated fields of a class."""
    for line in definition.body.body:
        if isinstance(line, cst.SimpleStatementLine):
            for statement in line.body:
                if isinstance(statement, cst.AnnAssign) and isinstance(statement.target, cst.Name):
                    yield statement.target.value, statement
