"""Jobs as Kueue's Workloads: what pod sets the manifest of a job comes to, kind by kind.

A job names its queue by a label. Kueue makes a Workload of it, or several: one for each replica of a LeaderWorkerSet
and each pod of a Deployment. What Kueue knows only of a running job (a RayCluster that has scaled itself, a TrainJob's
runtime) cannot be read from a manifest. Left out: LimitRanges, a RuntimeClass's overhead, elastic jobs.
Source: kubernetes-sigs/kueue, pkg/controller/jobs and pkg/controller/jobframework (tas.go, workload_names.go).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from berth.api.near_names import nearest
from berth.api.user_error import UserError

KUEUE = "kueue.x-k8s.io"
QUEUE_LABEL = f"{KUEUE}/queue-name"
CLASS_LABEL = f"{KUEUE}/priority-class"
GROUP_LABEL = f"{KUEUE}/pod-group-name"
Json = Mapping[str, Any]


class JobManifestError(UserError, ValueError):
    """A manifest that no Workload can be made of; the message says which object, which field, and why."""


class JobPodSet(msgspec.Struct, frozen=True):
    """Pods of a job that are alike."""

    name: str
    template: Json
    count: int
    min_count: int | None = None
    """Fewer pods than this are not admitted; None where it is all or nothing."""


class KueueJob(NamedTuple):
    """A job, and the Workloads that Kueue would make of it."""

    kind: str
    namespace: str
    name: str
    queue: str
    workloads: tuple[dict[str, Any], ...]


def jobs_of(
    manifests: Iterable[Json], classes: Mapping[str, int], *, namespace: str = "default", now: str = ""
) -> Iterator[KueueJob]:
    """Yield the jobs of manifests; other kinds of objects that are no jobs are passed over.

    `classes` are the values of priority classes: a WorkloadPriorityClass by `kueue/NAME`, a PriorityClass by NAME, the
    default one by ``. `namespace` is that of jobs that name none, `now` the time at which they are created. Raises
    `JobManifestError` for a kind that names a queue and that is not known here, and for what cannot be read.
    """
    groups: dict[tuple[str, str], list[Json]] = {}
    for manifest in manifests:
        metadata = _mapping(manifest.get("metadata"))
        group, kind = str(manifest.get("apiVersion") or "").rpartition("/")[0], str(manifest.get("kind"))
        place = f"{kind} {metadata.get('namespace') or namespace}/{metadata.get('name') or '(without a name)'}"
        labels = _mapping(metadata.get("labels"))
        if group == KUEUE and kind == "Workload":
            yield _given_workload(manifest, namespace, now)
        elif group == "" and kind == "Pod" and GROUP_LABEL in labels:
            groups.setdefault((metadata.get("namespace") or namespace, labels[GROUP_LABEL]), []).append(manifest)
        elif (group, kind) in _KINDS:
            yield _job(place, manifest, _KINDS[group, kind], classes, namespace, now)
        elif QUEUE_LABEL in labels and group != KUEUE:
            known = [name for _, name in _KINDS]
            raise JobManifestError(
                f"{place}: pod sets of this kind ({group or 'core'}) are not known here{nearest(kind, known)}; "
                f"known are {', '.join(sorted(set(known)))} and Workload"
            )
    for (space, name), pods in groups.items():
        yield _job(f"pod group {space}/{name}", {**pods[0], "pods": pods}, _pod_group, classes, namespace, now)


def _given_workload(manifest: Json, namespace: str, now: str) -> KueueJob:
    metadata = _mapping(manifest.get("metadata"))
    space, name = metadata.get("namespace") or namespace, metadata.get("name") or ""
    if not name or not _mapping(manifest.get("spec")).get("podSets"):
        raise JobManifestError(f"Workload {space}/{name}: metadata.name or spec.podSets is missing")
    spec = {"active": True, "priority": 0, **manifest["spec"]}
    return KueueJob("Workload", space, name, spec.get("queueName") or "", (_workload(space, name, spec, now),))


def _workload(namespace: str, name: str, spec: Json, now: str, owner: Json | None = None) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"Workload/{namespace}/{name}", "creationTimestamp": now}
    if owner is not None:
        metadata["ownerReferences"] = [owner]  # type: ignore[assignment] # a JSON object
    return {"apiVersion": f"{KUEUE}/v1beta2", "kind": "Workload", "metadata": metadata, "spec": dict(spec)}


PodSetsOf = Callable[[Json], tuple[Sequence[JobPodSet], int]]
"""Reads the pod sets of a job, and how many Workloads of these there are."""


def _job(
    place: str, manifest: Json, pod_sets_of: PodSetsOf, classes: Mapping[str, int], namespace: str, now: str
) -> KueueJob:
    metadata = _mapping(manifest.get("metadata"))
    labels = _mapping(metadata.get("labels"))
    name = labels[GROUP_LABEL] if pod_sets_of is _pod_group else str(metadata.get("name") or "")
    if not name:
        raise JobManifestError(f"{place}: metadata.name is missing")
    try:
        pod_sets, count = pod_sets_of(manifest)
        spec = {
            "queueName": labels.get(QUEUE_LABEL) or "",
            "active": True,
            **_priority(labels, pod_sets, classes),
            "podSets": [_in_workload(each) for each in pod_sets],
        }
    except KeyError as error:
        raise JobManifestError(f"{place}: {error.args[0]} is missing") from None
    except (TypeError, ValueError, AttributeError, msgspec.DecodeError) as error:
        raise JobManifestError(f"{place}: cannot be read: {error}") from None
    if not spec["podSets"]:
        raise JobManifestError(f"{place}: has no pods")
    kind, space = str(manifest.get("kind")), metadata.get("namespace") or namespace
    base = name if pod_sets_of is _pod_group else f"{kind.lower()}-{name}"
    names = [base] if count == 1 else [f"{base}-{number}" for number in range(count)]
    owner = {"kind": kind, "name": name, "uid": metadata.get("uid") or f"{kind}/{space}/{name}", "controller": True}
    workloads = tuple(_workload(space, each, spec, now, owner) for each in names)
    return KueueJob(kind, space, name, spec["queueName"], workloads)


def _priority(labels: Json, pod_sets: Sequence[JobPodSet], classes: Mapping[str, int]) -> dict[str, Any]:
    """A WorkloadPriorityClass counts before the PriorityClass of the first pod set that names one."""
    named = labels.get(CLASS_LABEL)
    if named:
        if f"kueue/{named}" not in classes:
            raise ValueError(f"there is no WorkloadPriorityClass {named}")
        return {"priority": classes[f"kueue/{named}"]}
    for each in pod_sets:
        named = _mapping(each.template.get("spec")).get("priorityClassName")
        if named:
            if named not in classes:
                raise ValueError(f"there is no PriorityClass {named}")
            return {"priority": classes[named]}
    return {"priority": classes.get("", 0)}


def _in_workload(pod_set: JobPodSet) -> dict[str, Any]:
    spec = dict(pod_set.template["spec"])
    for name in ("containers", "initContainers"):
        if spec.get(name):
            spec[name] = [_with_requests(container) for container in spec[name]]
    metadata = _mapping(pod_set.template.get("metadata"))
    kept = {key: dict(metadata[key]) for key in ("labels", "annotations") if metadata.get(key)}
    made: dict[str, Any] = {
        "name": pod_set.name.lower(),
        "count": pod_set.count,
        "template": {"metadata": kept, "spec": spec},
    }
    if pod_set.min_count is not None:
        made["minCount"] = pod_set.min_count
    request = topology_request(_mapping(metadata.get("annotations")))
    if request:
        made["topologyRequest"] = request
    return made


def _with_requests(container: Json) -> Json:
    """A container that only says its limits requests as much."""
    resources = _mapping(container.get("resources"))
    limits = _mapping(resources.get("limits"))
    return {**container, "resources": {**resources, "requests": {**limits, **_mapping(resources.get("requests"))}}}


def topology_request(annotations: Json) -> dict[str, Any]:
    """What a pod template's annotations ask of a topology, as a Workload has it; empty where they ask nothing."""
    given = {name: annotations.get(f"{KUEUE}/podset-{name}") for name in _WISHES}
    request: dict[str, Any] = {}
    if given["required-topology"] is not None:
        request["required"] = given["required-topology"]
    elif given["preferred-topology"] is not None:
        request["preferred"] = given["preferred-topology"]
    elif given["unconstrained-topology"] is not None:
        request["unconstrained"] = str(given["unconstrained-topology"]).lower() in ("1", "t", "true")
    if given["slice-required-topology-constraints"] is not None:
        layers = msgspec.json.decode(given["slice-required-topology-constraints"])
        request["podsetSliceRequiredTopologyConstraints"] = layers
    elif given["slice-required-topology"] is not None and given["slice-size"] is not None:
        request["podSetSliceRequiredTopology"] = given["slice-required-topology"]
        request["podSetSliceSize"] = int(given["slice-size"])
    if given["group-name"] is not None and request.keys() & {"required", "preferred"}:
        request["podSetGroupName"] = given["group-name"]
    return request


