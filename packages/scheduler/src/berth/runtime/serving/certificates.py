"""The certificates of the secure port: made by ourselves or read from files, and read again when the files change.

Each new connection asks `ServingCertificates.context()` for the TLS context to use, so that a new certificate, or a new
authority for client certificates, counts from the next connection on. Files that have become unusable are reported
once, and their earlier contents stay in use. Like kube-scheduler, we make a certificate at the start if none is given:
in memory, or in `--cert-dir`, where it is found again.
"""

import ipaddress
import logging
import os
import socket
import ssl
import time
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from berth.api.user_error import UserError
from berth.runtime.serving.options import TlsOptions
from berth.serving.key_pairs import (
    KeyPair,
    alternative_names,
    new_key,
    show,
    signed_pair,
    unsigned_certificate,
    write_private,
)

PAIR_NAME = "kube-scheduler"
LOOK_AGAIN_S = 1.0
"""How often, at most, files are looked at for a change."""

_VERSIONS: Mapping[str, ssl.TLSVersion] = MappingProxyType(
    {
        "VersionTLS10": ssl.TLSVersion.TLSv1,
        "VersionTLS11": ssl.TLSVersion.TLSv1_1,
        "VersionTLS12": ssl.TLSVersion.TLSv1_2,
        "VersionTLS13": ssl.TLSVersion.TLSv1_3,
    }
)
_DEFAULT_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_log = logging.getLogger("berth.serving")


class ServingCertificateError(UserError, ValueError):
    """Certificates or settings of the secure port that cannot be used; names the flag."""


