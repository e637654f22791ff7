"""Workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, Jobs, CronJobs.

Their pod templates get a pod's defaults; their selectors must match the template and never change.
"""

from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from berth.api.meta import LabelSelector
from berth.api.selectors import EVERYTHING, NOTHING, SelectorError, compile_selector, selector_from_map
from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.pod_checks import check_pod_spec, pod_warnings
from berth_cluster.strategies.pod_defaults import default_pod_spec
from berth_workloads.cron_jobs import ScheduleError, read_schedule

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_OLD_CONTROLLER_UID = "controller-uid"
_OLD_JOB_NAME = "job-name"
MAX_CRON_JOB_NAME = 52
_DIRECTIVES = frozenset({"affinity", "nodeSelector", "schedulingGates", "tolerations"})
_CONCURRENCY = ("Allow", "Forbid", "Replace")
STATEFUL_CHANGEABLE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)
STATEFUL_IMMUTABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


class PodTemplateStrategy(RESTStrategy):
    """What all kinds with a selector and a pod template have in common."""

    __slots__ = ()
    restart_policies: tuple[str, ...] = ("Always",)
    name_of_empty = "deployment"  # in the message about an empty selector; of ReplicaSets, too
    bad_selector = "invalid label selector"

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Defaults, and a status that nobody has written yet."""
        spec = _spec(obj)
        self.default_spec(obj, spec)
        obj["status"] = self.first_status()

    def prepare_update(self, new: Object, _old: Object, subresource: str, _view: ClusterView) -> None:
        """Defaults again: an update may leave out what the creation left out."""
        if subresource != "status":
            self.default_spec(new, _spec(new))

    def default_spec(self, _obj: Object, spec: Object) -> None:
        """Fill in what the spec leaves open."""
        spec.setdefault("replicas", 1)
        default_template(spec)

    def first_status(self) -> Object:
        """The status of a new object."""
        return {"replicas": 0}

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The replicas, the selector and the template."""
        spec = obj["spec"]
        check_count(spec.get("replicas", 0), "spec.replicas", errors)
        self.check_selector(spec, errors)
        self.check_template(spec, errors)

    def warnings(self, obj: Object) -> list[str]:
        """What is odd about the template."""
        return pod_warnings((obj["spec"].get("template") or {}).get("spec") or {}, "spec.template.spec")

    def check_selector(self, spec: Object, errors: FieldErrors) -> None:
        """The selector is there, and selects something."""
        selector = spec.get("selector")
        if selector is None:
            errors.required("spec.selector")
            return
        names.check_selector(selector, "spec.selector", errors)
        if not any(selector.values()):
            errors.invalid("spec.selector", selector, f"empty selector is invalid for {self.name_of_empty}")

    def check_template(self, spec: Object, errors: FieldErrors, *, needs_selector: bool = True) -> None:
        """The template of the pods that the selector selects."""
        selector, labels = spec.get("selector"), template_labels(spec)
        compiled = NOTHING
        if selector is not None:
            try:
                compiled = compile_selector(msgspec.convert(selector, LabelSelector))
            except (SelectorError, msgspec.ValidationError):
                if needs_selector:
                    errors.invalid("spec.selector", selector, self.bad_selector)
                return
        if compiled != EVERYTHING and not compiled.matches(labels):
            shown = labels or None
            errors.invalid("spec.template.metadata.labels", shown, "`selector` does not match template `labels`")
        check_template(spec, "spec.template", self.restart_policies, errors)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Which pods belong to a workload cannot change."""
        selector = new["spec"].get("selector")
        if selector != old["spec"].get("selector"):
            errors.invalid("spec.selector", selector, "field is immutable")


class ReplicaSetStrategy(PodTemplateStrategy):
    """ReplicaSets, which need nothing beyond a selector and a template."""

    __slots__ = ()


class DeploymentStrategy(PodTemplateStrategy):
    """Deployments."""

    __slots__ = ()

    def default_spec(self, obj: Object, spec: Object) -> None:
        """Rolling updates by a quarter, ten old revisions, ten minutes to make progress."""
        super().default_spec(obj, spec)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        strategy = spec.setdefault("strategy", {})
        set_defaults(strategy, type="RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            set_defaults(rolling, maxUnavailable="25%", maxSurge="25%")

    def first_status(self) -> Object:
        """A Deployment's status starts empty."""
        return {}

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Also the strategy."""
        super().check(obj, errors)
        strategy = obj["spec"].get("strategy") or {}
        if strategy.get("type") not in ("Recreate", "RollingUpdate"):
            errors.unsupported("spec.strategy.type", str(strategy.get("type")), ("Recreate", "RollingUpdate"))
        elif strategy["type"] == "Recreate" and strategy.get("rollingUpdate"):
            errors.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")


class StatefulSetStrategy(PodTemplateStrategy):
    """StatefulSets."""

    __slots__ = ()
    name_of_empty = "statefulset"
    bad_selector = ""

    def default_spec(self, obj: Object, spec: Object) -> None:
        """One pod after the other."""
        super().default_spec(obj, spec)
        set_defaults(spec, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
        strategy = spec.setdefault("updateStrategy", {})
        set_defaults(strategy, type="RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        spec.setdefault("serviceName", "")
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        set_defaults(retention, whenDeleted="Retain", whenScaled="Retain")
        for claim in spec.get("volumeClaimTemplates") or []:
            claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")

    def first_status(self) -> Object:
        """The counts that a StatefulSet's status always has."""
        return {"replicas": 0, "availableReplicas": 0}

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Also the two policies, and the names of the claim templates."""
        super().check(obj, errors)
        spec = obj["spec"]
        for field, value, allowed in (
            ("spec.podManagementPolicy", spec["podManagementPolicy"], ("OrderedReady", "Parallel")),
            ("spec.updateStrategy.type", spec["updateStrategy"].get("type"), ("RollingUpdate", "OnDelete")),
        ):
            if value not in allowed:
                errors.unsupported(field, str(value), allowed)
        if spec.get("serviceName"):
            names.check_label_name(spec["serviceName"], "spec.serviceName", errors)
        for number, claim in enumerate(spec.get("volumeClaimTemplates") or []):
            if not (claim.get("metadata") or {}).get("name"):
                errors.required(f"spec.volumeClaimTemplates[{number}].metadata.name")

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Only what does not touch the identity of pods and claims may change."""
        fixed = (set(new["spec"]) | set(old["spec"])) - STATEFUL_CHANGEABLE
        if any(new["spec"].get(name) != old["spec"].get(name) for name in fixed):
            errors.forbidden("spec", STATEFUL_IMMUTABLE)


