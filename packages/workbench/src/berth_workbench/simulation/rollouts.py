"""Applies manifests to a simulated cluster, as `kubectl apply` and the controllers would together.

What the cluster does not have yet is created. A workload that runs already is scaled where its template has not
changed, and rolled out otherwise: a Deployment within its maxSurge and maxUnavailable, a StatefulSet from its highest
ordinal down, a DaemonSet node by node. A rollout that gets stuck, since new pods find no room before old ones may go,
is noted on the site as broken.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from berth.api.meta import Struct
from berth.api.node import Node
from berth.api.pod import Affinity, Pod, PodSpec
from berth.api.resources import RESOURCES
from berth_workbench.simulation.budgets import is_active, is_healthy
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.simulation.claims import made_claims
from berth_workbench.simulation.daemons import pinned_to
from berth_workbench.simulation.scale import (
    RunningWorkload,
    delete_workload,
    find_by_key,
    is_counted,
    note_manifests,
    note_replicas,
    owning_kind,
    pods_by_owner,
    scale,
    surplus,
    with_revision,
)
from berth_workbench.simulation.site import REFUSED, Broken, Departure, Site
from berth_workbench.simulation.workloads import (
    POD_MAKERS,
    REPLICATED,
    Expansion,
    WorkloadManifest,
    decoded,
    expand,
)
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.kept_fields import is_kept_annotation
from berth_workloads.deployments import (
    DEFAULT_SHARE,
    RolloutBounds,
    SizedSet,
    new_set_size,
    removable_old_pods,
    rolling_update,
    without_surplus,
    without_unavailable,
)
from berth_workloads.int_or_percent import scaled as scaled_number
from berth_workloads.stateful_sets import rollout_order

ROLLOUT_STUCK = "RolloutStuck"
MADE_AS_OBJECTS = ("Pod", "PersistentVolumeClaim", "ResourceClaim")
"""Kinds that the cluster admits itself, one by one as they are made."""
KEPT_AS_THEY_ARE = ("PersistentVolumeClaim", "PersistentVolume", "ResourceClaim")
"""Kinds whose objects in the cluster know more than a manifest does: what they are bound to."""
_ROLLED_OUT = ("Deployment", "StatefulSet", "DaemonSet")
_DEFAULT_GRACE_S = 30


def apply(site: Site, documents: Iterable[Document], namespace: str = "default") -> Expansion:
    """Apply manifests, and let the scheduler place what they come to. Raises `ManifestError`, `ChangeError`.

    Returns what was created; pods that a rollout has made are not among it.
    """
    fresh: list[Document] = []
    manifests: list[WorkloadManifest] = []
    running: list[tuple[RunningWorkload, WorkloadManifest]] = []
    given = site.cluster.add_followed(documents, namespace)
    by_owner = pods_by_owner(site)
    for document in site.cluster.admission.take(given, namespace):
        if document.kind not in POD_MAKERS:
            if document.kind in MADE_AS_OBJECTS or not _is_refused(site, document, namespace):
                fresh.append(document)
            continue
        manifest = WorkloadManifest(document, namespace)
        manifests.append(manifest)
        known = find_by_key(site, manifest.kind, manifest.key, by_owner)
        if known is None or not known.pods:
            if known is not None or not _is_refused(site, document, namespace):
                fresh.append(document)
        else:
            running.append((known, manifest))
    note_manifests(site, manifests)
    cluster = site.cluster
    expansion = expand(
        fresh,
        nodes=list(cluster.of(Node)),
        templates=site.templates,
        taken=cluster.pods,
        replicas=site.replicas,
        groups=[key for kind, key in cluster.objects if kind == "PodGroup"],
        namespace=namespace,
    )
    site.count_new(len(expansion.pods), "the manifests")
    for pod in expansion.pods:
        if ("Pod", pod.key) in cluster.objects:
            raise ChangeError(f"Pod {pod.key} is in the cluster already; give it another name, or delete it there")
    site.templates |= expansion.templates
    cluster.create([*(obj for obj in expansion.objects if not _is_kept(site, obj)), *expansion.pods])
    site.settle()
    for found, manifest in running:
        workload: RunningWorkload | None = found
        # A manifest before it may have its pods, too, and pods are preempted for others.
        if any(("Pod", pod.key) not in cluster.objects for pod in found.pods):
            workload = find_by_key(site, found.kind, found.key)
        if workload is None or _is_up_to_date(site, workload, manifest):
            continue
        roll_out(site, workload, manifest)
        note_replicas(site, workload.kind, workload.key)
        site.settle()
    site.applied = {**site.applied, **{(each.kind, each.key): each.document for each in manifests}}
    return expansion


def take_away(site: Site, documents: Iterable[Document], namespace: str = "default") -> None:
    """Delete the objects of manifests, as `kubectl delete` and the controllers would together; claims are kept.

    Afterwards the scheduler places what has room now. What the cluster does not have is passed over.
    """
    cluster = site.cluster
    for document in cluster.admission.drop(documents, namespace):
        kind, name = document.kind, document.name
        known = RESOURCES.get(kind)
        is_namespaced = known is None or known.namespaced
        key = f"{document.namespace or namespace}/{name}" if is_namespaced else name
        if kind in POD_MAKERS:
            running = find_by_key(site, "Job" if kind == "CronJob" else kind, key)
            if running is not None:
                delete_workload(site, running)
        elif kind == "Namespace":
            for pod in [pod for pod in cluster.of(Pod) if pod.metadata.namespace == name]:
                cluster.delete("Pod", pod.key)
        if kind not in (*KEPT_AS_THEY_ARE, *POD_MAKERS) and (kind, key) in cluster.objects:
            cluster.delete(kind, key)
    site.settle()


def _is_refused(site: Site, document: Document, namespace: str) -> bool:
    """Whether the API server refuses a new object that is neither pod nor claim; then that is noted as broken."""
    if document.kind == "Namespace":
        site.cluster.put(decoded(document))  # at once, since what comes after it may be in it
    namespace = document.namespace or namespace
    if (document.kind, f"{namespace}/{document.name}") in site.cluster.objects:
        return False
    why = site.cluster.admission.note_made(document, namespace)
    if why:
        site.broken.append(Broken(document.kind, f"{namespace}/{document.name}", REFUSED, f"is refused: {why}"))
    return bool(why)


def _is_kept(site: Site, obj: Any) -> bool:
    kind = type(obj).__name__
    return kind in KEPT_AS_THEY_ARE and (kind, f"{obj.metadata.namespace}/{obj.metadata.name}") in site.cluster.objects


def roll_out(site: Site, running: RunningWorkload, manifest: WorkloadManifest) -> None:
    """Bring a running workload to what its new manifest says."""
    wanted = _wanted(site, running, manifest)
    if running.kind not in _ROLLED_OUT or not _has_changed(site, running, manifest):
        if wanted is not None:
            scale(site, running, wanted, f"scaling of {running.kind} {running.key}")
        return
    by = f"rollout of {running.kind} {running.key}"
    if running.kind == "DaemonSet":
        _roll_daemons(site, running, manifest, by)
        return
    assert wanted is not None, "only a DaemonSet has no number of replicas"
    site.count_new(wanted, by)
    if running.kind == "StatefulSet":
        _roll_stateful(site, running, manifest, wanted, by)
    else:
        _roll_deployment(site, running, manifest, wanted, by)


def _is_up_to_date(site: Site, running: RunningWorkload, manifest: WorkloadManifest) -> bool:
    """Whether a workload is as its manifest says, so that there is nothing to do."""
    wanted = _wanted(site, running, manifest)
    has = sum(is_counted(running.kind, pod) for pod in running.pods)
    return wanted in (None, has) and not _has_changed(site, running, manifest)


def _wanted(site: Site, running: RunningWorkload, manifest: WorkloadManifest) -> int | None:
    """Return how many pods a manifest asks for; None for a DaemonSet."""
    if running.kind in REPLICATED and _leaves_number(site, running, manifest):
        return sum(map(is_active, running.pods))
    return site.replicas.get((running.kind, running.key), manifest.replicas)


def _leaves_number(site: Site, running: RunningWorkload, manifest: WorkloadManifest) -> bool:
    """Whether a manifest says nothing of replicas, and did not before, so that they are somebody else's to set."""
    named = running.kind, running.key
    before = site.applied.get(named)
    is_said = before is not None and "replicas" in (before.manifest.get("spec") or {})
    return manifest.spec.get("replicas") is None and named not in site.replicas and not is_said


