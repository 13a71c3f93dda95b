"""Backends that refuse what we ask for on our own account, which must not cost the answer."""

from typing import Final

import httpx

from adapters import InvalidReplyError
from adapters.wire.error_body import read_error

# Names of headers that tell of a body as it was on the wire.
_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")
# What we ask for ourselves is a number, a summary or a refusal. The ids of all tokens of a long
# conversation, which vLLM sends along with their number, are some megabytes.
_LIMIT: Final = 64 * 1024 * 1024


async def read_whole(response: httpx.Response) -> httpx.Response:
    """Read an answer to its end; give it again, to be read once more."""
    gathered = bytearray()
    try:
        async for piece in response.aiter_bytes():
            gathered += piece
            if len(gathered) > _LIMIT:
                raise InvalidReplyError(None, f"the backend's answer is over {_LIMIT} bytes")
    finally:
        await response.aclose()
    return _again(response, bytes(gathered))


async def read_refusal(response: httpx.Response) -> httpx.Response:
    """Read a refusal; one whose words are cut off, or too many, is one by its status."""
    try:
        return await read_whole(response)
    except (httpx.HTTPError, InvalidReplyError):
        return _again(response, b"")


def _again(response: httpx.Response, body: bytes) -> httpx.Response:
    headers = response.headers.multi_items()
    kept = [(name, value) for name, value in headers if name not in _OF_THE_BODY]
    return httpx.Response(response.status_code, headers=kept, content=body)


def rejects_encrypted_reasoning(body: bytes) -> bool:
    """Tell whether an error is about sealed reasoning, of which the client knows nothing."""
    error = read_error(None, body)
    return error.param == "include" or "encrypted" in f"{error.message} {error.code}".lower()


def lacks_encrypted_reasoning(body: bytes) -> bool:
    """Tell whether it says that there is no such thing, as OpenAI does of models without reasoning.

    Otherwise just one seal is refused: that of another account, say.
    """
    error = read_error(None, body)
    return error.param == "include" or "not supported" in error.message.lower()
