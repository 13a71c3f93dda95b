"""The tools that a client runs and that have neither a name nor a schema, as functions.

`shell`, `local_shell`, `apply_patch` and `computer` are known to one family only. As functions they
take what their calls hold there. What a model makes of that is read leniently where only one thing
can be meant; what cannot be understood stays the call of a function, and nothing is run.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from adapters.errors import InvalidRequestError
from adapters.ir.types import CallKind, FunctionTool, HostedTool
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.wire.json_object import Json, JsonObject, parse, read_fields

# What the tools that a client runs take, as JSON Schemas: all that their calls can hold.


Schema = dict[str, object]

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NUMBER: Schema = {"type": "integer"}


def _object(properties: dict[str, Schema], *required: str) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _told(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


_MILLISECONDS = _told(_NUMBER, "How long it may take, in milliseconds.")

SHELL = Raw(
    msgspec.json.encode(
        _object(
            {
                "commands": _told(_TEXTS, "The commands, each a line for the shell."),
                "timeout_ms": _MILLISECONDS,
                "max_output_length": _told(_NUMBER, "How many characters to give back at most."),
            },
            "commands",
        )
    )
)

LOCAL_SHELL = Raw(
    msgspec.json.encode(
        _object(
            {
                "command": _told(_TEXTS, "The program and its arguments, each by itself."),
                "env": {
                    "type": "object",
                    "additionalProperties": _TEXT,
                    "description": "Environment variables to set.",
                },
                "timeout_ms": _MILLISECONDS,
                "user": _told(_TEXT, "The user to run it as."),
                "working_directory": _told(_TEXT, "Where to run it."),
            },
            "command",
        )
    )
)

_OPERATION = _object(
    {
        "type": _one_of("create_file", "update_file", "delete_file"),
        "path": _told(_TEXT, "The path of the file."),
        "diff": _told(_TEXT, "What to change; not for delete_file."),
    },
    "type",
    "path",
)
APPLY_PATCH = Raw(msgspec.json.encode(_object({"operation": _OPERATION}, "operation")))

# What can be done at a computer.
ACTIONS = (
    "click",
    "double_click",
    "drag",
    "keypress",
    "move",
    "screenshot",
    "scroll",
    "type",
    "wait",
)
_POINT = _object({"x": _NUMBER, "y": _NUMBER}, "x", "y")
_ACTION = _object(
    {
        "type": _one_of(*ACTIONS),
        "button": _told(_one_of("left", "right", "wheel", "back", "forward"), "For click."),
        "x": _told(_NUMBER, "For click, double_click, move and scroll."),
        "y": _told(_NUMBER, "For click, double_click, move and scroll."),
        "path": {"type": "array", "items": _POINT, "description": "For drag."},
        "keys": _told(_TEXTS, "For keypress; for others, the keys that are held."),
        "scroll_x": _told(_NUMBER, "For scroll."),
        "scroll_y": _told(_NUMBER, "For scroll."),
        "text": _told(_TEXT, "For type."),
    },
    "type",
)
COMPUTER = Raw(
    msgspec.json.encode(
        _object({"actions": {"type": "array", "items": _ACTION, "minItems": 1}}, "actions")
    )
)
# The older tool does one action at a time.
COMPUTER_PREVIEW = Raw(msgspec.json.encode(_object({"action": _ACTION}, "action")))


# What the tools are called, by the type under which they are declared.
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
_PARAMETERS = {
    "shell": SHELL,
    "local_shell": LOCAL_SHELL,
    "apply_patch": APPLY_PATCH,
    "computer": COMPUTER,
    "computer_use_preview": COMPUTER_PREVIEW,
}
# What stands beside each other in an item, where the arguments have no place of their own.
_PLACES = {
    "apply_patch": frozenset(("operation",)),
    "computer": frozenset(("actions",)),
    "computer_use_preview": frozenset(("action",)),
}
# What a call that breaks off is told with: nothing that could be run.
_NOTHING: dict[CallKind, str] = {
    "shell": '{"commands":[]}',
    "local_shell": '{"command":[]}',
    "apply_patch": '{"operation":{"type":"update_file","path":"","diff":""}}',
    "computer": '{"actions":[]}',
    "tool_search": "{}",
}


def builtin_runs_on_client(tool: HostedTool, path: str) -> bool:
    """Tell whether the client runs a tool; a shell may also run in a container of the server."""
    if tool.kind != "shell":
        return tool.kind in CALL_KINDS
    environment = read_fields(tool.value, path).nested("environment")
    return environment is None or environment.string("type") == "local"


def builtin_as_function(tool: HostedTool, name: str, path: str) -> FunctionTool:
    """Give the function that stands for such a tool."""
    kind = CALL_KINDS[tool.kind]
    fields = read_fields(tool.value, path)
    told = [_DESCRIPTIONS[kind], *_surroundings(fields)]
    return FunctionTool(name, " ".join(told), _PARAMETERS[tool.kind], strict=False)


def _surroundings(fields: JsonObject) -> list[str]:
    """Say what the declaration says of the machine: its screen, its skills."""
    told: list[str] = []
    width, height = fields.integer("display_width"), fields.integer("display_height")
    if width and height:
        told.append(f"The screen has {width} x {height} pixels.")
    environment = fields.text_or_fields("environment")
    if isinstance(environment, str):
        told.append(f"It is a {environment}.")
    elif environment is not None:
        told += [
            f"Skill {skill.string('name')}, in {skill.string('path')}: "
            f"{skill.string('description')}"
            for skill in environment.objects("skills")
        ]
    return told


class ParsedArguments(Struct, frozen=True):
    """The arguments of such a call as its family has them."""

    arguments: str
    # Whether there was more in them than a call has places for.
    has_more: bool = False

    def report(self, path: str, losses: Losses) -> None:
        """Say what could not be told."""
        if self.has_more:
            losses.dropped(path, "there is more in its arguments than such a call can hold")


def parse_builtin_arguments(tool: HostedTool, arguments: str) -> ParsedArguments | None:
    """Give the arguments of such a call as its family has them; None if they are no such thing."""
    try:
        said = parse(arguments.encode("utf-8", "replace"))
    except InvalidRequestError:
        said = arguments
    meant = _READERS[tool.kind](said)
    if not isinstance(meant, dict):
        return None
    # What a model makes up beside it must not pass for what the item says of itself.
    places = _PLACES.get(tool.kind, meant.keys())
    kept = {name: value for name, value in meant.items() if name in places}
    spelled = arguments if kept == said else msgspec.json.encode(kept).decode()
    return ParsedArguments(spelled, has_more=len(kept) < len(meant))


def to_function_arguments(kind: CallKind, arguments: str) -> str:
    """Give the arguments of such a call as its function takes them, without what is not said."""
    if kind not in ("shell", "local_shell") or not is_complete_json(arguments):
        return arguments
    fields = read_fields(Raw(arguments.encode()))
    if kind == "local_shell":
        # There is only one type.
        fields.string("type")
    return msgspec.json.encode(dict(fields.take_remaining())).decode()


def empty_arguments(kind: CallKind) -> str:
    """Give the arguments of a call that breaks off."""
    return _NOTHING[kind]


def _read_shell(said: Json) -> Json:
    """Read commands; one alone may stand as a string, or under another name."""
    if not isinstance(said, dict) or _is_texts(said.get("commands")):
        return said if isinstance(said, dict) else None
    for name in ("commands", "command", "cmd"):
        command = said.get(name)
        if isinstance(command, str) and command:
            rest = {key: value for key, value in said.items() if key != name}
            return {"commands": [command], **rest}
    return None


def _read_local_shell(said: Json) -> Json:
    """Read a program with its arguments; a line for a shell is run by one."""
    if not isinstance(said, dict) or _is_texts(said.get("command")):
        return said if isinstance(said, dict) else None
    command = said.get("command")
    if isinstance(command, str) and command:
        return {**said, "command": ["bash", "-lc", command]}
    return None


def _is_texts(said: Json) -> bool:
    return isinstance(said, list) and bool(said) and all(isinstance(one, str) for one in said)


def _read_patch(said: Json) -> Json:
    """Read an operation, which may stand without its wrapper."""
    if isinstance(said, dict) and _is_operation(said.get("operation")):
        return said
    return {"operation": said} if _is_operation(said) else None


def _is_operation(said: Json) -> bool:
    if not isinstance(said, dict) or not isinstance(said.get("path"), str):
        return False
    if said.get("type") == "delete_file":
        return True
    return said.get("type") in ("create_file", "update_file") and isinstance(said.get("diff"), str)


def _read_actions(said: Json) -> Json:
    """Read actions; one alone may stand without its list, or without its wrapper."""
    if not isinstance(said, dict):
        return None
    actions = said.get("actions")
    if isinstance(actions, list):
        return said if actions and all(map(_is_action, actions)) else None
    action = said.get("action", said)
    return {"actions": [action]} if _is_action(action) else None


def _read_action(said: Json) -> Json:
    """Read the one action that the older tool takes at a time."""
    if isinstance(said, dict) and _is_action(said.get("action")):
        return said
    match _read_actions(said):
        case {"actions": [action]}:
            return {"action": action}
        case _:
            return None


def _is_action(said: Json) -> bool:
    return isinstance(said, dict) and said.get("type") in ACTIONS


def _read_query(said: Json) -> Json:
    """Read what is searched for; whatever is no object can only be that."""
    return said if isinstance(said, dict) else {"query": said}


_READERS: dict[str, Callable[[Json], Json]] = {
    "shell": _read_shell,
    "local_shell": _read_local_shell,
    "apply_patch": _read_patch,
    "computer": _read_actions,
    "computer_use_preview": _read_action,
    "tool_search": _read_query,
}
