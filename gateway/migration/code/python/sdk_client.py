"""Version 0.28 of the OpenAI SDK: its resources, its configuration and its errors."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import libcst as cst

from gateway.migration.code.python import syntax
from gateway.migration.code.python.context import Context
from gateway.migration.code.python.entries import Entries, Entry
from gateway.migration.code.python.syntax import as_expression, expression

RESOURCE: Final = "openai-resource"
CONFIG: Final = "openai-config"
ERROR: Final = "openai-error"

_RESOURCE_MESSAGE = "uses openai.{name} of version 0.28"
_CONFIG_MESSAGE = "configures version 0.28 of the SDK with {name}"
_ERROR_MESSAGE = "uses openai.error of version 0.28"
# Other resources, with where they are now.
_RESOURCES: Final[Mapping[str, str]] = {
    "Completion": "openai.completions",
    "Embedding": "openai.embeddings",
    "Image": "openai.images",
    "Audio": "openai.audio",
    "Moderation": "openai.moderations",
    "Model": "openai.models",
    "File": "openai.files",
    "FineTune": "openai.fine_tuning.jobs",
    "FineTuningJob": "openai.fine_tuning.jobs",
    "Edit": "openai.chat.completions",
    "Engine": "openai.models",
    "Deployment": "openai.models",
    "Customer": "the current SDK",
}
_GONE = frozenset(
    ("api_key_path", "proxy", "verify_ssl_certs", "ca_bundle_path", "app_info", "requestssession",
     "aiosession", "enable_telemetry", "log", "debug")
)  # fmt: skip
# The new names of errors. The former `APIError` was raised for errors of the server, whereas that
# of today is the base of all errors with a status.
_ERRORS: Final[Mapping[str, str]] = {
    "OpenAIError": "OpenAIError",
    "APIError": "InternalServerError",
    "APIConnectionError": "APIConnectionError",
    "AuthenticationError": "AuthenticationError",
    "InvalidRequestError": "BadRequestError",
    "PermissionError": "PermissionDeniedError",
    "RateLimitError": "RateLimitError",
    "ServiceUnavailableError": "InternalServerError",
    "Timeout": "APITimeoutError",
    "TryAgain": "ConflictError",
}
_ERROR_FIELDS: Final[Mapping[str, str]] = {
    "http_status": 'getattr({error}, "status_code", None)',
    "json_body": 'getattr({error}, "body", None)',
    "user_message": "str({error})",
    "headers": "{error}.response.headers",
    "http_body": "{error}.response.text",
}
_REQUEST_FIELDS: Final[Mapping[str, str]] = {
    "engine": "model",
    "deployment_id": "model",
    "request_timeout": "timeout",
    "headers": "extra_headers",
}
# Fields of a request that configure its client.
_CLIENT_FIELDS: Final[Mapping[str, str]] = {
    "api_key": "api_key",
    "api_base": "base_url",
    "organization": "organization",
}
_AZURE_FIELDS: Final[Mapping[str, str]] = {
    "api_key": "api_key",
    "api_base": "azure_endpoint",
    "api_version": "api_version",
}
_TYPE_FIELD = "api_type"


class OldClientMigration:
    """Rewrites how a program uses version 0.28 of the SDK, apart from its replies."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._program = context.program
        self._report = context.report
        self._references = context.references

    def migrate(self) -> None:
        """Rewrite resources, their configuration and their errors."""
        for node in self._program.of_type(cst.Attribute):
            self._migrate_attribute(node)
        for name in self._program.of_type(cst.Name):
            self._migrate_name(name)
        for text in self._program.of_type(cst.SimpleString):
            self._migrate_string(text)
        for statement in self._program.of_type(cst.ImportFrom):
            self._migrate_import_from(statement)
        for imported in self._program.of_type(cst.Import):
            self._migrate_import(imported)
        for call in self._program.of_type(cst.Call):
            if self._is_old_request(call):
                self._migrate_request(call)
        for request in self._request_dicts():
            self._migrate_fields(request)
        for handler in self._program.of_type(cst.ExceptHandler):
            self._migrate_handler(handler)
        if self._handles_errors:
            self._disable_retries()

    @property
    def _handles_errors(self) -> bool:
        """Whether the program handles errors of the former SDK, which never retried."""
        handlers = self._program.of_type(cst.ExceptHandler)
        return any(one.type is not None and self._is_old_error(one.type) for one in handlers)

    def _disable_retries(self) -> None:
        """Leave retries to the program."""
        for statement in self._program.of_type(cst.Import):
            for alias in statement.names:
                name = alias.evaluated_alias or alias.evaluated_name
                is_sdk = alias.evaluated_name == "openai"
                if is_sdk and isinstance(self._program.scope(statement), cst.Module):
                    line = self._program.statement(statement)
                    last = self._last_import(line)
                    self._report.edits(CONFIG).insert_after(last, f"{name}.max_retries = 0\n")
                    return

    def _last_import(self, line: cst.CSTNode) -> cst.CSTNode:
        """Return the last of the imports that follow an import without other statements."""
        found = line
        is_after = False
        for statement in self._program.module(line).body:
            is_after = is_after or statement is line
            if not is_after:
                continue
            match statement:
                case cst.SimpleStatementLine(body=[cst.Import() | cst.ImportFrom()]):
                    found = statement
                case _:
                    break
        return found

    def _is_sdk(self, node: cst.CSTNode) -> bool:
        """Whether an expression is the module of the SDK."""
        if not isinstance(node, cst.Name):
            return False
        return self._references.imported_name(node) == ("openai", None)

    def _origin(self, node: cst.CSTNode) -> tuple[str, str | None]:
        """Return the module and the name in it that a variable was imported from."""
        return self._references.imported_name(node) if isinstance(node, cst.Name) else ("", None)

    # Resources and configuration

    def _migrate_attribute(self, node: cst.Attribute) -> None:
        name = node.attr.value
        if self._is_sdk(node.value):
            if name == "ChatCompletion":
                self._migrate_resource(node)
            elif name in _RESOURCES:
                self._leave_resource(node, name)
            elif name in ("api_base", _TYPE_FIELD) or name in _GONE:
                self._migrate_config(node, name)
            elif name == "InvalidRequestError":
                self._rename_error(node, name)
        elif name in _ERRORS and self._is_error_module(node.value):
            self._migrate_error(node, name)
        elif name == "acreate" and self._is_chat_completion(node.value):
            self._migrate_async(node)

    def _is_error_module(self, node: cst.BaseExpression) -> bool:
        match node:
            case cst.Attribute(value=value, attr=cst.Name(value="error")):
                return self._is_sdk(value)
            case _:
                return self._origin(node) in (("openai", "error"), ("error", None))

    def _is_chat_completion(self, node: cst.BaseExpression) -> bool:
        match node:
            case cst.Attribute(value=value, attr=cst.Name(value="ChatCompletion")):
                return self._is_sdk(value)
            case _:
                return self._origin(node) == ("openai", "ChatCompletion")

    def _migrate_resource(self, node: cst.Attribute) -> None:
        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Attribute)  # noqa: S101 - an edit of an attribute
            return expression("{sdk}.chat.completions", sdk=changed.value)

        message = _RESOURCE_MESSAGE.format(name="ChatCompletion")
        self._report.rewrite(node, RESOURCE, message, edit)

    def _leave_resource(self, node: cst.CSTNode, name: str) -> None:
        reason = f"openai.{name} is now {_RESOURCES[name]}, whose replies are objects"
        self._report.leave(node, RESOURCE, _RESOURCE_MESSAGE.format(name=name), reason)

    def _migrate_async(self, node: cst.Attribute) -> None:
        client = self._async_client()

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            del changed
            return expression(f"{client}.chat.completions.create")

        message = _RESOURCE_MESSAGE.format(name="ChatCompletion.acreate")
        self._report.rewrite(node, RESOURCE, message, edit)

    def _async_client(self) -> str:
        """Return an asynchronous client with the configuration of the module."""
        configured = set(self._configured())
        if self._is_azure:
            fields = ["api_key=openai.api_key", "azure_endpoint=openai.azure_endpoint"]
            fields += ["api_version=openai.api_version"]
            return f"openai.AsyncAzureOpenAI({', '.join(fields)})"
        names = {"api_key": "api_key", "api_base": "base_url", "organization": "organization"}
        fields = [f"{new}=openai.{new}" for old, new in names.items() if old in configured]
        fields += ["max_retries=0"] if self._handles_errors else []
        return f"openai.AsyncOpenAI({', '.join(fields)})"

    def _configured(self) -> Iterator[str]:
        for node in self._program.of_type(cst.Attribute):
            if self._is_sdk(node.value) and self._program.is_target(node):
                yield node.attr.value

    @property
    def _is_azure(self) -> bool:
        """Whether the program configures Azure."""
        return any((syntax.string(value) or "").startswith("azure") for value in self._types())

    def _types(self) -> Iterator[cst.BaseExpression]:
        """Yield the values of `openai.api_type`."""
        for assign in self._program.of_type(cst.Assign):
            for target in assign.targets:
                yield from self._assigned_types(target.target, assign.value)

    def _assigned_types(
        self, target: cst.BaseExpression, value: cst.BaseExpression
    ) -> Iterator[cst.BaseExpression]:
        match target, value:
            case cst.Attribute(value=sdk, attr=cst.Name(value="api_type")), _:
                if self._is_sdk(sdk):
                    yield value
            case cst.Tuple(elements=targets), cst.Tuple(elements=values):
                for one, other in zip(targets, values, strict=False):
                    yield from self._assigned_types(one.value, other.value)
            case _:
                pass

    def _migrate_config(self, node: cst.Attribute, name: str) -> None:
        message = _CONFIG_MESSAGE.format(name=f"openai.{name}")
        parent = self._program.parent(node)
        assign = self._program.parent(parent) if isinstance(parent, cst.AssignTarget) else None
        if name in _GONE:
            reason = f"the current SDK has no openai.{name}; configure its client"
            self._report.leave(node, CONFIG, message, reason)
        elif name == _TYPE_FIELD:
            self._migrate_type(node, assign)
        elif not isinstance(assign, cst.Assign):
            if self._program.is_target(node):
                reason = "openai.api_base is now openai.base_url, with a final slash"
                self._report.leave(node, CONFIG, message, reason)
            else:
                self._rename_config(node)
        else:
            self._rename_config(node)
            if not self._is_azure:
                self._report.edits(CONFIG).replace(assign, _with_slash)

    def _rename_config(self, node: cst.Attribute) -> None:
        name = "azure_endpoint" if self._is_azure else "base_url"
        self._report.rewrite(
            node,
            CONFIG,
            _CONFIG_MESSAGE.format(name="openai.api_base"),
            lambda one: one.with_changes(attr=cst.Name(name)),
        )

    def _migrate_type(self, node: cst.Attribute, assign: cst.CSTNode | None) -> None:
        message = _CONFIG_MESSAGE.format(name="openai.api_type")
        if not isinstance(assign, cst.Assign):
            if self._program.is_target(node):
                return
            self._report.leave(node, CONFIG, message, "the values of openai.api_type have changed")
            return
        match syntax.string(assign.value):
            case "azure":
                return
            case "open_ai" | "openai":
                self._report.rewrite(
                    assign.value, CONFIG, message, lambda one: syntax.with_text(one, "openai")
                )
            case _:
                reason = "configure Azure with openai.api_type, azure_endpoint and azure_ad_token"
                self._report.leave(node, CONFIG, message, reason)

    # Requests

    def _is_old_request(self, call: cst.Call) -> bool:
        value = self._context.values.of(call.func)
        if value is not None and value.kind == "sender" and value.is_old:
            return True
        arguments = (self._context.values.of(one.value) for one in call.args)
        return any(one is not None and one.kind == "sender" and one.is_old for one in arguments)

    def _request_dicts(self) -> Iterator[cst.Dict | cst.Call]:
        dicts = self._context.request_dicts
        if not self._is_any_old:
            return
        nodes: list[cst.Dict | cst.Call] = list(self._program.of_type(cst.Dict))
        nodes += [one for one in self._program.of_type(cst.Call) if syntax.code(one.func) == "dict"]
        for node in nodes:
            names = Entries.of(node).names
            if names & {*_REQUEST_FIELDS, *_CLIENT_FIELDS} and dicts.is_sent(node):
                yield node

    @property
    def _is_any_old(self) -> bool:
        return any(map(self._is_old_request, self._program.of_type(cst.Call)))

    def _migrate_request(self, call: cst.Call) -> None:
        self._migrate_fields(call)
        entries = Entries.of(call)
        names = entries.names & {*_CLIENT_FIELDS, *_AZURE_FIELDS, _TYPE_FIELD}
        if not names:
            return
        message = _CONFIG_MESSAGE.format(name=f"the argument {min(names)}")
        is_azure = self._is_azure or syntax.string(entries.value(_TYPE_FIELD)) == "azure"
        fields = _AZURE_FIELDS if is_azure else _CLIENT_FIELDS
        sdk = syntax.root(call.func)
        is_plain = isinstance(call.func, cst.Attribute) and self._is_chat_completion(
            call.func.value
        )
        if not is_plain or sdk is None or names - {*fields, _TYPE_FIELD}:
            self._report.leave(call, CONFIG, message, "create a client with this configuration")
            return
        is_async = isinstance(call.func, cst.Attribute) and call.func.attr.value == "acreate"
        kind = ("Async" if is_async else "") + ("AzureOpenAI" if is_azure else "OpenAI")

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            own = Entries.of(changed)
            given = [one for one in own.all if one.name in names and one.name in fields]
            kept = [one for one in own.all if one.name not in names]
            arguments = ", ".join(
                f"{fields[one.name or '']}={syntax.code(one.value)}" for one in given
            )
            module = "openai" if self._origin(sdk)[1] is not None else sdk.value
            is_chat = self._context.target.name == "chat"
            resource = "chat.completions" if is_chat else "responses"
            function = expression(f"{module}.{kind}({arguments}).{resource}.create")
            return own.with_all(kept).with_changes(func=function)

        self._report.rewrite(call, CONFIG, message, edit)

    def _migrate_fields(self, node: cst.Dict | cst.Call) -> None:
        """Rename fields of a request."""
        entries = Entries.of(node)
        found = [one for one in entries if one.name in _REQUEST_FIELDS]
        for entry in found:
            message = _CONFIG_MESSAGE.format(name=f"the argument {entry.name}")
            self._report.find(entry.node, CONFIG, message)
        if found:
            self._report.edits(CONFIG).replace(node, _with_fields)

    # Names that are imported from the SDK

    def _migrate_string(self, node: cst.SimpleString) -> None:
        """Leave a name in a string, for example of what a test replaces."""
        text = syntax.string(node) or ""
        if text.startswith("openai.") and text.split(".")[1] in {"ChatCompletion", *_RESOURCES}:
            reason = (
                f"{text} is named in a string; the current SDK has other names, mock its client"
            )
            self._report.leave(node, RESOURCE, _RESOURCE_MESSAGE.format(name=text[7:]), reason)

    def _migrate_name(self, node: cst.Name) -> None:
        origin, name = self._origin(node)
        if self._program.is_label(node) or self._program.is_target(node) or name is None:
            return
        if isinstance(self._program.parent(node), cst.ImportAlias):
            return
        if origin == "openai" and name == "ChatCompletion":
            message = _RESOURCE_MESSAGE.format(name=name)
            completions = expression("openai.chat.completions")
            self._report.rewrite(node, RESOURCE, message, lambda _: completions)
        elif origin == "openai" and name in _RESOURCES:
            self._leave_resource(node, name)
        elif origin == "error" and name in _ERRORS:
            self._rename_name(node, name)

    def _rename_name(self, node: cst.Name, name: str) -> None:
        if node.value == name != _ERRORS[name]:
            self._report.rewrite(
                node, ERROR, _ERROR_MESSAGE, lambda one: one.with_changes(value=_ERRORS[name])
            )

    def _migrate_import_from(self, statement: cst.ImportFrom) -> None:
        module = syntax.code(statement.module) if statement.module else ""
        if isinstance(statement.names, cst.ImportStar):
            return
        names = [alias.evaluated_name for alias in statement.names]
        if module == "openai.error":
            self._migrate_error_import(statement, names)
        elif module == "openai" and {"ChatCompletion", "error"} & set(names):
            self._remove_imports(statement, {"ChatCompletion", "error"})

    def _migrate_error_import(self, statement: cst.ImportFrom, names: list[str]) -> None:
        unknown = [name for name in names if name not in _ERRORS]
        if unknown:
            reason = f"the current SDK has no {unknown[0]}"
            self._report.leave(statement, ERROR, _ERROR_MESSAGE, reason)
            return

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.ImportFrom)  # noqa: S101 - an edit of an import
            assert not isinstance(changed.names, cst.ImportStar)  # noqa: S101 - checked before
            seen: set[str] = set()
            aliases: list[cst.ImportAlias] = []
            for alias in changed.names:
                new = _ERRORS[alias.evaluated_name]
                if alias.asname is not None or new not in seen:
                    aliases.append(alias.with_changes(name=cst.Name(new)))
                seen.add(new)
            if not isinstance(aliases[-1].comma, cst.MaybeSentinel) and not changed.lpar:
                aliases[-1] = aliases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return changed.with_changes(module=cst.Name("openai"), names=aliases)

        self._report.rewrite(statement, ERROR, _ERROR_MESSAGE, edit)

    def _remove_imports(self, statement: cst.ImportFrom, removed: set[str]) -> None:
        assert not isinstance(statement.names, cst.ImportStar)  # noqa: S101 - checked before
        kept = [one for one in statement.names if one.evaluated_name not in removed]
        message = _RESOURCE_MESSAGE.format(name="ChatCompletion")
        line = self._program.statement(statement)
        has_import = self._has_import(statement)
        if any(one.asname is not None for one in statement.names if one not in kept):
            reason = "the name of the import differs; use openai.chat.completions"
            self._report.leave(statement, RESOURCE, message, reason)
            return
        self._report.find(statement, RESOURCE, message)
        edits = self._report.edits(RESOURCE)
        if not kept and has_import:
            edits.remove(line)
            return
        if not kept:
            edits.replace(statement, lambda _: _import_sdk())
            return
        if not has_import:
            edits.insert_before(line, "import openai\n")
        last = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        names = [*kept[:-1], last]
        edits.replace(statement, lambda one: one.with_changes(names=names))

    def _has_import(self, node: cst.CSTNode) -> bool:
        """Whether the module of a node imports the SDK by its name."""
        module = self._program.module(node)
        return any(
            alias.evaluated_name == "openai" and alias.evaluated_alias is None
            for one in self._program.of_type(cst.Import)
            if self._program.scope(one) is module
            for alias in one.names
        )

    def _migrate_import(self, statement: cst.Import) -> None:
        """Rewrite `import openai.error`."""
        names = [alias.evaluated_name for alias in statement.names]
        if "openai.error" not in names:
            return
        self._report.find(statement, ERROR, _ERROR_MESSAGE)
        if len(names) == 1 and self._has_import(statement):
            self._report.edits(ERROR).remove(self._program.statement(statement))
            return

        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Import)  # noqa: S101 - an edit of an import
            aliases = [
                one.with_changes(name=cst.Name("openai"))
                if one.evaluated_name == "openai.error"
                else one
                for one in changed.names
            ]
            return changed.with_changes(names=aliases)

        self._report.edits(ERROR).replace(statement, edit)

    # Errors

    def _migrate_error(self, node: cst.Attribute, name: str) -> None:
        def edit(changed: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(changed, cst.Attribute)  # noqa: S101 - an edit of an attribute
            owner = changed.value
            sdk = owner.value if isinstance(owner, cst.Attribute) else cst.Name("openai")
            return changed.with_changes(value=sdk, attr=cst.Name(_ERRORS[name]))

        self._report.rewrite(node, ERROR, _ERROR_MESSAGE, edit)

    def _rename_error(self, node: cst.Attribute, name: str) -> None:
        self._report.rewrite(
            node,
            ERROR,
            _ERROR_MESSAGE,
            lambda one: one.with_changes(attr=cst.Name(_ERRORS[name])),
        )

    def _migrate_handler(self, handler: cst.ExceptHandler) -> None:
        """Rewrite the fields of an error that is caught."""
        if handler.name is None or handler.type is None or not self._is_old_error(handler.type):
            return
        name = handler.name.name
        if not isinstance(name, cst.Name):
            return
        for use in self._program.uses(self._program.binding(name), name.value):
            parent = self._program.parent(use)
            if not isinstance(parent, cst.Attribute) or not self._program.is_inside(use, handler):
                continue
            field = parent.attr.value
            if field in _ERROR_FIELDS:
                self._report.rewrite(parent, ERROR, _ERROR_MESSAGE, _as_error_field(field))
            elif field in ("error", "construct_error_object", "request_id"):
                reason = "the fields of errors have changed; read body or response"
                self._report.leave(parent, ERROR, _ERROR_MESSAGE, reason)

    def _is_old_error(self, node: cst.BaseExpression) -> bool:
        match node:
            case cst.Tuple(elements=elements):
                return any(self._is_old_error(one.value) for one in elements)
            case cst.Attribute(value=value, attr=cst.Name(value=name)):
                return name in _ERRORS and self._is_error_module(value)
            case cst.Name():
                return self._origin(node)[0] == "error"
            case _:
                return False


def _import_sdk() -> cst.CSTNode:
    return cst.Import([cst.ImportAlias(cst.Name("openai"))])


def _as_error_field(field: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    def edit(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Attribute)  # noqa: S101 - an edit of an attribute
        return expression(_ERROR_FIELDS[field], error=node.value)

    return edit


def _with_slash(node: cst.CSTNode) -> cst.CSTNode:
    """Return an assignment of a URL with a final slash, which the current SDK needs."""
    assert isinstance(node, cst.Assign)  # noqa: S101 - an edit of an assignment
    return node.with_changes(value=_slashed(node.value))


def _slashed(value: cst.BaseExpression) -> cst.BaseExpression:
    text = syntax.string(value)
    if text is not None:
        return as_expression(syntax.with_text(value, text if text.endswith("/") else text + "/"))
    return expression('{value}.rstrip("/") + "/"', value=value)


def _with_fields(node: cst.CSTNode) -> cst.CSTNode:
    """Return a request with the current names of its fields."""
    entries = Entries.of(node)
    has_deployment = bool(entries.names & {"engine", "deployment_id"})
    changed: list[Entry] = []
    for entry in entries.all:
        new_name = _REQUEST_FIELDS.get(entry.name or "")
        if new_name is not None:
            changed.append(entry.renamed(new_name))
        elif entry.name != "model" or not has_deployment:
            changed.append(entry)
    return entries.with_all(changed)
