"""Who is asking: a front proxy on behalf of a user, a client certificate, a bearer token, or an unknown client.

In that order, as kube-scheduler does. Certificates count if signed by an authority that the flags name, or that the
cluster publishes in the ConfigMap extension-apiserver-authentication; the API server reviews tokens. An invalid
credential is refused (401) and never treated like a missing one; without any, the user is `system:anonymous`.
"""

import asyncio
import hashlib
import json
import logging
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from berth.kube.transport import Transport
from berth.runtime.serving.options import AuthenticationLookupError, AuthenticationOptions
from berth.runtime.serving.reviews import (
    RequestUser,
    ReviewError,
    Reviews,
    read_authentication_config,
    review_token,
)

ANONYMOUS = RequestUser("system:anonymous", ("system:unauthenticated",))
AUTHENTICATED_GROUP = "system:authenticated"
MAX_TOKEN_CHARACTERS = 16 * 1024
LOOKUP_PERIOD_S = 60.0
LOOKUP_RETRY_S = 5.0

_log = logging.getLogger("berth.serving")


class UnauthenticatedError(Exception):
    """An invalid credential."""


class FrontProxy(msgspec.Struct, frozen=True):
    """Which proxies may say on whose behalf a request is made, and in which headers."""

    authorities_pem: bytes = b""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()


class _Unauthenticated(msgspec.Struct, frozen=True):
    """The answer for a token that belongs to nobody, which is cached too."""


