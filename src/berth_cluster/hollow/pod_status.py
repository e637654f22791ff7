"""The status that a kubelet writes for a pod: running, rejected, succeeded or failed.

Pure functions from the pod as JSON and the time to a new status; what others wrote into it (PodScheduled, the
QoS class) stays. Called by `kubelet`.
"""

from berth_cluster.apimachinery.meta import Object, format_time, set_condition

COMPLETED = "Completed"
ERROR = "Error"


def running(pod: Object, pod_ip: str, host_ip: str, now_s: float, restarts: int = 0) -> Object:
    """All containers run and are ready."""
    status = pod.get("status") or {}
    now = format_time(now_s)
    spec = pod["spec"]
    result = {
        **status,
        "phase": "Running",
        "startTime": status.get("startTime", now),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "containerStatuses": [_running_container(pod, one, now, restarts) for one in spec["containers"]],
        "conditions": _conditions(
            pod,
            now,
            (
                ("PodReadyToStartContainers", "True", ""),
                ("Initialized", "True", ""),
                ("ContainersReady", "True", ""),
                ("Ready", "True", ""),
            ),
        ),
    }
    if spec.get("initContainers"):
        result["initContainerStatuses"] = [_init_container(pod, one, now) for one in spec["initContainers"]]
    return result


def rejected(pod: Object, reason: str, message: str, now_s: float) -> Object:
    """The kubelet refused the pod; no container was started."""
    status = pod.get("status") or {}
    kept = {name: status[name] for name in ("qosClass", "conditions") if name in status}
    rejection = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
    return {**kept, **rejection, "startTime": format_time(now_s)}


def finished(pod: Object, exit_code: int, now_s: float, reason: str = "", message: str = "") -> Object:
    """All containers have ended: Succeeded for exit code 0, else Failed."""
    status = pod.get("status") or {}
    now = format_time(now_s)
    phase, why = ("Succeeded", "PodCompleted") if exit_code == 0 else ("Failed", "PodFailed")
    result = {
        **status,
        "phase": phase,
        "containerStatuses": [_ended_container(one, exit_code, now) for one in status.get("containerStatuses") or []],
        "conditions": _conditions(
            pod,
            now,
            (
                ("PodReadyToStartContainers", "False", ""),
                ("Initialized", "True", "PodCompleted" if exit_code == 0 else ""),
                ("ContainersReady", "False", why),
                ("Ready", "False", why),
            ),
        ),
    }
    if reason:
        result |= {"reason": reason, "message": message}
    return result


def total_restarts(pod: Object) -> int:
    """How often the pod's first container was restarted (all share one fate here)."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return int(statuses[0].get("restartCount", 0)) if statuses else 0


def _conditions(pod: Object, now: str, wanted: tuple[tuple[str, str, str], ...]) -> list[Object]:
    conditions = list((pod.get("status") or {}).get("conditions") or [])
    for condition_type, state, reason in wanted:
        new = {"type": condition_type, "status": state, "lastProbeTime": None, "lastTransitionTime": now}
        conditions = set_condition(conditions, new | ({"reason": reason} if reason else {}))
    return conditions


def _container(pod: Object, container: Object) -> Object:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"hollow://{image}",
        "containerID": f"hollow://{pod['metadata'].get('uid', '')}/{container['name']}",
        "restartCount": 0,
        "lastState": {},
    }


def _running_container(pod: Object, container: Object, now: str, restarts: int) -> Object:
    result = _container(pod, container)
    if restarts:
        result["restartCount"] = restarts
        result["lastState"] = {"terminated": {"exitCode": 1, "reason": ERROR, "finishedAt": now}}
    return result | {"ready": True, "started": True, "state": {"running": {"startedAt": now}}}


def _init_container(pod: Object, container: Object, now: str) -> Object:
    if container.get("restartPolicy") == "Always":
        return _running_container(pod, container, now, 0)
    ended = {"exitCode": 0, "reason": COMPLETED, "startedAt": now, "finishedAt": now}
    return _container(pod, container) | {"ready": True, "started": False, "state": {"terminated": ended}}


def _ended_container(status: Object, exit_code: int, now: str) -> Object:
    started = (status.get("state") or {}).get("running", {}).get("startedAt", now)
    ended = {
        "exitCode": exit_code,
        "reason": COMPLETED if exit_code == 0 else ERROR,
        "startedAt": started,
        "finishedAt": now,
    }
    return {**status, "ready": False, "started": False, "state": {"terminated": ended}}
