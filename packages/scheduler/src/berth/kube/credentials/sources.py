"""How we identify ourselves to the API server: sources of tokens and client certificates, combined into an access.

`access.py` builds a `ClusterAccess`. Before each request the HTTP transport asks it for the headers and the TLS context
to use, and tells it when the server refused them. A source that fails while running raises `CredentialError`, which
callers treat like any other failed request: they report it and try again.
"""

import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from berth.api.addresses import sends_in_clear
from berth.api.errors import TransportError
from berth.api.redaction import Concealed, redact_url
from berth.kube.credentials.replaced_files import ReplacedFiles
from berth.kube.credentials.tls import TlsError, TlsSettings, build_context, show_certificate

# client-go rereads token files once a minute; projected service account tokens are replaced hourly.
TOKEN_FILE_PERIOD_S = 60.0


class CredentialError(TransportError):
    """No credentials could be had, so the request was never sent."""


class Credential(Concealed, frozen=True):
    """What identifies us in one request: a bearer token, a client certificate, both or nothing."""

    token: str = ""
    certificate_pem: bytes = b""
    key_pem: bytes = b""


def token_problem(token: str) -> str:
    """Return why a text is not a bearer token, to follow "a token that"; empty if it may be one."""
    if any(character.isspace() for character in token):
        return "contains white space, which no bearer token has; was it pasted with a line break?"
    return "" if token.isascii() and token.isprintable() else "holds characters that cannot stand in a header"


class CredentialSource(Protocol):
    """Where the credential for the next request comes from."""

    async def current(self) -> Credential:
        """Return the credential to use now; raises `CredentialError`."""
        ...

    def invalidate(self, refused: Credential) -> bool:
        """Note that the server answered 401 to `refused`; return whether asking again may give another credential.

        When a credential runs out, many requests are refused at once. Only the first of them causes a renewal: the
        others were sent with a credential that has been replaced by the time they get here.
        """
        ...


class StaticCredential:
    """A credential that never changes."""

    __slots__ = ("_credential",)

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """Return the one credential."""
        return self._credential

    def invalidate(self, refused: Credential) -> bool:
        """Return False: asking again would give the same."""
        return False


