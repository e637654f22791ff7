"""Workloads that run: found by name, scaled as their controllers would, and deleted."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from berth.api.meta import ObjectMeta, Struct
from berth.api.near_names import nearest
from berth.api.node import ReplicaSet
from berth.api.pod import PersistentVolumeClaimVolume, Pod
from berth.api.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from berth_workbench.simulation.budgets import SCALED_KINDS, TEMPLATE_HASH, is_active, is_healthy, owner_of
from berth_workbench.simulation.changes import ChangeError, ClusterChange, DeleteWorkload, Scale, WorkloadChange
from berth_workbench.simulation.claims import made_claims, templates_behind
from berth_workbench.simulation.cluster import pending_again
from berth_workbench.simulation.site import Departure, Site
from berth_workbench.simulation.workloads import WorkloadManifest, scaled
from berth_workloads.jobs import COMPLETION_INDEX, index_of, missing_indexes
from berth_workloads.replica_sets import Deletable, deletion_cost, pods_to_delete
from berth_workloads.stateful_sets import POD_INDEX_LABEL, POD_NAME_LABEL, ordinal_of

REVISION = "deployment.kubernetes.io/revision"


class RunningWorkload(msgspec.Struct, frozen=True):
    """A workload of the cluster: its pods, and the objects that own them directly."""

    kind: str
    key: str
    pods: tuple[Pod, ...]
    owners: tuple[str, ...]
    """`namespace/name` of what owns the pods: of a Deployment, its ReplicaSets, the newest last."""
    manifest: WorkloadManifest | None


def find_workload(site: Site, change: WorkloadChange) -> RunningWorkload | None:
    """Return the workload that a change is about; None where the cluster has none. Raises `ChangeError`."""
    by_owner = pods_by_owner(site)
    found = _by_namespace(site, change.kind, change.name, by_owner)
    if change.namespace:
        found = {key: owners for key, owners in found.items() if key.partition("/")[0] == change.namespace}
    if len(found) > 1 and f"default/{change.name}" in found:
        found = {f"default/{change.name}": found[f"default/{change.name}"]}
    if len(found) > 1:
        raise ChangeError(several(change, found))
    return next((_running(site, change.kind, key, owners, by_owner) for key, owners in found.items()), None)


PodsByOwner = Mapping[tuple[str, str], Sequence[Pod]]


def find_by_key(site: Site, kind: str, key: str, by_owner: PodsByOwner | None = None) -> RunningWorkload | None:
    """Return a workload of the cluster by kind and `namespace/name`, or None.

    Who looks for many gives the pods of the cluster by what owns them, as `pods_by_owner` returns them.
    """
    by_owner = pods_by_owner(site) if by_owner is None else by_owner
    owners = _by_namespace(site, kind, key.partition("/")[2], by_owner).get(key)
    return None if owners is None else _running(site, kind, key, owners, by_owner)


def owning_kind(kind: str) -> str:
    """Return the kind of what owns the pods of a workload of some kind."""
    return "ReplicaSet" if kind == "Deployment" else kind


def pods_by_owner(site: Site) -> dict[tuple[str, str], list[Pod]]:
    """Return the pods that something owns, by its kind and `namespace/name`."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in site.cluster.of(Pod):
        owner = owner_of(pod)
        if owner is not None:
            found.setdefault(owner, []).append(pod)
    return found


def _running(
    site: Site, kind: str, key: str, owners: Sequence[str], by_owner: Mapping[tuple[str, str], Sequence[Pod]]
) -> RunningWorkload:
    owning = owning_kind(kind)
    pods = [pod for owner in owners for pod in by_owner.get((owning, owner), ())]
    return RunningWorkload(kind, key, tuple(pods), tuple(owners), site.manifest(kind, key))


