"""Built-in tools that the client runs, as functions: shells, `apply_patch` and `computer`.

The function has the arguments of the built-in tool. Arguments in another form are accepted if they
are unambiguous. Other calls stay function calls, so that the client does not run them.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from adapters.errors import InvalidRequestError
from adapters.ir.types import CallKind, FunctionTool, HostedTool
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.wire.json_object import Json, JsonObject, parse, read_fields

# The kinds of the calls, by the type under which a tool is declared.
CALL_KINDS: dict[str, CallKind] = {
    "shell": "shell",
    "local_shell": "local_shell",
    "apply_patch": "apply_patch",
    "computer": "computer",
    "computer_use_preview": "computer",
}

_DESCRIPTIONS: dict[CallKind, str] = {
    "shell": "Runs shell commands on the user's machine, one after the other, and gives what each "
    "of them wrote and how it ended.",
    "local_shell": "Runs a program on the user's machine and gives what it wrote.",
    "apply_patch": "Creates, changes or deletes one file on the user's machine. A `diff` has lines "
    "that begin with a space (context), - (removed) or + (added), in parts that begin with @@; the "
    "diff of a new file has only lines that begin with +.",
    "computer": "Controls the user's computer: does the actions in their order, and gives a "
    "picture of the screen after the last of them.",
}

# The arguments of a truncated call: valid, but without effect.
NO_EFFECT_ARGUMENTS: dict[CallKind, str] = {
    "shell": '{"commands":[]}',
    "local_shell": '{"command":[]}',
    "apply_patch": '{"operation":{"type":"update_file","path":"","diff":""}}',
    "computer": '{"actions":[]}',
    "tool_search": "{}",
}

# The only argument of a call whose other fields belong to the item.
_ITEM_ARGUMENTS = {
    "apply_patch": "operation",
    "computer": "actions",
    "computer_use_preview": "action",
}


# Parameters

Schema = dict[str, object]


def _object(properties: dict[str, Schema], *required: str) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


_STRING: Schema = {"type": "string"}
_STRINGS: Schema = {"type": "array", "items": _STRING}
_INTEGER: Schema = {"type": "integer"}
_TIMEOUT = _described(_INTEGER, "How long it may take, in milliseconds.")

_OPERATION = _object(
    {
        "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
        "path": _described(_STRING, "The path of the file."),
        "diff": _described(_STRING, "What to change; not for delete_file."),
    },
    "type",
    "path",
)

_ACTIONS = [
    "click",
    "double_click",
    "drag",
    "keypress",
    "move",
    "screenshot",
    "scroll",
    "type",
    "wait",
]
_BUTTONS = ["left", "right", "wheel", "back", "forward"]
_COORDINATE = _described(_INTEGER, "For click, double_click, move and scroll.")
_POINT = _object({"x": _INTEGER, "y": _INTEGER}, "x", "y")
_ACTION = _object(
    {
        "type": {"type": "string", "enum": _ACTIONS},
        "button": {"type": "string", "enum": _BUTTONS, "description": "For click."},
        "x": _COORDINATE,
        "y": _COORDINATE,
        "path": {"type": "array", "items": _POINT, "description": "For drag."},
        "keys": _described(_STRINGS, "For keypress; for others, the keys that are held."),
        "scroll_x": _described(_INTEGER, "For scroll."),
        "scroll_y": _described(_INTEGER, "For scroll."),
        "text": _described(_STRING, "For type."),
    },
    "type",
)

_SCHEMAS: dict[str, Schema] = {
    "shell": _object(
        {
            "commands": _described(_STRINGS, "The commands, each a line for the shell."),
            "timeout_ms": _TIMEOUT,
            "max_output_length": _described(_INTEGER, "How many characters to give back at most."),
        },
        "commands",
    ),
    "local_shell": _object(
        {
            "command": _described(_STRINGS, "The program and its arguments, each by itself."),
            "env": {
                "type": "object",
                "additionalProperties": _STRING,
                "description": "Environment variables to set.",
            },
            "timeout_ms": _TIMEOUT,
            "user": _described(_STRING, "The user to run it as."),
            "working_directory": _described(_STRING, "Where to run it."),
        },
        "command",
    ),
    "apply_patch": _object({"operation": _OPERATION}, "operation"),
    "computer": _object({"actions": {"type": "array", "items": _ACTION, "minItems": 1}}, "actions"),
    # The older tool takes one action at a time.
    "computer_use_preview": _object({"action": _ACTION}, "action"),
}
_PARAMETERS = {kind: Raw(msgspec.json.encode(schema)) for kind, schema in _SCHEMAS.items()}


def builtin_runs_on_client(tool: HostedTool, path: str) -> bool:
    """Whether the client runs a tool; a shell may also run in a container of the backend."""
    if tool.kind != "shell":
        return tool.kind in CALL_KINDS
    environment = read_fields(tool.value, path).nested("environment")
    return environment is None or environment.string("type") == "local"


def builtin_as_function(tool: HostedTool, name: str, path: str) -> FunctionTool:
    """Return the function that emulates a built-in tool."""
    kind = CALL_KINDS[tool.kind]
    description = [_DESCRIPTIONS[kind], *_describe_environment(read_fields(tool.value, path))]
    return FunctionTool(name, " ".join(description), _PARAMETERS[tool.kind], strict=False)


def _describe_environment(fields: JsonObject) -> list[str]:
    """Return sentences about the client's machine, from the declaration of a tool."""
    sentences: list[str] = []
    width, height = fields.integer("display_width"), fields.integer("display_height")
    if width and height:
        sentences.append(f"The screen has {width} x {height} pixels.")
    environment = fields.text_or_fields("environment")
    if isinstance(environment, str):
        sentences.append(f"It is a {environment}.")
    elif environment is not None:
        sentences += [
            f"Skill {skill.string('name')}, in {skill.string('path')}: "
            f"{skill.string('description')}"
            for skill in environment.objects("skills")
        ]
    return sentences


