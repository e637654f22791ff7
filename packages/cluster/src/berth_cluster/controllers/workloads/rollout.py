"""What a rollout reads of Deployments and ReplicaSets: templates, revisions, sizes, and the bounds it keeps to.

Pure functions over JSON; amounts are numbers of pods. Called by the Deployment controller and, for templates, by that
of StatefulSets. Upstream: pkg/controller/deployment/util.
"""

from collections.abc import Iterable

import msgspec

from berth_cluster.apimachinery.meta import Object, annotations_of, int_of
from berth_workloads.deployments import DEFAULT_SHARE, RolloutBounds, SizedSet, rolling_update

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OWN_ANNOTATIONS = frozenset({LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS})

# The alphabet of generated names: no vowels, and no characters that look like others.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET, _FNV_PRIME, _MASK32 = 2166136261, 16777619, 0xFFFFFFFF

_encode = msgspec.json.Encoder(order="deterministic").encode


def template_hash(template: Object, collisions: int = 0) -> str:
    """A short name for a pod template: FNV-1a over its JSON, spelled in the alphabet of generated names.

    The value differs from kube-controller-manager's, which hashes a dump of Go structs.
    """
    result = _FNV_OFFSET
    for byte in _encode(template) + (str(collisions).encode() if collisions else b""):
        result = ((result ^ byte) * _FNV_PRIME) & _MASK32
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(result))


def same_template(one: Object, other: Object) -> bool:
    """Whether both templates make the same pods, apart from the hash label."""
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Object) -> Object:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    rest = {name: value for name, value in metadata.items() if name not in ("labels", "creationTimestamp") and value}
    return {**template, "metadata": {**rest, "labels": labels}}


def replicas_of(workload: Object) -> int:
    """How many pods a Deployment or ReplicaSet asks for."""
    return int_of(workload["spec"], "replicas", 1)


def status_count(workload: Object, field: str) -> int:
    """A count in the workload's status, 0 when absent."""
    return int_of(workload.get("status") or {}, field)


def total_replicas(replica_sets: Iterable[Object]) -> int:
    """How many pods all of them together ask for."""
    return sum(replicas_of(one) for one in replica_sets)


def total_status(replica_sets: Iterable[Object], field: str) -> int:
    """The sum of a count in their statuses."""
    return sum(status_count(one, field) for one in replica_sets)


def is_rolling(deployment: Object) -> bool:
    """The strategy is RollingUpdate, which is also the default."""
    return bool((deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def bounds_of(deployment: Object) -> RolloutBounds:
    """What the Deployment's rollout keeps to; with the strategy Recreate, pods are neither surplus nor missing."""
    wanted = replicas_of(deployment)
    if not is_rolling(deployment):
        return RolloutBounds(wanted, 0, 0)
    given = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge, unavailable = given.get("maxSurge", DEFAULT_SHARE), given.get("maxUnavailable", DEFAULT_SHARE)
    return rolling_update(surge, unavailable, wanted)


def sized(replica_set: Object) -> SizedSet:
    """What a rollout reads of a ReplicaSet."""
    return SizedSet(
        replicas=replicas_of(replica_set),
        available=status_count(replica_set, "availableReplicas"),
        most=int_of(annotations_of(replica_set), MAX_REPLICAS),
    )


def oldest_first(replica_sets: Iterable[Object]) -> list[Object]:
    """The ReplicaSets in the order of their creation; of the same second, in that of their names."""
    return sorted(replica_sets, key=lambda one: (one["metadata"].get("creationTimestamp", ""), one["metadata"]["name"]))


def revision_of(obj: Object) -> int:
    """The revision annotation as a number; 0 when absent or unreadable."""
    text = annotations_of(obj).get(REVISION, "")
    return int(text) if text.isdecimal() else 0