def _by_namespace(
    site: Site, kind: str, name: str, by_owner: Mapping[tuple[str, str], Sequence[Pod]]
) -> dict[str, list[str]]:
    """What owns the pods of the workloads of this name, by the workload's `namespace/name`."""
    found: dict[str, list[str]] = {}
    if kind != "Deployment":
        keys = [key for owning, key in by_owner if owning == kind and key.partition("/")[2] == name]
        keys += [key for key in site.documents_of(kind) if key.partition("/")[2] == name]
        keys += [key for owning, key in site.cluster.objects if owning == kind and key.partition("/")[2] == name]
        keys += [key for of_kind, key in site.last_pods if of_kind == kind and key.partition("/")[2] == name]
        return {key: [key] for key in dict.fromkeys(keys)}
    sets: dict[str, list[tuple[int, str]]] = {}
    for replica_set in site.cluster.of(ReplicaSet):
        owner = next((each for each in replica_set.metadata.owner_references if each.controller), None)
        if owner is not None and (owner.kind, owner.name) == (kind, name):
            key = f"{replica_set.metadata.namespace}/{replica_set.metadata.name}"
            sets.setdefault(replica_set.metadata.namespace, []).append((revision_of(replica_set), key))
    for (owning, key), pods in by_owner.items():
        namespace, _, set_name = key.partition("/")
        template_hash = pods[0].metadata.labels.get(TEMPLATE_HASH)
        is_its = owning == "ReplicaSet" and template_hash is not None and set_name == f"{name}-{template_hash}"
        if is_its and all(key != known for _, known in sets.get(namespace, ())):
            sets.setdefault(namespace, []).append((0, key))
    for namespace, numbered in sets.items():
        found[f"{namespace}/{name}"] = [key for _, key in sorted(numbered)]
    for key in (*site.documents_of(kind), *(key for of_kind, key in site.last_pods if of_kind == kind)):
        if key.partition("/")[2] == name:
            found.setdefault(key, [])
    return found


def _scale(site: Site, change: Scale) -> None:
    running = find_workload(site, change)
    if running is None:
        named = (change.kind, change.namespace, change.name)
        site.awaited.pop(named, None)  # so that the last one counts
        site.awaited[named] = change  # one of the manifests, which come after the changes
        return
    scale(site, running, change.replicas, f"{change}")


def note_manifests(site: Site, manifests: Iterable[WorkloadManifest]) -> None:
    """Give scales that came before the manifests of their workloads to those workloads. Raises `ChangeError`."""
    if not site.awaited:
        return
    namespaces: dict[tuple[str, str], dict[str, None]] = {}
    for manifest in manifests:
        namespaces.setdefault((manifest.kind, manifest.name), {})[manifest.namespace] = None
    for named, change in list(site.awaited.items()):
        found = namespaces.get((change.kind, change.name), {})
        namespace = change.namespace or ("default" if "default" in found else next(iter(found), ""))
        if namespace not in found:
            continue
        if not change.namespace and namespace != "default" and len(found) > 1:
            raise ChangeError(several(change, (f"{each}/{change.name}" for each in found)))
        site.replicas[change.kind, f"{namespace}/{change.name}"] = change.replicas
        del site.awaited[named]


def several(change: WorkloadChange, keys: Iterable[str]) -> str:
    """Return what is said where several workloads may be meant."""
    return f"{change}: there are several: {', '.join(sorted(keys))}; write KIND/NAMESPACE/NAME"


def refuse_awaited(site: Site) -> None:
    """Raise `ChangeError` where a workload was scaled that is neither in the cluster nor among the manifests."""
    for change in site.awaited.values():
        key = f"{change.namespace or 'default'}/{change.name}"
        hint = nearest(change.name, _names_of(site, change.kind))
        raise ChangeError(f"{change}: neither the cluster nor a manifest has a {change.kind} {key}{hint}")


def _names_of(site: Site, kind: str) -> set[str]:
    """Return the names of the workloads of a kind, as far as they are easily known: to say which one was meant."""
    keys = {*site.documents_of(kind), *(key for owning, key in pods_by_owner(site) if owning == kind)}
    owners = [owner for each in site.cluster.of(ReplicaSet) for owner in each.metadata.owner_references]
    return {key.partition("/")[2] for key in keys} | {owner.name for owner in owners if owner.kind == kind}


def scale(site: Site, running: RunningWorkload, replicas: int, by: str) -> None:
    """Give a workload another number of pods; the scheduler has not placed them yet. Raises `ChangeError`."""
    active = tuple(pod for pod in running.pods if is_counted(running.kind, pod))
    if running.pods and not min(len(active), replicas):
        site.last_pods[running.kind, running.key] = _model(running)
    running = msgspec.structs.replace(running, pods=active)
    site.count_new(replicas - len(running.pods), by)
    site.replicas[running.kind, running.key] = replicas
    site.cluster.forget_refused((owning_kind(running.kind), owner) for owner in running.owners)
    if replicas < len(running.pods):
        for pod in surplus(running, len(running.pods) - replicas):
            if pod.spec.node_name:
                site.departures.append(Departure(pod.key, pod.spec.node_name, by))
            site.cluster.delete("Pod", pod.key)
    elif replicas > len(running.pods):
        site.cluster.create(_more_pods(site, running, replicas - len(running.pods), by))
    note_replicas(site, running.kind, running.key)


def is_counted(kind: str, pod: Pod) -> bool:
    """Whether a controller counts a pod among those that it has.

    A Job has done what its pods have done, and of a StatefulSet one that ends comes back under the same ordinal.
    """
    return kind in ("Job", "StatefulSet") or is_active(pod)