_WISHES = (
    "required-topology", "preferred-topology", "unconstrained-topology", "slice-required-topology", "slice-size",
    "slice-required-topology-constraints", "group-name",
)  # fmt: skip


def _mapping(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


def _field(manifest: Json, path: str) -> Any:
    """A field that has to be there, by its dotted path. Raises KeyError with the path."""
    value: Any = manifest
    for name in path.split("."):
        value = _mapping(value).get(name)
        if value is None:
            raise KeyError(path)
    return value


def _number(value: Any, default: int) -> int:
    return default if value is None else int(value)


# -- kinds ------------------------------------------------------------------------------------------------------------


def _of_job(spec: Json) -> int:
    """How many pods a Job has at a time."""
    parallelism = _number(spec.get("parallelism"), 1)
    return min(parallelism, _number(spec.get("completions"), parallelism))


def _batch_job(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    spec = _field(manifest, "spec")
    fewest = _mapping(_mapping(manifest.get("metadata")).get("annotations")).get(f"{KUEUE}/job-min-parallelism")
    template = _field(manifest, "spec.template")
    return [JobPodSet("main", template, _of_job(spec), int(fewest) if fewest else None)], 1


def _job_set(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    pod_sets = []
    for job in _field(manifest, "spec.replicatedJobs"):
        of_job = _field(job, "template.spec")
        count = _number(job.get("replicas"), 1) * _of_job(of_job)
        pod_sets.append(JobPodSet(_field(job, "name"), _field(of_job, "template"), count))
    return pod_sets, 1


def _replica_specs(field: str, *roles: str) -> PodSetsOf:
    """Pod sets by role, in the order in which Kueue has the roles."""

    def read(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
        specs = _field(manifest, f"spec.{field}")
        return [
            JobPodSet(role, _field(specs, f"{role}.template"), _number(specs[role].get("replicas"), 1))
            for role in roles
            if specs.get(role) is not None
        ], 1

    return read


_SUBMITTER = {"cpu": "500m", "memory": "200Mi"}
"""What KubeRay's submitter asks for by default; its limits are higher."""
_AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}


def _ray(spec: Json) -> list[JobPodSet]:
    head = _field(spec, "headGroupSpec.template")
    if spec.get("enableInTreeAutoscaling"):
        requests = _mapping(_mapping(_mapping(spec.get("autoscalerOptions")).get("resources")).get("requests"))
        head = _with_container(head, "autoscaler", requests or _AUTOSCALER)
    pod_sets = [JobPodSet("head", head, 1)]
    for group in spec.get("workerGroupSpecs") or ():
        count = _number(group.get("replicas"), 1) * max(1, _number(group.get("numOfHosts"), 1))
        pod_sets.append(JobPodSet(_field(group, "groupName"), _field(group, "template"), count))
    return pod_sets


def _with_container(template: Json, name: str, requests: Json) -> Json:
    containers = [*_field(template, "spec.containers"), {"name": name, "resources": {"requests": dict(requests)}}]
    return {**template, "spec": {**template["spec"], "containers": containers}}


def _ray_cluster(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    return _ray(_field(manifest, "spec")), 1


def _ray_job(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    spec = _field(manifest, "spec")
    pod_sets = _ray(_field(spec, "rayClusterSpec"))
    mode = spec.get("submissionMode") or "K8sJobMode"
    if mode == "SidecarMode":
        pod_sets[0] = msgspec.structs.replace(
            pod_sets[0], template=_with_container(pod_sets[0].template, "ray-job-submitter", _SUBMITTER)
        )
    elif mode == "K8sJobMode":
        own = spec.get("submitterPodTemplate")
        submitter = own or _with_container({"spec": {"containers": [], "restartPolicy": "Never"}}, "s", _SUBMITTER)
        pod_sets.append(JobPodSet("submitter", submitter, 1))
    return pod_sets, 1


def _ray_service(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    return _ray(_field(manifest, "spec.rayClusterConfig")), 1


def _leader_worker_set(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    group = _field(manifest, "spec.leaderWorkerTemplate")
    size, replicas = _number(group.get("size"), 1), _number(_field(manifest, "spec").get("replicas"), 1)
    worker = _field(group, "workerTemplate")
    if group.get("leaderTemplate") is None:
        return [JobPodSet("main", worker, size)], replicas
    return [JobPodSet("leader", group["leaderTemplate"], 1), JobPodSet("worker", worker, size - 1)], replicas


def _deployment(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    """Every pod is a Workload of its own."""
    return [JobPodSet("main", _field(manifest, "spec.template"), 1)], _number(manifest["spec"].get("replicas"), 1)


def _stateful_set(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    return [JobPodSet("main", _field(manifest, "spec.template"), _number(manifest["spec"].get("replicas"), 1))], 1


def _pod(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    return [JobPodSet("main", {"metadata": manifest.get("metadata"), "spec": _field(manifest, "spec")}, 1)], 1


def _pod_group(manifest: Json) -> tuple[Sequence[JobPodSet], int]:
    """Pods that ask for the same make a pod set; the group says how many pods it has in all, and is whole then."""
    by_spec: dict[bytes, list[Json]] = {}
    for pod in manifest["pods"]:
        by_spec.setdefault(msgspec.json.encode(_role(pod), order="sorted"), []).append(pod)
    total = _mapping(_mapping(manifest.get("metadata")).get("annotations")).get(f"{KUEUE}/pod-group-total-count")
    if total and int(total) != len(manifest["pods"]):
        raise ValueError(f"the group has {len(manifest['pods'])} of its {total} pods")
    return [
        JobPodSet(f"role-{number}", {"metadata": pods[0].get("metadata"), "spec": pods[0]["spec"]}, len(pods))
        for number, pods in enumerate(by_spec.values())
    ], 1


def _role(pod: Json) -> Json:
    spec = _field(pod, "spec")
    shape = {key: spec.get(key) for key in ("nodeSelector", "affinity", "tolerations", "priority", "overhead")}
    for name in ("containers", "initContainers"):
        shape[name] = [_mapping(each.get("resources")) for each in spec.get(name) or ()]
    return shape


_KINDS: Mapping[tuple[str, str], PodSetsOf] = {
    ("batch", "Job"): _batch_job,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("kubeflow.org", "PyTorchJob"): _replica_specs("pytorchReplicaSpecs", "Master", "Worker"),
    ("kubeflow.org", "TFJob"): _replica_specs("tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    ("kubeflow.org", "XGBoostJob"): _replica_specs("xgbReplicaSpecs", "Master", "Worker"),
    ("kubeflow.org", "PaddleJob"): _replica_specs("paddleReplicaSpecs", "Master", "Worker"),
    ("kubeflow.org", "JAXJob"): _replica_specs("jaxReplicaSpecs", "Worker"),
    ("kubeflow.org", "MPIJob"): _replica_specs("mpiReplicaSpecs", "Launcher", "Worker"),
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayCluster"): _ray_cluster,
    ("ray.io", "RayService"): _ray_service,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("", "Pod"): _pod,
}
"""The kinds whose pod sets are known, by API group."""
