"""Whom `berth explain` asks: the scheduler of the cluster that the kubeconfig in use leads to, and no other.

A scheduler that `--server` names is asked as it is. Otherwise those of this machine that left a file are tried, then
the one that serves plain HTTP on loopback, then the holder of the cluster's lease. All schedulers say with
each answer which cluster they follow (its kube-system's uid, and the API server's address); an answer about another
cluster is not taken. Only where no kubeconfig can be read at all, the scheduler on loopback is believed whatever it
follows.
"""

import asyncio
import contextlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from berth.api.redaction import redact_url
from berth.api.user_error import UserError
from berth.cli.option_rules import never_with, only_with

if TYPE_CHECKING:
    from berth.cli.connection import Answered
    from berth.cli.local_record import ServedLocally
    from berth.kube.credentials.sources import ClusterAccess

PLAIN_SERVER = "http://127.0.0.1:10259"
"""Where schedulers of v1.20, and older versions of `berth up`, serve."""
TIMEOUT_S = 10.0
REFUSED = (401, 403)
AT_ONCE = 8
"""How many questions are on their way at a time."""

Command = TypeVar("Command", bound=Callable[..., Any])

Json = dict[str, Any]


class UnknownPodError(click.ClickException):
    """The scheduler knows nothing of a pod."""


class _Unreachable(click.ClickException):
    """No scheduler answers."""


class SchedulerQuestion(NamedTuple):
    """A path to get from the scheduler, and in words what for."""

    path: str
    about: str


class SchedulerAddress(NamedTuple):
    """How the scheduler is to be reached, as the options say."""

    server: str = ""
    certificate_authority: str = ""
    kubeconfig: str = ""
    context: str = ""
    lease: str = ""


def scheduler_options(command: Command) -> Command:
    """The options that make up a `SchedulerAddress`, received by the names of its fields."""
    for decorate in (
        only_with(certificate_authority="server"),
        never_with("server", "lease", because="which says whom to ask"),
        click.option(
            "--lease",
            default="",
            metavar="NAMESPACE/NAME",
            help="The lease whose holder to ask, where it is not kube-system/kube-scheduler.",
        ),
        click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use."),
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="The cluster, and the credentials to ask with; by default those that kubectl would use.",
        ),
        click.option(
            "--certificate-authority",
            default="",
            metavar="FILE",
            help="With an https:// --server: the certificate, or its authority's, that is expected there.",
        ),
        click.option(
            "--server",
            default="",
            envvar="BERTH_SCHEDULER",
            metavar="URL",
            help="Where the scheduler serves; by default it is looked for on this machine, then in the cluster.",
        ),
    ):
        command = decorate(command)
    return command


