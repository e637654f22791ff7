"""What would help a workload that waits: changes that are carried out on a copy of the queues, which then run.

The cheapest come first: what changes the workload alone, then a setting of its ClusterQueue, then quota, the least
first, and at last other work that would have to end, the smallest first.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from berth.api.quantity import parse
from berth_kueue.amounts import written
from berth_kueue.lives import Queues
from berth_kueue.queued_cluster import QueuedCluster, quotas_of
from berth_kueue.running import Preempted, is_admitted, run_until_quiet
from berth_workbench.simulation.watch import WorkWatch

ENDS_TRIED = 20
"""How many other workloads are let end, one at a time, the smallest first."""

Change = Callable[[Queues], None]


class QueueRemedy(msgspec.Struct, frozen=True, rename="camel"):
    """A change after which the workload is admitted."""

    change: str
    """In words."""
    preempts: tuple[Preempted, ...] = ()
    """Who has to make way."""


class _Trial(msgspec.Struct, frozen=True):
    words: str
    change: Change


def remedies_for(cluster: QueuedCluster, queues: Queues, key: str, watch: WorkWatch) -> Iterator[QueueRemedy]:
    """Yield the changes that help, the cheapest first. Raises `StoppedError`."""
    name = queues.pending.queue_name(queues.workloads[key])
    trials = [*_of_workload(cluster, queues, key)]
    if name is not None and name in queues.world.queues:
        trials += _of_settings(cluster, queues, name)
        trials += _of_quota(cluster, queues, key, name)
        trials += _of_ends(queues, name)
    watch.begin("trying remedies", len(trials))
    seen: set[str] = set()
    for trial in trials:
        watch.step()
        if trial.words not in seen and (found := _tried(queues, key, trial, watch)) is not None:
            seen.add(trial.words)
            yield found


def _tried(queues: Queues, key: str, trial: _Trial, watch: WorkWatch) -> QueueRemedy | None:
    there = queues.copy()
    trial.change(there)
    there.settle()
    story = run_until_quiet(there, watch.within())
    return QueueRemedy(trial.words, tuple(story.by(key))) if is_admitted(there, key) else None


# -- the workload -----------------------------------------------------------------------------------------------------


def _of_workload(cluster: QueuedCluster, queues: Queues, key: str) -> Iterator[_Trial]:
    document = cluster.documents.get(("Workload", key))
    if document is None:
        return
    pod_sets = document["spec"]["podSets"]
    strict = [
        each["topologyRequest"]["required"] for each in pod_sets if (each.get("topologyRequest") or {}).get("required")
    ]
    if strict:
        wish = f"{', '.join(dict.fromkeys(strict))} as a preferred topology, not a required one"
        yield _Trial(wish, _put(_loosened(document)))
    others = [queues.workloads[other].spec.priority for other in queues.workloads if other != key]
    highest = max(others, default=0)
    if (document["spec"].get("priority") or 0) <= highest:
        spec = {**document["spec"], "priority": highest + 1}
        yield _Trial(f"a priority of {highest + 1}, higher than all others", _put({**document, "spec": spec}))


def _loosened(document: Mapping[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(dict(document))
    for pod_set in made["spec"]["podSets"]:
        request = pod_set.get("topologyRequest") or {}
        if request.get("required"):
            request["preferred"] = request.pop("required")
    return made


def _put(document: Mapping[str, Any]) -> Change:
    return lambda queues: queues.put(document)


# -- settings ---------------------------------------------------------------------------------------------------------


def _of_settings(cluster: QueuedCluster, queues: Queues, name: str) -> Iterator[_Trial]:
    document = cluster.documents.get(("ClusterQueue", name))
    if document is None:
        return
    spec = document["spec"]
    preemption = spec.get("preemption") or {}
    if spec.get("stopPolicy", "None") != "None":
        yield _Trial(f"stopPolicy: None in ClusterQueue {name}", _put(_with(document, stopPolicy="None")))
    if (preemption.get("withinClusterQueue") or "Never") == "Never":
        changed = {**preemption, "withinClusterQueue": "LowerPriority"}
        yield _Trial(
            f"withinClusterQueue: LowerPriority in ClusterQueue {name}", _put(_with(document, preemption=changed))
        )
    if spec.get("cohortName") and (preemption.get("reclaimWithinCohort") or "Never") != "Any":
        changed = {**preemption, "reclaimWithinCohort": "Any"}
        yield _Trial(f"reclaimWithinCohort: Any in ClusterQueue {name}", _put(_with(document, preemption=changed)))
    if spec.get("cohortName") and (freed := _without(document, "borrowingLimit")) is not None:
        yield _Trial(f"no borrowingLimit in ClusterQueue {name}", _put(freed))
    root = _root(queues, name)
    for other, given in sorted(cluster.of("ClusterQueue").items()):
        if other != name and root and _root(queues, other) == root:
            freed = _without(given, "lendingLimit")
            if freed is not None:
                yield _Trial(f"no lendingLimit in ClusterQueue {other}", _put(freed))


def _with(document: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {**document, "spec": {**document["spec"], **fields}}


def _without(document: Mapping[str, Any], limit: str) -> dict[str, Any] | None:
    """The document without a limit of any of its quotas; None where there is none."""
    made = copy.deepcopy(dict(document))
    had = [quota.pop(limit, None) for _, _, quota in quotas_of(made)]
    return made if any(each is not None for each in had) else None


def _root(queues: Queues, name: str) -> str:
    queue = queues.world.queues.get(name)
    root = queue.root if queue is not None else None
    return root.name if root is not None else ""


# -- quota ------------------------------------------------------------------------------------------------------------


def _of_quota(cluster: QueuedCluster, queues: Queues, key: str, name: str) -> Iterator[_Trial]:
    """For each flavor, as much more quota as is missing; and that as well which those before it would take first."""
    document, queue = cluster.documents.get(("ClusterQueue", name)), queues.world.queues[name]
    if document is None or queue.is_in_cycle:
        return
    needs = requests_of(queues, key)
    ahead: dict[str, int] = {}
    for other in before(queues, name, key):
        for resource, amount in requests_of(queues, other).items():
            ahead[resource] = ahead.get(resource, 0) + amount
    sized: list[tuple[float, _Trial]] = []
    flavors = dict.fromkeys((covered, flavor) for covered, flavor, _ in quotas_of(document))
    for covered, flavor in flavors:
        asked = [resource for resource in covered if needs.get(resource)]
        for more in (needs, {each: needs[each] + ahead.get(each, 0) for each in asked}):
            free = {each: max(0, queue.available(queues.world.fr(flavor, each))) for each in asked}
            lacks = {each: int(more[each] - free[each]) for each in asked if more[each] > free[each]}
            if lacks:
                words = ", ".join(f"{name}.{flavor}.{each}=+{written(each, lacks[each])}" for each in lacks)
                size = sum(amount / needs[each] for each, amount in lacks.items())
                sized.append((size, _Trial(f"--quota {words}", _put(with_quota(document, flavor, lacks)))))
    yield from (trial for _, trial in sorted(sized, key=lambda each: each[0]))


def with_quota(document: Mapping[str, Any], flavor: str, more: Mapping[str, int]) -> dict[str, Any]:
    """A ClusterQueue or Cohort with so much more nominal quota of a flavor's resources; less where it is negative."""
    made = copy.deepcopy(dict(document))
    for _, name, quota in quotas_of(made):
        if name == flavor and quota.get("name") in more:
            factor = 1000 if quota["name"] == "cpu" else 1
            total = parse(quota.get("nominalQuota") or 0) * factor + more[quota["name"]]
            quota["nominalQuota"] = written(quota["name"], max(0, int(total)))
    return made