def note_replicas(site: Site, kind: str, key: str) -> None:
    """Have the objects that own a workload's pods ask for as many as they have; budgets count by what is asked for."""
    now = find_by_key(site, kind, key)
    if now is None:
        return
    owning = owning_kind(kind)
    has = Counter(owner_of(pod) for pod in now.pods if is_counted(kind, pod))
    for owner in now.owners:
        found = site.cluster.objects.get((owning, owner))
        if isinstance(found, SCALED_KINDS) and found.spec.replicas != has[owning, owner]:
            site.cluster.put(scaled(found, has[owning, owner]))


def surplus(running: RunningWorkload, count: int) -> list[Pod]:
    """Return the pods that a controller deletes when there are so many too many.

    A StatefulSet's are those with the highest ordinals; of a Deployment, those of older ReplicaSets go first.
    """
    if running.kind == "StatefulSet":
        name = running.key.partition("/")[2]
        ordinals = {pod.key: ordinal_of(pod.metadata.name, name) for pod in running.pods}
        return sorted(running.pods, key=lambda pod: ordinals[pod.key] or 0, reverse=True)[:count]
    age = {key: number for number, key in enumerate(running.owners)}
    ranked = pods_to_delete(
        sorted(running.pods, key=lambda pod: (pod.metadata.creation_timestamp or "~", pod.metadata.name), reverse=True),
        len(running.pods),
        _deletable,
        Counter(pod.spec.node_name for pod in running.pods),
    )
    return sorted(ranked, key=lambda pod: age.get((owner_of(pod) or ("", ""))[1], 0))[:count]


def _deletable(pod: Pod) -> Deletable:
    """A pod that is healthy runs; of one that is not, a snapshot says the phase. Structs of pods hold no times."""
    is_ready = is_healthy(pod)
    cost = deletion_cost(pod.metadata.annotations)
    return Deletable(pod.spec.node_name, "Running" if is_ready else pod.status.phase, is_ready, cost)


def _more_pods(site: Site, running: RunningWorkload, count: int, by: str) -> list[Struct]:
    """Pods like the newest that run, so that what webhooks have added is in them; of the manifest where none runs."""
    taken = {pod.key for pod in site.cluster.of(Pod)}
    model = _model(running) if running.pods else site.last_pods.get((running.kind, running.key))
    if model is None:
        manifest = _template_of(site, running)
        if manifest is None:
            raise ChangeError(f"{by}: neither a pod nor a template of {running.kind} {running.key} is known")
        made: list[Struct] = list(manifest.objects(count))
        for pod, claims in manifest.pods(count, taken=taken):
            complete, own = made_claims(pod, site.templates)
            made += (*claims, *own, complete)
        return [each for each in made if isinstance(each, Pod) or _is_new(site, each)]
    found: list[Struct] = []
    for name in _new_names(running, model, count, taken):
        found += _pod_like(site, model, name, running.kind)
    return found


def _model(running: RunningWorkload) -> Pod:
    """What more pods of a workload are like: one of its newest."""
    newest = running.owners[-1] if running.owners else ""
    return next((pod for pod in running.pods if (owner_of(pod) or ("", ""))[1] == newest), running.pods[-1])


def _template_of(site: Site, running: RunningWorkload) -> WorkloadManifest | None:
    """What makes the pods of a workload that has none: of a Deployment, its newest ReplicaSet, if there is one."""
    if running.kind != "Deployment" or not running.owners:
        return running.manifest
    newest = site.cluster.objects.get(("ReplicaSet", running.owners[-1]))
    if running.manifest is not None and newest is not None:
        running.manifest.go_on_with(newest)
    return site.manifest("ReplicaSet", running.owners[-1]) or running.manifest


def with_revision(site: Site, running: RunningWorkload, made: Any) -> Any:
    """Return a ReplicaSet that a rollout makes with its revision: one more than those that the Deployment has."""
    known = (site.cluster.objects.get(("ReplicaSet", owner)) for owner in running.owners)
    highest = max((revision_of(each) for each in known if each is not None), default=0)
    annotations = {**made.metadata.annotations, REVISION: str(highest + 1)}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=annotations))


def revision_of(replica_set: ReplicaSet) -> int:
    """Return how many ReplicaSets of its Deployment were newest up to this one; 0 where nobody says."""
    revision = replica_set.metadata.annotations.get(REVISION, "0")
    return int(revision) if revision.isdecimal() else 0


def _is_new(site: Site, obj: Any) -> bool:
    meta: ObjectMeta = obj.metadata
    return (type(obj).__name__, f"{meta.namespace}/{meta.name}") not in site.cluster.objects


