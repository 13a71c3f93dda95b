"""The paths of Azure and of old SDKs, which are rewritten to the gateway's own before routing."""

import re
from functools import cache
from typing import Final

from litestar.types import ASGIApp, Receive, Scope, Send

from adapters import dialects_by_path

# The key of the model that is named in a path, in the state of an ASGI scope.
_MODEL_KEY: Final = "dragoman_path_model"

_AZURE_PREFIX: Final = "/openai"


@cache
def _model_path() -> re.Pattern[str]:
    """Return the pattern of paths with a model.

    Version 0.28 of the openai package sends requests with `engine=` to the second form. A name may
    contain slashes: clients do not always encode them, and servers decode them.
    """
    endpoints = "|".join(map(re.escape, dialects_by_path()))
    return re.compile(rf"(?:{_AZURE_PREFIX}/deployments|(?:/v1)?/engines)/(.+?)({endpoints})/?")


def rewrite_path(path: str) -> tuple[str, str | None]:
    """Return the gateway's own path, and the model that is named in the path."""
    if match := _model_path().fullmatch(path):
        return match[2], match[1]
    if path.startswith(f"{_AZURE_PREFIX}/"):
        return path.removeprefix(_AZURE_PREFIX), None
    return path, None


def rewrite_paths(app: ASGIApp) -> ASGIApp:
    """Return an application that serves the paths of Azure and of old SDKs too."""

    async def rewritten(scope: Scope, receive: Receive, send: Send) -> None:
        path, model = rewrite_path(scope["path"])
        if path != scope["path"]:
            scope["path"] = path
            if model is not None:
                scope["state"][_MODEL_KEY] = model
        await app(scope, receive, send)

    return rewritten


def path_model(scope: Scope) -> str:
    """Return the model that is named in the path of a request, or an empty string."""
    model: str = scope["state"].get(_MODEL_KEY, "")
    return model
