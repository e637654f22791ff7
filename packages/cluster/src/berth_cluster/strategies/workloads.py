"""Workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, Jobs, CronJobs, autoscalers.

The selector of a workload must match its pod template, and never changes.
"""

from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from berth.api.meta import LabelSelector
from berth.api.selectors import EVERYTHING, NOTHING, SelectorError, compile_selector, selector_from_map
from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.go_form import in_go
from berth_cluster.apimachinery.meta import Object, value_at
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import (
    IMMUTABLE,
    Check,
    always,
    at_least,
    both,
    each,
    given,
    may,
    need,
    nothing,
    one_of,
    unchanged,
    wrong_unless,
)
from berth_cluster.strategies.pod_checks import check_pod_spec, pod_warnings
from berth_cluster.strategies.policy import check_int_or_percent
from berth_cluster.strategies.volumes import check_claim_spec
from berth_workloads.cron_jobs import ScheduleError, read_schedule

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
MAX_CRON_JOB_NAME = 52
_CRON_POD = "spec.jobTemplate.spec.template.spec"
_HOST_NAME = "Pod names and hostnames"
_DIRECTIVES = frozenset({"affinity", "nodeSelector", "schedulingGates", "tolerations"})
STATEFUL_CHANGEABLE = frozenset(
    {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
     "persistentVolumeClaimRetentionPolicy", "minReadySeconds"}
)  # fmt: skip
STATEFUL_IMMUTABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_IDENTITY = frozenset({"hostname", "subdomain"})  # which the controller of StatefulSets gives to each pod
_NOT_SELECTED = "`selector` does not match template `labels`"
_COUNT = at_least(0)


def template_labels(spec: Object) -> dict[str, str]:
    """The labels of a workload's pods."""
    labels = value_at(spec, "template.metadata.labels")
    return labels if isinstance(labels, dict) else {}


# --- templates and selectors ---------------------------------------------------------------------------------------


def _template(*restart_policies: str) -> Check:
    """The check of a pod template whose pods are restarted in one of these ways."""

    def check(template: Object, field: str, errors: FieldErrors) -> None:
        meta, spec = template.get("metadata") or {}, template.get("spec") or {}
        names.check_labels(meta.get("labels"), f"{field}.labels", errors)
        names.check_annotations(meta.get("annotations"), f"{field}.annotations", errors)
        check_pod_spec(spec, f"{field}.spec", errors)
        policy = spec.get("restartPolicy", "")
        if policy in restart_policies:
            return
        if "Always" not in restart_policies and policy in ("", "Always"):
            errors.required(f"{field}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
        else:
            errors.unsupported(f"{field}.spec.restartPolicy", policy, restart_policies)

    return always("template", check, default={})


_TEMPLATE, _JOB_TEMPLATE = _template("Always"), _template("OnFailure", "Never")


def _selector_of(whose: str) -> Check:
    """The selector is there, and selects something."""

    def check(selector: Object | None, field: str, errors: FieldErrors) -> None:
        if selector is None:
            errors.required(field)
            return
        names.check_selector(selector, field, errors)
        if not any(selector.values()):
            errors.invalid(field, selector, f"empty selector is invalid for {whose}")

    return always("selector", check, default=None)


def _selected(mistake: str | None, rest: Check = _TEMPLATE) -> Check:
    """The selector selects the pods of the template; `mistake` is told of one that cannot be read, if it is told."""

    def check(spec: Object, field: str, errors: FieldErrors) -> None:
        selector, labels = spec.get("selector"), template_labels(spec)
        compiled = NOTHING
        if selector is not None:
            try:
                compiled = compile_selector(msgspec.convert(selector, LabelSelector))
            except (SelectorError, msgspec.ValidationError):
                if mistake is not None:
                    errors.invalid(f"{field}.selector", selector, mistake)
                return
        if compiled != EVERYTHING and not compiled.matches(labels):
            errors.invalid(f"{field}.template.metadata.labels", labels or None, _NOT_SELECTED)
        rest(spec, field, errors)

    return check


def _selected_by_map(spec: Object, field: str, errors: FieldErrors) -> None:
    labels = template_labels(spec)
    if not selector_from_map(spec.get("selector") or {}).matches(labels):
        errors.invalid(f"{field}.template.metadata.labels", labels, _NOT_SELECTED)


def _warnings(obj: Object) -> list[str]:
    return pod_warnings(value_at(obj, "spec.template.spec") or {}, "spec.template.spec")


def _replicated(whose: str, mistake: str, *more: Check) -> Check:
    """The checks of a workload with replicas, a selector and a template."""
    counted = always("replicas", _COUNT, default=0)
    return always("spec", counted, _selector_of(whose), _selected(mistake), *more)


# --- ReplicaSets, Deployments, StatefulSets ------------------------------------------------------------------------


def _check_strategy(strategy: Object, field: str, errors: FieldErrors) -> None:
    one_of("Recreate", "RollingUpdate")(strategy.get("type"), f"{field}.type", errors)
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate"):
        errors.forbidden(f"{field}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")


def _complete_claims(obj: Object, *_: Any) -> None:
    """The templates of claims say what they are templates of."""
    for claim in obj["spec"].get("volumeClaimTemplates") or []:
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}


