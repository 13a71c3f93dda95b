"""Reader of the cassettes of vcrpy, in YAML and in JSON."""

from collections.abc import Iterator

import msgspec

from gateway.recording.http_exchange import (
    HttpExchange,
    ImportFormatError,
    decompress,
    is_list,
    is_object,
    merge_headers,
    object_of,
    read_base64,
    text_of,
)

# Where a version has its interactions; the first version has only the list itself.
_INTERACTIONS = ("interactions", "http_interactions")


def read_cassette(content: object) -> Iterator[HttpExchange]:
    """Yield the exchanges of a decoded cassette; raise `ImportFormatError` if it is none."""
    for interaction in _find_interactions(content):
        request = object_of(object_of(interaction).get("request"))
        response = object_of(object_of(interaction).get("response"))
        if not request:
            raise ImportFormatError("an interaction has no request")
        headers = _read_headers(response.get("headers"))
        yield HttpExchange(
            text_of(request.get("method")).upper(),
            text_of(request.get("uri")) or text_of(request.get("url")),
            _read_headers(request.get("headers")),
            _read_body(request),
            _read_status(response),
            headers,
            decompress(_read_body(response), headers),
            text_of(object_of(interaction).get("recorded_at")),
        )


def _find_interactions(content: object) -> list[object]:
    found: object = content
    if is_object(content):
        found = next((content[name] for name in _INTERACTIONS if name in content), None)
    if not is_list(found):
        raise ImportFormatError("it has neither `interactions` nor `log.entries`")
    return found


def _read_headers(headers: object) -> dict[str, str]:
    """Read headers, each with one value or a list of values."""
    pairs: list[tuple[str, str]] = []
    for name, values in object_of(headers).items():
        each = values if is_list(values) else [values]
        pairs += ((name, _to_bytes(value).decode("latin-1")) for value in each)
    return merge_headers(pairs)


def _read_status(response: dict[str, object]) -> int | None:
    """Read the status, which cassettes of httpx had in a field of its own for some time."""
    status = response.get("status", response.get("status_code"))
    code = status.get("code") if is_object(status) else status
    return code if isinstance(code, int) else None


def _read_body(message: dict[str, object]) -> bytes:
    """Read a body: text, bytes, text or base64 in an object, or JSON that was parsed."""
    if "parsed_body" in message:
        return msgspec.json.encode(message["parsed_body"])
    body = message.get("body", message.get("content"))
    if is_object(body):
        if "base64_string" in body:
            return read_base64(text_of(body["base64_string"]))
        body = body.get("string")
    return _to_bytes(body)


def _to_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return b"" if value is None else str(value).encode("utf-8", "surrogatepass")
