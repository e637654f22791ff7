"""The HorizontalPodAutoscaler controller: sizes workloads by what their pods use of cpu and memory.

Driven by changes of autoscalers, and by time: each looks at its pods four times a minute. What pods use is said by
their annotations (`storage.usage`), how many there should be by `berth_workloads.autoscaling`. There are no metrics but
Resource and ContainerResource, which the conditions say. Upstream: pkg/controller/podautoscaler.
"""

from collections import deque
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from berth.api.quantity import parse
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    format_time,
    generation_of,
    int_of,
    is_being_deleted,
    key_of,
    new_condition,
    parse_time,
    with_condition,
)
from berth_cluster.apimachinery.resource_types import PODS, resource_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import phase_of, ready_since
from berth_cluster.storage.usage import runs, usage_said
from berth_workloads.amounts import Amount
from berth_workloads.autoscaling import (
    DEFAULT_DOWN,
    DEFAULT_UP,
    INITIALIZATION_S,
    METRIC_WINDOW_S,
    MeasuredPod,
    ReplicaProposal,
    ScaleEvent,
    ScalingPolicy,
    ScalingRules,
    limited_replicas,
    wanted_replicas,
)
from berth_workloads.pods import objects_in

KIND = "HorizontalPodAutoscaler"
PERIOD_S = 15.0
MOST_EVENTS = 1000
_CONDITIONS = """
FailedGetScale AbleToScale False the HPA controller was unable to get the target's current scale: {}
SucceededGetScale AbleToScale True the HPA controller was able to get the target's current scale
SucceededRescale AbleToScale True the HPA controller was able to update the target scale to {}
ReadyForNewScale AbleToScale True recommended size matches current size
ScalingDisabled ScalingActive False scaling is disabled since the replica count of the target is zero
ValidMetricFound ScalingActive True the HPA was able to successfully calculate a replica count from {}
DesiredWithinRange ScalingLimited False the desired count is within the acceptable range
TooManyReplicas ScalingLimited True the desired replica count is more than the maximum replica count
TooFewReplicas ScalingLimited True the desired replica count is less than the minimum replica count
"""
# reason of a condition -> its type, its status and its message
_SAID = MappingProxyType({line.split()[0]: line.split(maxsplit=3)[1:] for line in _CONDITIONS.strip().splitlines()})
_UNMEASURABLE = ["ScalingActive", "False", "the HPA was unable to compute the replica count: {}"]