class DaemonSetStrategy(PodTemplateStrategy):
    """DaemonSets, which count the generations of their template in an annotation."""

    __slots__ = ()
    name_of_empty = "daemonset"

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """Also the generation of the template, which is an annotation."""
        super().prepare_create(obj, view)
        obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
        """One more where the template changes."""
        super().prepare_update(new, old, subresource, view)
        if not subresource:
            known = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
            changed = new["spec"].get("template") != old["spec"].get("template")
            number = int(known) + changed if known.isdecimal() else 1
            new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(number)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The selector may be left out, but then it selects nothing."""
        spec = obj["spec"]
        names.check_selector(spec.get("selector"), "spec.selector", errors)
        self.check_template(spec, errors, needs_selector=False)

    def check_update(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """The change comes first."""
        self.check_change(new, old, errors)
        self.check(new, errors)

    def default_spec(self, _obj: Object, spec: Object) -> None:
        """A DaemonSet's spec has no number of replicas."""
        default_template(spec)
        spec.setdefault("revisionHistoryLimit", 10)
        strategy = spec.setdefault("updateStrategy", {})
        set_defaults(strategy, type="RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)

    def first_status(self) -> Object:
        """The counts that a DaemonSet's status always has."""
        counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        return dict.fromkeys(counts, 0)


class ReplicationControllerStrategy(PodTemplateStrategy):
    """ReplicationControllers, whose selector is a plain map and may come from the template."""

    __slots__ = ()

    def default_spec(self, obj: Object, spec: Object) -> None:
        """Selector and labels from the template's labels."""
        super().default_spec(obj, spec)
        labels = template_labels(spec)
        if labels:
            spec.setdefault("selector", dict(labels))
            obj["metadata"].setdefault("labels", dict(labels))

    def check_selector(self, spec: Object, errors: FieldErrors) -> None:
        """As for the others, with a map."""
        if not spec.get("selector"):
            errors.required("spec.selector")

    def check_template(self, spec: Object, errors: FieldErrors, *, needs_selector: bool = True) -> None:
        """As for the others, with a map."""
        labels = template_labels(spec)
        if needs_selector and not selector_from_map(spec.get("selector") or {}).matches(labels):
            errors.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
        check_template(spec, "spec.template", self.restart_policies, errors)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """The selector of a ReplicationController may change."""


class JobStrategy(PodTemplateStrategy):
    """Jobs, whose selector is made from their uid."""

    __slots__ = ()
    restart_policies = ("OnFailure", "Never")
    checks = 2

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """Also labels by which the Job finds its pods."""
        super().prepare_create(obj, view)
        if not obj["spec"].get("manualSelector"):
            _own_pods(obj, obj["spec"])
        self._default_labels(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
        """Labels again."""
        super().prepare_update(new, old, subresource, view)
        if not subresource:
            self._default_labels(new)

    def _default_labels(self, obj: Object) -> None:
        labels = template_labels(obj["spec"])
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def default_spec(self, _obj: Object, spec: Object) -> None:
        """One pod, six retries."""
        default_job_spec(spec)

    def first_status(self) -> Object:
        """A Job's status starts empty."""
        return {}

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Counts, template, selector."""
        spec = obj["spec"]
        check_job_spec(spec, "spec", errors)
        selector, labels = spec.get("selector"), template_labels(spec)
        if selector is None:
            errors.required("spec.selector")
        names.check_selector(selector, "spec.selector", errors)
        try:
            compiled = NOTHING if selector is None else compile_selector(msgspec.convert(selector, LabelSelector))
        except (SelectorError, msgspec.ValidationError):
            return
        if not compiled.matches(labels):
            shown = labels or None
            errors.invalid("spec.template.metadata.labels", shown, "`selector` does not match template `labels`")

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """The selector may not change; of the template nothing, but while the Job waits where its pods go."""
        now, was = new["spec"], old["spec"]
        if now.get("completions") != was.get("completions") and now.get("completionMode") != "Indexed":
            errors.invalid("spec.completions", now.get("completions"), "field is immutable")
        super().check_change(new, old, errors)
        is_waiting = was.get("suspend") and not (old.get("status") or {}).get("startTime")
        if _fixed_template(now, is_waiting) != _fixed_template(was, is_waiting):
            errors.invalid("spec.template.spec", now["template"].get("spec"), "field is immutable")
        if now.get("completionMode") != was.get("completionMode"):
            errors.invalid("spec.completionMode", now.get("completionMode"), "field is immutable")


def _fixed_template(spec: Object, is_waiting: bool) -> Object:
    """What may not change of a Job's template; while it waits to start, only where its pods go may."""
    template: Object = spec["template"]
    if not is_waiting:
        return template
    pod_spec = {key: value for key, value in template["spec"].items() if key not in _DIRECTIVES}
    pod_spec["containers"] = [{**one, "resources": None} for one in pod_spec.get("containers") or []]
    return {"spec": pod_spec}


class CronJobStrategy(RESTStrategy):
    """CronJobs."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Defaults, and a status that nobody has written yet."""
        self._default(_spec(obj))
        obj["status"] = {}

    def prepare_update(self, new: Object, _old: Object, subresource: str, _view: ClusterView) -> None:
        """Defaults again."""
        if subresource != "status":
            self._default(_spec(new))

    def _default(self, spec: Object) -> None:
        """Defaults of the schedule and of the Jobs to come."""
        set_defaults(
            spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1
        )
        default_template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """The names of its Jobs are longer by a number."""
        names.check_subdomain(obj["metadata"]["name"], "metadata.name", errors)
        if len(obj["metadata"]["name"]) > MAX_CRON_JOB_NAME:
            why = f"must be no more than {MAX_CRON_JOB_NAME} characters"
            errors.invalid("metadata.name", obj["metadata"]["name"], why)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """A schedule that can be read, and a template."""
        spec = obj["spec"]
        if spec.get("schedule"):
            check_schedule(spec, errors)
        else:
            errors.required("spec.schedule")
        for limit in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            check_count(spec.get(limit, 0), f"spec.{limit}", errors)
        if spec["concurrencyPolicy"] not in _CONCURRENCY:
            errors.unsupported("spec.concurrencyPolicy", spec["concurrencyPolicy"], _CONCURRENCY)
        check_job_spec(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", errors)


def set_defaults(holder: Object, **defaults: Any) -> None:
    """Fill in fields that are absent or empty."""
    for name, value in defaults.items():
        if holder.get(name) in (None, ""):
            holder[name] = value


def check_job_spec(spec: Object, field: str, errors: FieldErrors) -> None:
    """What is wrong with a Job's spec, but for its selector."""
    for name in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        check_count(spec.get(name) or 0, f"{field}.{name}", errors)
    check_template(spec, f"{field}.template", ("OnFailure", "Never"), errors)


class AutoscalerStrategy(RESTStrategy):
    """HorizontalPodAutoscalers."""

    __slots__ = ()

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """One replica at least, and 80 percent of the requested cpu."""
        self.prepare_update(obj, obj, "", view)
        obj["status"] = {"currentMetrics": None, "desiredReplicas": 0}

    def prepare_update(self, new: Object, _old: Object, subresource: str, _view: ClusterView) -> None:
        """The defaults again."""
        if subresource != "status":
            spec = _spec(new)
            spec.setdefault("minReplicas", 1)
            if not spec.get("metrics"):
                target = {"type": "Utilization", "averageUtilization": 80}
                spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The target and the bounds."""
        spec = obj["spec"]
        most, least = spec.get("maxReplicas") or 0, spec["minReplicas"]
        for field in ("kind", "name"):
            if not (spec.get("scaleTargetRef") or {}).get(field):
                errors.required(f"spec.scaleTargetRef.{field}")
        if least < 1:
            errors.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
        if most < 1:
            errors.invalid("spec.maxReplicas", most, "must be greater than 0")
        elif most < least:
            errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
        for number, metric in enumerate(spec["metrics"]):
            field, target = _target_of(metric)
            if not any(target.get(name) for name in ("value", "averageValue", "averageUtilization")):
                why = "must set either a target raw value or a target utilization"
                errors.required(f"spec.metrics[{number}].{field}.target.averageUtilization", why)


def _target_of(metric: Object) -> tuple[str, Object]:
    kind = str(metric.get("type") or " ")
    field = kind[0].lower() + kind[1:]
    return field, (metric.get(field) or {}).get("target") or {}


def check_schedule(spec: Object, errors: FieldErrors) -> None:
    """The schedule and the time zone of a CronJob."""
    schedule, zone = spec["schedule"], spec.get("timeZone")
    if "TZ" in schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.invalid("spec.schedule", schedule, why)
        return
    try:
        read_schedule(schedule)
    except ScheduleError as error:
        errors.invalid("spec.schedule", schedule, str(error))
    if zone == "":
        errors.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    if zone and zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.invalid("spec.timeZone", zone, why)
        return
    try:
        if zone:
            ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        errors.invalid("spec.timeZone", zone, f"unknown time zone {zone}")


def _spec(obj: Object) -> Object:
    if not isinstance(obj.get("spec"), dict):
        obj["spec"] = {}
    spec: Object = obj["spec"]
    return spec


def default_template(spec: Object) -> None:
    """Defaults of the pod template."""
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {"containers": None}))


def default_job_spec(spec: Object) -> None:
    """A Job that says nothing runs one pod to its end."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    set_defaults(
        spec,
        backoffLimit=6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
    )
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            set_defaults(pattern, status="True")
    default_template(spec)


def _own_pods(obj: Object, spec: Object) -> None:
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    spec.setdefault("manualSelector", False)
    spec.setdefault("selector", {}).setdefault("matchLabels", {})[CONTROLLER_UID] = uid
    template = spec.get("template")
    if isinstance(template, dict):
        labels = template["metadata"].setdefault("labels", {})
        labels.update({CONTROLLER_UID: uid, JOB_NAME: name, _OLD_CONTROLLER_UID: uid, _OLD_JOB_NAME: name})


def template_labels(spec: Object) -> dict[str, str]:
    """The labels of a workload's pods."""
    template = spec.get("template")
    meta = template.get("metadata") if isinstance(template, dict) else None
    labels = meta.get("labels") if isinstance(meta, dict) else None
    return labels if isinstance(labels, dict) else {}


def check_count(value: int, field: str, errors: FieldErrors) -> None:
    """A count that is not negative."""
    if value < 0:
        errors.invalid(field, value, "must be greater than or equal to 0")


def check_template(spec: Object, field: str, restart_policies: tuple[str, ...], errors: FieldErrors) -> None:
    """The pod template of a workload."""
    template = spec.get("template") or {}
    names.check_labels(template_labels(spec), f"{field}.labels", errors)
    names.check_annotations((template.get("metadata") or {}).get("annotations"), f"{field}.annotations", errors)
    check_pod_spec(template.get("spec") or {}, f"{field}.spec", errors)
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy in restart_policies:
        return
    if "Always" not in restart_policies and policy in ("", "Always"):
        errors.required(f"{field}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    else:
        errors.unsupported(f"{field}.spec.restartPolicy", policy, restart_policies)
