"""`POST /fit`: whether a pod would have a place now, where and with which scores, or why not.

A manifest comes in, of a pod or of a workload, whose template is asked about. `HealthServer` calls `asked_pod` for it,
and `fit_report` between two cycles. PreFilter, Filter and the scores are run, as of a pod that is yet to be placed:
nothing is reserved, nobody is preempted, no extender is asked, and the core's own next choice among equals stays what
it was.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from berth.api.codec import ObjectError, decode
from berth.api.pod import Pod, PodStatus
from berth.api.redaction import redact
from berth.config.document import parse_document
from berth.config.errors import ConfigError
from berth.core.core import Core
from berth.core.questions import choose, decision_of, search_beside
from berth.decisions.explanation import Explanation, explain
from berth.framework.blame import contained, status_of

CONTENT_TYPES = ("application/json", "application/yaml", "application/x-yaml", "text/yaml")
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where workloads have the template of their pods; a DaemonSet has a pod on each node, and is refused."""


class FitRefused(Exception):  # noqa: N818 - it says what happened
    """There is no answer; the message says why."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class AskedPod(NamedTuple):
    """A pod that is asked about."""

    pod: Pod
    kind: str
    """Of the manifest."""


class FitReport(msgspec.Struct, frozen=True, rename="camel"):
    """Whether a pod fits."""

    kind: str
    """Of the manifest; of a workload one pod was asked about."""
    pod: str
    """`namespace/name` of the manifest."""
    fits: bool
    node: str | None
    """Where it would go, the first of equals."""
    message: str
    """Why it fits nowhere, in the words of a pod's condition; empty where it fits."""
    decision: Explanation
    """The whole decision, as `/debug/decisions` tells it."""
    notes: tuple[str, ...] = ()


def asked_pod(content_type: str, body: bytes) -> AskedPod:
    """Return the pod of a manifest, JSON or YAML. Raises `FitRefused`."""
    # A page of somebody else's cannot send these types to this machine without asking first.
    if content_type not in CONTENT_TYPES:
        raise FitRefused(f"Content-Type: one of {', '.join(CONTENT_TYPES)} is expected, not {content_type}", 415)
    try:
        manifest = parse_document(body, "the manifest")
        if not isinstance(manifest, Mapping):
            raise FitRefused("the manifest of a pod or workload is expected")
        return _asked(manifest)
    except (ConfigError, ObjectError) as error:
        raise FitRefused(str(error)) from None


def _asked(manifest: Mapping[str, Any]) -> AskedPod:
    kind = manifest.get("kind")
    where = TEMPLATES.get(kind) if isinstance(kind, str) else None
    if kind != "Pod" and where is None:
        raise FitRefused(f"kind: Pod or one of {', '.join(TEMPLATES)} is expected, not {kind!r}")
    template: Any = manifest
    for field in where or ():
        template = template.get(field) if isinstance(template, Mapping) else None
    if not isinstance(template, Mapping):
        raise FitRefused(f"{'.'.join(where or ())}: the template of a pod is missing")
    spec_given = template.get("spec")
    if not isinstance(spec_given, Mapping) or not spec_given.get("containers"):
        raise FitRefused(f"{'.'.join((*(where or ()), 'spec', 'containers'))}: a pod has at least one container")
    own, of_template = _metadata(manifest), _metadata(template)
    name, namespace = own.get("name") or own.get("generateName") or "pod", own.get("namespace") or "default"
    metadata = {**of_template, "name": name, "namespace": namespace, "uid": ""}
    pod: Pod = decode("Pod", {"metadata": metadata, "spec": spec_given})
    fresh = msgspec.structs.replace(pod.metadata, uid=f"fit/{namespace}/{name}", deletion_timestamp=None)
    # One that runs somewhere is asked about as one that is yet to be placed.
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return AskedPod(Pod(metadata=fresh, spec=spec, status=PodStatus()), str(kind))


def _metadata(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    found = manifest.get("metadata")
    return found if isinstance(found, Mapping) else {}


def fit_report(core: Core, asked: AskedPod) -> FitReport:
    """Return whether a pod fits now. No cycle may be open; nothing is changed. Raises `FitRefused`."""
    pod = asked.pod
    profile = core.profiles.get(pod.spec.scheduler_name)
    if profile is None:
        known = ", ".join(core.profiles)
        raise FitRefused(f"no profile schedules for {pod.spec.scheduler_name!r}; there are {known}", 422)
    try:
        attempt = choose(core, pod, search=search_beside(core))
    except BaseException as raised:
        # A plugin's bug, or the end of the attempt's budget, ends this answer and nothing else.
        raise FitRefused(redact(status_of(contained(raised)).message), 500) from None
    decision = decision_of(core, attempt)
    explanation = explain(decision, table=core.cache.table)
    attempt.found.release_columns()
    return FitReport(
        kind=asked.kind,
        pod=pod.key,
        fits=decision.chosen is not None,
        node=decision.chosen,
        message=decision.message,
        decision=explanation,
        notes=tuple(_notes(asked, has_extenders=bool(profile.extenders))),
    )


def _notes(asked: AskedPod, *, has_extenders: bool) -> list[str]:
    notes = []
    if asked.kind != "Pod":
        notes.append(f"one pod of the {asked.kind} was asked about, whatever its replicas")
    if has_extenders:
        notes.append("the extenders of the configuration were not asked")
    if asked.pod.spec.scheduling_gates:
        notes.append("its scheduling gates would keep it pending")
    return notes
