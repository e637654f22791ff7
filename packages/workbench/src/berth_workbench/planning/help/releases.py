"""Objects beside the pod that could change: idle devices, what its claims ask for, how large its group must be."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from berth.api.pod import Pod, PodResourceClaim
from berth.api.storage import PersistentVolumeClaim
from berth_workbench.planning.help.needs import PodQuestion, setting
from berth_workbench.planning.help.proof import Proposal
from berth_workbench.planning.help.proposals import of_device_claims, of_idle_claim, of_object

Json = dict[str, Any]

TRIED = 64
"""So many idle claims, classes and selectors are tried at most."""


def other_objects(question: PodQuestion) -> Iterator[Iterable[Proposal | None]]:
    """Yield what could be changed of claims and of the pod's group; the first that helps of each is enough."""
    if question.info.spec.resource_claims:
        yield _idle_claims(question)
        for use in question.info.spec.resource_claims:
            yield from _less_devices(question, use)
    for claim in _own(question, "PersistentVolumeClaim", _volume_claim_names(question)):
        if not claim.spec.volume_name:
            yield from _other_classes(question, claim)
    yield from _smaller_group(question)


def _device_claim_names(question: PodQuestion) -> list[str]:
    made = {each.name: each.resource_claim_name for each in question.info.status.resource_claim_statuses}
    names = [use.resource_claim_name or made.get(use.name) for use in question.info.spec.resource_claims]
    return [name for name in names if name]


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


def _idle_claims(question: PodQuestion) -> Iterator[Proposal]:
    """Yield the claims that hold devices although no pod uses them."""
    own = set(_device_claim_names(question))
    idle = [
        claim
        for claim in question.prover.core.objects.list("ResourceClaim")
        if claim.status.allocation is not None and not claim.status.reserved_for and claim.metadata.name not in own
    ]
    yield from map(of_idle_claim, idle[:TRIED])


def _less_devices(question: PodQuestion, use: PodResourceClaim) -> Iterator[Iterable[Proposal | None]]:
    """Yield what one request of a claim could ask for instead: fewer devices, another class, one selector less.

    Claims that are made of a template are asked about together: those of all pods that wait like this one.
    """
    pods, template = question.group.alike, use.resource_claim_template_name or ""
    names = dict.fromkeys(name for pod in pods for name in [_claim_name(pod, use)] if name)
    found = list(_own(question, "ResourceClaim", list(names)))
    if not found:
        return
    claim = found[0]

    def of_object(what: str, edit: Callable[[Json], None], kind: str) -> Proposal | None:
        return of_device_claims(found, template, pods, what, edit, kind)

    classes = sorted(each.metadata.name for each in question.prover.core.objects.list("DeviceClass"))
    for index, request in enumerate(claim.spec.devices.requests):
        exactly, name = request.exactly, request.name
        if exactly is None:
            continue
        if exactly.allocation_mode == "ExactCount" and exactly.count > 1:
            fewer = range(exactly.count - 1, max(exactly.count - 1 - TRIED, 0), -1)
            words = f"instead of {exactly.count} devices in request {name}"
            edits = ((f"ask for {count} {words}", _set(index, "count", count)) for count in fewer)
            yield (of_object(what, edit, "deviceCount") for what, edit in edits)
        for other in [each for each in classes if each != exactly.device_class_name][:TRIED]:
            what = f"ask for devices of the class {other} in request {name}"
            yield [of_object(what, _set(index, "deviceClassName", other), "deviceClass")]
        for place, selector in enumerate(exactly.selectors[:TRIED]):
            kept = [msgspec.to_builtins(each) for each in exactly.selectors]
            del kept[place]
            text = selector.cel.expression if selector.cel is not None else ""
            what = f"drop the selector {text!r} of request {name}"
            yield [of_object(what, _set(index, "selectors", kept), "deviceSelector")]


def _set(index: int, field: str, value: Any) -> Callable[[Json], None]:
    return setting("spec", "devices", "requests", index, "exactly", field, to=value)


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
