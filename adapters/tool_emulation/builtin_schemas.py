"""What the tools that a client runs take, as JSON Schemas: all that their calls can hold."""

import msgspec
from msgspec import Raw

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