class ServingCertificates:
    """The TLS contexts of the secure port; raises `ServingCertificateError` at once for what cannot be used."""

    __slots__ = ("_authorities", "_clock", "_contexts", "_looked_at", "_made", "_options", "_problem", "_seen")

    def __init__(self, options: TlsOptions, bind_address: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._authorities = b""
        self._problem = ""
        self._made: KeyPair | None = None
        if not options.certificate_file:
            self._made = _kept_pair(options.cert_dir, bind_address) if options.cert_dir else make_pair(bind_address)
        self._seen = self._stamps()
        self._looked_at = clock()
        self._contexts = self._build()

    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        now = self._clock()
        if now - self._looked_at >= LOOK_AGAIN_S:
            self._looked_at = now
            stamps = self._stamps()
            if stamps != self._seen:
                self._seen = stamps
                self._rebuild()
        return self._contexts[""]

    def trust_clients_of(self, authorities_pem: bytes) -> None:
        """Ask for client certificates, and accept those signed by one of these authorities; empty: ask for none."""
        if authorities_pem != self._authorities:
            self._authorities = authorities_pem
            self._rebuild()

    @property
    def certificate_pem(self) -> bytes:
        """The certificate for clients that ask for no other name."""
        return self._pair(self._options.certificate_file, self._options.key_file).certificate_pem

    def _rebuild(self) -> None:
        try:
            self._contexts = self._build()
            self._problem = ""
        except ServingCertificateError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                _log.warning("what was read before stays in use: %s", error)

    def _build(self) -> dict[str, ssl.SSLContext]:
        """Make a context for each name that has its own certificate; "" is the one for all others."""
        options = self._options
        default = self._context_of(self._pair(options.certificate_file, options.key_file), "--tls-cert-file")
        by_name = {"": default}
        for number, one in enumerate(options.sni, start=1):
            flag = f"--tls-sni-cert-key (number {number})"
            pair = _read_pair(one.certificate_file, one.key_file, flag)
            made = self._context_of(pair, flag)
            for name in one.names or _names_in(pair.certificate_pem):
                by_name.setdefault(name.lower(), made)
        if len(by_name) > 1:
            default.sni_callback = _choose(by_name)
        return by_name

    def _pair(self, certificate_file: str, key_file: str) -> KeyPair:
        if self._made is not None:
            return self._made
        return _read_pair(certificate_file, key_file, "--tls-cert-file")

    def _context_of(self, pair: KeyPair, flag: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of old versions, which the flag asks for by name
            context.minimum_version = _VERSIONS[self._options.min_version]
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.set_ciphers(openssl_ciphers(self._options.cipher_suites))
        except ssl.SSLError:
            raise ServingCertificateError(
                f"--tls-cipher-suites: {','.join(self._options.cipher_suites)}: the OpenSSL here has none of them"
            ) from None
        _show(context, pair, flag)
        if self._authorities:
            try:
                context.load_verify_locations(cadata=self._authorities.decode("ascii"))
            except (ssl.SSLError, ValueError):
                raise ServingCertificateError("the authorities of client certificates cannot be read") from None
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _stamps(self) -> tuple[Any, ...]:
        """What changes when a file is replaced."""
        options = self._options
        files = [options.certificate_file, options.key_file]
        files += [file for one in options.sni for file in (one.certificate_file, one.key_file)]
        return tuple(_stamp(file) for file in files if file)


def openssl_ciphers(names: tuple[str, ...]) -> str:
    """Go's names of TLS 1.2 suites as OpenSSL's; those of TLS 1.3 cannot be chosen, in Go neither."""
    found = []
    for name in names:
        if "_WITH_" not in name:
            continue
        exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
        cipher = cipher.removesuffix("_SHA256") if "CHACHA20" in cipher else cipher
        cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "").replace("_", "-")
        prefix = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
        found.append(prefix + cipher.replace("3DES-EDE", "DES-CBC3").replace("RC4-128", "RC4"))
    return ":".join(found) or _DEFAULT_CIPHERS


def make_pair(bind_address: str) -> KeyPair:
    """A certificate signed by itself, for this machine's names and the address, and its key."""
    key, host = new_key(), socket.gethostname()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{host}@{int(time.time())}"[:64])])
    addresses = {ipaddress.ip_address(text) for text in ("127.0.0.1", "::1", bind_address)}
    names = ["localhost", host] if host.isascii() else ["localhost"]
    names += sorted(str(address) for address in addresses if not address.is_unspecified)
    builder = (
        unsigned_certificate(name, name, key, backdated=timedelta(hours=1))
        .add_extension(alternative_names(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    return signed_pair(builder, key, key)


def _kept_pair(directory: str, bind_address: str) -> KeyPair:
    """The pair in a directory, made and written there where there is none."""
    certificate_file, key_file = (Path(directory, f"{PAIR_NAME}.{ending}") for ending in ("crt", "key"))
    if certificate_file.exists() and key_file.exists():
        return _read_pair(str(certificate_file), str(key_file), "--cert-dir")
    pair = make_pair(bind_address)
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        write_private(key_file, pair.key_pem)
        certificate_file.write_bytes(pair.certificate_pem)
    except OSError as error:
        raise ServingCertificateError(f"--cert-dir: cannot write to {directory}: {error.strerror}") from None
    return pair


def _read_pair(certificate_file: str, key_file: str, flag: str) -> KeyPair:
    try:
        return KeyPair(Path(certificate_file).read_bytes(), Path(key_file).read_bytes())
    except (OSError, ValueError) as error:
        reason, file = str(error), certificate_file
        if isinstance(error, OSError):
            reason, file = error.strerror or reason, error.filename or file
        raise ServingCertificateError(f"{flag}: cannot read {file}: {reason}") from None


def _show(context: ssl.SSLContext, pair: KeyPair, flag: str) -> None:
    try:
        show(context, pair)
    except (ssl.SSLError, ValueError) as error:
        told = error.reason if isinstance(error, ssl.SSLError) else str(error)
        reason = (told or "unknown reason").replace("_", " ").lower()
        raise ServingCertificateError(f"{flag}: certificate and key cannot be used together ({reason})") from None


def _names_in(certificate_pem: bytes) -> list[str]:
    try:
        found = x509.load_pem_x509_certificate(certificate_pem).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
        return names.get_values_for_type(x509.DNSName)
    except (ValueError, x509.ExtensionNotFound):
        return []


def _choose(by_name: Mapping[str, ssl.SSLContext]) -> Callable[[ssl.SSLObject, str, ssl.SSLContext], None]:
    """A callback that answers a client with the certificate for the name it asks for; `*` stands for one label."""

    def choose(connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        asked = (name or "").lower()
        wildcard = f"*.{asked.partition('.')[2]}"
        found = by_name.get(asked) or by_name.get(wildcard)
        if found is not None:
            connection.context = found

    return choose


def _stamp(file: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 - follows links, as those in a mounted Secret
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