def _check_pods_to_be(spec: Object, field: str, errors: FieldErrors) -> None:
    """The template as the controller makes pods of it: with a volume for each claim, and with names of its own."""
    claims = [value_at(claim, "metadata.name") or "" for claim in spec.get("volumeClaimTemplates") or ()]
    pod = {key: value for key, value in (value_at(spec, "template.spec") or {}).items() if key not in _IDENTITY}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claims)]
    volumes += [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
    _TEMPLATE({"template": {**spec["template"], "spec": {**pod, "volumes": volumes}}}, field, errors)
    if pod.get("activeDeadlineSeconds") is not None:
        why = "activeDeadlineSeconds in StatefulSet is not Supported"
        errors.forbidden(f"{field}.template.spec.activeDeadlineSeconds", why)


def _check_update_strategy(strategy: Object, field: str, errors: FieldErrors) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind not in ("RollingUpdate", "OnDelete"):
        shown = in_go("apps.v1.StatefulSetUpdateStrategy", strategy)
        errors.invalid(field, shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif kind == "OnDelete" and rolling is not None:
        shown = in_go("apps.v1.RollingUpdateStatefulSetStrategy", rolling)
        errors.invalid(f"{field}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")


def _keep_stateful(new: Object, old: Object, errors: FieldErrors) -> None:
    """Only what does not touch the identity of pods and claims may change."""
    fixed = (set(new["spec"]) | set(old["spec"])) - STATEFUL_CHANGEABLE
    if any(new["spec"].get(name) != old["spec"].get(name) for name in fixed):
        errors.forbidden("spec", STATEFUL_IMMUTABLE)


REPLICA_SET = RESTStrategy(
    check=_replicated("deployment", "invalid label selector"),
    status={"replicas": 0},
    fixed=("spec.selector",),
    host_name=_HOST_NAME,
    told=_warnings,
)
DEPLOYMENT = RESTStrategy(
    check=_replicated("deployment", "invalid label selector", always("strategy", _check_strategy, default={})),
    status={},
    fixed=("spec.selector",),
    host_name=_HOST_NAME,
    told=_warnings,
)


_MANAGEMENT = ("OrderedReady", "Parallel")
_RETENTION = one_of("Retain", "Delete")
STATEFUL_SET = RESTStrategy(
    check=always(
        "spec",
        always("podManagementPolicy", wrong_unless(_MANAGEMENT.__contains__, "must be 'OrderedReady' or 'Parallel'")),
        always("updateStrategy", _check_update_strategy, default={}),
        given("updateStrategy.rollingUpdate.partition", _COUNT),
        given("updateStrategy.rollingUpdate.maxUnavailable", check_int_or_percent),
        may(
            "persistentVolumeClaimRetentionPolicy", always("whenDeleted", _RETENTION), always("whenScaled", _RETENTION)
        ),
        each("volumeClaimTemplates", always("spec", check_claim_spec, default={})),
        always("replicas", _COUNT, default=0),
        may("minReadySeconds", _COUNT),
        may("ordinals.start", _COUNT),
        may("serviceName", names.check_label_name),
        _selector_of("statefulset"),
        _selected("", _check_pods_to_be),
    ),
    name=names.check_label_name,
    status={"replicas": 0, "availableReplicas": 0},
    complete=_complete_claims,
    amend=_complete_claims,
    change=_keep_stateful,
    told=_warnings,
)


# --- DaemonSets and ReplicationControllers -------------------------------------------------------------------------


def _first_generation(obj: Object, _view: ClusterView) -> None:
    """The generations of a DaemonSet's template are counted in an annotation."""
    obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"


def _next_generation(new: Object, old: Object, _view: ClusterView) -> None:
    known = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
    changed = new["spec"].get("template") != old["spec"].get("template")
    number = int(known) + changed if known.isdecimal() else 1
    new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(number)


def _daemons_selected(selector: Object, field: str, errors: FieldErrors) -> None:
    if not any(selector.values()):
        errors.invalid(field, selector, "empty selector is invalid for daemonset")


# The selector may be left out, but then it selects nothing.
_DAEMON_SET = always(
    "spec",
    given("selector", names.check_selector),
    _selected(None, both(given("selector", _daemons_selected), _TEMPLATE)),
)
_DAEMON_COUNTS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
DAEMON_SET = RESTStrategy(
    check=_DAEMON_SET,
    status=dict.fromkeys(_DAEMON_COUNTS, 0),
    complete=_first_generation,
    amend=_next_generation,
    times=2,
    fixed=("spec.selector",),
    told=_warnings,
)


def _label_as_template(obj: Object, *_: Any) -> None:
    """Selector, a plain map that may change, and labels come from the template where they are left out."""
    labels = template_labels(obj["spec"])
    if labels:
        obj["spec"].setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))


