"""Objects beside the pod that could change: claims, its group, how many replicas there are, and what plugins name."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np

from berth.api.codec import ObjectError
from berth.api.pod import Pod, PodResourceClaim
from berth.core.api_calls import merged
from berth.decisions.by_plugins import remedies_for
from berth.state.pod_groups import POD_GROUP
from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.needs import PodQuestion, setting
from berth_workbench.planning.help.patches import document_of
from berth_workbench.planning.help.proposals import (
    Proposal,
    of_device_claims,
    of_followed_object,
    of_object,
    of_replicas,
)
from berth_workbench.planning.help.result import SMALLER
from berth_workbench.simulation.workloads import REPLICATED

TRIED = 64
"""So many classes are tried at most."""
REMEDIES_TRIED = 8
SMALLER_COST = 10.0
"""What it costs that a gang does with one pod fewer than it has asked for: as much as a node, and to be told last."""
HOSTNAME = "kubernetes.io/hostname"
PLACES = {HOSTNAME: "nodes", "topology.kubernetes.io/zone": "zones", "topology.kubernetes.io/region": "regions"}


def change_objects(findings: HelpFindings) -> None:
    """Find what could be changed of claims, of the pod's group, and of what plugins follow."""
    question = findings.question
    for use in question.info.spec.resource_claims:
        _ask_for_fewer_devices(findings, use)
    for proposal in (*_other_classes(question), *_smaller_group(question), *_of_plugins(question)):
        findings.add_first([proposal])
    findings.add_first(_enough_replicas(question))


def _claim_name(pod: Pod, use: PodResourceClaim) -> str | None:
    """Return the name of the claim that a pod has for what another one like it uses."""
    made = (each.resource_claim_name for each in pod.status.resource_claim_statuses if each.name == use.name)
    return use.resource_claim_name or next(made, None)


def _volume_claim_names(question: PodQuestion) -> list[str]:
    volumes = question.info.spec.volumes
    return [each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim is not None]


def _own(question: PodQuestion, kind: str, names: list[str]) -> Iterator[Any]:
    for name in names:
        found = question.filters.core.objects.get(kind, name, question.info.namespace)
        if found is not None:
            yield found


def _ask_for_fewer_devices(findings: HelpFindings, use: PodResourceClaim) -> None:
    """Find for how many devices each request of a claim could ask instead.

    Claims that are made of a template are asked about together: those of all pods that wait like this one.
    """
    pods = findings.question.group.alike
    names = dict.fromkeys(name for pod in pods for name in [_claim_name(pod, use)] if name)
    claims = list(_own(findings.question, "ResourceClaim", list(names)))

    def fewer(index: int, by: int) -> Proposal | None:
        request = claims[0].spec.devices.requests[index]
        count = request.exactly.count - by
        what = f"ask for {count} instead of {request.exactly.count} devices in request {request.name}"
        edit = setting("spec", "devices", "requests", index, "exactly", "count", to=count)
        return of_device_claims(claims, use.resource_claim_template_name or "", pods, what, edit)

    for index, request in enumerate(claims[0].spec.devices.requests if claims else ()):
        if request.exactly is not None and request.exactly.allocation_mode == "ExactCount":
            findings.add_least(partial(fewer, index), request.exactly.count - 1)


def _other_classes(question: PodQuestion) -> Iterator[Proposal | None]:
    """Yield the storage classes that the pod's unbound claims could have instead."""
    classes = sorted(each.metadata.name for each in question.filters.core.objects.list("StorageClass"))
    unbound = (claim for claim in _own(question, "PersistentVolumeClaim", _volume_claim_names(question))
               if not claim.spec.volume_name)  # fmt: skip
    for claim in unbound:
        for other in [each for each in classes if each != claim.spec.storage_class_name][:TRIED]:
            edit = setting("spec", "storageClassName", to=other)
            yield of_object(claim, f"use the StorageClass {other}", edit, "storageClass")


