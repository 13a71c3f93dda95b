"""Names, for one dialect's client, the parameter that another dialect's backend complains of."""

import re

from adapters.dialect import Dialect

_ROOT = re.compile(r"[^.\[]+")
# What Chat has in the inner object of a tool.
_INNER = re.compile(r"\.(name|description|parameters|strict)\b")
_TOOL = re.compile(r"(?:tools|functions)(\[\d+\])(?:\.(?:function|custom))?(.*)")


def translate_error_param(
    param: str | None, backend: Dialect, client: Dialect, *, tools_moved: bool = False
) -> str | None:
    """Translate the path of a parameter, as far as the two dialects have it in common.

    Where messages became items, or were grouped anew, the place within them is another: then only
    the list is named, and so it is with tools of which some may have been left out. What the
    client's dialect cannot say is not named at all.
    """
    if not param or backend is client:
        return param
    tool = _TOOL.fullmatch(param)
    if tool is not None:
        return _tool_path(client, *(("", "") if tools_moved else tool.groups()))
    hub = _hub_path(param, backend)
    match = _ROOT.match(hub)
    root = match.group() if match else hub
    if root in client.unsupported_fields:
        return None
    if root == "items":
        return client.names["items"]
    spelled = client.names.get(hub)
    return spelled or client.names.get(root, root) + hub[len(root) :]


def _tool_path(client: Dialect, index: str, rest: str) -> str:
    """Spell the path of a tool's field: Chat nests it, the others do not."""
    name = client.names.get("tools", "tools")
    nested = ".function" if client.nests_tools and _INNER.match(rest) else ""
    return f"{name}{index}{nested}{rest}"


def _hub_path(param: str, backend: Dialect) -> str:
    """Spell a backend's path as the hub would."""
    for name, spelled in sorted(backend.names.items(), key=lambda pair: -len(pair[1])):
        rest = param.removeprefix(spelled)
        if rest != param and rest[:1] in ("", ".", "["):
            return name + rest
    return "max_output_tokens" if param in _LIMITS else param


_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
