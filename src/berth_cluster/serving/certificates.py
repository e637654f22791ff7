"""A certificate authority made on the spot, and the server certificate it signs.

The CA's key lives only as long as this call; what is kept is the CA certificate, which goes into the kubeconfig.
"""

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 365
_LOCAL_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_LOCAL_ADDRESSES = ("127.0.0.1", "::1")


class ServerIdentity(NamedTuple):
    """What the server needs to speak TLS and what a client needs to trust it."""

    context: ssl.SSLContext
    ca_pem: bytes


def make_identity(host: str) -> ServerIdentity:
    """A fresh CA and a server certificate for `host` and the usual local names."""
    ca_key, ca = _authority()
    key, certificate = _server_certificate(host, ca_key, ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, key, certificate)
    return ServerIdentity(context, ca.public_bytes(serialization.Encoding.PEM))


def _authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "berth-ca")])
    builder = _builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(usage, critical=True)
    subject = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return key, builder.add_extension(subject, critical=False).sign(key, hashes.SHA256())


def _server_certificate(
    host: str, ca_key: ec.EllipticCurvePrivateKey, ca: x509.Certificate
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "berth-apiserver")])
    builder = (
        _builder(name, ca.subject, key)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(host)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    return key, builder.sign(ca_key, hashes.SHA256())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=VALID_DAYS))
    )


def _alternative_names(host: str) -> list[x509.GeneralName]:
    names: dict[str, x509.GeneralName] = {name: x509.DNSName(name) for name in _LOCAL_NAMES}
    for text in (*_LOCAL_ADDRESSES, host):
        try:
            names[text] = x509.IPAddress(ipaddress.ip_address(text))
        except ValueError:
            names[text] = x509.DNSName(text)
    return list(names.values())


def _load(context: ssl.SSLContext, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    """Load the key from a temporary file that only this user can read, since `ssl` reads keys from files only."""
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "server.pem"
        path.touch(mode=0o600)
        path.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
        context.load_cert_chain(path)
