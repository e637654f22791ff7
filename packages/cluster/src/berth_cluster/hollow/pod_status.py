"""The life of a pod as its kubelet reports it: containers start, end and start again, and phase and conditions follow.

Pure functions from a pod as JSON and the time to a new status; what others wrote into it (PodScheduled, the QoS class)
stays. All that is known of a container's past stands in its status, so that nothing is kept between two looks. A look
takes every container as far as it has come:

    waiting ──▶ running ──run over──▶ terminated ──to be restarted──▶ waiting (CrashLoopBackOff) ──▶ running …

Init containers run one after the other, before all others; sidecars among them go on, and end after the others.
Called by `kubelet`. Upstream: pkg/kubelet, v1.36.
"""

from collections.abc import Callable, Mapping, Sequence

from berth_cluster.apimachinery.meta import (
    Object,
    find_condition,
    format_time,
    int_of,
    new_condition,
    parse_time,
    with_condition,
)
from berth_cluster.hollow.container_runs import READY_SECONDS, ContainerRun, cannot_be_pulled, said_of
from berth_cluster.hollow.shell import ENDLESS

COMPLETED = "Completed"
ERROR = "Error"
KILLED = 137
FIRST_BACKOFF_S, LAST_BACKOFF_S = 10.0, 300.0
FORGIVEN_AFTER_S = 600.0
"""A container that ran for longer is started again without back-off."""
EPHEMERAL_STATUSES = "ephemeralContainerStatuses"
CONTAINER_LISTS = (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses"))

Runs = Callable[[Object, int, bool], ContainerRun]
"""How a container runs, after so many restarts, and whether it is an init container."""


class PodLife:
    """One look at a pod; `status` is what it comes to, and `due_s` when to look again."""

    __slots__ = ("_now_s", "_pod", "_runs", "_states", "due_s", "status")

    def __init__(self, pod: Object, runs: Runs, now_s: float, pod_ip: str = "", host_ip: str = "") -> None:
        self._pod = pod
        self._runs = runs
        self._now_s = now_s
        self.due_s = ENDLESS
        before = pod.get("status") or {}
        self._states = {one["name"]: one for _, field in CONTAINER_LISTS for one in before.get(field) or []}
        addresses = {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
        started = {"startTime": before.get("startTime", format_time(now_s))}
        phase = self._advance()
        self.status = _with_conditions(
            pod,
            {**before, "phase": phase, **addresses, **started, **_lists(pod, self._states), **ephemeral(pod, now_s)},
            now_s,
        )

    def _advance(self) -> str:
        """Take all containers as far as they have come; return the pod's phase."""
        spec = self._pod["spec"]
        is_over = all(self._is_over(each) for each in spec["containers"])
        for container in spec.get("initContainers") or []:
            is_sidecar = container.get("restartPolicy") == "Always"
            ended = self._run(container, is_init=True).get("terminated")
            if not is_sidecar and (ended is None or ended["exitCode"]):
                return (
                    "Failed" if ended is not None and not self._restarts(container, ended, is_init=True) else "Pending"
                )
        for container in spec["containers"]:
            self._run(container, is_init=False)
        if any(self._has_never_run(each) for each in spec["containers"]):
            return "Pending"
        if not all(self._is_over(each) for each in spec["containers"]):
            return "Running"
        sidecars = [each for each in spec.get("initContainers") or [] if each.get("restartPolicy") == "Always"]
        if sidecars and not is_over:
            return "Running"  # the next look ends the sidecars
        for container in sidecars:
            self._states[container["name"]] = _ended(self._states[container["name"]], 0, format_time(self._now_s))
        codes = [self._states[each["name"]]["state"]["terminated"]["exitCode"] for each in spec["containers"]]
        return "Failed" if any(codes) else "Succeeded"

    def _has_never_run(self, container: Object) -> bool:
        status = self._states[container["name"]]
        return "waiting" in status["state"] and not status["lastState"]

    def _is_over(self, container: Object) -> bool:
        """The container has ended, and is not started again."""
        ended = (self._states.get(container["name"], {}).get("state") or {}).get("terminated")
        return ended is not None and not self._restarts(container, ended, is_init=False)

    def _restarts(self, container: Object, ended: Object, *, is_init: bool) -> bool:
        """Whether a container that has ended so is started again."""
        code = ended["exitCode"]
        for rule in container.get("restartPolicyRules") or []:
            codes = rule.get("exitCodes") or {}
            if (code in (codes.get("values") or [])) == (codes.get("operator") == "In"):
                return True
        policy = container.get("restartPolicy") or self._pod["spec"].get("restartPolicy", "Always")
        if policy == "Always" and is_init and container.get("restartPolicy") != "Always":
            policy = "OnFailure"
        return bool(policy == "Always" or (policy == "OnFailure" and code))

    def _run(self, container: Object, *, is_init: bool) -> Object:
        """Take one container as far as it has come; return its state."""
        now = format_time(self._now_s)
        status = self._states.get(container["name"])
        if status is None or not (status.get("lastState") or {"running", "terminated"} & status["state"].keys()):
            status = _blank(self._pod, container) | {"state": {"running": {"startedAt": now}}}
            if cannot_be_pulled(image := container.get("image", "")):
                why = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
                status |= {"ready": False, "started": False, "state": {"waiting": why}}
                self._states[container["name"]] = status
                return {"waiting": why}
        while True:
            restarts = status["restartCount"]
            if "running" in status["state"]:
                run = self._runs(container, restarts, is_init)
                started_s = parse_time(status["state"]["running"]["startedAt"])
                if self._now_s < started_s + run.run_s:
                    self.due_s = min(self.due_s, started_s + run.run_s)
                    break
                status = _ended(status, run.exit_code, now)
            ended = status["state"].get("terminated") or status["lastState"]["terminated"]
            if not self._restarts(container, ended, is_init=is_init):
                break
            delay_s = _backoff_s(restarts, ended)
            ready_s = parse_time(ended["finishedAt"]) + delay_s
            if self._now_s < ready_s:
                self.due_s = min(self.due_s, ready_s)
                status = {
                    **status,
                    "lastState": {"terminated": ended},
                    "state": {"waiting": self._crash_loop(container, delay_s)},
                }
                break
            again = {"restartCount": restarts + 1, "lastState": {"terminated": ended}}
            status = {**status, **again, "state": {"running": {"startedAt": now}}}
        self._states[container["name"]] = status | self._readiness(container, status["state"], is_init=is_init)
        state: Object = status["state"]
        return state

    def _crash_loop(self, container: Object, delay_s: float) -> Object:
        metadata = self._pod["metadata"]
        pod = f"{metadata['name']}_{metadata['namespace']}({metadata.get('uid', '')})"
        delay = f"{delay_s:.0f}s" if delay_s < 60 else f"{delay_s // 60:.0f}m{delay_s % 60:.0f}s"
        message = f"back-off {delay} restarting failed container={container['name']} pod={pod}"
        return {"reason": "CrashLoopBackOff", "message": message}

    def _readiness(self, container: Object, state: Object, *, is_init: bool) -> Object:
        running = state.get("running")
        if running is None:
            has_initialized = is_init and state.get("terminated", {}).get("exitCode") == 0
            return {"ready": has_initialized and container.get("restartPolicy") != "Always", "started": False}
        is_plain_init = is_init and container.get("restartPolicy") != "Always"
        delay_s = said_of(self._pod, READY_SECONDS, container["name"], 0, is_named_only=is_init) or 0.0
        ready_s = parse_time(running["startedAt"]) + delay_s
        if self._now_s < ready_s:
            self.due_s = min(self.due_s, ready_s)
        return {"ready": not is_plain_init and self._now_s >= ready_s, "started": True}


def waiting(pod: Object, host_ip: str, now_s: float) -> Object:
    """The status of a pod that has been admitted, and of which nothing has started."""
    addresses = {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "startTime": format_time(now_s)}
    return _with_conditions(
        pod, {**(pod.get("status") or {}), "phase": "Pending", **addresses, **_lists(pod, {})}, now_s
    )


def rejected(pod: Object, reason: str, message: str, now_s: float) -> Object:
    """The kubelet refused the pod; no container was started."""
    status = pod.get("status") or {}
    kept = {name: status[name] for name in ("qosClass", "conditions") if name in status}
    rejection = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
    return {**kept, **rejection, "startTime": format_time(now_s)}


def killed(pod: Object, now_s: float, reason: str = "", message: str = "") -> Object:
    """All containers that still run are ended from outside: the pod has Failed, unless all had succeeded."""
    before, now = pod.get("status") or {}, format_time(now_s)
    status = {**before, **({"phase": "Failed", "reason": reason, "message": message} if reason else {})}
    for field in (*(field for _, field in CONTAINER_LISTS), EPHEMERAL_STATUSES):
        if before.get(field):
            status[field] = [_ended(one, KILLED, now) for one in before[field]]
    if not reason:
        codes = [one["state"]["terminated"]["exitCode"] for one in status.get("containerStatuses") or []]
        status["phase"] = "Succeeded" if codes and not any(codes) else "Failed"
    return _with_conditions(pod, status, now_s)


def _backoff_s(restarts: int, ended: Object) -> float:
    """How long a container that has ended is not started again: at first not at all, then twice as long each time."""
    ran_s = parse_time(ended["finishedAt"]) - parse_time(ended.get("startedAt"))
    if not restarts or ran_s > FORGIVEN_AFTER_S:
        return 0.0
    return min(FIRST_BACKOFF_S * 2.0 ** min(restarts - 1, 10), LAST_BACKOFF_S)


def _lists(pod: Object, states: Mapping[str, Object]) -> Object:
    """The statuses of all containers; those that have not started wait."""
    spec, found = pod["spec"], {}
    reason = "PodInitializing" if spec.get("initContainers") else "ContainerCreating"
    new = {"ready": False, "started": False, "state": {"waiting": {"reason": reason}}}
    for section, field in CONTAINER_LISTS:
        if spec.get(section):
            found[field] = [states.get(each["name"]) or _blank(pod, each) | new for each in spec[section]]
    return found


def ephemeral(pod: Object, now_s: float) -> Object:
    """The statuses of the ephemeral containers of a pod that runs, which go on until it ends."""
    known = {one["name"]: one for one in (pod.get("status") or {}).get(EPHEMERAL_STATUSES) or []}
    running = {"ready": False, "state": {"running": {"startedAt": format_time(now_s)}}}
    made = [
        known.get(each["name"]) or _blank(pod, each) | running for each in pod["spec"].get("ephemeralContainers") or []
    ]
    return {EPHEMERAL_STATUSES: made} if made else {}


def _blank(pod: Object, container: Object) -> Object:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"hollow://{image}",
        "containerID": f"hollow://{pod['metadata'].get('uid', '')}/{container['name']}",
        "restartCount": 0,
        "lastState": {},
    }


def _ended(status: Object, exit_code: int, now: str) -> Object:
    """A container's status after its end, with that code if it was still running."""
    known = status["state"].get("terminated") or (status.get("lastState") or {}).get("terminated")
    if known is None or "running" in status["state"]:
        started = status["state"].get("running", {}).get("startedAt", now)
        why = COMPLETED if exit_code == 0 else ERROR
        known = {"exitCode": exit_code, "reason": why, "startedAt": started, "finishedAt": now}
    is_good_init = bool(status.get("ready")) and "terminated" in status["state"]
    return {**status, "ready": is_good_init, "started": False, "state": {"terminated": known}}


# --- conditions ------------------------------------------------------------------------------------------------------


def _with_conditions(pod: Object, status: Object, now_s: float) -> Object:
    """The status with the conditions that follow from its phase and its containers."""
    spec, phase = pod["spec"], status["phase"]
    states = {one["name"]: one for _, field in CONTAINER_LISTS for one in status.get(field) or []}
    inits = spec.get("initContainers") or []
    sidecars = [one for one in inits if one.get("restartPolicy") == "Always"]
    not_done = [one["name"] for one in inits if not _has_begun(states.get(one["name"], {}), one in sidecars)]
    unready = [one["name"] for one in (*sidecars, *spec["containers"]) if not states.get(one["name"], {}).get("ready")]
    ended = {"Succeeded": ("False", "PodCompleted", ""), "Failed": ("False", "PodFailed", "")}.get(phase)
    initialized = _state_of(not_done, "ContainersNotInitialized", "containers with incomplete status: [{}]")
    if phase == "Succeeded":
        initialized = ("True", "PodCompleted", "")
    containers_ready = ended or _state_of(unready, "ContainersNotReady", "containers with unready status: [{}]")
    ready = containers_ready
    if ready[0] == "True":
        ready = _state_of(_closed_gates(spec, status), "ReadinessGatesNotReady", "{}", ", ")
    has_sandbox = phase == "Running" or (phase == "Pending" and bool(status.get("podIP")))
    for condition_type, (state, reason, message) in (
        ("PodReadyToStartContainers", (str(has_sandbox), "", "")),
        ("Initialized", initialized),
        ("ContainersReady", containers_ready),
        ("Ready", ready),
    ):
        new = new_condition(condition_type, state, reason, message, now_s) | {"lastProbeTime": None}
        status = with_condition(status, {name: value for name, value in new.items() if value != ""})
    return status


def _state_of(lacking: Sequence[str], reason: str, message: str, joint: str = " ") -> tuple[str, str, str]:
    return ("False", reason, message.format(joint.join(lacking))) if lacking else ("True", "", "")


def _has_begun(status: Object, is_sidecar: bool) -> bool:
    """An init container has done what the next one waits for: it has ended well, or as a sidecar, started."""
    state = status.get("state") or {}
    return "running" in state or int_of(status, "restartCount") > 0 if is_sidecar else bool(status.get("ready"))


def _closed_gates(spec: Object, status: Object) -> list[str]:
    found = []
    for gate in spec.get("readinessGates") or []:
        name = gate["conditionType"]
        condition = find_condition({"status": status}, name)
        if condition is None:
            found.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif condition["status"] != "True":
            found.append(f'the status of pod readiness gate "{name}" is not "True", but {condition["status"]}')
    return found