def _has_changed(site: Site, running: RunningWorkload, manifest: WorkloadManifest) -> bool:
    """Whether the template is another one; pods that run say so where the cluster's own manifest is not known."""
    before = running.manifest
    if before is not None and (running.kind, running.key) in site.applied:
        return before.template_hash != manifest.template_hash
    if before is not None:
        known = before.template.metadata.annotations
        return _stored(before.template, known) != _stored(manifest.template, known)
    template, why = site.cluster.admission.complete(manifest.template)
    return bool(why) or _comparable(running.pods[-1].spec) != _comparable(template.spec)


def _stored(template: Pod, known: Mapping[str, str]) -> Pod:
    """Return a template as an API server stores it, with only those annotations that can be compared.

    These are the ones that are known beside its own, without those that no snapshot keeps.
    """
    own = template.metadata.annotations
    compared = {key: text for key, text in own.items() if key in known or is_kept_annotation(key)}
    metadata = msgspec.structs.replace(template.metadata, annotations={**known, **compared})
    grace_s = template.spec.termination_grace_period_seconds
    spec = msgspec.structs.replace(
        template.spec, termination_grace_period_seconds=_DEFAULT_GRACE_S if grace_s is None else grace_s
    )
    return msgspec.structs.replace(template, metadata=metadata, spec=spec)