class UnmeasurableError(Exception):
    """A metric that says nothing; the reason is that of the condition ScalingActive."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Measured(NamedTuple):
    """What a metric comes to."""

    proposal: ReplicaProposal
    words: str
    shown: Object


class ScalerStatus:
    """The status of an autoscaler while it is worked out."""

    __slots__ = ("_now_s", "fields")

    def __init__(self, scaler: Object, now_s: float) -> None:
        self.fields = dict(scaler.get("status") or {})
        self.fields["observedGeneration"] = generation_of(scaler)
        self._now_s = now_s

    def tell(self, reason: str, *about: object) -> None:
        """Set the condition that a reason belongs to."""
        kind, value, message = _SAID.get(reason, _UNMEASURABLE)
        said = new_condition(kind, value, reason, message.format(*about), self._now_s)
        self.fields = with_condition(self.fields, said)


class AutoscalerController(KeyedController):
    """Sizes for the targets of HorizontalPodAutoscalers."""

    __slots__ = ("_changes", "_recommended")

    name = "horizontal-pod-autoscaler"
    kinds = frozenset({KIND})

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._recommended: dict[str, deque[ScaleEvent]] = {}  # by key of the autoscaler
        self._changes: dict[str, deque[ScaleEvent]] = {}

    def handle(self, change: ObjectChange) -> None:
        """Look at new and changed autoscalers, and forget those that are gone."""
        key = key_of(change.obj)
        if change.type == "DELETED":
            self._recommended.pop(key, None)
            self._changes.pop(key, None)
        elif change.old is None or change.old.get("spec") != change.obj.get("spec"):
            self.look_at(change.obj)

    def sync(self, obj: Object, now_s: float) -> None:
        """Size one target, and come back after a while."""
        if is_being_deleted(obj):
            return
        self.look_at(obj, now_s + PERIOD_S)
        status = ScalerStatus(obj, now_s)
        self._scale(obj, status, now_s)
        self.client.set_status(obj, status.fields)

    def _scale(self, scaler: Object, status: ScalerStatus, now_s: float) -> None:
        """Give the target the size that it should have, and say so in the status."""
        target, namespace, store = scaler["spec"]["scaleTargetRef"], scaler["metadata"]["namespace"], self.client.store
        try:
            kind = resource_of(target["kind"])
            scale = store.get(kind, namespace, target["name"], "scale")
        except (StoreError, KeyError) as error:
            status.tell("FailedGetScale", error)
            self.tell(scaler, "FailedGetScale", str(error), now_s, warns=True)
            return
        status.tell("SucceededGetScale")
        current = int_of(scale["spec"], "replicas")
        status.fields["currentReplicas"] = int_of(scale["status"], "replicas")
        desired, reason = self._desired(scaler, scale, status, now_s)
        status.fields["desiredReplicas"] = desired
        if desired == current:
            status.tell("ReadyForNewScale")
            return
        store.update(kind, namespace, target["name"], {**scale, "spec": {"replicas": desired}}, "scale")
        self._changes.setdefault(key_of(scaler), deque(maxlen=MOST_EVENTS)).append(ScaleEvent(now_s, desired - current))
        message = f"New size: {desired}; reason: {reason}"
        self.tell(scaler, "SuccessfulRescale", message, now_s)
        status.tell("SucceededRescale", desired)
        status.fields["lastScaleTime"] = format_time(now_s)

    def _desired(self, scaler: Object, scale: Object, status: ScalerStatus, now_s: float) -> tuple[int, str]:
        """The size that the target should have, and why."""
        spec, current = scaler["spec"], int_of(scale["spec"], "replicas")
        least, most = int_of(spec, "minReplicas", 1), int_of(spec, "maxReplicas")
        if current == 0 and least != 0:
            status.tell("ScalingDisabled")
            return 0, ""
        if current > most:
            return most, "Current number of replicas above Spec.MaxReplicas"
        if current < least:
            return least, "Current number of replicas below Spec.MinReplicas"
        try:
            found = self._measure(scaler, scale, current, now_s)
        except UnmeasurableError as error:
            status.tell(error.reason, error)
            self.tell(scaler, error.reason, str(error), now_s, warns=True)
            return current, ""
        best = max(found, key=lambda one: one.proposal.replicas)
        status.tell("ValidMetricFound", best.words)
        status.fields["currentMetrics"] = [one.shown for one in found]
        desired = self._limited(key_of(scaler), spec, current, best.proposal.replicas, now_s)
        within = "DesiredWithinRange" if least <= desired <= most else None
        status.tell(within or ("TooManyReplicas" if desired > most else "TooFewReplicas"))
        above = best.proposal.replicas > current
        return min(max(desired, least), most), f"{best.words} above target" if above else "All metrics below target"

    def _limited(self, key: str, spec: Object, current: int, wanted: int, now_s: float) -> int:
        """The size that the autoscaler's behaviour lets the target have now."""
        recommended = self._recommended.setdefault(key, deque(maxlen=MOST_EVENTS))
        if not recommended:  # as large as it is: a controller that has just begun knows of no smaller wish
            recommended.append(ScaleEvent(now_s, current))
        recommended.append(ScaleEvent(now_s, wanted))
        behaviour = spec.get("behavior") or {}
        up, down = rules_of(behaviour.get("scaleUp"), DEFAULT_UP), rules_of(behaviour.get("scaleDown"), DEFAULT_DOWN)
        if not behaviour:  # then growth is bounded by the size alone, not by what has just been added
            desired = limited_replicas(current, wanted, UNBOUNDED, down, recommended, (), now_s)
            return min(desired, max(2 * current, 4))
        return limited_replicas(current, wanted, up, down, recommended, self._changes.get(key, ()), now_s)

    # --- metrics ---------------------------------------------------------------------------------------------

    def _measure(self, scaler: Object, scale: Object, current: int, now_s: float) -> list[Measured]:
        selector, namespace = scale["status"].get("selector", ""), scaler["metadata"]["namespace"]
        pods, _ = self.client.store.list(PODS, namespace, selector)
        pods = [pod for pod in pods if not is_being_deleted(pod) and phase_of(pod) != "Failed"]
        behaviour, found = scaler["spec"].get("behavior") or {}, []
        for metric in scaler["spec"].get("metrics") or []:
            kind = metric.get("type", "")
            if kind not in ("Resource", "ContainerResource"):
                reason = f"FailedGet{kind}Metric"
                raise UnmeasurableError(reason, f"there are no {kind} metrics: no adapter serves them")
            source = metric["resource" if kind == "Resource" else "containerResource"]
            found.append(_measured(source, kind, pods, current, behaviour, now_s))
        return found