class SchedulerInUse:
    """The scheduler of one cluster, wherever it is."""

    __slots__ = ("_access", "_address", "_cluster_id", "_guessed", "_is_here", "_other", "_problem")

    def __init__(self, address: SchedulerAddress, *, is_here: bool = False) -> None:
        """Read the kubeconfig in use, if there is one. Raises `UserError` for one that cannot be used.

        Who names the scheduler needs no cluster, unless one is named as well. One that `is_here` is looked for on this
        machine only.
        """
        from berth.kube.credentials.kubeconfig import NoKubeconfigError

        self._address = address
        self._is_here = is_here
        self._access: ClusterAccess | None = None
        self._problem = ""
        """Why no kubeconfig can be used."""
        self._cluster_id: str | None = None
        self._other = ""
        """What was found on loopback and is of another cluster."""
        self._guessed = ""
        """Why a scheduler was asked that nobody has named."""
        try:
            self._access = load(address)
        except UserError as error:
            if not address.server and (address.context or not isinstance(error, NoKubeconfigError)):
                raise
            self._problem = str(error)

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster is known whose own record can be read."""
        return self._access is not None and not self._address.server

    @property
    def access(self) -> "ClusterAccess":
        """How the API server of the kubeconfig in use is asked. Raises `click.ClickException` where there is none."""
        if self._access is None:
            raise click.ClickException(f"the cluster has to be asked which pods these are: {self._problem}")
        return self._access

    def ask(self, path: str, about: str) -> Json:
        """Return what the scheduler answers.

        Raises `UnknownPodError` for a 404 in words, else `click.ClickException` with a sentence; `about` is what was
        asked for.
        """
        found = self.ask_all([SchedulerQuestion(path, about)])[0]
        if isinstance(found, click.ClickException):
            raise found
        return found

    def ask_all(self, questions: "Sequence[SchedulerQuestion]") -> list[Json | click.ClickException]:
        """Return for each question the answer, or what `ask` would raise.

        Where the first shows that the scheduler cannot be reached, that is the answer to all of them.
        """
        return asyncio.run(self._ask_all(questions))

    async def _ask_all(self, questions: "Sequence[SchedulerQuestion]") -> list[Json | click.ClickException]:
        from berth.cli.connection import UnreachableError

        at_once = asyncio.Semaphore(AT_ONCE)

        async def answer(question: SchedulerQuestion) -> Json | click.ClickException:
            async with at_once:
                try:
                    return self._read(await self.reach(question.path), question.about)
                except click.ClickException as error:
                    return error
                except UnreachableError as error:
                    return _Unreachable(f"{error}; is `berth run` or `berth observe` up? --server says where it serves")

        first = [await answer(each) for each in questions[:1]]
        if first and isinstance(first[0], _Unreachable):
            return first * len(questions)
        return first + list(await asyncio.gather(*(answer(each) for each in questions[1:])))

    def _read(self, answered: "Answered", about: str) -> Json:
        try:
            found: Json = json.loads(answered.body)
            is_told = isinstance(found, dict)
        except ValueError:
            is_told = False
        if answered.status == 200 and is_told:
            return found
        if answered.status == 404 and is_told and isinstance(found.get("error"), str):
            raise UnknownPodError(found["error"])
        said = f": {found['message']}" if is_told and isinstance(found.get("message"), str) else ""
        if answered.status == 404:
            said = ", so it is of an older version that does not tell this"
        raise click.ClickException(
            f"the scheduler at {answered.where} answered {answered.status} when asked for {about}{said}{self._guessed}"
        )

    async def reach(self, path: str, body: bytes | None = None) -> "Answered":
        """Return the answer, whatever it is; to a POST where there is a body.

        Raises `UnreachableError`, `click.ClickException`.
        """
        from berth.cli import connection
        from berth.cli.local_record import read_records, record_directory

        address, access = self._address, self._access
        self._guessed = ""
        if address.server:
            return await self._ask_named(path, body)
        refused: Answered | None = None
        for record in read_records(record_directory()):
            if access is None or record.cluster == access.server:
                with contextlib.suppress(connection.UnreachableError):
                    if record.is_plain:
                        found = await asyncio.to_thread(ask_plainly, record.url, path, body)
                    else:
                        found = await connection.ask_local(record, path, access, body)
                    if access is None and found.status in REFUSED:
                        refused = refused or self._refused_by(found, record)
                        continue  # another one of this machine may answer any caller
                    says_nothing = not found.cluster_id and not found.api_server  # its file says which cluster
                    if says_nothing or await self._is_ours(found):
                        return found
        if not address.lease:
            with contextlib.suppress(connection.UnreachableError):
                found = await asyncio.to_thread(ask_plainly, PLAIN_SERVER, path, body)
                if access is None or await self._is_ours(found):
                    return found
                self._other = f"the scheduler at {PLAIN_SERVER} follows another cluster"
                self._other += f", {redact_url(found.api_server)}" if found.api_server else ""
        if refused is not None:
            return refused
        if access is None or self._is_here:
            why = f", and {self._problem}" if self._problem else ""
            raise connection.UnreachableError(f"no scheduler answers on this machine{why}")
        try:
            return await connection.ask_in_cluster(access, path, address.lease, body)
        except connection.UnreachableError as error:
            if self._other:
                raise connection.UnreachableError(f"{error}; {self._other} (--server {PLAIN_SERVER} asks it)") from None
            raise

    def _refused_by(self, found: "Answered", record: "ServedLocally") -> "Answered":
        """Return a refusal, and keep in mind how one has come to ask this scheduler."""
        self._guessed = (
            f". It follows {redact_url(record.cluster)}, and was asked without credentials, as one of this machine: "
            f"{self._problem}. --kubeconfig names your cluster, --server its scheduler"
        )
        return found

    async def _ask_named(self, path: str, body: bytes | None) -> "Answered":
        """Ask the server that was named; where a cluster was named too, they have to go together."""
        from berth.cli import connection

        address = self._address
        if address.server.startswith("https://"):
            authority = _read_authority(address.certificate_authority)
            if self._access is None:
                raise click.ClickException(self._problem)
            found = await connection.ask_at(address.server, path, authority, self._access, body)
        else:
            found = await asyncio.to_thread(ask_plainly, address.server, path, body)
        is_said = found.cluster_id or found.api_server
        if is_said and (address.kubeconfig or address.context) and not await self._is_ours(found):
            raise click.ClickException(
                f"the scheduler at {redact_url(address.server)} follows another cluster "
                "than --kubeconfig and --context say"
                + (f", {redact_url(found.api_server)}" if found.api_server else "")
            )
        return found

    async def _is_ours(self, found: "Answered") -> bool:
        """Say whether an answer is about the cluster of the kubeconfig; one that does not say so is not."""
        if self._access is None:
            return True
        if self._cluster_id is None:
            self._cluster_id = await _cluster_id(self._access)
        if found.cluster_id and self._cluster_id:
            return found.cluster_id == self._cluster_id
        return bool(found.api_server) and found.api_server.rstrip("/") == self._access.server


async def _cluster_id(access: "ClusterAccess") -> str:
    """Return the uid of the namespace kube-system; empty where it may not or cannot be read."""
    import msgspec

    from berth.api.errors import TransportError
    from berth.api.resources import RESOURCES
    from berth.kube.http.client import HttpTransport

    transport = HttpTransport(access)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found: Json = msgspec.json.decode(await transport.get(RESOURCES["Namespace"], "", "kube-system"))
        return str((found.get("metadata") or {}).get("uid") or "")
    except (TransportError, TimeoutError, msgspec.DecodeError, AttributeError):
        return ""
    finally:
        await transport.close()


def load(address: SchedulerAddress) -> "ClusterAccess":
    """Return the access of the kubeconfig in use. Raises `UserError`."""
    from berth.kube.credentials.access import load_access

    return load_access(address.kubeconfig, context=address.context)


def _read_authority(file: str) -> str:
    try:
        return Path(file).read_text("ascii") if file else ""
    except (OSError, ValueError) as error:
        raise click.ClickException(f"--certificate-authority: cannot read {file}: {error}") from None


def ask_plainly(server: str, path: str, body: bytes | None = None) -> "Answered":
    """Ask over plain HTTP, without credentials, as v1.20's --port serves."""
    from berth.cli.connection import Answered, UnreachableError

    base = server if "://" in server else f"http://{server}"
    where = redact_url(base)
    try:
        with _opener().open(base.rstrip("/") + path, body, timeout=TIMEOUT_S) as answer:
            return Answered.of(answer.status, answer.read(), answer.headers, where)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Answered.of(refusal.code, refusal.read(), refusal.headers, where)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise UnreachableError(f"the scheduler at {where} does not answer: {reason}") from None


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener without proxies, as the scheduler is on this machine."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))