def requests_of(queues: Queues, key: str) -> dict[str, int]:
    """What all pods of a workload ask for: CPU in thousandths, everything else in units."""
    total: dict[str, int] = {}
    workload = queues.workloads[key]
    for pod_set, needs in zip(workload.spec.pod_sets, workload.needs, strict=True):
        for resource, amount in {**needs.requests, "pods": 1}.items():
            total[resource] = total.get(resource, 0) + amount * pod_set.count
    return total


def before(queues: Queues, name: str, key: str) -> list[str]:
    """The workloads of a ClusterQueue that come before one, in the order of the queue."""
    line = in_line(queues, name)
    return line[: line.index(key)] if key in line else line


def in_line(queues: Queues, name: str) -> list[str]:
    """The workloads that wait in a ClusterQueue, in the order of the queue."""
    pending = queues.pending.queues[name]
    infos = {**pending.active, **pending.inadmissible}
    return [info.key for info in pending.in_order(infos.values())]


# -- others -----------------------------------------------------------------------------------------------------------


def _of_ends(queues: Queues, name: str) -> Iterator[_Trial]:
    root = _root(queues, name)
    there = [
        key
        for key, workload in queues.workloads.items()
        if workload.holds_quota
        and workload.admission is not None
        and (
            workload.admission.cluster_queue == name
            or (root and _root(queues, workload.admission.cluster_queue) == root)
        )
    ]
    for key in sorted(there, key=lambda each: (_size(queues, each), each))[:ENDS_TRIED]:
        yield _Trial(f"the end of {key}", _ended(key))


def _size(queues: Queues, key: str) -> Sequence[int]:
    needs = requests_of(queues, key)
    extended = sum(amount for resource, amount in needs.items() if "/" in resource)
    return extended, needs.get("cpu", 0), needs.get("memory", 0)


def _ended(key: str) -> Change:
    return lambda queues: queues.finish(key)