UNBOUNDED = ScalingRules((ScalingPolicy(False, 1 << 31, 15.0),), 0.0)


def rules_of(given: Object | None, default: ScalingRules) -> ScalingRules:
    """What a behaviour says of one direction; what it leaves open is the default's."""
    if not given:
        return default
    policies = tuple(
        ScalingPolicy(one.get("type") == "Percent", int_of(one, "value"), float(int_of(one, "periodSeconds", 15)))
        for one in objects_in(given, "policies")
    )
    window = given.get("stabilizationWindowSeconds")
    stabilization_s = default.stabilization_s if window is None else float(window)
    return ScalingRules(policies or default.policies, stabilization_s, given.get("selectPolicy") or "Max")


def _measured(source: Object, kind: str, pods: list[Object], current: int, behaviour: Object, now_s: float) -> Measured:
    """What one metric comes to. Raises `UnmeasurableError`."""
    name, container, target = source["name"], source.get("container", ""), source["target"]
    by_utilization = target["type"] == "Utilization"
    bound = Fraction(target["averageUtilization"]) if by_utilization else parse(target["averageValue"])
    facts = [_facts(pod, name, container, now_s, needs_request=by_utilization) for pod in pods]
    proposal = wanted_replicas(facts, current, bound, by_utilization=by_utilization)
    for part, grows in (("scaleUp", True), ("scaleDown", False)):
        tolerance = (behaviour.get(part) or {}).get("tolerance")
        if tolerance is not None and proposal is not None and (proposal.replicas > current) is grows:
            proposal = wanted_replicas(facts, current, bound, by_utilization=by_utilization, tolerance=parse(tolerance))
    if proposal is None:
        why = f"failed to get {name} utilization: did not receive metrics for targeted pods (pods might be unready)"
        raise UnmeasurableError(f"FailedGet{kind}Metric", why)
    shown: Object = {"averageValue": str(Amount(proposal.average, name == "memory"))}
    if by_utilization:
        shown["averageUtilization"] = proposal.utilization
    field = "resource" if kind == "Resource" else "containerResource"
    value: Object = {"name": name, "current": shown} | ({"container": container} if container else {})
    words = f"{name} resource utilization (percentage of request)" if by_utilization else f"{name} resource"
    return Measured(proposal, words, {"type": kind, field: value})


def _facts(pod: Object, name: str, container: str, now_s: float, *, needs_request: bool) -> MeasuredPod:
    chosen = [one for one in objects_in(pod["spec"], "containers") if container in ("", one["name"])]
    request = Fraction(0)
    for one in chosen:
        asked = ((one.get("resources") or {}).get("requests") or {}).get(name)
        if asked is None and needs_request:
            where = f"container {one['name']} of Pod {pod['metadata']['name']}"
            why = f"failed to get {name} utilization: missing request for {name} in {where}"
            raise UnmeasurableError("FailedGetResourceMetric", why)
        request += parse(asked) if asked is not None else 0
    if not runs(pod):
        return MeasuredPod(request, Fraction(0), is_ready=False)
    usage = usage_said(pod)[name].value * len(chosen) / len(pod["spec"]["containers"])
    return MeasuredPod(request, usage, is_ready=name != "cpu" or _is_settled(pod, now_s))


def _is_settled(pod: Object, now_s: float) -> bool:
    """Whether the cpu that a pod uses is more than what starting takes."""
    since_s, started_s = ready_since(pod), parse_time(pod["status"].get("startTime"))
    if since_s is None:
        return False
    return now_s >= started_s + INITIALIZATION_S or now_s >= since_s + METRIC_WINDOW_S
