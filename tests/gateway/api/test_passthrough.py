"""Other paths of a backend's API, which pass through the gateway if the configuration allows it."""

import http.client
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import openai
import pytest

from gateway.crypto import api_key_digest
from gateway.recording.format import Exchange, find_recordings, read_recording
from tests.gateway import raw_http
from tests.gateway.addresses import refusing_address
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.judges.reading import object_in

KEY = "backend-key-0123456789"
PATHS = '"/embeddings", "/completions", "/audio/*", "/files*"'
CLIENT = {"Authorization": "Bearer client-key"}
ACCESS = f'[[access.keys]]\nname = "ci"\nsha256 = "{api_key_digest("client-key")}"\n'


class FilesBackend(ThreadingHTTPServer):
    """A backend with other endpoints than those for replies."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.part_received = threading.Event()
        self.rest_allowed = threading.Event()
        self.disconnected = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _files(self) -> FilesBackend:
        assert isinstance(self.server, FilesBackend)
        return self.server

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        if self.path.endswith("/content"):
            self._stream()
        elif self.path.startswith("/v1/files"):
            self._reply({"path": self.path, "range": self.headers.get("range")})
        else:
            self._reply({"error": {"message": f"bad key {KEY}"}}, 401)

    do_DELETE = do_GET  # noqa: N815 - a name of the base class

    def do_POST(self) -> None:
        body, headers = b"".join(self._parts()), dict(self.headers.items())
        text = body[:1000].decode()
        self._reply({"path": self.path, "size": len(body), "body": text, "headers": headers})

    def _parts(self) -> Generator[bytes]:
        length = self.headers.get("content-length")
        left = int(length) if length is not None else None
        while left is None or left > 0:
            if left is None:
                size = int(self.rfile.readline(), 16)
                part = self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    return
            else:
                part = self.rfile.read1(min(left, 65536))
                left -= len(part)
                if not part:
                    self._files.disconnected.set()
                    return
            self._files.part_received.set()
            yield part

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "audio/mpeg")
        self.send_header("content-disposition", 'attachment; filename="a.mp3"')
        self.send_header("content-length", "8")
        self.end_headers()
        self.wfile.write(b"1234")
        self._files.rest_allowed.wait(TIMEOUT_SECONDS)
        if self.path == "/v1/files/cut/content":
            self.close_connection = True
            return
        self.wfile.write(b"5678")

    def _reply(self, body: object, status: int = 200) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def run_backend() -> Generator[FilesBackend]:
    with FilesBackend() as backend:
        thread = threading.Thread(target=backend.serve_forever)
        thread.start()
        try:
            yield backend
        finally:
            backend.rest_allowed.set()
            backend.shutdown()
            thread.join()


def backend_table(name: str, url: str, settings: str = f"passthrough_paths = [{PATHS}]\n") -> str:
    return f'[[backends]]\nname = "{name}"\nurl = "{url}"\ndialect = "chat"\n{settings}'


@pytest.fixture(scope="module")
def shared_backend() -> Generator[FilesBackend]:
    with run_backend() as server:
        yield server


@pytest.fixture
def backend(shared_backend: FilesBackend) -> FilesBackend:
    for event in (shared_backend.part_received, shared_backend.rest_allowed):
        event.clear()
    return shared_backend


@pytest.fixture(scope="module")
def gateway(
    shared_backend: FilesBackend, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Gateway]:
    config = ACCESS + backend_table("files", shared_backend.url)
    config += 'api_key_env = "KEY"\nmodel_aliases = { mine = "theirs" }\n'
    folder = tmp_path_factory.mktemp("passthrough")
    with run_gateway(config, folder, {"KEY": KEY}) as process:
        yield process
    assert "Traceback" not in process.log, process.log


def post(gateway: Gateway, path: str, body: raw_http.Body) -> raw_http.RawResponse:
    return raw_http.post(gateway.port, path, body, CLIENT)


@pytest.mark.parametrize("prefix", ["/v1", "", "/openai/v1", "/openai"])
def test_request_has_the_key_of_the_backend(prefix: str, gateway: Gateway) -> None:
    reply = post(gateway, f"{prefix}/embeddings?a=%2F", {"model": "m", "input": "Hi"})
    assert reply.status == 200
    sent = reply.json()
    assert sent["path"] == "/v1/embeddings?a=%2F"
    headers = {name.lower(): value for name, value in object_in(sent, "headers").items()}
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["content-type"] == "application/json"


def test_sdk_uses_the_paths(gateway: Gateway) -> None:
    with openai.OpenAI(base_url=gateway.url, api_key="client-key", max_retries=0) as sdk:
        content = b"x" * 1_000_000
        uploaded = sdk.audio.transcriptions.with_raw_response.create(
            model="whisper", file=("a.wav", content)
        )
        assert json.loads(uploaded.text)["size"] > len(content)
        assert json.loads(sdk.files.with_raw_response.retrieve("file-1").text) == {
            "path": "/v1/files/file-1",
            "range": None,
        }


def test_alias_of_a_model_is_replaced(gateway: Gateway) -> None:
    sent = {
        model: str(post(gateway, "/v1/embeddings", {"model": model, "a": [1.0]}).json()["body"])
        for model in ("mine", "other")
    }
    assert json.loads(sent["mine"]) == {"model": "theirs", "a": [1.0]}
    assert json.loads(sent["other"]) == {"model": "other", "a": [1.0]}


def test_upload_is_streamed(gateway: Gateway, backend: FilesBackend) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=TIMEOUT_SECONDS)
    connection.putrequest("POST", "/v1/files")
    for name, value in {**CLIENT, "Transfer-Encoding": "chunked"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"4\r\n1234\r\n")
    # The first part arrives before the rest is sent.
    assert backend.part_received.wait(TIMEOUT_SECONDS)
    connection.send(b"2\r\n56\r\n0\r\n\r\n")
    assert json.loads(connection.getresponse().read())["size"] == 6
    connection.close()


def test_upload_of_a_client_that_disconnects_is_ended(
    gateway: Gateway, backend: FilesBackend
) -> None:
    with raw_http.connect(gateway.port) as client:
        head = "POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer client-key\r\n"
        client.sendall(f"{head}Content-Length: 1000\r\n\r\n1234".encode())
        assert backend.part_received.wait(TIMEOUT_SECONDS)
    assert backend.disconnected.wait(TIMEOUT_SECONDS)
    wait_until(lambda: '"outcome":"client_disconnected"' in gateway.log)


def test_response_is_streamed(gateway: Gateway, backend: FilesBackend) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=TIMEOUT_SECONDS)
    connection.request("GET", "/v1/files/f%2F1/content", headers=CLIENT)
    response = connection.getresponse()
    assert response.getheader("content-type") == "audio/mpeg"
    assert response.getheader("content-disposition") == 'attachment; filename="a.mp3"'
    assert response.read(4) == b"1234"
    backend.rest_allowed.set()
    assert response.read() == b"5678"
    connection.close()


def test_incomplete_response_is_incomplete_for_the_client(
    gateway: Gateway, backend: FilesBackend
) -> None:
    backend.rest_allowed.set()
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=TIMEOUT_SECONDS)
    connection.request("GET", "/v1/files/cut/content", headers=CLIENT)
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()
    connection.close()
    wait_until(lambda: "backend_broke_off" in gateway.log)


def test_other_methods_and_headers_pass(gateway: Gateway) -> None:
    headers = CLIENT | {"Range": "bytes=0-3"}
    reply = raw_http.send(gateway, "DELETE", "/v1/files/a", headers=headers)
    assert reply.json() == {"path": "/v1/files/a", "range": "bytes=0-3"}


def test_key_in_an_error_is_redacted(gateway: Gateway) -> None:
    reply = raw_http.get(gateway.port, "/v1/audio/voices", CLIENT)
    assert reply.status == 401
    assert "bad key" in reply.body.decode()
    assert KEY not in reply.body.decode()
    assert KEY not in gateway.log


def test_access_requires_a_key(gateway: Gateway) -> None:
    assert raw_http.post(gateway.port, "/v1/embeddings", {"model": "m"}).status == 401


@pytest.mark.parametrize(
    "path",
    ["/v1/moderations", "/v1/files/../admin", "/v1/files/%2e%2e/admin", "/v1/files/..%5Cadmin"],
)
def test_other_paths_are_not_passed(path: str, gateway: Gateway) -> None:
    reply = raw_http.send(gateway, "GET", path, headers=CLIENT)
    assert reply.status == 404
    message = str(reply.error["message"])
    assert message.startswith(f"GET {path}: ")
    assert "passthrough_paths" in message


def test_nothing_passes_by_default(backend: FilesBackend, tmp_path: Path) -> None:
    with run_gateway(backend_table("files", backend.url, ""), tmp_path) as gateway:
        reply = post(gateway, "/v1/embeddings", {"model": "m"})
    assert reply.status == 404
    assert "`passthrough_paths`" in str(reply.error["message"])
    assert urlsplit(backend.url).port


def test_model_selects_the_backend(backend: FilesBackend, tmp_path: Path) -> None:
    passes = 'passthrough_paths = ["/embeddings"]\n'
    with refusing_address() as refusing, run_backend() as second:
        config = "[retries]\nmax_retries = 0\n" + "".join(
            (
                backend_table("down", f"{refusing}/v1", f'models = ["a*"]\n{passes}'),
                backend_table("one", backend.url, f'models = ["a", "b"]\n{passes}'),
                backend_table("two", second.url, f'models = ["c"]\n{passes}'),
                backend_table("none", second.url, 'models = ["d"]\n'),
            )
        )
        with run_gateway(config, tmp_path) as gateway:
            statuses = {
                model: post(gateway, "/v1/embeddings", {"model": model}).status
                for model in ("a", "b", "c", "d", "e")
            }
            deployment = post(gateway, "/openai/deployments/c/embeddings", {"input": "Hi"})
            wait_until(lambda: '"model":"c"' in gateway.lines[-1])
            log = gateway.log
    assert statuses == {"a": 200, "b": 200, "c": 200, "d": 404, "e": 404}
    assert deployment.status == 200
    for name, model in {"one": "a", "two": "c"}.items():
        assert f'"backend":"{name}"' in next(
            line for line in log.splitlines() if f'"model":"{model}","status":200' in line
        )


def test_nothing_is_recorded(backend: FilesBackend, tmp_path: Path) -> None:
    config = '[recording]\ndirectory = "recordings"\n' + backend_table("files", backend.url)
    with run_gateway(config, tmp_path) as gateway:
        assert post(gateway, "/v1/embeddings", {"model": "m"}).status == 200
        assert post(gateway, "/v1/chat/completions", {"model": "m"}).status == 502
    recordings = map(read_exchange, find_recordings(tmp_path / "recordings"))
    paths = [one.client.path for one in recordings]
    assert paths == ["/v1/chat/completions"]


def read_exchange(folder: Path) -> Exchange:
    return read_recording(folder).exchange