class TokenFile:
    """A bearer token in a file that is kept fresh by others, such as a projected service account token."""

    __slots__ = ("_base", "_clock", "_credential", "_path", "_read_at_s")

    def __init__(self, path: Path, base: Credential | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._base = base or Credential()
        self._clock = clock
        self._credential: Credential | None = None
        self._read_at_s = 0.0

    async def current(self) -> Credential:
        """Return the token as it was at most a minute ago, or the last good one while the file cannot be read."""
        now_s = self._clock()
        if self._credential is None or now_s - self._read_at_s >= TOKEN_FILE_PERIOD_S:
            self._reread(now_s)
        assert self._credential is not None
        return self._credential

    def invalidate(self, refused: Credential) -> bool:
        """Read the file again before the next request: the token may have been replaced since it was read."""
        # It was sent with a token that has been replaced since, by another request that was refused.
        if refused != self._credential:
            return True
        may_differ = self._read_at_s < self._clock()
        self._read_at_s = float("-inf")
        return may_differ

    def _reread(self, now_s: float) -> None:
        try:
            token = self._path.read_text("utf-8").strip()
            problem = token_problem(token) if token else "it is empty"
            token = "" if problem else token
        except (OSError, UnicodeDecodeError) as error:
            token, problem = "", getattr(error, "strerror", None) or str(error)
        if token:
            self._credential = msgspec.structs.replace(self._base, token=token)
            self._read_at_s = now_s
        elif self._credential is None:
            raise CredentialError(
                f"cannot read the bearer token in {self._path}: {problem}; "
                "is the service account token mounted, and readable for this user?"
            )


class CertificateFiles:
    """A client certificate and key in files that may be replaced, added to what another source gives."""

    __slots__ = ("_base", "_credential", "_files", "_given")

    def __init__(self, files: ReplacedFiles, base: CredentialSource) -> None:
        """`files` are the certificate and its key; a credential of `base` that has a certificate stays as it is."""
        self._files = files
        self._base = base
        self._credential: Credential | None = None
        self._given = Credential()
        """What the credential was made of."""

    async def current(self) -> Credential:
        """Return what the other source gives, with the certificate as the files hold it."""
        given = await self._base.current()
        self._files.look()
        if given.certificate_pem:
            made = given
        else:
            certificate_pem, key_pem = self._files.contents
            made = msgspec.structs.replace(given, certificate_pem=certificate_pem, key_pem=key_pem)
        if made != self._credential:
            self._credential, self._given = made, given
        return self._credential or made

    def invalidate(self, refused: Credential) -> bool:
        """Read the files again, now: the certificate may have been replaced since."""
        # It was sent with a credential that has been replaced since, by another request that was refused.
        if refused != self._credential:
            return True
        is_replaced = self._files.look_now()
        return self._base.invalidate(self._given) or is_replaced


CLEAR = "a token would be sent in clear: use https, or 127.0.0.1 without a proxy"
"""Why a token is kept back."""


class ClusterAccess:
    """Where the API server is and how to authenticate: all that a transport needs to know."""

    __slots__ = (
        "_authority", "_context", "_settings", "_source", "description", "headers", "proxy", "server",
        "tls",
    )  # fmt: skip

    def __init__(
        self,
        server: str,
        *,
        tls: TlsSettings | None = None,
        source: CredentialSource | None = None,
        headers: Sequence[tuple[str, str]] = (),
        proxy: str = "",
        description: str = "",
        authority: ReplacedFiles | None = None,
    ) -> None:
        """`authority` is the file that the CA of `tls` was read from, if it was one."""
        self.server = server.rstrip("/")
        self.proxy = proxy
        self.headers = tuple(headers)
        """Sent with every request; a name may come more than once."""
        self.description = description or redact_url(self.server)
        """Where these settings came from, for messages: `context "x" of /home/me/.kube/config`."""
        self.tls = tls or TlsSettings()
        """How the server proves itself, and how we do where the credential says nothing else."""
        self._source: CredentialSource = source or StaticCredential(Credential())
        self._context: ssl.SSLContext | None = None
        self._authority = authority
        self._settings: TlsSettings | None = None

    @property
    def server_name(self) -> str | None:
        """The name that the server's certificate must carry, when it is not the URL's."""
        return self.tls.server_name or None

    async def credential(self) -> Credential:
        """Return what identifies us now; raises `CredentialError`, also where a token would be sent in clear.

        Looks at files that are due, so the TLS context may be a new one from then on.
        """
        if self._authority is not None:
            self._authority.look()
        credential = await self._source.current()
        if credential.token and self.is_clear:
            raise CredentialError(f"{self.description}: {CLEAR}")
        return credential

    @property
    def is_clear(self) -> bool:
        """Whether others can read what is sent: over plain HTTP to another machine, or through a proxy."""
        return sends_in_clear(self.server) or (bool(self.proxy) and not self.server.startswith("https:"))

    def invalidate(self, refused: Credential) -> bool:
        """Note that the server refused this credential; return whether another try may succeed."""
        return self._source.invalidate(refused)

    @property
    def may_change(self) -> bool:
        """Whether a TLS context that is in use now may be replaced by another one."""
        return self.server.startswith("https:") and not (
            self._authority is None and isinstance(self._source, StaticCredential | TokenFile)
        )

    def distrusted(self) -> None:
        """Note that the server's certificate was not accepted: the authority may have been replaced."""
        if self._authority is not None:
            self._authority.look_now()

    def tls_context(self, credential: Credential) -> ssl.SSLContext | None:
        """Return the TLS context for `credential`, rebuilt if its certificate changed; None for plain HTTP."""
        if not self.server.startswith("https:"):
            return None
        settings = self._settings_for(credential)
        # aiohttp pools connections by context, so a new one for every request would mean a handshake for every request.
        if self._context is None or self._settings != settings:
            try:
                self._context = build_context(settings)
            except TlsError as error:
                raise CredentialError(f"{self.description}: {error.piece}: {error}") from error
            self._settings = settings
        return self._context

    def tls_settings(self, credential: Credential) -> TlsSettings | None:
        """Return what `tls_context` is made of, the same object as long as the context is; None for plain HTTP."""
        return None if self.tls_context(credential) is None else self._settings

    def identify(self, context: ssl.SSLContext, credential: Credential) -> None:
        """Have another context show our client certificate, if we have one; raises `CredentialError`."""
        settings = self._settings_for(credential)
        if settings.certificate_pem:
            try:
                show_certificate(context, settings.certificate_pem, settings.key_pem)
            except TlsError as error:
                raise CredentialError(f"{self.description}: {error.piece}: {error}") from error

    def check_certificates(self) -> None:
        """Raise `TlsError` when the CA, or the certificate that comes from no plugin, cannot be used."""
        build_context(self.tls)

    def _settings_for(self, credential: Credential) -> TlsSettings:
        ca_pem = self.tls.ca_pem if self._authority is None else self._authority.contents[0]
        certificate_pem = credential.certificate_pem or self.tls.certificate_pem
        key_pem = credential.key_pem or self.tls.key_pem
        return msgspec.structs.replace(self.tls, ca_pem=ca_pem, certificate_pem=certificate_pem, key_pem=key_pem)
