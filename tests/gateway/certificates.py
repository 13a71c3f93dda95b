"""Certificates for the tests with TLS."""

import datetime as dt
from inspect import signature
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class CertificateAuthority:
    """A certificate authority with its files in one folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = common_name(name)
        certificate = self._sign(self._name, self._key.public_key())
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(self, host: str) -> tuple[Path, Path]:
        """Issue a certificate for a host; return the files of the certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(common_name(host), key.public_key(), host)
        certificate_file, key_file = self._folder / f"{host}.pem", self._folder / f"{host}.key"
        certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate_file, key_file

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, host: str | None = None
    ) -> x509.Certificate:
        """Sign the certificate of a host, or that of the authority itself."""
        now = dt.datetime.now(dt.UTC)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(issuer, critical=False)
        )
        if host is None:
            builder = builder.add_extension(signing_key_usage(), critical=True)
        else:
            names = x509.SubjectAlternativeName([x509.DNSName(host)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def signing_key_usage() -> x509.KeyUsage:
    """Return the usage of a key that signs certificates only."""
    unused = dict.fromkeys(signature(x509.KeyUsage).parameters, False)
    return x509.KeyUsage(**{**unused, "key_cert_sign": True, "crl_sign": True})