def _new_names(running: RunningWorkload, model: Pod, count: int, taken: set[str]) -> Iterator[str]:
    base = running.key.partition("/")[2]
    if running.kind == "Deployment":
        base = (owner_of(model) or ("", running.key))[1].partition("/")[2]
    of_base = f"{model.metadata.namespace}/{base}"
    numbers = {ordinal_of(key, of_base) for key in taken}
    if COMPLETION_INDEX in model.metadata.labels:
        # A Job controller's own pods end in something made up, so that only the label tells the index.
        numbers |= {index_of(pod.metadata.labels.get(COMPLETION_INDEX)) for pod in running.pods}
    return (
        f"{base}-{number}" for number in missing_indexes(itertools.count(_first_number(running, model)), numbers, count)
    )


def _first_number(running: RunningWorkload, model: Pod) -> int:
    """The number of the first pod; the lowest there is or was where a StatefulSet's manifest does not say."""
    if running.manifest is not None:
        return running.manifest.first_ordinal
    if running.kind != "StatefulSet":
        return 0
    name = running.key.partition("/")[2]
    return min(ordinal_of(pod.metadata.name, name) or 0 for pod in running.pods or (model,))


def _pod_like(site: Site, model: Pod, name: str, kind: str) -> list[Struct]:
    """A pending pod like another, under a name of its own, and the claims that go with the name."""
    before, number = model.metadata.name, name.rpartition("-")[2]
    labels = dict(model.metadata.labels)
    for key in (POD_INDEX_LABEL, COMPLETION_INDEX):
        if key in labels:
            labels[key] = number
    if POD_NAME_LABEL in labels:
        labels[POD_NAME_LABEL] = name
    metadata = msgspec.structs.replace(
        pending_again(model).metadata,
        name=name,
        uid=f"Pod/{model.metadata.namespace}/{name}",
        labels=labels,
        creation_timestamp=None,
    )
    spec = msgspec.structs.replace(model.spec, node_name="")
    claims: list[Struct] = []
    if kind == "StatefulSet":
        volumes = []
        for volume in spec.volumes:
            used = volume.persistent_volume_claim
            if used is None or not used.claim_name.endswith(f"-{before}"):
                volumes.append(volume)
                continue
            claim_name = f"{used.claim_name.removesuffix(before)}{name}"
            replaced = PersistentVolumeClaimVolume(claim_name, used.read_only)
            volumes.append(msgspec.structs.replace(volume, persistent_volume_claim=replaced))
            claims += _claim_like(site, f"{model.metadata.namespace}/{used.claim_name}", claim_name)
        spec = msgspec.structs.replace(spec, volumes=tuple(volumes))
    templates = {
        **templates_behind(model, lambda of_kind, key: site.cluster.objects.get((of_kind, key))),
        **site.templates,
    }
    complete, own = made_claims(Pod(metadata=metadata, spec=spec), templates)
    return [*claims, *own, complete]


def _claim_like(site: Site, key: str, name: str) -> Iterator[Struct]:
    model: PersistentVolumeClaim | None = site.cluster.objects.get(("PersistentVolumeClaim", key))
    namespace = key.partition("/")[0]
    if model is None or ("PersistentVolumeClaim", f"{namespace}/{name}") in site.cluster.objects:
        return
    metadata = ObjectMeta(
        name=name, namespace=namespace, uid=f"PersistentVolumeClaim/{namespace}/{name}", labels=model.metadata.labels
    )
    yield PersistentVolumeClaim(
        metadata=metadata,
        spec=msgspec.structs.replace(model.spec, volume_name=""),
        status=PersistentVolumeClaimStatus(phase="Pending"),
    )


def _delete(site: Site, change: DeleteWorkload) -> None:
    running = find_workload(site, change)
    if running is None:
        hint = nearest(change.name, _names_of(site, change.kind))
        raise ChangeError(f"{change}: the cluster has no {change.kind} of this name{hint}")
    delete_workload(site, running)


def delete_workload(site: Site, running: RunningWorkload) -> None:
    """Delete a workload: its pods, and the objects that own them."""
    site.forget(running.kind, running.key)
    for pod in running.pods:
        site.cluster.delete("Pod", pod.key)
    owning = owning_kind(running.kind)
    site.cluster.forget_refused((owning, owner) for owner in running.owners)
    for key in running.owners:
        site.forget(owning, key)
        if (owning, key) in site.cluster.objects:
            site.cluster.delete(owning, key)


WORKLOAD_CHANGES: Mapping[type[ClusterChange], Callable[[Site, Any], object]] = MappingProxyType(
    {Scale: _scale, DeleteWorkload: _delete}
)
"""What carries each of them out."""
