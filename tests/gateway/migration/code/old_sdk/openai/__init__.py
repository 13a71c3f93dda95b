"""A small client with the interface of version 0.28 of the OpenAI SDK.

It has only what programs with functions used, and was written for these tests.
"""

import asyncio
import http.client
import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

from . import error as error
from .error import BY_STATUS, APIError, InvalidRequestError
from .openai_object import OpenAIObject

api_key = os.environ.get("OPENAI_API_KEY")
organization = os.environ.get("OPENAI_ORGANIZATION")
api_base = os.environ.get("OPENAI_API_BASE", "https://api.openai.com/v1")
api_type = os.environ.get("OPENAI_API_TYPE", "open_ai")
api_version = os.environ.get("OPENAI_API_VERSION")
log: str | None = None
__version__ = "0.28.1"

_CONNECTION = ("api_key", "api_base", "api_type", "api_version", "organization")
_IGNORED = ("request_timeout", "timeout", "headers")


class ChatCompletion:
    """The only resource."""

    @classmethod
    def create(cls, **params: Any) -> Any:
        url, headers, body = _request(params)
        connection, response = _send(url, body, headers)
        if body.get("stream"):
            return _chunks(connection, response)
        data = _decoded(response.read())
        connection.close()
        return data

    @classmethod
    async def acreate(cls, **params: Any) -> Any:
        reply = await asyncio.to_thread(cls.create, **params)
        return _asynchronous(reply) if params.get("stream") else reply


def _request(params: dict[str, Any]) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return the URL, the headers and the body of a request."""
    body = {name: value for name, value in params.items() if name not in _IGNORED}
    given = {name: body.pop(name, None) or globals()[name] for name in _CONNECTION}
    engine = body.pop("engine", None) or body.pop("deployment_id", None)
    if not given["api_key"]:
        raise error.AuthenticationError("No API key provided.")
    base, key = given["api_base"].rstrip("/"), given["api_key"]
    if given["api_type"] not in ("azure", "azure_ad"):
        if engine is not None or "model" not in body:
            raise InvalidRequestError("Must provide a 'model' parameter to create a completion")
        return f"{base}/chat/completions", {"Authorization": f"Bearer {key}"}, body
    if engine is None or given["api_version"] is None:
        raise InvalidRequestError("Must provide an 'engine' or 'deployment_id' parameter")
    path = f"openai/deployments/{engine}/chat/completions?api-version={given['api_version']}"
    return f"{base}/{path}", {"api-key": key}, {"model": engine, **body}


def _send(
    url: str, body: dict[str, Any], headers: dict[str, str]
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    headers |= {"Content-Type": "application/json", "User-Agent": "OpenAI/v1 PythonBindings/0.28.1"}
    connection.request("POST", target, json.dumps(body).encode(), headers)
    response = connection.getresponse()
    if response.status >= 300:
        message = _decoded(response.read())["error"]["message"]
        connection.close()
        raise BY_STATUS.get(response.status, APIError)(message, response.status)
    return connection, response


def _decoded(data: bytes) -> OpenAIObject:
    decoded: OpenAIObject = json.loads(data, object_hook=OpenAIObject)
    return decoded


def _chunks(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse
) -> Iterator[OpenAIObject]:
    for line in response:
        if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
            yield _decoded(line.removeprefix(b"data: "))
    connection.close()


async def _asynchronous(chunks: Iterator[OpenAIObject]) -> AsyncIterator[OpenAIObject]:
    for chunk in chunks:
        yield chunk