REPLICATION_CONTROLLER = RESTStrategy(
    check=always("spec", always("replicas", _COUNT, default=0), need("selector"), _selected_by_map, _TEMPLATE),
    status={"replicas": 0},
    complete=_label_as_template,
    amend=_label_as_template,
    host_name=_HOST_NAME,
    told=_warnings,
)


# --- Jobs and CronJobs ---------------------------------------------------------------------------------------------

_JOB_SPEC = both(
    *(
        may(name, _COUNT)
        for name in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    ),
    _JOB_TEMPLATE,
)


def job_labels(job: Object) -> dict[str, str]:
    """The labels by which the pods of a Job are found, under the present keys and the old ones."""
    identity = {"controller-uid": job["metadata"]["uid"], "job-name": job["metadata"]["name"]}
    return {f"batch.kubernetes.io/{name}": text for name, text in identity.items()} | identity


def _complete_job(obj: Object, *_: Any) -> None:
    """Labels by which the Job finds its pods, made from its uid."""
    spec = obj["spec"]
    _default_job(spec)
    if not spec.get("manualSelector"):
        spec.setdefault("manualSelector", False)
        spec.setdefault("selector", {}).setdefault("matchLabels", {})[CONTROLLER_UID] = obj["metadata"]["uid"]
        spec["template"]["metadata"].setdefault("labels", {}).update(job_labels(obj))
    _default_labels(obj)


def _amend_job(new: Object, *_: Any) -> None:
    _default_job(new["spec"])
    _default_labels(new)


def _default_labels(obj: Object) -> None:
    labels = template_labels(obj["spec"])
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _keep_job(new: Object, old: Object, errors: FieldErrors) -> None:
    """The selector may not change; of the template nothing, but while the Job waits where its pods go."""
    now, was = new["spec"], old["spec"]
    if now.get("completionMode") != "Indexed":
        unchanged(("spec.completions",), new, old, errors)
    unchanged(("spec.selector",), new, old, errors)
    is_waiting = was.get("suspend") and not (old.get("status") or {}).get("startTime")
    if _fixed_template(now, is_waiting) != _fixed_template(was, is_waiting):
        field = "spec.template.spec"
        shown = in_go("core.v1.PodSpec", now["template"].get("spec") or {}, field, errors.empties)
        errors.invalid("spec.template.spec", shown, IMMUTABLE)
    unchanged(("spec.completionMode",), new, old, errors)


