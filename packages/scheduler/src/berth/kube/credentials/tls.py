"""TLS contexts for talking to an API server, from PEM bytes that a kubeconfig or a plugin gave.

`access.py` reads the bytes and knows which field they came from; here they become an `SSLContext`. What is wrong with
them is raised as `TlsError`, whose `piece` says which input is at fault.
"""

import ssl
import tempfile
from pathlib import Path
from typing import Literal

from berth.api.redaction import Concealed

Piece = Literal["certificate-authority", "client-certificate"]


class TlsError(ValueError):
    """A piece of TLS material cannot be used."""

    def __init__(self, piece: Piece, message: str) -> None:
        super().__init__(message)
        self.piece = piece


class TlsSettings(Concealed, frozen=True):
    """How the server proves itself and how we do; empty means the system's CAs, or no client certificate."""

    ca_pem: bytes = b""
    insecure_skip_verify: bool = False
    server_name: str = ""
    certificate_pem: bytes = b""
    key_pem: bytes = b""


def build_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a client context for these settings; raises `TlsError` where a certificate or key cannot be used."""
    # Not ssl.create_default_context: since Python 3.13 its strict checks refuse CAs that many clusters have.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if settings.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.ca_pem:
        _trust(context, settings.ca_pem)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.certificate_pem:
        show_certificate(context, settings.certificate_pem, settings.key_pem)
    return context


def _trust(context: ssl.SSLContext, ca_pem: bytes) -> None:
    try:
        context.load_verify_locations(cadata=ca_pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        message = f"holds no certificate in PEM form that can be read ({_plain(error)})"
        raise TlsError("certificate-authority", message) from error


def show_certificate(context: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes) -> None:
    """Make a context show a client certificate; the ssl module takes only files, so both go through a private one."""
    with tempfile.TemporaryDirectory(prefix="berth-tls-") as directory:
        path = Path(directory, "client.pem")
        path.touch(mode=0o600)
        path.write_bytes(certificate_pem.rstrip() + b"\n" + key_pem)
        try:
            # An encrypted key must fail with a message rather than wait for its password.
            context.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            message = f"certificate and key cannot be used together ({_plain(error)})"
            raise TlsError("client-certificate", message) from error


def _no_password() -> str:
    raise ValueError("the key is encrypted, and a scheduler has nobody to ask for its password")


def _plain(error: Exception) -> str:
    """Return the reason in an SSL error without the error codes around it."""
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error)
