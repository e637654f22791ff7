"""Objects beside the pod that could change: what its claims ask for, and how large its group must be."""

from collections.abc import Iterable, Iterator
from typing import Any

from berth.api.pod import Pod, PodResourceClaim
from berth.api.storage import PersistentVolumeClaim
from berth_workbench.planning.help.needs import PodQuestion, setting
from berth_workbench.planning.help.proof import Proposal
from berth_workbench.planning.help.proposals import of_device_claims, of_object

Json = dict[str, Any]

TRIED = 64
"""So many numbers of devices, and so many classes, are tried at most."""


def other_objects(question: PodQuestion) -> Iterator[Iterable[Proposal | None]]:
    """Yield what could be changed of claims and of the pod's group; the first that helps of each is enough."""
    for use in question.info.spec.resource_claims:
        yield from _fewer_devices(question, use)
    for claim in _own(question, "PersistentVolumeClaim", _volume_claim_names(question)):
        if not claim.spec.volume_name:
            yield from _other_classes(question, claim)
    yield from _smaller_group(question)


def _claim_name(pod: Pod, use: PodResourceClaim) -> str | None:
    """Return the name of the claim that a pod has for what another one like it uses."""
    made = (each.resource_claim_name for each in pod.status.resource_claim_statuses if each.name == use.name)
    return use.resource_claim_name or next(made, None)


def _volume_claim_names(question: PodQuestion) -> list[str]:
    volumes = question.info.spec.volumes
    return [each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim is not None]


def _own(question: PodQuestion, kind: str, names: list[str]) -> Iterator[Any]:
    for name in names:
        found = question.prover.core.objects.get(kind, name, question.info.namespace)
        if found is not None:
            yield found


def _fewer_devices(question: PodQuestion, use: PodResourceClaim) -> Iterator[Iterable[Proposal | None]]:
    """Yield how many devices each request of a claim could ask for instead, from the most on.

    Claims that are made of a template are asked about together: those of all pods that wait like this one.
    """
    pods, template = question.group.alike, use.resource_claim_template_name or ""
    names = dict.fromkeys(name for pod in pods for name in [_claim_name(pod, use)] if name)
    found = list(_own(question, "ResourceClaim", list(names)))
    for index, request in enumerate(found[0].spec.devices.requests if found else ()):
        exactly = request.exactly
        if exactly is None or exactly.allocation_mode != "ExactCount":
            continue
        fewer = range(exactly.count - 1, max(exactly.count - 1 - TRIED, 0), -1)
        words = f"instead of {exactly.count} devices in request {request.name}"
        path = ("spec", "devices", "requests", index, "exactly", "count")
        yield (
            of_device_claims(found, template, pods, f"ask for {count} {words}", setting(*path, to=count))
            for count in fewer
        )


def _other_classes(question: PodQuestion, claim: PersistentVolumeClaim) -> Iterator[Iterable[Proposal | None]]:
    """Yield the storage classes that an unbound claim could have instead."""
    classes = sorted(each.metadata.name for each in question.prover.core.objects.list("StorageClass"))
    for other in [each for each in classes if each != claim.spec.storage_class_name][:TRIED]:
        edit = setting("spec", "storageClassName", to=other)
        yield [of_object(claim, f"use the StorageClass {other}", edit, "storageClass")]


def _smaller_group(question: PodQuestion) -> Iterator[Iterable[Proposal | None]]:
    """Yield the size with which the pod's group would be complete, where members are missing."""
    group = question.info.spec.scheduling_group
    found = None if group is None else next(_own(question, "PodGroup", [group.pod_group_name]), None)
    gang = None if found is None else found.spec.scheduling_policy.gang
    if gang is None or group is None:
        return
    members = {
        pod.metadata.uid
        for pod in question.prover.cluster.pods.values()
        if pod.spec.scheduling_group == group
        and pod.metadata.namespace == question.info.namespace
        and pod.status.phase not in ("Succeeded", "Failed")
    }
    count = len(members)
    if 0 < count < gang.min_count:
        edit = setting("spec", "schedulingPolicy", "gang", "minCount", to=count)
        yield [of_object(found, f"lower minCount from {gang.min_count} to {count}", edit, "minCount")]
