"""Calling extenders over HTTP: a connection pool, a TLS context and a time limit for each.

`runtime/acting/effects.py` gives the calls of a `CallExtenders` to `call_all` and gets their
answers, good or bad. Every call ends within the extender's `httpTimeout`, waiting for a connection included.
"""

import asyncio
import base64
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiohttp

from berth.api.errors import TransportError
from berth.api.redaction import REDACTED, SHORTEST_KNOWN, redact, redact_url
from berth.config.durations import format_duration_s
from berth.config.errors import ConfigError, invalid
from berth.config.types import ExtenderConfig, ExtenderTLS
from berth.framework.effects import CallExtender, ExtenderAnswer
from berth.kube.credentials.proxy import proxy_from_environment
from berth.kube.credentials.replaced_files import authority_file, client_certificate_files
from berth.kube.credentials.sources import (
    CertificateFiles,
    ClusterAccess,
    Credential,
    CredentialSource,
    StaticCredential,
)
from berth.kube.credentials.tls import TlsError, TlsSettings, build_context
from berth.kube.fence import Fence
from berth.kube.http.guarded_body import Guard, GuardedBody

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Enough for the nodes of the largest clusters; anything longer is not a sensible answer."""
CHUNK_BYTES = 64 * 1024

_FIELDS = {"certificate-authority": "caFile", "client-certificate": "certFile"}


class ExtenderClient:
    """The connections to all configured extenders. Raises `ConfigError` where certificates cannot be used."""

    __slots__ = ("_extenders", "_fence_of", "_sessions")

    def __init__(self, extenders: Sequence[ExtenderConfig], fence_of: Callable[[str], Fence] | None = None) -> None:
        """`fence_of` says which fence a call to bind must pass, by the pod's namespace; None: none."""
        self._fence_of = fence_of
        self._extenders = tuple(
            (extender, _tls(f"extenders[{place}].tlsConfig", extender)) for place, extender in enumerate(extenders)
        )
        self._sessions: dict[int, aiohttp.ClientSession] = {}

    async def call_all(self, calls: Sequence[CallExtender]) -> tuple[ExtenderAnswer, ...]:
        """Make the calls, all at once; their answers in the same order."""
        return tuple(await asyncio.gather(*map(self.call, calls)))

    async def call(self, call: CallExtender) -> ExtenderAnswer:
        """Make one call; one that binds is a write, and passes the fence."""
        if not call.writes_in or self._fence_of is None:
            return await self._call(call, None)
        fence = self._fence_of(call.writes_in)
        try:
            return await fence.carry_out(lambda: self._call(call, fence))
        except TransportError as shut:
            return ExtenderAnswer(error=f"{self._where(call)}: {shut}", is_unknown=shut.outcome_unknown)

    def _where(self, call: CallExtender) -> str:
        return f"failed {call.verb} with extender at URL {redact_url(self._url(call))}"

    def _url(self, call: CallExtender) -> str:
        return f"{self._extenders[call.extender][0].url_prefix.rstrip('/')}/{call.verb}"

    async def _call(self, call: CallExtender, guard: Guard | None) -> ExtenderAnswer:
        extender, where = self._extenders[call.extender][0], self._where(call)
        body = call.body if guard is None else GuardedBody(call.body, guard)
        try:
            async with asyncio.timeout(extender.http_timeout_s):
                return await self._post(call, body, where)
        except TimeoutError:
            limit = format_duration_s(extender.http_timeout_s)
            return ExtenderAnswer(error=f"{where}: no answer within {limit} (httpTimeout)", is_unknown=True)
        except aiohttp.ClientConnectorError as unreachable:
            access = self._extenders[call.extender][1]
            if access is not None and isinstance(unreachable, aiohttp.ClientSSLError):
                access.distrusted()
            return ExtenderAnswer(error=f"{where}: cannot connect: {_reason(unreachable)}")
        except (aiohttp.ClientError, OSError, ValueError) as broken:
            if isinstance(body, GuardedBody) and body.refusal is not None:
                raise body.refusal from None
            problem = redact(str(broken)) or type(broken).__name__
            return ExtenderAnswer(error=f"{where}: {problem}", is_unknown=not isinstance(broken, ValueError))

    async def _post(self, call: CallExtender, body_sent: bytes | GuardedBody, where: str) -> ExtenderAnswer:
        tls, url = self._extenders[call.extender][0].tls, self._url(call)
        access = self._extenders[call.extender][1]
        context = None if access is None else access.tls_context(await access.credential())
        async with self._session(call.extender).post(
            url,
            data=body_sent,
            ssl=context or True,
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
            proxy=proxy_from_environment(url, os.environ) or None,
            server_hostname=tls.server_name if tls is not None and tls.server_name else None,
            allow_redirects=False,
        ) as response:
            if response.status != 200:
                return ExtenderAnswer(error=f"{where}, code {response.status}", is_unknown=True)
            body = bytearray()
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    error = f"{where}: the answer is longer than {MAX_ANSWER_BYTES >> 20} MiB"
                    return ExtenderAnswer(error=error, is_unknown=True)
            return ExtenderAnswer(_without(bytes(body), url))

    def _session(self, place: int) -> aiohttp.ClientSession:
        """The extender's connections, opened when first used: that needs an event loop."""
        found = self._sessions.get(place)
        if found is None:
            connector = aiohttp.TCPConnector(limit=0)
            found = self._sessions[place] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"User-Agent": "berth-scheduler"},
            )
        return found

    async def close(self) -> None:
        """Close every connection."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()


def _without(answer: bytes, url: str) -> bytes:
    """Return an answer without the password of the URL, which an extender may repeat in a message."""
    parts = urlsplit(url)
    if parts.username is None:
        return answer
    user, password = unquote(parts.username), unquote(parts.password or "")
    sent = base64.b64encode(f"{user}:{password}".encode()).decode()
    for secret in (sent, password, parts.password or "", "" if password else user):
        if len(secret) >= SHORTEST_KNOWN:
            answer = answer.replace(secret.encode(), REDACTED.encode())
    return answer


def _tls(path: str, extender: ExtenderConfig) -> ClusterAccess | None:
    """What makes the TLS context of an extender, from files that may be replaced; None for the usual one.

    As upstream, `enableHTTPS` without a CA accepts any certificate.
    """
    tls = extender.tls or ExtenderTLS()
    ca_pem = tls.ca_data or _read(f"{path}.caFile", tls.ca_file)
    if tls.insecure and ca_pem:
        raise ConfigError([invalid(f"{path}.insecure", True, "a CA makes no sense where any certificate is accepted")])
    if extender.tls is None and not extender.enable_https:
        return None
    settings = TlsSettings(
        ca_pem=ca_pem,
        insecure_skip_verify=tls.insecure or (extender.enable_https and not ca_pem),
        server_name=tls.server_name,
        certificate_pem=tls.cert_data or _read(f"{path}.certFile", tls.cert_file),
        key_pem=tls.key_data or _read(f"{path}.keyFile", tls.key_file),
    )
    if bool(settings.certificate_pem) != bool(settings.key_pem):
        missing = "keyFile" if settings.certificate_pem else "certFile"
        raise ConfigError([f"{path}.{missing}: Required value: a certificate and its key are given together"])
    try:
        build_context(settings)
    except TlsError as error:
        raise ConfigError([f"{path}.{_FIELDS[error.piece]}: {error}"]) from None
    source: CredentialSource = StaticCredential(Credential())
    if tls.cert_file and tls.key_file and not (tls.cert_data or tls.key_data):
        pair = settings.certificate_pem, settings.key_pem
        source = CertificateFiles(client_certificate_files(Path(tls.cert_file), Path(tls.key_file), pair), source)
    authority = authority_file(Path(tls.ca_file), ca_pem) if tls.ca_file and not tls.ca_data else None
    return ClusterAccess("https://extender", tls=settings, source=source, authority=authority)


def _read(path: str, file: str) -> bytes:
    if not file:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError([invalid(path, file, f"cannot be read: {error.strerror or error}")]) from None


def _reason(error: aiohttp.ClientConnectorError) -> str:
    """Return in words why there is no connection."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        return f"its certificate is not accepted: {getattr(cause, 'verify_message', '') or cause}"
    number = error.os_error.errno
    return os.strerror(number) if number else str(error.os_error)
