"""A client of the 0.28 generation: its requests to the letter, and how it read the answers.

The package of that time used `requests` and parsed each line that began with `data: `; it knew
`functions` and `function_call` only. Its headers are those of a recording.
"""

import http.client
import json
from collections.abc import Iterator

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
TARGET = "/v1/chat/completions"


class OldSdkError(Exception):
    """What that package raised: the status, and the error object of the body."""

    def __init__(self, status: int, error: JsonObject) -> None:
        super().__init__(str(error.get("message")))
        self.status = status
        self.error = error


def create(port: int, request: JsonObject) -> JsonObject:
    """Ask and wait for the whole answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        return _checked(200, _send(connection, request).read())
    finally:
        connection.close()


def stream(port: int, request: JsonObject) -> Iterator[JsonObject]:
    """Ask for a stream; give its chunks as they come."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        yield from _chunks(_send(connection, {"stream": True, **request}))
    finally:
        connection.close()


def _send(connection: http.client.HTTPConnection, asked: JsonObject) -> http.client.HTTPResponse:
    # `json.dumps` with its defaults: every character beyond ASCII is escaped.
    connection.request("POST", TARGET, json.dumps(asked).encode(), HEADERS)
    answer = connection.getresponse()
    if answer.status >= 300:
        _checked(answer.status, answer.read())
    return answer


def _chunks(answer: http.client.HTTPResponse) -> Iterator[JsonObject]:
    assert "text/event-stream" in answer.headers["Content-Type"]
    for line in answer:
        if line.strip() == b"data: [DONE]":
            return
        if line.startswith(b"data: "):
            yield _checked(200, line.removeprefix(b"data: ").rstrip(b"\r\n"))


def _checked(status: int, body: bytes) -> JsonObject:
    data = read_object(body)
    if "error" in data or status >= 300:
        # A string instead of an object crashed that package.
        raise OldSdkError(status, as_object(data["error"], "error"))
    return data
