"""What namespaces are guaranteed by quotas, what they use, and what they have borrowed.

ElasticQuotas (scheduling.x-k8s.io) guarantee a minimum and lend what is unused of it; used is what pods on nodes
request, as CapacityScheduling counts. ResourceQuotas only limit; what they count as used is what the API server has
written into their status. `berth quotas` prints it, and the page draws it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from berth.api.custom import CustomResource
from berth.api.pod import Pod
from berth.api.quantity import QuantityError, milli_value, value
from berth.core.intake import FINISHED_PHASES
from berth.state.pod_info import PodInfo
from berth_workbench.simulation.measures import is_pending
from berth_workbench.snapshot.snapshot import Snapshot

ELASTIC = CustomResource("scheduling.x-k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota")
"""What has to be taken from a cluster besides; ResourceQuotas are in every snapshot."""


class QuotaLine(msgspec.Struct, frozen=True, rename="camel"):
    """One resource of one quota: CPU in thousandths, all else in whole units."""

    namespace: str
    """Empty for all ElasticQuotas together."""
    kind: str
    name: str
    resource: str
    """As the quota names it: `cpu`, `requests.cpu`, `count/pods`."""
    guaranteed: int | None
    """What the namespace has for sure; None for a quota that guarantees nothing."""
    used: int
    most: int | None
    """None where nothing limits it."""

    @property
    def borrowed(self) -> int:
        """What is used beyond the guarantee; without a guarantee, nothing is borrowed."""
        return 0 if self.guaranteed is None else max(0, self.used - self.guaranteed)

    @property
    def lendable(self) -> int:
        """What of the guarantee is unused."""
        return 0 if self.guaranteed is None else max(0, self.guaranteed - self.used)

    @property
    def is_cpu(self) -> bool:
        """Whether amounts are in thousandths."""
        return is_cpu(self.resource)


class QuotaReport(msgspec.Struct, frozen=True, rename="camel"):
    """All quotas of a cluster: by namespace, then the sum of all ElasticQuotas."""

    lines: tuple[QuotaLine, ...]
    notes: tuple[str, ...] = ()


def quotas_of(snapshot: Snapshot) -> QuotaReport:
    """Return the quotas of a snapshot's cluster. Raises `ObjectError`, and ValueError for amounts that are none."""
    notes: list[str] = []
    elastic = list(_elastic(snapshot, notes))
    each_one = [*elastic, *_limiting(snapshot)]
    lines = sorted(each_one, key=lambda line: (line.namespace, line.kind, line.name, line.resource))
    return QuotaReport((*lines, *_together(elastic)), tuple(notes))


def is_cpu(resource: str) -> bool:
    """Say whether a quota's resource is an amount of CPU: `cpu`, `requests.cpu`, `limits.cpu`."""
    return resource.rpartition(".")[2] == "cpu"


def _elastic(snapshot: Snapshot, notes: list[str]) -> Iterator[QuotaLine]:
    used = _requested_by_namespace(snapshot)
    found = [each for each in snapshot.of(ELASTIC.kind) if each.api_version.startswith(f"{ELASTIC.group}/")]
    manifests = sorted((each.manifest for each in found), key=_age)
    seen: dict[str, str] = {}
    for manifest in manifests:
        namespace, name = _place(manifest)
        if namespace in seen:
            notes.append(f"ElasticQuota {namespace}/{name} counts for nothing, since {seen[namespace]} is older")
            continue
        seen[namespace] = name
        spec = manifest.get("spec") or {}
        where = f"ElasticQuota {namespace}/{name}"
        there = used.get(namespace, Counter())
        least, most = _counted(spec.get("min"), f"{where}: min"), _counted(spec.get("max"), f"{where}: max")
        for resource in sorted({*least, *most}):
            yield QuotaLine(
                namespace, ELASTIC.kind, name, resource, least.get(resource, 0),
                there[resource], most.get(resource),
            )  # fmt: skip


def _limiting(snapshot: Snapshot) -> Iterator[QuotaLine]:
    for document in snapshot.of("ResourceQuota"):
        manifest = document.manifest
        namespace, name = _place(manifest)
        where = f"ResourceQuota {namespace}/{name}"
        hard = _counted((manifest.get("spec") or {}).get("hard"), f"{where}: hard")
        used = _counted((manifest.get("status") or {}).get("used"), f"{where}: used")
        for resource, limit in hard.items():
            yield QuotaLine(namespace, "ResourceQuota", name, resource, None, used.get(resource, 0), limit)


def _together(lines: Iterable[QuotaLine]) -> list[QuotaLine]:
    """The sum of all guarantees, which limits borrowing."""
    guaranteed: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for line in lines:
        guaranteed[line.resource] += line.guaranteed or 0
        used[line.resource] += line.used
    return [
        QuotaLine("", ELASTIC.kind, "", resource, amount, used[resource], amount)
        for resource, amount in sorted(guaranteed.items())
    ]


def _requested_by_namespace(snapshot: Snapshot) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for obj in snapshot.structs():
        if isinstance(obj, Pod) and not is_pending(obj) and obj.status.phase not in FINISHED_PHASES:
            found.setdefault(obj.metadata.namespace, Counter()).update(PodInfo.of(obj).requests)
    return found


def _counted(amounts: Any, where: str) -> dict[str, int]:
    if amounts is None:
        return {}
    if not isinstance(amounts, Mapping):
        raise ValueError(f"{where}: not an object with amounts")
    try:
        return {name: (milli_value if is_cpu(name) else value)(each) for name, each in amounts.items()}
    except (QuantityError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def _place(manifest: Mapping[str, Any]) -> tuple[str, str]:
    metadata = manifest.get("metadata") or {}
    return str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")


def _age(manifest: Mapping[str, Any]) -> tuple[str, str]:
    metadata = manifest.get("metadata") or {}
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("name") or "")
