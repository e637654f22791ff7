"""The table of pods: how many containers are ready, and one word for how the pod is doing."""

from datetime import datetime
from typing import Any, NamedTuple

from berth_cluster.apimachinery.meta import Object, find_condition, is_condition_true, value_at
from berth_cluster.serving.tables import humanize

NODE_LOST = "NodeLost"


class _Counts(NamedTuple):
    ready: int
    total: int
    restarts: int
    last_restart: datetime | None


def ready(pod: Object) -> str:
    """How many containers are ready, of how many."""
    counts = _count(pod)
    return f"{counts.ready}/{counts.total}"


def restarts(pod: Object, now: datetime) -> str:
    """How often containers have been restarted, and when last."""
    counts = _count(pod)
    if counts.restarts and counts.last_restart is not None:
        return f"{counts.restarts} ({humanize.duration((now - counts.last_restart).total_seconds())} ago)"
    return str(counts.restarts)


def status_word(pod: Object) -> str:
    """The word in the Status column: the phase, or what stands in its way."""
    status = pod.get("status") or {}
    word = status.get("reason") or status.get("phase", "")
    if (find_condition(pod, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    word = _init_word(pod) or _container_word(pod, word)
    if not pod["metadata"].get("deletionTimestamp"):
        return word
    if status.get("reason") == NODE_LOST:
        return "Unknown"
    return word if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _init_word(pod: Object) -> str:
    """How the init containers are doing, while they are not done."""
    statuses = value_at(pod, "status.initContainerStatuses") or []
    total = len(value_at(pod, "spec.initContainers") or ())
    for number, container in enumerate(statuses):
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if _is_sidecar(pod, container.get("name")) and container.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_exit_word(terminated)}"
        if waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{number}/{total}"
    return ""


def _container_word(pod: Object, word: str) -> str:
    """The last container's trouble wins; a finished container beside a running one does not count."""
    statuses = value_at(pod, "status.containerStatuses") or []
    is_running = False
    for container in reversed(statuses):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = waiting["reason"]
        elif terminated is not None:
            word = _exit_word(terminated)
        elif container.get("ready") and "running" in state:
            is_running = True
    if word == "Completed" and is_running:
        return "Running" if is_condition_true(pod, "Ready") else "NotReady"
    return word


def _exit_word(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _count(pod: Object) -> _Counts:
    """Ready and restarts of the containers that stay: the main ones and the sidecars."""
    sidecars = [one for one in value_at(pod, "spec.initContainers") or () if one.get("restartPolicy") == "Always"]
    total = len(value_at(pod, "spec.containers") or ()) + len(sidecars)
    starting = value_at(pod, "status.initContainerStatuses") or ()
    statuses = [*(value_at(pod, "status.containerStatuses") or ())]
    statuses += [one for one in starting if _is_sidecar(pod, one.get("name"))]
    ends = (humanize.parse_time(value_at(one, "lastState.terminated.finishedAt")) for one in statuses)
    return _Counts(
        sum(bool(one.get("ready")) for one in statuses),
        total,
        sum(one.get("restartCount", 0) for one in statuses),
        max((end for end in ends if end is not None), default=None),
    )


def _is_sidecar(pod: Object, name: Any) -> bool:
    containers = value_at(pod, "spec.initContainers") or ()
    return any(one.get("name") == name and one.get("restartPolicy") == "Always" for one in containers)


def readiness_gates(pod: Object) -> str:
    """How many of the pod's gates are passed, of how many."""
    gates = value_at(pod, "spec.readinessGates")
    passed = sum(is_condition_true(pod, gate.get("conditionType", "")) for gate in gates or ())
    return f"{passed}/{len(gates)}" if gates else humanize.NONE
