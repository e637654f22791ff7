"""Applies manifests to a simulated cluster, as `kubectl apply` and the controllers would together.

What the cluster does not have yet is created. A workload that runs already is scaled where its template has not
changed, and rolled out otherwise: a Deployment within its maxSurge and maxUnavailable, a StatefulSet from its highest
ordinal down, a DaemonSet node by node. A rollout that gets stuck, since new pods find no room before old ones may go,
is noted on the site as broken.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from berth.api.meta import Struct
from berth.api.node import Node
from berth.api.pod import Affinity, Pod, PodSpec
from berth.simulation.budgets import is_healthy
from berth.simulation.changes import ChangeError
from berth.simulation.claims import made_claims
from berth.simulation.daemons import pinned_to
from berth.simulation.scaling import RunningWorkload, find_by_key, note_manifests, ordinal, scale
from berth.simulation.site import Broken, Departure, Site
from berth.simulation.workloads import POD_MAKERS, Expansion, WorkloadManifest, expand
from berth.snapshot.documents import Document

ROLLOUT_STUCK = "RolloutStuck"
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
    for document in documents:
        if document.kind not in POD_MAKERS:
            fresh.append(document)
            continue
        manifest = WorkloadManifest(document, namespace)
        manifests.append(manifest)
        found = find_by_key(site, manifest.kind, manifest.key)
        if found is None or not found.pods:
            fresh.append(document)
        else:
            running.append((found, manifest))
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
    for workload, manifest in running:
        roll_out(site, workload, manifest)
        site.settle()
    return expansion


def _is_kept(site: Site, obj: Any) -> bool:
    kind = type(obj).__name__
    return kind in KEPT_AS_THEY_ARE and (kind, f"{obj.metadata.namespace}/{obj.metadata.name}") in site.cluster.objects


def roll_out(site: Site, running: RunningWorkload, manifest: WorkloadManifest) -> None:
    """Bring a running workload to what its new manifest says."""
    wanted = site.replicas.get((running.kind, running.key), manifest.replicas)
    if running.kind not in _ROLLED_OUT or not _has_changed(running, manifest):
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


def _has_changed(running: RunningWorkload, manifest: WorkloadManifest) -> bool:
    """Whether the template is another one; pods that run say so where the cluster's own manifest is not known."""
    if running.manifest is not None:
        return running.manifest.template != manifest.template
    return _comparable(running.pods[-1].spec) != _comparable(manifest.template.spec)


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
    surge, unavailable = _rolling_bounds(manifest, wanted)
    for obj in manifest.objects():
        site.cluster.put(obj)
    coming = list(manifest.pods(wanted, taken=site.cluster.pods))
    old: list[Pod] = list(running.pods)
    new: list[Pod] = []
    while True:
        more = min(len(coming), wanted + surge - len(old) - len(new))
        for pod, claims in coming[: max(more, 0)]:
            complete, own = made_claims(pod, site.templates)
            site.cluster.create([*claims, *own, complete])
            new.append(complete)
        del coming[: max(more, 0)]
        site.settle()
        old, new = _now(site, old), _now(site, new)
        spare = sum(map(is_healthy, (*old, *new))) - (wanted - unavailable)
        leaving = [pod for pod in old if not is_healthy(pod)]
        leaving += [pod for pod in old if is_healthy(pod)][: max(spare, 0)]
        for pod in leaving:
            _leave(site, pod, by)
        old = _now(site, old)
        if not coming and not old:
            return
        if more <= 0 and not leaving:
            placed = sum(map(is_healthy, new))
            _note_stuck(
                site, running, f"{placed} of {wanted} new pods have a node, and {len(old)} old pods may not go", new
            )
            return


def _rolling_bounds(manifest: WorkloadManifest, wanted: int) -> tuple[int, int]:
    """How many pods more than wanted there may be, and how many fewer may be available."""
    strategy = manifest.spec.get("strategy")
    strategy = strategy if isinstance(strategy, Mapping) else {}
    if strategy.get("type") == "Recreate":
        return 0, wanted
    given = strategy.get("rollingUpdate")
    given = given if isinstance(given, Mapping) else {}
    surge = _share(given.get("maxSurge", "25%"), wanted, math.ceil)
    unavailable = _share(given.get("maxUnavailable", "25%"), wanted, math.floor)
    return surge, unavailable if surge or unavailable else 1


def _share(given: Any, total: int, rounded: Any) -> int:
    if isinstance(given, int):
        return max(given, 0)
    text = str(given).removesuffix("%")
    return int(rounded(int(text) * total / 100)) if text.isdecimal() else 0


def _note_stuck(site: Site, running: RunningWorkload, how: str, new: Sequence[Pod]) -> None:
    pending = next((pod.key for pod in new if not pod.spec.node_name), "")
    why = f"; pod {pending}: {site.cluster.messages.get(pending, 'is not placed')}" if pending else ""
    site.broken.append(Broken(running.kind, running.key, ROLLOUT_STUCK, f"the rollout is stuck: {how}{why}"))


def _roll_stateful(site: Site, running: RunningWorkload, manifest: WorkloadManifest, wanted: int, by: str) -> None:
    scale(site, running, wanted, by)
    site.settle()
    fresh = {pod.key: (pod, claims) for pod, claims in manifest.pods(wanted)}
    known = {pod.key for pod in running.pods}
    for key in sorted((key for key in fresh if key in known), key=ordinal, reverse=True):
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
    by_node = {pinned_to(pod): pod for pod in running.pods}
    for node in list(site.cluster.of(Node)):
        before = by_node.get(node.metadata.name)
        if before is not None:
            _leave(site, before, by)
        after = manifest.daemon_pod(node)
        if after is not None:
            _replace(site, after, ())
