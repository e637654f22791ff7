"""What kube-scheduler's flags say about serving, as values: addresses, certificates, who may ask, and for how long.

`berth.cli.flags` makes a `ServingOptions` of a command line; the defaults are kube-scheduler's. Files are named, and
read by those who use them.
"""

from typing import Literal

import msgspec

TlsVersion = Literal["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]


class SniCertificate(msgspec.Struct, frozen=True):
    """`--tls-sni-cert-key`: a key pair for clients that ask for one of these names, or of those in the certificate."""

    certificate_file: str
    key_file: str
    names: tuple[str, ...] = ()


class TlsOptions(msgspec.Struct, frozen=True):
    """What is shown to clients, and what is spoken with them."""

    certificate_file: str = ""
    key_file: str = ""
    cert_dir: str = ""
    """Where a certificate made by ourselves is kept; empty: in memory only."""
    sni: tuple[SniCertificate, ...] = ()
    min_version: TlsVersion = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()
    """Go's names; empty for the default ones."""


class AuthenticationOptions(msgspec.Struct, frozen=True):
    """How to find out who asks."""

    kubeconfig: str = ""
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    token_cache_ttl_s: float = 10.0
    client_ca_file: str = ""
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)


class AuthenticationLookupError(Exception):
    """The cluster's authentication configuration cannot be read, and --authentication-tolerate-lookup-failure=false."""


class PortTaken(RuntimeError):  # noqa: N818 - it says what happened
    """The address cannot be listened on."""


class AuthorizationOptions(msgspec.Struct, frozen=True):
    """How to find out whether they may."""

    kubeconfig: str = ""
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    allowed_ttl_s: float = 10.0
    denied_ttl_s: float = 10.0


class ServingOptions(msgspec.Struct, frozen=True):
    """Everything about the secure port; port 0 serves nothing there."""

    bind_address: str = "0.0.0.0"
    port: int = 10259
    shares_port: bool = False
    """Whether other processes may listen on the same port (SO_REUSEPORT)."""
    tls: TlsOptions = TlsOptions()
    authentication: AuthenticationOptions = AuthenticationOptions()
    authorization: AuthorizationOptions = AuthorizationOptions()