JOB = RESTStrategy(
    check=always(
        "spec", _JOB_SPEC, need("selector"), given("selector", names.check_selector), _selected(None, nothing)
    ),
    status={},
    complete=_complete_job,
    amend=_amend_job,
    change=_keep_job,
    host_name=_HOST_NAME,
    told=_warnings,
    times=2,
)


def _fixed_template(spec: Object, is_waiting: bool) -> Object:
    """What may not change of a Job's template; while it waits to start, only where its pods go may."""
    template: Object = spec["template"]
    if not is_waiting:
        return template
    pod_spec = {key: value for key, value in template["spec"].items() if key not in _DIRECTIVES}
    pod_spec["containers"] = [{**one, "resources": None} for one in pod_spec.get("containers") or []]
    return {"spec": pod_spec}


def _default_job(spec: Object) -> None:
    """A Job that says nothing runs one pod to its end. The Jobs to come of a CronJob do not have these defaults yet."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    defaults = {
        "parallelism": 1,
        "backoffLimit": 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
    }
    for name, value in defaults.items():
        if spec.get(name) in (None, ""):
            spec[name] = value


def _check_cron_job_name(name: str, field: str, errors: FieldErrors) -> None:
    """The names of its Jobs are longer by a number."""
    names.check_subdomain(name, field, errors)
    if len(name) > MAX_CRON_JOB_NAME:
        errors.invalid(field, name, f"must be no more than {MAX_CRON_JOB_NAME} characters")


def _check_schedule(spec: Object, field: str, errors: FieldErrors) -> None:
    """The schedule and the time zone of a CronJob."""
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    if not schedule:
        errors.required(f"{field}.schedule")
        return
    if "TZ" in schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.invalid(f"{field}.schedule", schedule, why)
        return
    try:
        read_schedule(schedule)
    except ScheduleError as error:
        errors.invalid(f"{field}.schedule", schedule, str(error))
    if zone == "":
        errors.invalid(f"{field}.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone and zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.invalid(f"{field}.timeZone", zone, why)
    elif zone:
        try:
            ZoneInfo(zone)
        except (ValueError, OSError, KeyError):
            errors.invalid(f"{field}.timeZone", zone, f"unknown time zone {zone}")


CRON_JOB = RESTStrategy(
    check=always(
        "spec",
        _check_schedule,
        may("successfulJobsHistoryLimit", _COUNT),
        may("failedJobsHistoryLimit", _COUNT),
        always("concurrencyPolicy", one_of("Allow", "Forbid", "Replace")),
        always("jobTemplate.spec", _JOB_SPEC, default={}),
    ),
    status={},
    name=_check_cron_job_name,
    host_name=_HOST_NAME,
    told=lambda obj: pod_warnings(value_at(obj, _CRON_POD) or {}, _CRON_POD),
)


# --- autoscalers ---------------------------------------------------------------------------------------------------


def _check_bounds(spec: Object, field: str, errors: FieldErrors) -> None:
    most, least = spec.get("maxReplicas") or 0, spec["minReplicas"]
    if least < 1:
        errors.invalid(f"{field}.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        errors.invalid(f"{field}.maxReplicas", most, "must be greater than 0")
    elif most < least:
        errors.invalid(f"{field}.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _check_metric(metric: Object, field: str, errors: FieldErrors) -> None:
    kind = str(metric.get("type") or " ")
    source = kind[0].lower() + kind[1:]
    target = value_at(metric, f"{source}.target") or {}
    if not any(target.get(name) for name in ("value", "averageValue", "averageUtilization")):
        why = "must set either a target raw value or a target utilization"
        errors.required(f"{field}.{source}.target.averageUtilization", why)


AUTOSCALER = RESTStrategy(
    check=always(
        "spec", need("scaleTargetRef.kind"), need("scaleTargetRef.name"), _check_bounds, each("metrics", _check_metric)
    ),
    status={"currentMetrics": None, "desiredReplicas": 0},
)
