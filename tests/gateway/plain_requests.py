"""Short requests of clients of each dialect."""

from tests.gateway.backend_requests import ENDPOINT_PATHS
from tests.judges.reading import JsonObject

_QUESTION = [{"role": "user", "content": "hi"}]


def request_path(client: str) -> str:
    return f"/v1{ENDPOINT_PATHS[client]}"


def request_body(client: str, model: str, *, streamed: bool = False) -> JsonObject:
    body: JsonObject = {"model": model, "stream": streamed}
    if client == "responses":
        return {**body, "input": _QUESTION}
    if client == "legacy":
        # Only its functions distinguish a legacy request from a Chat request.
        body["functions"] = [{"name": "get_weather", "parameters": {"type": "object"}}]
    return {**body, "messages": _QUESTION}
