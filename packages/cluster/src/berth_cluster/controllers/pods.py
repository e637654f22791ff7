"""What controllers want to know of pods: whether they are active or ready, and which of them to delete first.

Pure functions over pods as JSON. Called by the controllers and by the hollow kubelet.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    find_condition,
    int_of,
    is_being_deleted,
    new_condition,
    new_controller_reference,
    parse_time,
    with_condition,
)
from berth_workloads.replica_sets import Deletable, deletion_cost, pods_to_delete

TERMINAL_PHASES = ("Succeeded", "Failed")


def phase_of(pod: Object) -> str:
    """The pod's phase; a pod without one is Pending."""
    return (pod.get("status") or {}).get("phase") or "Pending"


def node_of(pod: Object) -> str:
    """The node the pod is bound to, or an empty string."""
    return pod["spec"].get("nodeName") or ""


def is_terminal(pod: Object) -> bool:
    """The pod has succeeded or failed: it will not run again."""
    return phase_of(pod) in TERMINAL_PHASES


def is_active(pod: Object) -> bool:
    """The pod runs or will: neither finished nor being deleted."""
    return not is_terminal(pod) and not is_being_deleted(pod)


def is_terminating(pod: Object) -> bool:
    """The pod is being deleted, and has not ended yet."""
    return is_being_deleted(pod) and not is_terminal(pod)


def ready_since(pod: Object) -> float | None:
    """When the pod became ready, or None while it is not."""
    condition = find_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    return parse_time(condition.get("lastTransitionTime"))


def available_at(workload: Object, pod: Object) -> float:
    """When a pod will have been ready for `minReadySeconds`: 0.0 without these, infinite while it is not ready."""
    since_s, wait_s = ready_since(pod), int_of(workload["spec"], "minReadySeconds")
    if since_s is None:
        return float("inf")
    return since_s + wait_s if wait_s else 0.0


def container_statuses(pod: Object) -> list[Object]:
    """The statuses of all containers of a pod, those of init containers last."""
    status = pod.get("status") or {}
    return [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]


def ends_of(pod: Object) -> list[tuple[str, Object]]:
    """Name and `state.terminated` of the containers of a pod that have ended."""
    states = ((one["name"], (one.get("state") or {}).get("terminated")) for one in container_statuses(pod))
    return [(name, ended) for name, ended in states if ended]


def restart_count(pod: Object) -> int:
    """The restarts of the pod's most restarted container."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def made_from(owner: Object, template: Object, **named: str) -> Object:
    """An object as a controller makes it: the template's labels, annotations and spec, and an owner."""
    given = template.get("metadata") or {}
    metadata: Object = {**named, "namespace": owner["metadata"]["namespace"]}
    metadata |= {name: dict(given[name]) for name in ("labels", "annotations") if given.get(name)}
    return {"metadata": {**metadata, "ownerReferences": [new_controller_reference(owner)]}, "spec": template["spec"]}


def pod_from_template(owner: Object, template: Object) -> Object:
    """A pod as a controller makes it, which also has the template's finalizers."""
    pod = made_from(owner, template, generateName=f"{owner['metadata']['name']}-")
    if finalizers := (template.get("metadata") or {}).get("finalizers"):
        pod["metadata"]["finalizers"] = list(finalizers)
    return pod


def first_to_go(pods: Sequence[Object], related: Iterable[Object], count: int) -> list[Object]:
    """The `count` pods to delete when there are too many; `related` are those of all ReplicaSets of one owner."""
    related_on = Counter(node_of(pod) for pod in related if is_active(pod))
    return pods_to_delete(pods, count, _deletable, related_on)


def _deletable(pod: Object) -> Deletable:
    since_s, created = ready_since(pod), pod["metadata"].get("creationTimestamp")
    return Deletable(
        node=node_of(pod),
        phase=phase_of(pod),
        is_ready=since_s is not None,
        cost=deletion_cost(annotations_of(pod)),
        ready_since_s=since_s or 0.0,
        restarts=restart_count(pod),
        created_s=parse_time(created) if created else None,
    )


def disrupted(pod: Object, reason: str, message: str, now_s: float) -> Object:
    """The pod's status with the condition DisruptionTarget, which says why it is about to be ended from outside."""
    return with_condition(pod.get("status"), new_condition("DisruptionTarget", True, reason, message, now_s))