# Arguments


class ParsedArguments(Struct, frozen=True):
    """The arguments of a built-in tool call."""

    arguments: str
    # Whether the model wrote other fields, which the call cannot contain.
    has_other_fields: bool = False

    def report(self, path: str, losses: Losses) -> None:
        """Report what was dropped."""
        if self.has_other_fields:
            losses.changed(path, "arguments that the tool does not have are removed")


def parse_builtin_arguments(tool: HostedTool, arguments: str) -> ParsedArguments | None:
    """Convert function arguments to those of a built-in tool; None if they are not valid."""
    try:
        value = parse(arguments.encode("utf-8", "replace"))
    except InvalidRequestError:
        value = arguments
    parsed = _PARSERS[tool.kind](value)
    if parsed is None:
        return None
    # Drop other fields, which would become fields of the item.
    only = _ITEM_ARGUMENTS.get(tool.kind)
    kept = parsed if only is None else {only: parsed[only]}
    text = arguments if kept == value else msgspec.json.encode(kept).decode()
    return ParsedArguments(text, has_other_fields=len(kept) < len(parsed))


def to_function_arguments(kind: CallKind, arguments: str) -> str:
    """Convert the arguments of a built-in tool call to those of its function, without nulls."""
    if kind not in ("shell", "local_shell") or not is_complete_json(arguments):
        return arguments
    fields = read_fields(Raw(arguments.encode()))
    if kind == "local_shell":
        # Read `type`, which is constant, to remove it from the remaining fields.
        fields.string("type")
    return msgspec.json.encode(fields.take_remaining()).decode()


def _parse_shell(value: Json) -> dict[str, Json] | None:
    """Accept a single command as a string, or under another name."""
    if not isinstance(value, dict):
        return None
    if _is_strings(value.get("commands")):
        return value
    for name in ("commands", "command", "cmd"):
        command = value.get(name)
        if isinstance(command, str) and command:
            rest = {key: field for key, field in value.items() if key != name}
            return {"commands": [command], **rest}
    return None


def _parse_local_shell(value: Json) -> dict[str, Json] | None:
    """Accept a command line, to be run by a shell."""
    if not isinstance(value, dict):
        return None
    command = value.get("command")
    if isinstance(command, str) and command:
        return {**value, "command": ["bash", "-lc", command]}
    return value if _is_strings(command) else None


def _is_strings(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _parse_patch(value: Json) -> dict[str, Json] | None:
    """Accept an operation without its wrapper."""
    if isinstance(value, dict) and _is_operation(value.get("operation")):
        return value
    return {"operation": value} if _is_operation(value) else None


def _is_operation(value: Json) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("path"), str):
        return False
    kind = value.get("type")
    has_diff = kind in ("create_file", "update_file") and isinstance(value.get("diff"), str)
    return has_diff or kind == "delete_file"


def _parse_actions(value: Json) -> dict[str, Json] | None:
    """Accept one action without its list, or without its wrapper."""
    if not isinstance(value, dict):
        return None
    actions = value.get("actions")
    if isinstance(actions, list):
        return value if actions and all(map(_is_action, actions)) else None
    action = value.get("action", value)
    return {"actions": [action]} if _is_action(action) else None


def _parse_action(value: Json) -> dict[str, Json] | None:
    """Accept a list of one action, or an action without its wrapper."""
    if isinstance(value, dict) and _is_action(value.get("action")):
        return value
    match _parse_actions(value):
        case {"actions": [action]}:
            return {"action": action}
        case _:
            return None


def _is_action(value: Json) -> bool:
    return isinstance(value, dict) and value.get("type") in _ACTIONS


def _parse_query(value: Json) -> dict[str, Json]:
    """Accept a bare query."""
    return value if isinstance(value, dict) else {"query": value}


_PARSERS: dict[str, Callable[[Json], dict[str, Json] | None]] = {
    "shell": _parse_shell,
    "local_shell": _parse_local_shell,
    "apply_patch": _parse_patch,
    "computer": _parse_actions,
    "computer_use_preview": _parse_action,
    "tool_search": _parse_query,
}
