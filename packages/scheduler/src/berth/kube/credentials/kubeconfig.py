"""Kubeconfig files: read, merge as kubectl does, and pick the cluster and user of one context.

Takes paths and returns a `Selection`, which `access.py` turns into a `ClusterAccess`. Whatever is wrong with a file is
a `KubeconfigError` that names the file, the entry, the field and what to do.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml

from berth.api.redaction import Concealed, redact
from berth.api.user_error import UserError
from berth.api.yaml_census import PARSER, refuse_bombs, yaml_problem

_T = TypeVar("_T")


LONGEST_MESSAGE = 1_000
"""Characters of a message; what a longer one leaves out is in its middle."""


class KubeconfigError(UserError, ValueError):
    """A kubeconfig, or something that it points to, cannot be used: one line without secrets, whatever it holds."""

    def __init__(self, message: str) -> None:
        line = redact(" ".join(message.split()))
        line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)
        half = LONGEST_MESSAGE // 2
        super().__init__(line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} … {line[-half:]}")


class NoKubeconfigError(KubeconfigError):
    """Nothing says which cluster to talk to: no file is named, none is at home, and this is not a pod."""


class ExecEnv(Concealed, frozen=True):
    """A variable that a credential plugin gets on top of our environment."""

    name: str
    value: str = ""


class ExecConfig(Concealed, frozen=True, rename="camel"):
    """`users[].user.exec`: the credential plugin to run."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecEnv, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class Extension(msgspec.Struct, frozen=True):
    """`clusters[].cluster.extensions[]`; one of them is meant for credential plugins."""

    name: str
    extension: Any = None


class Cluster(Concealed, frozen=True, rename="kebab"):
    """`clusters[].cluster`."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[Extension, ...] = ()


class User(Concealed, frozen=True, rename="kebab"):
    """`users[].user`."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: tuple[str, ...] = msgspec.field(default=(), name="as-groups")
    impersonate_extra: dict[str, tuple[str, ...]] = msgspec.field(default={}, name="as-user-extra")
    username: str = ""
    password: str = ""
    auth_provider: dict[str, Any] | None = None
    exec: ExecConfig | None = None


