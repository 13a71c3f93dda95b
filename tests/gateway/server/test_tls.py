"""TLS of the listening socket, and its certificate that is replaced."""

import http.client
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import connect

from gateway.config import ConfigError, load_config
from tests.gateway.certificates import CertificateAuthority
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until

HOST = "localhost"
TLS = '[server.tls]\ncert_file = "{}"\nkey_file = "{}"\n'


def client_context(authority: CertificateAuthority) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.file))
    # The gateway listens on an address, and the certificate has a name.
    context.check_hostname = False
    return context


@contextmanager
def connected(gateway: Gateway, context: ssl.SSLContext) -> Generator[http.client.HTTPSConnection]:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", gateway.port, context=context, timeout=TIMEOUT_SECONDS
    )
    connection.connect()
    try:
        yield connection
    finally:
        connection.close()


def get(connection: http.client.HTTPSConnection, path: str = "/health") -> int:
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status


def is_trusted(gateway: Gateway, context: ssl.SSLContext) -> bool:
    try:
        with connected(gateway, context) as connection:
            return get(connection) == 200
    except ssl.SSLCertVerificationError:
        return False


def replace(source: Path, target: Path) -> None:
    """Replace a file as a whole, as programs that renew certificates do."""
    new = target.with_suffix(".new")
    new.write_bytes(source.read_bytes())
    new.replace(target)


@pytest.mark.parametrize("workers", [1, 2])
def test_certificate_is_replaced_while_the_gateway_runs(workers: int, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = CertificateAuthority(tmp_path / "old"), CertificateAuthority(tmp_path / "new")
    certificate, key = old.issue(HOST)
    config = f"[server]\nworkers = {workers}\n{TLS.format(certificate, key)}"
    with run_gateway(config, tmp_path) as gateway:
        assert gateway.address.startswith("https://")
        with connected(gateway, client_context(old)) as connection:
            assert get(connection) == 200
            new_certificate, new_key = new.issue(HOST)
            replace(new_certificate, certificate)
            wait_until(lambda: gateway.log.count('"certificate not reloaded"') == workers)
            assert is_trusted(gateway, client_context(old))
            replace(new_key, key)
            wait_until(lambda: gateway.log.count('"certificate reloaded"') == workers)
            for _ in range(4):
                assert is_trusted(gateway, client_context(new))
            assert not is_trusted(gateway, client_context(old))
            # The open connection continues.
            assert get(connection, "/v1/models") == 200


def test_websockets_use_tls(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    certificate, key = authority.issue(HOST)
    with run_gateway(TLS.format(certificate, key), tmp_path) as gateway:
        url = f"wss://127.0.0.1:{gateway.port}/v1/responses"
        with connect(url, ssl=client_context(authority)) as socket:
            socket.send('{"type": "response.create", "model": "demo", "input": "Hi"}')
            assert '"response.created"' in str(socket.recv(TIMEOUT_SECONDS))


def test_mistakes_are_reported(tmp_path: Path) -> None:
    certificate, key = CertificateAuthority(tmp_path).issue(HOST)
    other = CertificateAuthority(tmp_path, "other").file
    file = tmp_path / "dragoman.toml"
    expected = "expected a certificate and its key in PEM format, without a password"
    missing = '"/none": No such file or directory'
    for text, error in {
        TLS.format(other, key): f"cert_file: {expected}",
        TLS.format(certificate, "/none"): f"key_file: cannot read {missing}",
        f'[server.tls]\nkey_file = "{key}"': "cert_file: required with key_file",
    }.items():
        file.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load_config(file)
        assert caught.value.errors == [f"{file}: server.tls.{error}"]
