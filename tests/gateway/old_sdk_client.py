"""A client that behaves like version 0.28 of the OpenAI SDK.

It used `requests`, parsed each line that began with `data: `, and supported only `functions` and
`function_call`. The headers are recorded.
"""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing

from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import JsonObject, as_object, read_object

HEADERS = {
    "User-Agent": "OpenAI/v1 PythonBindings/0.28.1",
    "Accept-Encoding": "gzip, deflate",
    "Accept": "*/*",
    "Connection": "keep-alive",
    "X-OpenAI-Client-User-Agent": (
        '{"bindings_version": "0.28.1", "httplib": "requests", "lang": "python",'
        ' "lang_version": "3.11.7", "platform": "Linux", "publisher": "openai", "uname": "Linux"}'
    ),
    "Authorization": "Bearer sk-fake",
    "Content-Type": "application/json",
}


class OldSdkError(Exception):
    """An HTTP error with the error object of its body."""

    def __init__(self, status: int, error: JsonObject) -> None:
        super().__init__(str(error.get("message")))
        self.status = status
        self.error = error


def create(port: int, request: JsonObject) -> JsonObject:
    """Create a completion that is not streamed."""
    with _connect(port) as connection:
        return _checked(200, _send(connection, request).read())


def stream(port: int, request: JsonObject) -> Iterator[JsonObject]:
    """Create a stream and yield its chunks."""
    with _connect(port) as connection:
        yield from _chunks(_send(connection, {"stream": True, **request}))


def _connect(port: int) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS))


def _send(connection: http.client.HTTPConnection, request: JsonObject) -> http.client.HTTPResponse:
    # `json.dumps` with its defaults: every character beyond ASCII is escaped.
    connection.request("POST", "/v1/chat/completions", json.dumps(request).encode(), HEADERS)
    response = connection.getresponse()
    if response.status >= 300:
        _checked(response.status, response.read())
    return response


def _chunks(response: http.client.HTTPResponse) -> Iterator[JsonObject]:
    assert "text/event-stream" in response.headers["Content-Type"]
    for line in response:
        if line.strip() == b"data: [DONE]":
            return
        if line.startswith(b"data: "):
            yield _checked(200, line.removeprefix(b"data: ").rstrip(b"\r\n"))


def _checked(status: int, body: bytes) -> JsonObject:
    data = read_object(body)
    if "error" in data or status >= 300:
        # That version crashed if the error was a string.
        raise OldSdkError(status, as_object(data["error"], "error"))
    return data