def _comparable(spec: PodSpec) -> PodSpec:
    """A spec without what admission, controllers and the scheduler put into it."""
    affinity = spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        affinity = msgspec.structs.replace(affinity, node_affinity=None)
    return msgspec.structs.replace(
        spec,
        node_name="",
        priority=None,
        preemption_policy=None,
        affinity=None if affinity == Affinity() else affinity,
        volumes=tuple(each for each in spec.volumes if each.persistent_volume_claim is None),
        termination_grace_period_seconds=spec.termination_grace_period_seconds or _DEFAULT_GRACE_S,
    )


def _leave(site: Site, pod: Pod, by: str) -> None:
    if pod.spec.node_name:
        site.departures.append(Departure(pod.key, pod.spec.node_name, by))
    site.cluster.delete("Pod", pod.key)


def _now(site: Site, pods: Iterable[Pod]) -> list[Pod]:
    """The pods as they are now, without those that are gone."""
    found = (site.cluster.objects.get(("Pod", pod.key)) for pod in pods)
    return [pod for pod in found if pod is not None]


def _roll_deployment(site: Site, running: RunningWorkload, manifest: WorkloadManifest, wanted: int, by: str) -> None:
    for obj in manifest.objects(wanted):
        site.cluster.put(with_revision(site, running, obj))
    coming = list(manifest.pods(wanted, taken=site.cluster.pods))
    old: list[Pod] = list(running.pods)
    new: list[Pod] = []
    site.cluster.forget_refused((owning_kind(running.kind), owner) for owner in running.owners)
    strategy = _mapping(manifest.spec.get("strategy"))
    bounds = _rolling_bounds(_mapping(strategy.get("rollingUpdate")), wanted)
    if strategy.get("type") == "Recreate":
        for pod in old:
            _leave(site, pod, by)
        old = []
    while True:
        more = min(len(coming), new_set_size(bounds, len(old) + len(new), len(new)) - len(new))
        made = _make_all(site, coming[: max(more, 0)])
        new += made
        del coming[: len(made)]
        site.settle()
        old, new = _now(site, old), _now(site, new)
        leaving = _leaving(running, bounds, old, new)
        for pod in leaving:
            _leave(site, pod, by)
        old = _now(site, old)
        if not coming and not old:
            return
        if not made and not leaving:
            placed = sum(map(is_healthy, new))
            how = f"{placed} of {wanted} new pods have a node, and {len(old)} old pods may not go"
            _note_stuck(site, running, how, [*new, *(pod for pod, _ in coming)])
            return


def _make_all(site: Site, coming: Iterable[tuple[Pod, tuple[Struct, ...]]]) -> list[Pod]:
    """Make pods up to the first that is refused, with which a controller begins the next time; return those made."""
    made = []
    for pod, claims in coming:
        complete, own = made_claims(pod, site.templates)
        site.cluster.create([*claims, *own, complete])
        if pod.key in site.cluster.refused:
            break
        made.append(complete)
    return made


def _leaving(running: RunningWorkload, bounds: RolloutBounds, old: Sequence[Pod], new: Sequence[Pod]) -> list[Pod]:
    """The old pods that go now: first those that are not healthy, then as many others as may be missing."""
    placed, kept = sum(map(is_healthy, new)), sum(map(is_healthy, old))
    budget = removable_old_pods(bounds, len(old) + len(new), SizedSet(len(new), placed))
    if budget <= 0:
        return []
    (left,) = without_surplus(without_unavailable([SizedSet(len(old), kept)], budget), kept + placed, bounds)
    ranked = surplus(msgspec.structs.replace(running, pods=tuple(old)), len(old))
    return sorted(ranked, key=is_healthy)[: len(old) - left]


