"""The record mode `new_episodes`: a server in front of a replay and of a gateway that records.

A request is sent to the replay. If it matches no recording, it is sent to the other gateway.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from gateway.pytest_plugin.scripted_backend import LAST_CHUNK, TIMEOUT_SECONDS, chunk

_NO_RECORDING = b'"no_matching_recording"'
# Headers that belong to one connection.
_OWN_HEADERS = ("connection", "content-length", "date", "keep-alive", "server", "transfer-encoding")


@contextmanager
def run_front(replay: str, recording: str) -> Generator[str]:
    """Run the server in front of two gateways with these URLs; yield its own URL."""

    class Handler(_Handler):
        backends = (urlsplit(replay).netloc, urlsplit(recording).netloc)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="new episodes")
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Handles the requests of one client."""

    protocol_version = "HTTP/1.1"
    # The hosts of the replay and of the gateway that records.
    backends: tuple[str, str]

    def do_GET(self) -> None:
        """Forward a request that is not recorded, for example for the models."""
        self._forward(self._send(self.backends[1], b""))

    def do_POST(self) -> None:
        """Forward a request to the replay, or to the gateway that records."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        replayed = self._send(self.backends[0], body)
        error = replayed.read() if replayed.status == HTTPStatus.NOT_FOUND else b""
        if _NO_RECORDING in error:
            replayed.close()
            self._forward(self._send(self.backends[1], body))
        else:
            self._forward(replayed, error)

    def _send(self, host: str, body: bytes) -> HTTPResponse:
        dropped = ("host", "connection")
        headers = {name: self.headers[name] for name in self.headers if name.lower() not in dropped}
        connection = HTTPConnection(host, timeout=TIMEOUT_SECONDS)
        # The socket is then closed with the response.
        connection.request(self.command, self.path, body, {**headers, "Connection": "close"})
        return connection.getresponse()

    def _forward(self, response: HTTPResponse, begun: bytes = b"") -> None:
        """Forward a response, and what was already read of its body."""
        with response:
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in _OWN_HEADERS:
                    self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            data = begun or response.read1()
            while data:
                self.wfile.write(chunk(data))
                data = response.read1()
            self.wfile.write(LAST_CHUNK)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        """Log nothing; both gateways have logs."""