class RequestAuthenticator:
    """Says who is asking. `transport` is None if there is no API server to ask: then only --client-ca-file helps."""

    __slots__ = (
        "_authorities", "_files", "_front_proxy", "_looked_up", "_on_change", "_options", "_problem", "_tokens",
        "_transport",
    )  # fmt: skip

    def __init__(
        self,
        options: AuthenticationOptions,
        transport: Transport | None,
        *,
        on_change: Callable[[bytes], None] = lambda _pem: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change` is given the authorities of client certificates, all together, whenever they change."""
        self._options = options
        self._transport = transport
        self._on_change = on_change
        self._tokens: Reviews[RequestUser | _Unauthenticated] = Reviews(
            lambda _user: options.token_cache_ttl_s, clock=clock
        )
        self._authorities = b""
        self._front_proxy = FrontProxy()
        self._looked_up: Mapping[str, str] = {}
        self._problem = ""
        self._files = b"", b""

    # -- whom to trust -----------------------------------------------------------------------------------------------

    async def look_up(self) -> bool:
        """Read files and the cluster's configuration; False if that failed, in which case the last known ones still
        count.

        Raises `AuthenticationLookupError` for failures that must not be tolerated, and for missing files.
        """
        self.read_files()
        is_well = True
        if self._needs_cluster:
            assert self._transport is not None
            try:
                self._looked_up = await read_authentication_config(self._transport)
                self._problem = ""
            except ReviewError as error:
                is_well = False
                self._complain(error)
        self._take_over()
        return is_well

    def read_files(self) -> None:
        """Read the files that flags name; raises `AuthenticationLookupError` for those that cannot be used."""
        options = self._options
        self._files = (
            _read("--client-ca-file", options.client_ca_file, self._files[0]),
            _read("--requestheader-client-ca-file", options.requestheader_client_ca_file, self._files[1]),
        )
        self._take_over()

    async def keep_up(self) -> None:
        """Look now, and again every minute, until cancelled."""
        while True:
            is_well = False
            try:
                is_well = await self.look_up()
            except AuthenticationLookupError as error:
                _log.warning("%s; what was known stays in use", error)
            await asyncio.sleep(LOOKUP_PERIOD_S if is_well else LOOKUP_RETRY_S)

    @property
    def _needs_cluster(self) -> bool:
        options = self._options
        has_both = bool(options.client_ca_file and options.requestheader_client_ca_file)
        return self._transport is not None and not options.skip_lookup and not has_both

    def _complain(self, error: ReviewError) -> None:
        if not self._options.tolerate_lookup_failure:
            raise AuthenticationLookupError(f"cannot look up the cluster's authentication configuration: {error}")
        if str(error) != self._problem:
            self._problem = str(error)
            _log.warning(
                "cannot look up the cluster's authentication configuration, and goes on without; client certificates "
                "may be unknown until it can be read: %s",
                error,
            )

    def _take_over(self) -> None:
        options, found = self._options, self._looked_up
        self._authorities = self._files[0] or found.get("client-ca-file", "").encode()
        if self._files[1]:
            self._front_proxy = FrontProxy(
                self._files[1],
                options.requestheader_allowed_names,
                options.requestheader_username_headers,
                options.requestheader_uid_headers,
                options.requestheader_group_headers,
                options.requestheader_extra_headers_prefix,
            )
        else:
            self._front_proxy = FrontProxy(
                found.get("requestheader-client-ca-file", "").encode(),
                _listed(found, "requestheader-allowed-names"),
                _listed(found, "requestheader-username-headers"),
                _listed(found, "requestheader-uid-headers"),
                _listed(found, "requestheader-group-headers"),
                _listed(found, "requestheader-extra-headers-prefix"),
            )
        self._on_change(b"\n".join(filter(None, (self._authorities, self._front_proxy.authorities_pem))))

    # -- who asks ----------------------------------------------------------------------------------------------------

    async def user_of(self, request: web.Request) -> RequestUser:
        """Return who is asking. Raises `UnauthenticatedError` and `TooManyReviews`."""
        connection = request.get_extra_info("ssl_object")
        certificate = connection.getpeercert(binary_form=True) if connection is not None else None
        is_unknown = False
        if certificate:
            leaf = x509.load_der_x509_certificate(certificate)
            user = self._for_whom(leaf, connection, request) or self._certified(leaf, connection)
            if user is not None:
                return _authenticated(user)
            is_unknown = True
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and token and self._transport is not None:
            return _authenticated(await self._holder_of(token))
        if is_unknown:
            raise UnauthenticatedError
        return ANONYMOUS

    def _for_whom(self, leaf: x509.Certificate, connection: ssl.SSLObject, request: web.Request) -> RequestUser | None:
        """Return on whose behalf a front proxy asks; None unless it is one, and says so."""
        proxy = self._front_proxy
        if not proxy.authorities_pem or not self._is_signed_by(proxy.authorities_pem, leaf, connection):
            return None
        if proxy.allowed_names and _common_name(leaf) not in proxy.allowed_names:
            return None
        headers = request.headers
        name = next((headers[header] for header in proxy.username_headers if headers.get(header)), "")
        if not name:
            return None
        extra: dict[str, list[str]] = {}
        for prefix in proxy.extra_prefixes:
            for header, value in headers.items():
                if header.lower().startswith(prefix.lower()):
                    extra.setdefault(header[len(prefix) :].lower(), []).append(value)
        return RequestUser(
            name,
            tuple(value for header in proxy.group_headers for value in headers.getall(header, [])),
            next((headers[header] for header in proxy.uid_headers if headers.get(header)), ""),
            {key: tuple(values) for key, values in extra.items()},
        )

    def _certified(self, leaf: x509.Certificate, connection: ssl.SSLObject) -> RequestUser | None:
        """Return the user that a certificate names."""
        if not self._authorities or not self._is_signed_by(self._authorities, leaf, connection):
            return None
        name = _common_name(leaf)
        groups = tuple(str(part.value) for part in leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
        return RequestUser(name, groups) if name else None

    def _is_signed_by(self, authorities_pem: bytes, leaf: x509.Certificate, connection: ssl.SSLObject) -> bool:
        """Say whether a certificate that the handshake has verified was signed by one of these authorities.

        The handshake accepts both kinds of authorities, those for clients and for front proxies; only the signer tells
        them apart. If Python cannot say along which chain it was verified (before 3.13), only certificates signed
        directly by the authority count.
        """
        if {authorities_pem} == {self._authorities, self._front_proxy.authorities_pem} - {b""}:
            return True
        trusted = x509.load_pem_x509_certificates(authorities_pem)
        if sys.version_info >= (3, 13):
            way = connection.get_verified_chain()
            if any(x509.load_der_x509_certificate(found) in trusted for found in way):
                return True
        return any(_has_signed(authority, leaf) for authority in trusted)

    async def _holder_of(self, token: str) -> RequestUser:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise UnauthenticatedError
        transport = self._transport
        assert transport is not None

        async def ask() -> RequestUser | _Unauthenticated:
            return await review_token(transport, token) or _Unauthenticated()

        try:
            found = await self._tokens.answer(hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest(), ask)
        except ReviewError as error:
            _log.warning("a token cannot be reviewed, and is refused: %s", error)
            raise UnauthenticatedError from None
        if isinstance(found, _Unauthenticated):
            raise UnauthenticatedError
        return found


def _authenticated(user: RequestUser) -> RequestUser:
    """The user with the group of all who are known; an anonymous user stays that."""
    if user.name == ANONYMOUS.name or {AUTHENTICATED_GROUP, *ANONYMOUS.groups} & set(user.groups):
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED_GROUP))


def _common_name(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[-1].value) if found else ""


def _has_signed(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _read(flag: str, file: str, before: bytes) -> bytes:
    """The certificates in a file; what was `before` while it cannot be read any more."""
    if not file:
        return b""
    try:
        pem = Path(file).read_bytes()
        x509.load_pem_x509_certificates(pem)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds no certificates in PEM form"
        if not before:
            raise AuthenticationLookupError(f"{flag}: cannot use {file}: {reason}") from None
        _log.warning("%s: cannot use %s: %s; what it held before stays in use", flag, file, reason)
        return before
    return pem


def _listed(found: Mapping[str, str], key: str) -> tuple[str, ...]:
    """A list that is kept as JSON."""
    try:
        value: Any = json.loads(found.get(key) or "[]")
    except ValueError:
        return ()
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
