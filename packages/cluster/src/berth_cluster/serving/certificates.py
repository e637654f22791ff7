"""The cluster's certificate authority, which outlives the process, and the certificates that it signs.

The authority is kept in a directory as kubeadm keeps it, `ca.crt` and `ca.key`; the key can be read by its owner only.
So clients go on trusting a server that was started again. The server's own certificate is made at each start and its
key is not kept. Client certificates name a user and groups, as those in kubeadm's kubeconfigs do.
"""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from berth.api.user_error import UserError
from berth.serving.key_pairs import (
    KeyPair,
    alternative_names,
    new_key,
    pem_of,
    show,
    signed_pair,
    unsigned_certificate,
    write_private,
)

CA_VALID_DAYS = 3650
_LOCAL_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1")


class ClusterAuthorityError(UserError):
    """The files of the certificate authority cannot be used; the message says which and what to do."""


class ClusterAuthority:
    """A certificate authority: signs the server's certificate and those of clients."""

    __slots__ = ("_certificate", "_key")

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def kept_in(cls, directory: Path) -> "ClusterAuthority":
        """The authority whose files are in the directory; a new one is made, and written, where there is none."""
        certificate_file, key_file = directory / "ca.crt", directory / "ca.key"
        if not certificate_file.exists() and not key_file.exists():
            made = cls.new()
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(key_file, made.key_pem)
            certificate_file.write_bytes(made.certificate_pem)
            return made
        try:
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
            key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise ClusterAuthorityError(
                f"{directory}: the cluster's CA cannot be read ({error}); {_START_OVER}"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ClusterAuthorityError(f"{directory}: ca.key is not the key of ca.crt; {_START_OVER}")
        if certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=1):
            ended = certificate.not_valid_after_utc.date()
            raise ClusterAuthorityError(f"{directory}: ca.crt is valid until {ended} only; {_START_OVER}")
        key_file.chmod(0o600)
        return cls(key, certificate)

    @classmethod
    def new(cls) -> "ClusterAuthority":
        """A fresh authority."""
        key = new_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "berth-ca")])
        builder = unsigned_certificate(name, name, key, days=CA_VALID_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
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
        return cls(key, builder.add_extension(subject, critical=False).sign(key, hashes.SHA256()))

    @property
    def signing_key(self) -> ec.EllipticCurvePrivateKey:
        """What also signs the tokens of ServiceAccounts."""
        return self._key

    @property
    def certificate_pem(self) -> bytes:
        """The authority's certificate, by which clients know the server and servers know clients."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The authority's key."""
        return pem_of(self._key)

    def server_context(self, host: str) -> ssl.SSLContext:
        """What a server at `host` needs to speak TLS. Client certificates are asked for, and not required."""
        pair = self._sign(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "berth-apiserver")]),
            ExtendedKeyUsageOID.SERVER_AUTH,
            (*_LOCAL_NAMES, host),
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.certificate_pem.decode())
        show(context, pair)
        return context

    def client_certificate(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A certificate with which a client is that user, in those groups."""
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._sign(subject, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _sign(self, subject: x509.Name, usage: x509.ObjectIdentifier, names: Sequence[str] = ()) -> KeyPair:
        key = new_key()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            unsigned_certificate(subject, self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            builder = builder.add_extension(alternative_names(names), critical=False)
        return signed_pair(builder, key, self._key)


_START_OVER = "remove the directory to have a new CA made, which clients then have to be told of"
