"""Calls the gateway by hand, where a test wants to see status, headers and bytes."""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tests.gateway.process import Gateway
from tests.gateway.scripted import PATIENCE
from tests.judges.reading import JsonObject, read_object


@dataclass(frozen=True)
class Answered:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> JsonObject:
        return read_object(self.body)

    @property
    def error(self) -> JsonObject:
        return cast("JsonObject", self.json()["error"])


def call(
    gateway: Gateway,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answered:
    """Send one request on a connection of its own, and read the whole answer."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answered(response.status, names, response.read())
    finally:
        connection.close()


def post(
    gateway: Gateway, path: str, body: bytes, headers: Mapping[str, str] | None = None
) -> Answered:
    """Post a body."""
    return call(gateway, "POST", path, body, headers)
