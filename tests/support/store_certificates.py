"""A certificate authority for one test server on 127.0.0.1."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


class Authority:
    """``certificate`` is what a client must trust; ``serving`` with its key is the server's."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "ca.pem"
        self.serving, self.serving_key = folder / "serving.pem", folder / "serving.key"
        own, theirs = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        root = _certificate("Test stores", own, "Test stores", own, authority=True)
        leaf = _certificate("127.0.0.1", theirs, "Test stores", own, authority=False)
        self.certificate.write_bytes(_pem(root))
        self.serving.write_bytes(_pem(leaf) + _pem(root))
        self.serving_key.write_bytes(
            theirs.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

    def context(self) -> ssl.SSLContext:
        """For a server written in Python."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.serving, self.serving_key)
        return made


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _certificate(
    subject: str, key: Key, issuer: str, issuer_key: Key, *, authority: bool
) -> x509.Certificate:
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(_usage(authority=authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if not authority:
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(issuer_key, hashes.SHA256())


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
