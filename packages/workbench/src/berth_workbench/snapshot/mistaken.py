"""Refuses input that was mistaken for objects: Helm's templates and charts, and kinds that no API server has.

`documents` asks here where a text cannot be read, and for each object whose kind it does not know.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from berth.api.codec import KINDS
from berth.api.near_names import nearest
from berth_workbench.snapshot.text import SnapshotError

_KINDS_OF: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "apps": frozenset({"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}),
        "batch": frozenset({"CronJob", "Job"}),
        "": frozenset(
            {"Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node"}
            | {"PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController"}
            | {"ResourceQuota", "Secret", "Service", "ServiceAccount"}
        ),
        "autoscaling": frozenset({"HorizontalPodAutoscaler", "Scale"}),
        "policy": frozenset({"Eviction", "PodDisruptionBudget", "PodSecurityPolicy"}),
        "extensions": frozenset({"DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet"}),
    }
)
"""All kinds of the groups without a dot. Other groups have kinds that nobody knows here."""
_ELSEWHERE: Final = frozenset(
    {"APIService", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
    | {"EndpointSlice", "FlowSchema", "Ingress", "IngressClass", "MutatingWebhookConfiguration", "NetworkPolicy"}
    | {"PriorityLevelConfiguration", "ResourceClaimTemplate", "Role", "RoleBinding", "RuntimeClass", "IPAddress"}
    | {"ServiceCIDR", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"}
)
"""Kinds of Kubernetes' own groups with a dot that no decision depends on, for objects without a version."""
_DECIDED_ABOUT = frozenset(
    {*_KINDS_OF["apps"], *_KINDS_OF["batch"], "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod"}
    | {"ReplicationController", "Service"}
)
"""The kinds that a misspelt one is compared with; all others are passed over anyway."""
USUAL_KINDS = frozenset(KINDS).union(*_KINDS_OF.values())
"""Kinds about which `refuse_unknown_kind` need not be asked."""

_LISTED_AT_MOST = 6
_KUBECONFIG = ("Config", "v1")
"""What stands beside objects in people's directories and is none."""
_ACTION = re.compile(rb"\{\{-?[ \t]*(?:[.$\"(]|/\*|[a-z])")
"""How an action of Go's templates begins."""


def refuse_unknown_kind(kind: str, api_version: str, where: str) -> None:
    """Raise `SnapshotError` for a kind that its group does not have, as an API server would.

    Of other groups, which may have custom resources, or be those of a tool's own file, every kind is possible. An
    object that does not say its version is of one of Kubernetes' own kinds.
    """
    known = _KINDS_OF.get(api_version.rpartition("/")[0]) if api_version else USUAL_KINDS | _ELSEWHERE
    if known is None or kind in known or kind.endswith("List") or (kind, api_version) == _KUBECONFIG:
        return
    near = nearest(kind, (known & _DECIDED_ABOUT if api_version else _DECIDED_ABOUT) or known)
    if not api_version:
        hint = near or "; a custom resource says its apiVersion"
        raise SnapshotError(f"{where}: there is no kind {kind!r}{hint}")
    listed = "" if len(known) > _LISTED_AT_MOST else f"; it has {', '.join(sorted(known))}"
    raise SnapshotError(f"{where}: {api_version} has no kind {kind!r}{near or listed}")


def refuse_template(content: bytes, source: str, line: int) -> None:
    """Raise `SnapshotError` where a text cannot be read because this line of it, from 1, is of a template."""
    lines = content.split(b"\n", line)[max(0, line - 2) : line]
    if any(_ACTION.search(each) for each in lines):
        raise SnapshotError(
            f"{source}:{line}: this is a template, as in a Helm chart ({{{{ … }}}}), and no manifest: render it first, "
            "as in `helm template NAME CHART > manifests.yaml`"
        )


def refuse_chart(directory: Path) -> None:
    """Raise `SnapshotError` for the directory of a Helm chart."""
    if (directory / "Chart.yaml").is_file() and (directory / "templates").is_dir():
        raise SnapshotError(
            f"{directory}: this is a Helm chart, and no manifests: render it first, as in "
            f"`helm template NAME {directory} > manifests.yaml`"
        )


def refuse_kustomization(file: Path) -> None:
    """Raise `SnapshotError` for the file of a kustomization: what stands beside it are parts and patches."""
    if file.name in ("kustomization.yaml", "kustomization.yml"):
        raise SnapshotError(
            f"{file}: this is of a kustomization, and no manifest: render it first, as in "
            f"`kubectl kustomize {file.parent} > manifests.yaml`"
        )
