"""Certificates with their keys, as PEM: making, keeping and showing them.

Used for the scheduler's secure port, which signs its certificate itself, and for the embedded API server, which has an
authority that signs.
"""

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

VALID_DAYS = 365


class KeyPair(NamedTuple):
    """A certificate, with what follows it in its chain, and its key; PEM."""

    certificate_pem: bytes
    key_pem: bytes


def new_key() -> ec.EllipticCurvePrivateKey:
    """A fresh key."""
    return ec.generate_private_key(ec.SECP256R1())


def unsigned_certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    days: int = VALID_DAYS,
    backdated: timedelta = timedelta(minutes=5),
) -> x509.CertificateBuilder:
    """A certificate to be signed, without extensions; it is `backdated` for clients whose clocks are behind."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - backdated)
        .not_valid_after(now + timedelta(days=days))
    )


def signed_pair(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signing: ec.EllipticCurvePrivateKey
) -> KeyPair:
    """Sign a certificate with somebody's key, and return it with its own."""
    signed = builder.sign(signing, hashes.SHA256())
    return KeyPair(signed.public_bytes(serialization.Encoding.PEM), pem_of(key))


def alternative_names(texts: Iterable[str]) -> x509.SubjectAlternativeName:
    """Names and addresses of a server, each once."""
    names: dict[str, x509.GeneralName] = {}
    for text in texts:
        try:
            names[text] = x509.IPAddress(ipaddress.ip_address(text))
        except ValueError:
            names[text] = x509.DNSName(text)
    return x509.SubjectAlternativeName(names.values())


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, all at once."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    unfinished.replace(path)


def show(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Have a context show a certificate. Raises ssl.SSLError, and ValueError for a key that is encrypted."""
    with tempfile.TemporaryDirectory(prefix="berth-serving-") as directory:
        path = Path(directory, "server.pem")  # the ssl module reads files only, so both pass through a private one
        write_private(path, pair.certificate_pem.rstrip() + b"\n" + pair.key_pem)
        context.load_cert_chain(path, password=_no_password)


def _no_password() -> str:
    raise ValueError("the key is encrypted, and there is nobody to ask for its password")
