"""Recorded cases of Kueue's decisions, decided again: `{"name", "record": [one element for each cycle step]}`.

The form of cases and records is told in `../shared/decisions/kueue/README.md`.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from berth.api.meta import Struct
from berth_kueue.amounts import written
from berth_kueue.cycle import CycleEntry
from berth_kueue.flavors import MODES, FlavorAssignment
from berth_kueue.lives import CycleResult, Queues
from berth_kueue.preemption import PreemptionTarget
from berth_kueue.world import QuotaNode


class _Case(Struct, frozen=True):
    name: str = ""
    config: dict[str, Any] = {}
    objects: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []


def decide_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Play a case's steps and return its record; raises `ObjectError`, `QueueStepError` or msgspec's errors."""
    read = msgspec.convert(case, _Case)
    queues = Queues(read.objects, read.config)
    queues.events.clear()
    record = []
    for number, step in enumerate(read.steps):
        result = queues.step(step)
        if result is not None:
            record.append(cycle_record(queues, result, number))
            queues.events.clear()
    return {"name": read.name, "record": record}


def cycle_record(queues: Queues, result: CycleResult, step: int) -> dict[str, Any]:
    """Tell a cycle as a record does, with the events since the last one and the state after it."""
    entries = [*result.processed, *result.aside]
    order: dict[str, list[str]] = {}
    for entry in result.processed:
        order.setdefault(_tree_of(queues, entry.queue), []).append(entry.info.key)
    told = {entry.info.key for entry in entries} | {key for _, key in result.heads}
    told |= {target.info.key for entry in entries for target in entry.targets}
    return {
        "step": step,
        "heads": [{"clusterQueue": queue, "workload": key} for queue, key in result.heads],
        "order": order,
        "entries": [_entry(entry) for entry in entries],
        "events": sorted([list(event) for event in queues.events]),
        "workloads": {
            key: {
                type_: ["True" if condition.is_true else "False", condition.reason, condition.message]
                for type_, condition in sorted(queues.workloads[key].conditions.items())
            }
            for key in sorted(told)
            if key in queues.workloads
        },
        "state": _state(queues),
    }


def _tree_of(queues: Queues, queue: str) -> str:
    root = queues.world.queues[queue].root
    return f"clusterQueue/{queue}" if root is None else f"cohort/{root.name}"


def _entry(entry: CycleEntry) -> dict[str, Any]:
    told: dict[str, Any] = {
        "workload": entry.info.key,
        "clusterQueue": entry.queue,
        "result": entry.result,
        "message": entry.message,
        "reason": entry.reason,
        "requeueReason": entry.requeue_reason,
    }
    if entry.result == "inadmissible":
        return told
    last = entry.last_tried
    told |= _assignment(entry.assignment, entry.targets)
    told["lastTried"] = None if last is None else list(last.indexes)
    if entry.first is not None:
        assignment, targets, message = entry.first
        first = _assignment(assignment, targets)
        if any(first[field] != told[field] for field in first):
            told["nomination"] = first | {"message": message}
    return told


def _assignment(assignment: FlavorAssignment, targets: Iterable[PreemptionTarget]) -> dict[str, Any]:
    pod_sets = []
    for given in assignment.pod_sets:
        pod_set: dict[str, Any] = {
            "name": given.name,
            "count": given.count,
            "flavors": {
                resource: {"flavor": choice.name, "mode": MODES[choice.mode]}
                for resource, choice in given.flavors.items()
            },
            "usage": {resource: written(resource, amount) for resource, amount in given.used().items()},
        }
        if given.topology is not None:
            domains = [[list(values), count] for values, count in given.topology.domains]
            pod_set["topology"] = {"levels": list(given.topology.levels), "domains": domains}
        pod_sets.append(pod_set)
    return {
        "mode": MODES[assignment.mode],
        "borrowing": assignment.borrowing,
        "podSets": pod_sets,
        "targets": [
            {"workload": target.info.key, "clusterQueue": target.info.cluster_queue, "reason": target.reason}
            for target in sorted(targets, key=lambda target: target.info.key)
        ],
    }


def _state(queues: Queues) -> dict[str, Any]:
    world = queues.world
    world.refresh()
    told: dict[str, Any] = {"clusterQueues": {}, "cohorts": {}}
    for name, queue in sorted(world.queues.items()):
        pending = queues.pending.queues[name]
        keys = [
            (group_flavor, resource, world.fr(group_flavor, resource))
            for group in queue.groups
            for group_flavor in group.flavors
            for resource in group.covered
        ]
        borrowed = [] if queue.parent is None else keys
        state: dict[str, Any] = {
            "active": [info.key for info in pending.in_order(pending.active.values())],
            "inadmissible": [info.key for info in pending.in_order(pending.inadmissible.values())],
            "usage": _by_flavor((flavor, resource, queue.usage[fr]) for flavor, resource, fr in keys),
            "borrowed": _by_flavor(
                (flavor, resource, max(0, queue.usage[fr] - queue.subtree[fr])) for flavor, resource, fr in borrowed
            ),
            "reserving": len(queue.workloads),
            "admitted": queue.admitted,
        }
        problems = world.problems(name)
        if problems:
            words = ", ".join(words for _, words in problems)
            state["notReady"] = [problems[0][0], f"Can't admit new workloads: {words}."]
        elif queues.strategies is not None:
            state["share"] = _share(queue)
        told["clusterQueues"][name] = state
    for name, cohort in sorted(world.cohorts.items()):
        frs = list(enumerate(world.fr_names))
        state = {
            "usage": _by_flavor((flavor, resource, cohort.usage[fr]) for fr, (flavor, resource) in frs),
            "quota": _by_flavor((flavor, resource, cohort.subtree[fr]) for fr, (flavor, resource) in frs),
        }
        if queues.strategies is not None:
            state["share"] = _share(cohort)
        told["cohorts"][name] = state
    return told


def _by_flavor(amounts: Iterable[tuple[str, str, float]]) -> dict[str, dict[str, str]]:
    told: dict[str, dict[str, str]] = {}
    for flavor, resource, amount in amounts:
        if amount:
            told.setdefault(flavor, {})[resource] = written(resource, amount)
    return told


def _share(node: QuotaNode) -> str:
    value = node.share().value
    return "+Inf" if math.isinf(value) else f"{value:.17g}"
