"""The table of pods: how many containers are ready, and one word for how the pod is doing."""

from datetime import datetime
from typing import Any, NamedTuple

from berth_cluster.apimachinery.meta import Object
from berth_cluster.serving.tables import humanize
from berth_cluster.serving.tables.columns import AGE, NAME, Column, shown, text

NODE_LOST = "NodeLost"
_RESTARTS_DOC = (
    "The number of times the containers in this pod have been restarted and when the last container in this pod has "
    "restarted."
)


class _Counts(NamedTuple):
    ready: int
    total: int
    restarts: int
    last_restart: datetime | None


def pod_columns() -> list[Column]:
    """The columns, as upstream has them."""
    return [
        NAME,
        shown("Ready", "The aggregate readiness state of this pod for accepting traffic.", _ready),
        shown("Status", "The aggregate status of the containers in this pod.", status_word),
        Column("Restarts", _restarts, doc=_RESTARTS_DOC),
        AGE,
        text("IP", "status.podIP", humanize.NONE, priority=1),
        shown(
            "Node", "spec.nodeName", lambda pod: (pod.get("spec") or {}).get("nodeName") or humanize.NONE, priority=1
        ),
        text("Nominated Node", "status.nominatedNodeName", humanize.NONE, priority=1),
        shown("Readiness Gates", "spec.readinessGates", _readiness_gates, priority=1),
    ]


def _ready(pod: Object) -> str:
    counts = _count(pod)
    return f"{counts.ready}/{counts.total}"


def _restarts(pod: Object, now: datetime) -> str:
    counts = _count(pod)
    if counts.restarts and counts.last_restart is not None:
        return f"{counts.restarts} ({humanize.duration((now - counts.last_restart).total_seconds())} ago)"
    return str(counts.restarts)


def status_word(pod: Object) -> str:
    """The word in the Status column: the phase, or what stands in its way."""
    status = pod.get("status") or {}
    word = status.get("reason") or status.get("phase", "")
    gated = _condition(pod, "PodScheduled")
    if gated is not None and gated.get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    starting = _init_word(pod)
    word = starting or _container_word(pod, word)
    if not pod["metadata"].get("deletionTimestamp"):
        return word
    if status.get("reason") == NODE_LOST:
        return "Unknown"
    return word if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _init_word(pod: Object) -> str:
    """How the init containers are doing, while they are not done."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    total = len((pod.get("spec") or {}).get("initContainers") or [])
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
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
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
        ready = _condition(pod, "Ready")
        return "Running" if ready is not None and ready.get("status") == "True" else "NotReady"
    return word


def _exit_word(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _count(pod: Object) -> _Counts:
    """Ready and restarts of the containers that stay: the main ones and the sidecars."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    statuses = list(status.get("containerStatuses") or [])
    total = len(spec.get("containers") or [])
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            total += 1
    statuses += [one for one in status.get("initContainerStatuses") or [] if _is_sidecar(pod, one.get("name"))]
    ready = sum(1 for one in statuses if one.get("ready"))
    restarts = sum(one.get("restartCount", 0) for one in statuses)
    ends = [_last_end(one) for one in statuses]
    known = [end for end in ends if end is not None]
    return _Counts(ready, total, restarts, max(known, default=None))


def _last_end(container: Object) -> datetime | None:
    last = (container.get("lastState") or {}).get("terminated") or {}
    return humanize.parse_time(last.get("finishedAt"))


def _is_sidecar(pod: Object, name: Any) -> bool:
    containers = (pod.get("spec") or {}).get("initContainers") or []
    return any(one.get("name") == name and one.get("restartPolicy") == "Always" for one in containers)


def _condition(pod: Object, kind: str) -> Object | None:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind:
            found: Object = condition
            return found
    return None


def _readiness_gates(pod: Object) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or []
    if not gates:
        return humanize.NONE
    conditions = [_condition(pod, authenticator.get("conditionType", "")) for authenticator in gates]
    passed = sum(1 for one in conditions if one is not None and one.get("status") == "True")
    return f"{passed}/{len(gates)}"
