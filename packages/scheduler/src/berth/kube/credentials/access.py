"""Makes a `ClusterAccess` from a description of the cluster: kubeconfig files, or the pod that we run in.

`berth run` and the other commands call `load_access` once at the start. Everything that can be checked without
the server is checked here, so that a wrong path or certificate is reported at once and by name, as `KubeconfigError`.
"""

import base64
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from berth.api.redaction import redact_url
from berth.kube.credentials.exec_plugin import ExecPlugin, exec_config_problem
from berth.kube.credentials.kubeconfig import (
    Cluster,
    KubeconfigError,
    Located,
    NoKubeconfigError,
    Selection,
    User,
    load,
    select,
)
from berth.kube.credentials.proxy import proxy_from_environment, proxy_problem
from berth.kube.credentials.replaced_files import ReplacedFiles, authority_file, client_certificate_files
from berth.kube.credentials.sources import (
    CLEAR,
    CertificateFiles,
    ClusterAccess,
    Credential,
    CredentialSource,
    StaticCredential,
    TokenFile,
    token_problem,
)
from berth.kube.credentials.tls import TlsError, TlsSettings

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class _Entry(NamedTuple):
    """A cluster or user entry: its name for error messages, and the directory that its relative paths start from."""

    label: str
    path: Path

    def error(self, field: str, problem: str) -> KubeconfigError:
        return KubeconfigError(f"{self.path}: {self.label}: {field}: {problem}")


def load_access(
    kubeconfig: str = "",
    *,
    context: str = "",
    master: str = "",
    environ: Mapping[str, str] = os.environ,
    service_account_dir: Path = SERVICE_ACCOUNT_DIR,
) -> ClusterAccess:
    """Return the access to use: by the file given, else by $KUBECONFIG, else the pod's own, else by ~/.kube/config.

    Raises `KubeconfigError` for what cannot be used, and `NoKubeconfigError` if none of these exists. `master` replaces
    the server's address, and is enough by itself for a server that asks for no credentials.
    """
    if kubeconfig:
        return kubeconfig_access([Path(kubeconfig)], context=context, master=master, environ=environ)
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if any(path.exists() for path in listed):
        return kubeconfig_access(listed, context=context, master=master, environ=environ, ignore_missing=True)
    if listed and not master:  # as kubectl, which reads no other file then
        do = "does" if len(listed) == 1 else "do"
        raise KubeconfigError(
            f"no cluster to talk to: {' and '.join(map(str, listed))} (from KUBECONFIG) {do} not exist; "
            "correct it, or give --kubeconfig FILE"
        )
    if environ.get("KUBERNETES_SERVICE_HOST") and not context and not master:
        return in_cluster_access(environ, service_account_dir)
    home = Path(environ.get("HOME", "") or "~").expanduser() / ".kube" / "config"
    if home.exists() and not (master and not context):
        return kubeconfig_access([home], context=context, master=master, environ=environ)
    if master:
        return _bare_access(master, environ)
    raise NoKubeconfigError(
        f"no cluster to talk to: {home} does not exist, and this is not a pod "
        "(KUBERNETES_SERVICE_HOST is not set); give --kubeconfig FILE, or set KUBECONFIG"
    )


def context_namespace(kubeconfig: str = "", *, context: str = "", environ: Mapping[str, str] = os.environ) -> str:
    """Return the namespace that a context of the kubeconfig in use names; empty where it names none.

    It is empty as well where no kubeconfig can be used: whoever needs the cluster hears why.
    """
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = Path(environ.get("HOME", "") or "~").expanduser() / ".kube" / "config"
    try:
        found = load([Path(kubeconfig)] if kubeconfig else listed or [home], ignore_missing=not kubeconfig)
        return select(found, context).namespace
    except KubeconfigError:
        return ""