def _smaller_group(question: PodQuestion) -> Iterator[Proposal | None]:
    """Yield the number with which the pod's group would do: where members are missing, or have no place."""
    group, gang = question.group, question.group.gang
    if gang is None:
        return
    count = group.size if group.size < gang.needed else len(group.standing) + len(group.running)
    if not 0 < count < gang.needed:
        return
    declared = question.filters.cluster.objects[gang.kind, gang.key]
    what, cost = (
        f"lower {gang.field} from {gang.needed} to {count}",
        0.0 if count == group.size else SMALLER_COST * (gang.needed - count),
    )
    if gang.kind == POD_GROUP:
        edit = setting("spec", "schedulingPolicy", "gang", "minCount", to=count)
        proposal = of_object(declared, what, edit, SMALLER)
    else:
        resource = next(each for each in question.filters.core.resources if each.name == gang.kind)
        patch = {"spec": {"minMember": count}}
        after = msgspec.structs.replace(declared, spec=msgspec.structs.replace(declared.spec, min_member=count))
        proposal = of_followed_object(resource, gang.key, what, patch, after)._replace(kind=SMALLER)
    yield None if proposal is None else proposal._replace(cost=proposal.cost + cost)


# --- what plugins name ------------------------------------------------------------------------------------------------


def _of_plugins(question: PodQuestion) -> Iterator[Proposal]:
    """Yield changes of the objects that plugins of the pod's profile follow, such as a quota."""
    filters = question.filters
    for remedy in remedies_for(question.info, filters.profile(question.info))[:REMEDIES_TRIED]:
        resource = remedy.resource
        before = filters.core.objects.get(resource.name, remedy.name, remedy.namespace)
        if before is None:
            continue
        document = document_of(before)
        if "content" in document and "resource" in document:  # one without a struct of its own
            document = document["content"]
        try:
            after = resource.read(merged(document, remedy.patch))
        except ObjectError:
            continue
        key = f"{remedy.namespace}/{remedy.name}" if remedy.namespace else remedy.name
        yield of_followed_object(resource, key, remedy.what, merged({}, remedy.patch), after)


# --- replicas ---------------------------------------------------------------------------------------------------------


def fewer_replicas(findings: HelpFindings) -> None:
    """Find the largest number of replicas that a workload could have instead."""
    group = findings.question.group
    if group.owner is None or group.owner[0] not in REPLICATED or not group.running:
        return
    owner, total, places = group.owner, group.size, places_apart(findings)

    def fewer(by: int) -> Proposal:
        number = total - by
        is_apart = places is not None and places[0] == number
        return of_replicas(owner, total, number, f", one for each of the {places[1]}" if is_apart and places else "")

    findings.add_least(fewer, total - len(group.running))


def _enough_replicas(question: PodQuestion) -> Iterator[Proposal]:
    """Yield the number of replicas with which a gang has as many pods as it needs, where it has too few."""
    group, gang = question.group, question.group.gang
    if gang is not None and group.size < gang.needed and group.owner is not None and group.owner[0] in REPLICATED:
        number = group.own_size + gang.needed - group.size
        yield of_replicas(group.owner, group.own_size, number, f", as many as {gang.field} asks for")


def places_apart(findings: HelpFindings) -> tuple[int, str] | None:
    """Return how many places there are for pods that keep each other out of them, in a number and in words.

    None where the pods do not, or there are enough. A place counts where nothing but such pods rules a node of it out.
    """
    question: PodQuestion = findings.question
    namespaces = question.filters.core.cache.index.namespaces.get(question.info.namespace, {})
    rows = question.valid.copy()
    for need in findings.needs:
        if need.plugin != "InterPodAffinity":
            rows &= ~need.failing
    labels = [question.table.node(row).metadata.labels for row in np.flatnonzero(rows).tolist()]
    found = []
    for term in question.info.required_anti_affinity_terms:
        count = len({each[term.topology_key] for each in labels if term.topology_key in each})
        if count < question.group.size and term.matches(question.info, namespaces):
            found.append((count, f"{count} {PLACES.get(term.topology_key, f'values of {term.topology_key}')}"))
    return min(found, default=None)
