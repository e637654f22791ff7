"""Refuses what is given for objects by mistake: Helm's templates and charts, and kinds that no API server has.

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
    }
)
"""All kinds of the groups that pods, nodes and workloads are in. Other groups have kinds that nobody knows here."""
_DECIDED_ABOUT = frozenset(
    {*_KINDS_OF["apps"], *_KINDS_OF["batch"], "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod"}
    | {"ReplicationController", "Service"}
)
"""The kinds that a misspelt one is compared with; all others are passed over anyway."""
USUAL_KINDS = frozenset(KINDS).union(*_KINDS_OF.values())
"""Kinds about which `refuse_unknown_kind` need not be asked."""

_ACTION = re.compile(rb"\{\{-?[ \t]*(?:[.$\"(]|/\*|[a-z])")
"""How an action of Go's templates begins."""


def refuse_unknown_kind(kind: str, api_version: str, where: str) -> None:
    """Raise `SnapshotError` for a kind that its group does not have, as an API server would.

    Where no version is given, and among the core kinds, of which a stranger may have more, only what looks like one
    that decisions are about is refused.
    """
    if kind.endswith("List"):
        return
    group = api_version.rpartition("/")[0]
    known = _KINDS_OF.get(group)
    if known is None or kind in known:
        return
    near = nearest(kind, known & _DECIDED_ABOUT if group else _DECIDED_ABOUT)
    if near or group:
        said = f"{api_version} has no kind {kind!r}" if api_version else f"there is no kind {kind!r}"
        raise SnapshotError(f"{where}: {said}{near or '; it has ' + ', '.join(sorted(known))}")


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
