"""Reader of HAR files (HTTP Archive 1.2) as Chrome, Firefox and proxies write them."""

from collections.abc import Iterator

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

# The phases before the first byte of a response, in milliseconds; -1 if one does not apply.
_PHASES = ("blocked", "dns", "connect", "send", "wait")


def is_har(content: object) -> bool:
    """Whether decoded JSON is a HAR file."""
    return is_object(content) and is_list(object_of(content.get("log")).get("entries"))


def read_har(content: object) -> Iterator[HttpExchange]:
    """Yield the exchanges of a decoded HAR file; raise `ImportFormatError` if it is none."""
    entries = object_of(object_of(content).get("log")).get("entries")
    if not is_list(entries):
        raise ImportFormatError("it has no `log.entries`")
    for entry in map(object_of, entries):
        request, response = object_of(entry.get("request")), object_of(entry.get("response"))
        if not request:
            raise ImportFormatError("an entry has no request")
        headers, status = _read_headers(response.get("headers")), response.get("status")
        body, reads = _read_reply(entry, decompress(_read_content(response), headers))
        yield HttpExchange(
            text_of(request.get("method")).upper(),
            text_of(request.get("url")),
            _read_headers(request.get("headers")),
            _read_text(object_of(request.get("postData"))),
            # Browsers write 0 for a request that failed.
            status if isinstance(status, int) and status > 0 else None,
            headers,
            body,
            text_of(entry.get("startedDateTime")),
            reads,
        )


def _read_headers(headers: object) -> dict[str, str]:
    pairs = map(object_of, headers if is_list(headers) else [])
    return merge_headers((text_of(one.get("name")), text_of(one.get("value"))) for one in pairs)


def _read_content(response: dict[str, object]) -> bytes:
    return _read_text(object_of(response.get("content")))


def _read_text(content: dict[str, object]) -> bytes:
    text = text_of(content.get("text"))
    if content.get("encoding") == "base64":
        return read_base64(text)
    return text.encode("utf-8", "surrogatepass")


def _read_reply(
    entry: dict[str, object], body: bytes
) -> tuple[bytes, tuple[tuple[float, int], ...]]:
    """Return the body of a reply and its reads; Chrome has the events of some streams instead."""
    timings = object_of(entry.get("timings"))
    begin = sum(_positive(timings.get(phase)) for phase in _PHASES) / 1000
    if body:
        return body, ((begin + _positive(timings.get("receive")) / 1000, len(body)),)
    messages = entry.get("_eventSourceMessages")
    events = [object_of(message) for message in messages] if is_list(messages) else []
    written = [_write_event(event) for event in events]
    times = [_positive(event.get("time")) for event in events]
    reads = ((begin + time - times[0], len(one)) for time, one in zip(times, written, strict=True))
    return b"".join(written), tuple(reads)


def _write_event(event: dict[str, object]) -> bytes:
    name = text_of(event.get("eventName"))
    lines = [] if name in ("", "message") else [f"event: {name}"]
    lines += (f"data: {line}" for line in text_of(event.get("data")).split("\n"))
    return "".join(f"{line}\n" for line in [*lines, ""]).encode("utf-8", "surrogatepass")


def _positive(value: object) -> float:
    return max(0, value) if isinstance(value, int | float) else 0