class Context(msgspec.Struct, frozen=True):
    """`contexts[].context`."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: Cluster = Cluster()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: User = User()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: Context = Context()


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    api_version: str = msgspec.field(default="v1", name="apiVersion")
    kind: str = "Config"
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()
    current_context: str = ""


class Located(msgspec.Struct, Generic[_T], frozen=True):
    """An entry and its file, against whose directory its relative paths are resolved."""

    value: _T
    path: Path


class Kubeconfig(msgspec.Struct, frozen=True):
    """One or more files merged."""

    paths: tuple[Path, ...]
    clusters: Mapping[str, Located[Cluster]]
    users: Mapping[str, Located[User]]
    contexts: Mapping[str, Located[Context]]
    current_context: str

    @property
    def where(self) -> str:
        """The files, for messages."""
        return ", ".join(str(path) for path in self.paths)


class Selection(msgspec.Struct, frozen=True):
    """What one context chose; `where` and the names are for messages."""

    where: str
    context_name: str
    cluster_name: str
    cluster: Located[Cluster]
    user_name: str
    user: Located[User]
    namespace: str


def load(paths: Sequence[Path], *, ignore_missing: bool = False) -> Kubeconfig:
    """Read and merge files: the first to name a cluster, user, context or current context wins.

    A list from $KUBECONFIG may name files that do not exist (`ignore_missing`); one given by hand may not.
    """
    present = [path for path in paths if not (ignore_missing and not path.exists())]
    files = [(path, _read(path)) for path in present]
    return Kubeconfig(
        paths=tuple(present),
        clusters=_merge((path, [(entry.name, entry.cluster) for entry in file.clusters]) for path, file in files),
        users=_merge((path, [(entry.name, entry.user) for entry in file.users]) for path, file in files),
        contexts=_merge((path, [(entry.name, entry.context) for entry in file.contexts]) for path, file in files),
        current_context=next((file.current_context for _, file in files if file.current_context), ""),
    )


def select(config: Kubeconfig, context_name: str = "") -> Selection:
    """The cluster and user of the named context, or of the current one."""
    name = context_name or config.current_context
    if not name:
        known = _known("contexts", config.contexts)
        raise KubeconfigError(f"{config.where}: current-context is not set; set it, or name a context ({known})")
    if name not in config.contexts:
        given = "the context asked for" if context_name else "current-context"
        raise KubeconfigError(
            f"{config.where}: {given} is {name!r}, but no such context exists ({_known('contexts', config.contexts)})"
        )
    located = config.contexts[name]
    context = located.value
    cluster = _entry(config.clusters, context.cluster, "cluster", name, located.path)
    no_user = Located(User(), located.path)
    user = _entry(config.users, context.user, "user", name, located.path) if context.user else no_user
    return Selection(
        where=config.where,
        context_name=name,
        cluster_name=context.cluster,
        cluster=cluster,
        user_name=context.user,
        user=user,
        namespace=context.namespace,
    )


def _entry(entries: Mapping[str, Located[_T]], name: str, field: str, context: str, path: Path) -> Located[_T]:
    if not name:
        raise KubeconfigError(
            f"{path}: context {context!r}: {field} is not set; name one ({_known('entries', entries)})"
        )
    if name not in entries:
        raise KubeconfigError(
            f"{path}: context {context!r}: {field} is {name!r}, but {field}s has no entry of that name "
            f"({_known(field + 's', entries)})"
        )
    return entries[name]


def _known(what: str, entries: Mapping[str, object]) -> str:
    return f"known {what}: {', '.join(sorted(entries))}" if entries else f"there are no {what}"


def _merge(files: Iterable[tuple[Path, list[tuple[str, _T]]]]) -> dict[str, Located[_T]]:
    merged: dict[str, Located[_T]] = {}
    for path, entries in files:
        for name, value in entries:
            merged.setdefault(name, Located(value, path))
    return merged


def _read(path: Path) -> _File:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"{path}: not a text file in UTF-8; is this really a kubeconfig?") from error
    except OSError as error:
        raise KubeconfigError(
            f"{path}: cannot read the kubeconfig: {error.strerror}; check the path and its permissions"
        ) from error
    file = _decode(path, _parse(path, text))
    if file.api_version != "v1" or file.kind != "Config":
        raise KubeconfigError(
            f"{path}: apiVersion and kind are {file.api_version!r} and {file.kind!r}, not 'v1' and 'Config'; "
            "this is some other file than a kubeconfig"
        )
    return file


def _parse(path: Path, text: str) -> Any:
    try:
        refuse_bombs(text)
        return yaml.load(text, Loader=PARSER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise KubeconfigError(f"{path}: not valid YAML{line}: {yaml_problem(error)}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise KubeconfigError(f"{path}: not valid YAML: {yaml_problem(error)}") from None


def _decode(path: Path, document: Any) -> _File:
    if document is None:
        document = {}  # an empty file is an empty kubeconfig, as for kubectl
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: expected a mapping with clusters, users and contexts at the top")
    try:
        return msgspec.convert(_without_nulls(document), _File)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at ")
        field = _named_field(document, where.strip("`").removeprefix("$."))
        raise KubeconfigError(f"{path}: {field}: {reason[:1].lower()}{reason[1:]}") from error


def _named_field(document: dict[str, Any], field: str) -> str:
    """`users[3].user.token` as people look for it: with the name of the entry, where it has one."""
    found = re.match(r"(clusters|users|contexts)\[(\d+)\]", field)
    if found is None:
        return field or "the top"
    entries = [entry for entry in document[found[1]] if entry is not None]
    entry = entries[int(found[2])]
    name = entry.get("name") if isinstance(entry, dict) else None
    return f"{found[0]} ({name}){field[found.end() :]}" if isinstance(name, str) else field


def _without_nulls(value: Any) -> Any:
    """The same document without nulls, which mean the same as nothing at all in a kubeconfig."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value
