"""The tables of workloads."""

from datetime import datetime
from itertools import zip_longest

from berth_cluster.apimachinery.meta import Object, controller_reference
from berth_cluster.serving.tables import humanize
from berth_cluster.serving.tables.columns import (
    AGE,
    NAME,
    Column,
    at,
    containers_of,
    number,
    selector_at,
    shown,
    since,
    text,
)

_TEMPLATE = "spec.template.spec"
_READY_DOC = "Number of the pod with ready state"


def deployment_columns() -> list[Column]:
    """Deployments."""
    return [
        NAME,
        shown("Ready", _READY_DOC, _ready),
        text("Up-to-date", "status.updatedReplicas", 0),
        text("Available", "status.availableReplicas", 0),
        AGE,
        *containers_of(_TEMPLATE),
        selector_at("spec.selector"),
    ]


def replica_set_columns() -> list[Column]:
    """ReplicaSets."""
    return [*_replica_columns(), selector_at("spec.selector")]


def replication_controller_columns() -> list[Column]:
    """ReplicationControllers."""
    return [*_replica_columns(), selector_at("spec.selector", is_map=True)]


def _replica_columns() -> list[Column]:
    return [
        NAME,
        number("Desired", "spec.replicas"),
        number("Current", "status.replicas"),
        number("Ready", "status.readyReplicas"),
        AGE,
        *containers_of(_TEMPLATE),
    ]


def stateful_set_columns() -> list[Column]:
    """StatefulSets."""
    return [NAME, shown("Ready", _READY_DOC, _ready), AGE, *containers_of(_TEMPLATE)]


def daemon_set_columns() -> list[Column]:
    """DaemonSets."""
    node_selector = at("spec.template.spec.nodeSelector", None)
    return [
        NAME,
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        Column(
            "Node Selector", lambda obj, now: humanize.labels(node_selector(obj, now)), doc=f"{_TEMPLATE}.nodeSelector"
        ),
        AGE,
        *containers_of(_TEMPLATE),
        selector_at("spec.selector"),
    ]


def job_columns() -> list[Column]:
    """Jobs."""
    return [
        NAME,
        shown("Status", "Status of the job.", _job_status),
        shown("Completions", "status.succeeded", _completions),
        Column("Duration", _job_duration, doc="Time required to complete the job."),
        AGE,
        *containers_of(_TEMPLATE),
        selector_at("spec.selector"),
    ]


def cron_job_columns() -> list[Column]:
    """CronJobs."""
    last = since("Last Schedule", "status.lastScheduleTime")
    return [
        NAME,
        text("Schedule", "spec.schedule"),
        text("Timezone", "spec.timeZone", humanize.NONE),
        shown("Suspend", "spec.suspend", lambda obj: str(bool((obj.get("spec") or {}).get("suspend"))), "boolean"),
        shown("Active", "status.active", lambda obj: len((obj.get("status") or {}).get("active") or []), "integer"),
        Column("Last Schedule", lambda obj, now: _unless_unknown(last.cell(obj, now)), doc=last.doc),
        AGE,
        *containers_of("spec.jobTemplate.spec.template.spec"),
        selector_at("spec.jobTemplate.spec.selector"),
    ]


def autoscaler_columns() -> list[Column]:
    """HorizontalPodAutoscalers."""
    kind, name = at("spec.scaleTargetRef.kind"), at("spec.scaleTargetRef.name")
    return [
        NAME,
        Column("Reference", lambda obj, now: f"{kind(obj, now)}/{name(obj, now)}"),
        shown("Targets", "Targets", _metrics),
        number("MinPods", "spec.minReplicas"),
        number("MaxPods", "spec.maxReplicas"),
        number("Replicas", "status.currentReplicas"),
        AGE,
    ]


def _metrics(scaler: Object) -> str:
    """`cpu: 40%/50%` for each metric on a resource."""
    found, spec, status = [], scaler.get("spec") or {}, scaler.get("status") or {}
    for metric, known in zip_longest(spec.get("metrics") or (), status.get("currentMetrics") or ()):
        source = (metric or {}).get("resource") or (metric or {}).get("containerResource") or {}
        current = (((known or {}).get("resource") or (known or {}).get("containerResource")) or {}).get("current") or {}
        wanted = source.get("target") or {}
        unit, field = ("%", "averageUtilization") if "averageUtilization" in wanted else ("", "averageValue")
        now = f"{current[field]}{unit}" if field in current else humanize.UNKNOWN
        found.append(f"{source.get('name', '')}: {now}/{wanted.get(field, '')}{unit}")
    return ", ".join(found) or humanize.NONE


def revision_columns() -> list[Column]:
    """ControllerRevisions."""
    return [NAME, shown("Controller", "Controller of the object", _controller), text("Revision", "revision", 0), AGE]


def _controller(obj: Object) -> str:
    owner = controller_reference(obj)
    if owner is None:
        return humanize.NONE
    group = owner["apiVersion"].rpartition("/")[0]
    kind = owner["kind"].lower()
    return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"


def _unless_unknown(cell: str) -> str:
    return humanize.NONE if cell == humanize.UNKNOWN else cell


def _ready(obj: Object) -> str:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"


def _job_status(job: Object) -> str:
    conditions = (job.get("status") or {}).get("conditions") or []
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in true:
            return word
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in true:
            return kind
    return "Running"


def _completions(job: Object) -> str:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    succeeded, wanted = status.get("succeeded", 0), spec.get("completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: datetime) -> str:
    status = job.get("status") or {}
    start = humanize.parse_time(status.get("startTime"))
    if start is None:
        return ""
    end = humanize.parse_time(status.get("completionTime")) or now
    return humanize.duration((end - start).total_seconds())
