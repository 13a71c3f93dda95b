"""The head of a request, as it is written."""

import re

import httpx

# A method and a target, then headers: a name of token characters, and a value of no control
# characters but the tab (RFC 9110, 5.5 and 5.6.2).
HEAD = re.compile(
    rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e]+ HTTP/1\.1\r\n"
    rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)*"
)


def write_head(request: httpx.Request, length: int) -> bytes:
    """Write the request line and the headers, with a Host and the length of the body.

    Refuses what would read as another header or another request.
    """
    lines = [b"%b %b HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)]
    missing_host, missing_length = True, length > 0
    for name, value in request.headers.raw:
        match name.lower():
            case b"host":
                missing_host = False
            case b"content-length":
                # Ours is right: the whole body is there.
                missing_length = True
                continue
            case b"transfer-encoding":
                missing_length = True
                continue
            case _:
                pass
        lines.append(b"%b: %b\r\n" % (name, value))
    if missing_host:
        lines.append(b"Host: %b\r\n" % request.url.netloc)
    if missing_length:
        lines.append(b"Content-Length: %d\r\n" % length)
    head = b"".join(lines)
    # A line break within a value would pass as the next header, so the lines are counted.
    if head.count(b"\n") != len(lines) or HEAD.fullmatch(head) is None:
        raise httpx.LocalProtocolError("A header of the request has illegal characters.")
    return head + b"\r\n"
