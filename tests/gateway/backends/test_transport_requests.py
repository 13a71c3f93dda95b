"""How the direct transport writes requests."""

import asyncio

import httpx
import pytest

from gateway.backends.client import RequestTemplate
from gateway.backends.transport import DirectTransport, write_head
from tests.gateway.backends.byte_server import OK, Peer, always, direct, linked, serving


def written(request: httpx.Request, length: int = 0) -> list[bytes]:
    head = write_head(request, length)
    assert head.endswith(b"\r\n\r\n")
    return head[:-4].split(b"\r\n")


def test_request_from_a_template() -> None:
    template = RequestTemplate("http://127.0.0.1:8000/v1/chat/completions?a=b", [(b"X-Ours", b"1")])
    path, headers = b"/v1/chat/completions?a=b", [b"Host: 127.0.0.1:8000", b"X-Ours: 1"]
    more = [b"Authorization: Bearer k", b"Content-Length: 2"]
    request = template.post(b"{}", [(b"Authorization", b"Bearer k")])
    assert written(request, 2) == [b"POST %s HTTP/1.1" % path, *headers, *more]
    assert written(template.get()) == [b"GET %s HTTP/1.1" % path, *headers]


def test_request_from_a_template_can_be_read() -> None:
    request = RequestTemplate("http://localhost/x", connect_timeout=3).post(b"{}")
    assert (request.method, str(request.url)) == ("POST", "http://localhost/x")
    assert asyncio.run(request.aread()) == b"{}"
    assert request.extensions["timeout"]["connect"] == 3


def test_request_made_by_httpx() -> None:
    request = httpx.Request("POST", "http://[::1]:9/", content=b"{}", headers=[(b"A", b"\xe9")])
    expected = [b"POST / HTTP/1.1", b"Host: [::1]:9", b"A: \xe9", b"Content-Length: 2"]
    assert written(request, 2) == expected


HOST_AND_LENGTH = [b"Host: h", b"Content-Length: 2"]


@pytest.mark.parametrize(
    ("method", "headers", "length", "expected"),
    [
        pytest.param("GET", {}, 0, [b"Host: h"], id="get"),
        pytest.param("POST", {}, 0, [b"Host: h", b"Content-Length: 0"], id="empty-post"),
        pytest.param("POST", {"Content-Length": "7"}, 2, HOST_AND_LENGTH, id="wrong-length"),
        pytest.param("POST", {"Transfer-Encoding": "chunked"}, 2, HOST_AND_LENGTH, id="chunked"),
        pytest.param("GET", {"Host": "other"}, 0, [b"Host: other"], id="another-host"),
    ],
)
def test_length_and_host_are_written(
    method: str, headers: dict[str, str], length: int, expected: list[bytes]
) -> None:
    assert written(httpx.Request(method, "http://h/", headers=headers), length)[1:] == expected


def test_missing_host_is_added() -> None:
    request = httpx.Request("GET", "http://h:81/", stream=httpx.ByteStream(b""))
    assert written(request) == [b"GET / HTTP/1.1", b"Host: h:81"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"X", b"a\r\nEvil: b"),
        (b"X", b"a\nEvil: b"),
        (b"X", b"a\r b"),
        (b"X", b"a\x00b"),
        (b"X", b"a\r\n\r\nGET / HTTP/1.1"),
        (b"X\r\nEvil", b"a"),
        (b"X: a\r\nEvil", b"a"),
        (b"X Y", b"a"),
        (b"X:", b"a"),
        (b"", b"a"),
        (b"\xc3\xa9", b"a"),
    ],
)
def test_header_injection_is_an_error(name: bytes, value: bytes) -> None:
    request = RequestTemplate("http://localhost/", [(name, value)]).post(b"{}")
    with pytest.raises(httpx.LocalProtocolError):
        write_head(request, 2)


def test_injection_through_the_method_is_an_error() -> None:
    with pytest.raises(httpx.LocalProtocolError):
        write_head(httpx.Request("GET / HTTP/1.1\r\nEvil: x\r\n", "http://localhost/"), 0)


async def test_invalid_request_opens_no_connection() -> None:
    request = RequestTemplate("http://127.0.0.1:1/", [(b"X", b"a\nb")]).get()
    async with direct() as transport:
        with pytest.raises(httpx.LocalProtocolError):
            await transport.handle_async_request(request)


@pytest.mark.parametrize("size", [0, 2, 5000, 2**24])
async def test_server_receives_head_and_body(size: int) -> None:
    body, received = b"x" * size, list[bytes]()

    async def script(peer: Peer) -> None:
        received.append(await peer.respond(OK))

    async with linked(script) as link:
        assert await link.send(body) == (200, b"hello")
        assert received == [write_head(link.server.request(body), size) + body]


async def test_httpx_client_can_use_the_transport() -> None:
    transport = DirectTransport()
    async with serving(always(OK)) as server, httpx.AsyncClient(transport=transport) as client:
        for _ in range(3):
            assert (await client.post(server.address, json={})).text == "hello"
        assert server.connections == 1
