"""What is written to a backend."""

import asyncio

import httpx
import pytest

from gateway.backends.transport import DirectTransport, RequestTemplate, write_head
from tests.gateway.backends.transport_server import OK, Loop, Peer, direct, run, serving

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def written(request: httpx.Request, length: int = 0) -> list[bytes]:
    head = write_head(request, length)
    assert head.endswith(b"\r\n\r\n")
    return head[:-4].split(b"\r\n")


def test_a_prepared_request() -> None:
    target = RequestTemplate("http://127.0.0.1:8000/v1/chat/completions?a=b", [(b"X-Ours", b"1")])
    assert written(target.post(b"{}", [(b"Authorization", b"Bearer k")]), 2) == [
        b"POST /v1/chat/completions?a=b HTTP/1.1",
        b"Host: 127.0.0.1:8000",
        b"X-Ours: 1",
        b"Authorization: Bearer k",
        b"Content-Length: 2",
    ]
    assert written(target.get()) == [
        b"GET /v1/chat/completions?a=b HTTP/1.1",
        b"Host: 127.0.0.1:8000",
        b"X-Ours: 1",
    ]


def test_a_prepared_request_reads_as_one_of_httpx() -> None:
    request = RequestTemplate("http://localhost/x", connect_timeout=3).post(b"{}")
    assert (request.method, str(request.url)) == ("POST", "http://localhost/x")
    assert asyncio.run(request.aread()) == b"{}"
    assert request.extensions["timeout"]["connect"] == 3


def test_a_request_of_httpx_itself() -> None:
    request = httpx.Request("POST", "http://[::1]:9/", content=b"{}", headers=[(b"A", b"\xe9")])
    assert written(request, 2) == [
        b"POST / HTTP/1.1",
        b"Host: [::1]:9",
        b"A: \xe9",
        b"Content-Length: 2",
    ]


@pytest.mark.parametrize(
    ("method", "headers", "length", "expected"),
    [
        pytest.param("GET", {}, 0, [b"Host: h"], id="nothing-to-say"),
        pytest.param("POST", {}, 0, [b"Host: h", b"Content-Length: 0"], id="empty-post"),
        pytest.param(
            "POST",
            {"Content-Length": "7"},
            2,
            [b"Host: h", b"Content-Length: 2"],
            id="wrong-length",
        ),
        pytest.param(
            "POST",
            {"Transfer-Encoding": "chunked"},
            2,
            [b"Host: h", b"Content-Length: 2"],
            id="chunked",
        ),
        pytest.param("GET", {"Host": "other"}, 0, [b"Host: other"], id="another-host"),
    ],
)
def test_the_length_is_right_and_a_host_is_there(
    method: str, headers: dict[str, str], length: int, expected: list[bytes]
) -> None:
    assert written(httpx.Request(method, "http://h/", headers=headers), length)[1:] == expected


def test_a_host_is_added() -> None:
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
def test_headers_that_would_read_as_others_are_refused(name: bytes, value: bytes) -> None:
    request = RequestTemplate("http://localhost/", [(name, value)]).post(b"{}")
    with pytest.raises(httpx.LocalProtocolError):
        write_head(request, 2)


def test_a_method_that_would_read_as_a_request_is_refused() -> None:
    with pytest.raises(httpx.LocalProtocolError):
        write_head(httpx.Request("GET / HTTP/1.1\r\nEvil: x\r\n", "http://localhost/"), 0)


def test_a_refused_request_opens_no_connection() -> None:
    async def main() -> None:
        transport = DirectTransport()
        request = RequestTemplate("http://127.0.0.1:1/", [(b"X", b"a\nb")]).get()
        with pytest.raises(httpx.LocalProtocolError):
            await transport.handle_async_request(request)
        await transport.aclose()

    asyncio.run(main())


@LOOPS
@pytest.mark.parametrize("size", [0, 2, 5000, 2**24])
def test_the_server_gets_head_and_body(loop: Loop, size: int) -> None:
    async def main() -> None:
        got: list[bytes] = []

        async def script(peer: Peer) -> None:
            while request := await peer.request():
                got.append(request)
                await peer.send(OK)

        async with serving(script) as server, direct() as transport:
            request = server.target().post(b"x" * size)
            response = await transport.handle_async_request(request)
            assert await response.aread() == b"hello"
            assert got == [write_head(request, size) + b"x" * size]

    run(loop, main())


@LOOPS
def test_it_serves_a_client_of_httpx(loop: Loop) -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            while await peer.request():
                await peer.send(OK)

        async with serving(script) as server, httpx.AsyncClient(transport=DirectTransport()) as own:
            for _ in range(3):
                assert (await own.post(server.address, json={})).text == "hello"
            assert server.connections == 1

    run(loop, main())