def kubeconfig_access(
    paths: list[Path],
    *,
    context: str = "",
    master: str = "",
    environ: Mapping[str, str] = os.environ,
    ignore_missing: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> ClusterAccess:
    """Return the access that kubeconfig files describe; the clock says when files that they name are read again."""
    selection = select(load(paths, ignore_missing=ignore_missing), context)
    cluster = _Entry(f"cluster {selection.cluster_name!r}", selection.cluster.path)
    server = _server(master or selection.cluster.value.server, cluster)
    tls = _tls(selection, cluster)
    access = ClusterAccess(
        server,
        tls=tls,
        source=_source(selection, tls, clock),
        headers=_impersonation(selection.user.value),
        proxy=_proxy(selection.cluster.value, cluster, server, environ),
        description=f"context {selection.context_name!r} of {selection.where}",
        authority=_authority(selection, cluster, tls, clock),
    )
    _check_certificates(access, selection)
    user = selection.user.value
    for field, given in (("token", user.token), ("tokenFile", user.token_file), ("exec", user.exec)):
        if given and access.is_clear:
            raise _user_entry(selection).error(field, CLEAR)
    return access


def in_cluster_access(
    environ: Mapping[str, str] = os.environ,
    directory: Path = SERVICE_ACCOUNT_DIR,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> ClusterAccess:
    """Return the access of a pod's service account, whose token is read again as the kubelet replaces it."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError(
            "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set; give --kubeconfig"
        )
    entry = _Entry("in-cluster configuration", directory)
    ca_pem = _read_file(directory / "ca.crt", "ca.crt", entry)
    if not _read_file(directory / "token", "token", entry).strip():
        raise entry.error("token", "the file is empty; does the pod have a service account?")
    access = ClusterAccess(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        tls=TlsSettings(ca_pem=ca_pem),
        source=TokenFile(directory / "token", clock=clock),
        description=f"the service account in {directory}",
        authority=authority_file(directory / "ca.crt", ca_pem, clock),
    )
    try:
        access.check_certificates()
    except TlsError as error:
        raise entry.error("ca.crt", str(error)) from error
    return access


def _bare_access(master: str, environ: Mapping[str, str]) -> ClusterAccess:
    server = _server(master, _Entry("--master", Path("command line")))
    return ClusterAccess(server, proxy=proxy_from_environment(server, environ), description=f"--master {master}")


def _server(server: str, entry: _Entry) -> str:
    if not server:
        raise entry.error("server", "is not set; it must be the URL of the API server, like 'https://10.0.0.1:6443'")
    url = server if "://" in server else f"http://{server}"
    shown = repr(redact_url(server))
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise entry.error("server", f"{shown} is not the URL of an API server, like 'https://10.0.0.1:6443'")
    if parts.username is not None:
        problem = "holds a user name: basic authentication was removed in Kubernetes 1.19; use a token or a certificate"
        raise entry.error("server", f"{shown} {problem}")
    return url


def _proxy(cluster: Cluster, entry: _Entry, server: str, environ: Mapping[str, str]) -> str:
    if not cluster.proxy_url:
        return proxy_from_environment(server, environ)
    if problem := proxy_problem(cluster.proxy_url):
        raise entry.error("proxy-url", problem)
    return cluster.proxy_url


def _tls(selection: Selection, entry: _Entry) -> TlsSettings:
    cluster, user = selection.cluster.value, _user_entry(selection)
    ca_pem = _pem(cluster.certificate_authority, cluster.certificate_authority_data, "certificate-authority", entry)
    if cluster.insecure_skip_tls_verify and ca_pem:
        raise entry.error(
            "insecure-skip-tls-verify", "cannot be combined with a certificate authority; remove one of the two"
        )
    settings = selection.user.value
    certificate = _pem(settings.client_certificate, settings.client_certificate_data, "client-certificate", user)
    key = _pem(settings.client_key, settings.client_key_data, "client-key", user)
    if bool(certificate) != bool(key):
        given, missing = ("client-certificate", "client-key") if certificate else ("client-key", "client-certificate")
        raise user.error(missing, f"is not set, but {given} is; they go together")
    return TlsSettings(
        ca_pem=ca_pem,
        insecure_skip_verify=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        certificate_pem=certificate,
        key_pem=key,
    )


def _authority(
    selection: Selection, entry: _Entry, tls: TlsSettings, clock: Callable[[], float]
) -> ReplacedFiles | None:
    file = selection.cluster.value.certificate_authority
    return authority_file(entry.path.parent / file, tls.ca_pem, clock) if file else None


def _source(selection: Selection, tls: TlsSettings, clock: Callable[[], float]) -> CredentialSource:
    """How the user authenticates."""
    user, directory = selection.user.value, selection.user.path.parent
    source = _source_of_tokens(selection, clock)
    # As in client-go: if one of the two is in the kubeconfig itself, nothing would replace both.
    if user.client_certificate and user.client_key:
        pair = tls.certificate_pem, tls.key_pem
        paths = directory / user.client_certificate, directory / user.client_key
        files = client_certificate_files(*paths, pair, clock)
        return CertificateFiles(files, source)
    return source


def _source_of_tokens(selection: Selection, clock: Callable[[], float]) -> CredentialSource:
    """How the user authenticates, apart from a client certificate."""
    user, entry = selection.user.value, _user_entry(selection)
    _refuse_unsupported(user, entry)
    if user.exec is not None:
        if user.token or user.token_file:
            raise entry.error("exec", "cannot be combined with token or tokenFile; keep one way to log in")
        return _exec_plugin(selection, entry)
    if user.token_file:
        source = TokenFile(entry.path.parent / user.token_file, clock=clock)
        if not _read_file(entry.path.parent / user.token_file, "tokenFile", entry).strip():
            raise entry.error("tokenFile", f"{entry.path.parent / user.token_file} is empty")
        return source
    if user.token and (problem := token_problem(user.token)):
        raise entry.error("token", problem)
    return StaticCredential(Credential(token=user.token))


def _refuse_unsupported(user: User, entry: _Entry) -> None:
    if user.username or user.password:
        field = "username" if user.username else "password"
        raise entry.error(
            field,
            "basic authentication is not supported: Kubernetes removed it in 1.19; use a token or a client certificate",
        )
    if user.auth_provider is not None:
        raise entry.error(
            "auth-provider",
            "is not supported: Kubernetes removed auth providers in 1.26; use an exec credential plugin",
        )


def _exec_plugin(selection: Selection, entry: _Entry) -> ExecPlugin:
    config = selection.user.value.exec
    assert config is not None
    if problem := exec_config_problem(config):
        raise entry.error(f"exec.{problem.partition(':')[0]}", problem.partition(": ")[2])
    if os.sep in config.command and not Path(config.command).is_absolute():
        config = msgspec.structs.replace(config, command=str(entry.path.parent / config.command))
    return ExecPlugin(config, f"{entry.path}: {entry.label}", cluster_info=_cluster_info(selection.cluster))


def _cluster_info(located: Located[Cluster]) -> dict[str, Any]:
    """The description of the cluster that a plugin with `provideClusterInfo` gets."""
    cluster = located.value
    entry = _Entry("cluster", located.path)
    ca_pem = _pem(cluster.certificate_authority, cluster.certificate_authority_data, "certificate-authority", entry)
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(ca_pem).decode(),
        "proxy-url": cluster.proxy_url,
        "config": next((item.extension for item in cluster.extensions if item.name == EXEC_EXTENSION), None),
    }
    return {key: value for key, value in info.items() if value}


def _impersonation(user: User) -> list[tuple[str, str]]:
    """The headers for impersonation."""
    headers = [("Impersonate-User", user.impersonate), ("Impersonate-Uid", user.impersonate_uid)]
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups]
    for key, values in user.impersonate_extra.items():
        headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    return [(name, value) for name, value in headers if value]


def _check_certificates(access: ClusterAccess, selection: Selection) -> None:
    try:
        access.check_certificates()
    except TlsError as error:
        entry = _user_entry(selection)
        if error.piece == "certificate-authority":
            entry = _Entry(f"cluster {selection.cluster_name!r}", selection.cluster.path)
        raise entry.error(error.piece, str(error)) from error


def _user_entry(selection: Selection) -> _Entry:
    return _Entry(f"user {selection.user_name!r}", selection.user.path)


def _pem(file_name: str, data: str, field: str, entry: _Entry) -> bytes:
    """The bytes of a field that comes as a path or, with `-data`, as base64; empty when neither is given."""
    if file_name and data:
        raise entry.error(field, f"is given together with {field}-data; keep one of the two")
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except ValueError as error:  # also what is not ASCII
            raise entry.error(f"{field}-data", f"is not valid base64 ({error}); copy it again, in full") from None
    return _read_file(entry.path.parent / file_name, field, entry) if file_name else b""


def _read_file(path: Path, field: str, entry: _Entry) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        reason = getattr(error, "strerror", None) or str(error)
        problem = f"cannot read {path}: {reason}; check the path and its permissions"
        raise entry.error(field, problem) from error