def _rolling_bounds(given: Mapping[str, Any], wanted: int) -> RolloutBounds:
    surge, unavailable = (given.get(name, DEFAULT_SHARE) for name in ("maxSurge", "maxUnavailable"))
    return rolling_update(
        surge if isinstance(surge, int | str) else 0, unavailable if isinstance(unavailable, int | str) else 0, wanted
    )


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def _note_stuck(site: Site, running: RunningWorkload, how: str, new: Sequence[Pod]) -> None:
    pending = next((pod.key for pod in new if not pod.spec.node_name), "")
    refused = site.cluster.refused.get(pending)
    said = refused.why if refused is not None else site.cluster.messages.get(pending, "is not placed")
    why = f"; pod {pending}: {said}" if pending else ""
    site.broken.append(Broken(running.kind, running.key, ROLLOUT_STUCK, f"the rollout is stuck: {how}{why}"))


def _roll_stateful(site: Site, running: RunningWorkload, manifest: WorkloadManifest, wanted: int, by: str) -> None:
    scale(site, running, min(wanted, len(running.pods)), by)
    site.replicas[running.kind, running.key] = wanted
    fresh = {pod.key: (pod, claims) for pod, claims in manifest.pods(wanted)}
    known = {pod.key for pod in running.pods}
    for key in (key for key in fresh if key not in known):
        _replace(site, *fresh[key])  # ordinals that are new are of the new template
    site.settle()
    strategy = _mapping(manifest.spec.get("updateStrategy"))
    if strategy.get("type") == "OnDelete":
        return
    partition = _mapping(strategy.get("rollingUpdate")).get("partition") or 0
    ordinals = rollout_order(manifest.first_ordinal, wanted, partition if isinstance(partition, int) else 0)
    for key in (key for ordinal in ordinals if (key := f"{running.key}-{ordinal}") in known):
        before: Pod | None = site.cluster.objects.get(("Pod", key))
        if before is not None:
            _leave(site, before, by)
        pod = _replace(site, *fresh[key])
        site.settle()
        if not any(each.spec.node_name for each in _now(site, [pod])):
            _note_stuck(site, running, f"pod {key} has no node, and those of lower ordinals wait for it", [pod])
            return


def _replace(site: Site, pod: Pod, claims: Sequence[Struct]) -> Pod:
    complete, own = made_claims(
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.uid}/new")),
        site.templates,
    )
    site.cluster.create([*(each for each in claims if not _is_kept(site, each)), *own, complete])
    return complete


def _roll_daemons(site: Site, running: RunningWorkload, manifest: WorkloadManifest, by: str) -> None:
    """Replace the pod of each node, of as many nodes at a time as may be without one; that may end it early."""
    by_node = {pinned_to(pod): pod for pod in running.pods}
    after = {node.metadata.name: manifest.daemon_pod(node) for node in site.cluster.of(Node)}
    for name, before in by_node.items():
        if after.get(name) is None:
            _leave(site, before, by)
    coming = {name: pod for name, pod in after.items() if pod is not None}
    for name, pod in coming.items():
        if name not in by_node:
            _replace(site, pod, ())
    strategy = _mapping(manifest.spec.get("updateStrategy"))
    if strategy.get("type") == "OnDelete":
        return
    rolling = _mapping(strategy.get("rollingUpdate"))
    shares = (
        share if isinstance(share := rolling.get(name), int | str) else 0 for name in ("maxUnavailable", "maxSurge")
    )
    at_once = max(1, *(scaled_number(share, len(coming), round_up=True) for share in shares))
    # Those without a pod that runs come first: nobody misses what they replace.
    left = sorted(coming.keys() & by_node.keys(), key=lambda name: (bool(by_node[name].spec.node_name), name))
    made: list[Pod] = []
    while left:
        missing = [pod for pod in _now(site, made) if not pod.spec.node_name]
        room = at_once - len(missing)
        if room <= 0:
            _note_stuck(site, running, f"{len(left)} old pods may not go", missing)
            return
        for name in left[:room]:
            if ("Pod", by_node[name].key) in site.cluster.objects:
                _leave(site, by_node[name], by)
            made.append(_replace(site, coming[name], ()))
        del left[:room]
        site.settle()
