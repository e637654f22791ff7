"""Exec credential plugins: a command of the user's kubeconfig that prints an `ExecCredential`.

`access.py` makes an `ExecPlugin` from `users[].user.exec`; the transport asks it for the credential of each request.
The command runs when the first credential is needed, when the last has expired, and after a 401.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from berth.api.redaction import Concealed, redact
from berth.api.untrusted import UNREADABLE, problem_of
from berth.kube.credentials.kubeconfig import ExecConfig
from berth.kube.credentials.sources import Credential, CredentialError, token_problem

GROUP = "client.authentication.k8s.io"
SUPPORTED = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
# A plugin may open a browser and wait for a login, but not forever.
PLUGIN_TIMEOUT_S = 60.0
# A credential about to expire is renewed early, so that it does not expire while a request is under way.
EXPIRY_LEEWAY = timedelta(seconds=10)


class _Status(Concealed, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


def exec_config_problem(config: ExecConfig) -> str:
    """What is wrong with the `exec` section, as `field: reason and remedy`; empty when nothing is."""
    if not config.command:
        return "command: must name the plugin to run"
    if config.api_version not in SUPPORTED:
        said = repr(config.api_version) if config.api_version else "not set"
        return f"apiVersion: is {said}; supported are {' and '.join(SUPPORTED)}: update the plugin's configuration"
    if config.interactive_mode and config.interactive_mode not in INTERACTIVE_MODES:
        return f"interactiveMode: is {config.interactive_mode!r}, not one of {', '.join(INTERACTIVE_MODES)}"
    if not config.interactive_mode and config.api_version == f"{GROUP}/v1":
        return f"interactiveMode: must be given with {GROUP}/v1; use 'IfAvailable' or 'Never'"
    return ""


class ExecPlugin:
    """A credential source that runs a command, and keeps what it printed until that expires."""

    __slots__ = ("_cluster_info", "_config", "_credential", "_expires_at", "_lock", "_now", "_where")

    def __init__(
        self,
        config: ExecConfig,
        where: str,
        *,
        cluster_info: Mapping[str, Any] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._config = config
        self._where = where
        self._cluster_info = cluster_info
        self._now = now
        self._credential: Credential | None = None
        self._expires_at: datetime | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        """The cached credential, or a new one from the plugin; many callers wait for one run."""
        async with self._lock:
            if self._credential is None or self._expired():
                self._credential, self._expires_at = await self._run()
            return self._credential

    def invalidate(self, refused: Credential) -> bool:
        """Run the plugin again next time, unless it has already run since the refused credential was issued."""
        if refused == self._credential:
            self._credential = None
        return True

    def _expired(self) -> bool:
        return self._expires_at is not None and self._now() >= self._expires_at - EXPIRY_LEEWAY

    async def _run(self) -> tuple[Credential, datetime | None]:
        interactive = self._interactive()
        environment = {**os.environ, **{entry.name: entry.value for entry in self._config.env}}
        environment["KUBERNETES_EXEC_INFO"] = self._exec_info(interactive)
        try:
            process = await asyncio.create_subprocess_exec(
                self._config.command,
                *self._config.args,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
            )
        except OSError as error:
            raise self._cannot_start(error) from error
        return self._read(await self._output_of(process))

    async def _output_of(self, process: asyncio.subprocess.Process) -> bytes:
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT_S):
                output, errors = await process.communicate()
        except TimeoutError as error:
            raise self._error(f"gave no answer within {PLUGIN_TIMEOUT_S:.0f} s; run it by hand to see why") from error
        finally:
            # Even if the caller was cancelled: no plugin is left running.
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = self._redacted(errors.decode("utf-8", "replace")).strip()[-500:] or "it said nothing"
            raise self._error(f"failed with exit code {process.returncode}: {said}")
        return output

    def _interactive(self) -> bool:
        """Whether the plugin may ask questions on our standard input."""
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self._config.interactive_mode == "Always" and not has_terminal:
            raise self._error("must ask questions (interactiveMode: Always), but standard input is not a terminal")
        return has_terminal and self._config.interactive_mode != "Never"

    def _exec_info(self, interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._config.provide_cluster_info and self._cluster_info is not None:
            spec["cluster"] = self._cluster_info
        info = {"kind": "ExecCredential", "apiVersion": self._config.api_version, "spec": spec}
        return msgspec.json.encode(info).decode()

    def _read(self, output: bytes) -> tuple[Credential, datetime | None]:
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except UNREADABLE as error:
            raise self._error(f"printed no ExecCredential that can be read: {problem_of(error)}") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._config.api_version:
            printed = f"{answer.api_version or 'no apiVersion'} {answer.kind or 'without kind'}"
            wanted = f"{self._config.api_version} ExecCredential"
            raise self._error(f"printed {self._redacted(printed)[:100]}, expected {wanted}")
        status = answer.status or _Status()
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("must print clientCertificateData and clientKeyData together, or neither")
        if not status.token and not status.client_certificate_data:
            raise self._error("printed neither a token nor a client certificate in its status")
        if status.token and (problem := token_problem(status.token)):
            raise self._error(f"printed a token that {problem}")
        credential = Credential(
            token=status.token or "",
            certificate_pem=(status.client_certificate_data or "").encode(),
            key_pem=(status.client_key_data or "").encode(),
        )
        return credential, _aware(status.expiration_timestamp)

    def _redacted(self, output: str) -> str:
        """What the plugin printed, without the secrets that it was given, and the one that it gave before."""
        before = self._credential or Credential()
        given = (entry.value for entry in self._config.env)
        return redact(output, *given, before.token, before.key_pem.decode("utf-8", "replace"))

    def _cannot_start(self, error: OSError) -> CredentialError:
        if shutil.which(self._config.command) is None:
            hint = self._config.install_hint.strip() or "install it, or correct the command"
            return self._error(f"is not installed or not on PATH; {hint}")
        return self._error(f"cannot be started: {error.strerror}")

    def _error(self, problem: str) -> CredentialError:
        return CredentialError(f"{self._where}: exec: the plugin {self._config.command!r} {problem}")


def _aware(moment: datetime | None) -> datetime | None:
    """Return the time with an offset. RFC 3339 always has one; a plugin that leaves it out means UTC."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
