"""The arithmetic of a Deployment's rollout: how many pods may be surplus or missing, and which ReplicaSets change.

Pure functions over Deployments and ReplicaSets as JSON; amounts are numbers of pods. Called by the Deployment
controller. Upstream: pkg/controller/deployment (rolling, recreate) and its util package.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec

from berth_cluster.apimachinery.meta import Object, annotations_of, int_of

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


def surge_and_unavailable(deployment: Object) -> tuple[int, int]:
    """`maxSurge` rounded up and `maxUnavailable` rounded down, in pods; never both 0."""
    if not is_rolling(deployment):
        return 0, 0
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    wanted = replicas_of(deployment)
    surge = _share(rolling.get("maxSurge", "25%"), wanted, round_up=True)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, unavailable


def max_unavailable(deployment: Object) -> int:
    """How many of the wanted pods may be missing during a rollout."""
    wanted = replicas_of(deployment)
    if not is_rolling(deployment) or wanted == 0:
        return 0
    return min(surge_and_unavailable(deployment)[1], wanted)


def _share(amount: int | str, total: int, *, round_up: bool) -> int:
    if isinstance(amount, int):
        return amount
    exact = int(amount.rstrip("%")) * total / 100
    return math.ceil(exact) if round_up else math.floor(exact)


def new_set_size(deployment: Object, replica_sets: Sequence[Object], new: Object) -> int:
    """How many pods the newest ReplicaSet should ask for now."""
    wanted = replicas_of(deployment)
    if not is_rolling(deployment):
        return wanted
    surge, _ = surge_and_unavailable(deployment)
    room = wanted + surge - total_replicas(replica_sets)
    if room <= 0:
        return replicas_of(new)
    return replicas_of(new) + min(room, wanted - replicas_of(new))


def removable_old_pods(deployment: Object, replica_sets: Sequence[Object], new: Object) -> int:
    """How many pods of old ReplicaSets may go at most without falling short of availability."""
    least_available = replicas_of(deployment) - max_unavailable(deployment)
    new_missing = replicas_of(new) - status_count(new, "availableReplicas")
    return total_replicas(replica_sets) - least_available - new_missing


def proportional_sizes(deployment: Object, active: Sequence[Object]) -> list[tuple[Object, int]]:
    """New sizes when a Deployment is scaled in the middle of a rollout: each ReplicaSet gets its share.

    Larger ones first, and the largest takes what rounding leaves over.
    """
    surge, _ = surge_and_unavailable(deployment)
    allowed = replicas_of(deployment) + surge if replicas_of(deployment) > 0 else 0
    to_add = allowed - total_replicas(active)
    grows = to_add > 0
    ordered = sorted(active, key=lambda one: (-replicas_of(one), _age_key(one, newest_first=grows)))
    sizes: list[tuple[Object, int]] = []
    added = 0
    for one in ordered:
        part = _proportion(one, deployment, surge, to_add, added) if to_add else 0
        added += part
        sizes.append((one, replicas_of(one) + part))
    if sizes and to_add:
        first, size = sizes[0]
        sizes[0] = (first, max(0, size + to_add - added))
    return sizes


def _proportion(one: Object, deployment: Object, surge: int, to_add: int, added: int) -> int:
    if replicas_of(one) == 0:
        return 0
    if replicas_of(deployment) == 0:
        return max(-replicas_of(one), to_add - added)
    before = int_of(annotations_of(one), MAX_REPLICAS) or status_count(deployment, "replicas") or 1
    exact = replicas_of(one) * (replicas_of(deployment) + surge) / before
    part = math.floor(exact + 0.5) - replicas_of(one)
    left = to_add - added
    return min(part, left) if to_add > 0 else max(part, left)


def _age_key(one: Object, *, newest_first: bool) -> int:
    version = int_of(one["metadata"], "resourceVersion")
    return -version if newest_first else version


def without_unavailable(replica_sets: Iterable[Object], budget: int) -> list[tuple[Object, int]]:
    """New sizes of old ReplicaSets when `budget` of their pods may go: first those not available, then the oldest."""
    ordered = sorted(
        (one for one in replica_sets if replicas_of(one)), key=lambda one: _age_key(one, newest_first=False)
    )
    sizes = {id(one): replicas_of(one) for one in ordered}
    for one in ordered:
        unhealthy = max(0, replicas_of(one) - status_count(one, "availableReplicas"))
        cut = min(unhealthy, budget)
        sizes[id(one)] -= cut
        budget -= cut
    return [(one, sizes[id(one)]) for one in ordered]


def revision_of(obj: Object) -> int:
    """The revision annotation as a number; 0 when absent or unreadable."""
    text = annotations_of(obj).get(REVISION, "")
    return int(text) if text.isdecimal() else 0
