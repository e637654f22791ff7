"""Objects beside the pod that could change: idle devices, what its claims ask for, how large its group must be."""

import copy
from collections.abc import Callable, Iterator
from shlex import quote
from typing import Any

import msgspec

from berth.api.codec import ObjectError
from berth.api.dra import ResourceClaim
from berth.planning.helping.needs import Question
from berth.planning.helping.patches import patch_of
from berth.planning.helping.proving import after_patch, deallocated, document_of
from berth.planning.helping.result import Change
from berth.planning.helping.words import shell_quoted
from berth.state.objects import key_of

Json = dict[str, Any]

FREE_COST = 3.0
OTHER_COST = 2.5
TRIED = 64
"""So many idle claims, classes and selectors are tried at most."""
IMMUTABLE = " (make it anew: claims cannot be changed)"


def other_objects(question: Question) -> Iterator[Change]:
    """Yield changes of claims and of the pod's group with which the pod fits."""
    if question.info.spec.resource_claims:
        yield from _idle_claims(question)
        for claim in _own(question, "ResourceClaim", _device_claim_names(question)):
            yield from _less_devices(question, claim)
    for claim in _own(question, "PersistentVolumeClaim", _volume_claim_names(question)):
        if not claim.spec.volume_name:
            yield from _other_classes(question, claim)
    yield from _smaller_group(question)


def _device_claim_names(question: Question) -> list[str]:
    made = {each.name: each.resource_claim_name for each in question.info.status.resource_claim_statuses}
    names = [use.resource_claim_name or made.get(use.name) for use in question.info.spec.resource_claims]
    return [name for name in names if name]


def _volume_claim_names(question: Question) -> list[str]:
    volumes = question.info.spec.volumes
    return [each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim is not None]


def _own(question: Question, kind: str, names: list[str]) -> Iterator[Any]:
    for name in names:
        found = question.prover.core.objects.get(kind, name, question.info.namespace)
        if found is not None:
            yield found


def _idle_claims(question: Question) -> Iterator[Change]:
    """Yield the claims that hold devices although no pod uses them; the first that helps is enough."""
    own = set(_device_claim_names(question))
    idle = [
        claim
        for claim in question.prover.core.objects.list("ResourceClaim")
        if claim.status.allocation is not None and not claim.status.reserved_for and claim.metadata.name not in own
    ]
    for claim in idle[:TRIED]:
        with question.prover.objects([deallocated(claim)]):
            answer = question.prover.ask(question.info)
        if answer.is_yes:
            key, name = key_of(claim), claim.metadata.name
            patch = {"status": {"allocation": None}}
            yield Change(
                on="cluster",
                what=f"free the devices of the ResourceClaim {key}, which no pod uses",
                patch=patch,
                fits_on=answer.node_names,
                patch_type="strategic",
                target=f"ResourceClaim/{key}",
                kind="claimFreed",
                cost=FREE_COST,
                command=f"kubectl -n {quote(claim.metadata.namespace)} delete resourceclaim {quote(name)}",
            )
            return


def _less_devices(question: Question, claim: ResourceClaim) -> Iterator[Change]:
    """Yield what one request of a claim could ask for instead: fewer devices, another class, one selector less."""
    classes = sorted(each.metadata.name for each in question.prover.core.objects.list("DeviceClass"))
    for index, request in enumerate(claim.spec.devices.requests):
        exactly = request.exactly
        if exactly is None:
            continue
        name = request.name
        if exactly.allocation_mode == "ExactCount" and exactly.count > 1:
            yield from _fewer(question, claim, index)
        for other in [each for each in classes if each != exactly.device_class_name][:TRIED]:
            what = f"ask for devices of the class {other} in request {name}"
            yield from _claim_change(question, claim, what, _set(index, "deviceClassName", other), "deviceClass")
        for place, selector in enumerate(exactly.selectors[:TRIED]):
            kept = [msgspec.to_builtins(each) for each in exactly.selectors]
            del kept[place]
            text = selector.cel.expression if selector.cel is not None else ""
            what = f"drop the selector {text!r} of request {name}"
            yield from _claim_change(question, claim, what, _set(index, "selectors", kept), "deviceSelector")


def _fewer(question: Question, claim: ResourceClaim, index: int) -> Iterator[Change]:
    """Yield the change to the largest number of devices with which the pod fits."""
    exactly = claim.spec.devices.requests[index].exactly
    assert exactly is not None, "asked about a request for devices of one class"
    for count in range(exactly.count - 1, max(exactly.count - 1 - TRIED, 0), -1):
        what = (
            f"ask for {count} instead of {exactly.count} devices in request {claim.spec.devices.requests[index].name}"
        )
        found = list(_claim_change(question, claim, what, _set(index, "count", count), "deviceCount"))
        if found:
            yield from found
            return


def _set(index: int, field: str, value: Any) -> Callable[[Json], None]:
    def edit(document: Json) -> None:
        document["spec"]["devices"]["requests"][index]["exactly"][field] = value

    return edit


def _claim_change(
    question: Question, claim: Any, what: str, edit: Callable[[Json], None], kind: str
) -> Iterator[Change]:
    """Yield the change of an object that makes the pod fit, if it does."""
    of_kind, key = type(claim).__name__, key_of(claim)
    before = document_of(claim)
    after = copy.deepcopy(before)
    edit(after)
    patch_type, patch = patch_of(before, after)
    try:
        made = after_patch(of_kind, before, patch_type, patch)
    except ObjectError:
        return
    with question.prover.objects([made]):
        answer = question.prover.ask(question.info)
    if not answer.is_yes:
        return
    is_claim = of_kind.endswith("Claim")
    namespace, name = claim.metadata.namespace, claim.metadata.name
    verb = "patch --local -o yaml -f its-manifest.yaml" if is_claim else f"patch {of_kind.lower()} {quote(name)}"
    yield Change(
        on="cluster",
        what=f"{what} of the {of_kind} {key}{IMMUTABLE if is_claim else ''}",
        patch=patch,
        fits_on=answer.node_names,
        patch_type=patch_type,
        target=f"{of_kind}/{key}",
        kind=kind,
        cost=OTHER_COST,
        command=f"kubectl -n {quote(namespace)} {verb} --type {patch_type} -p {shell_quoted(patch)}",
    )


def _other_classes(question: Question, claim: Any) -> Iterator[Change]:
    """Yield the storage classes with which an unbound claim would let the pod in."""
    classes = sorted(each.metadata.name for each in question.prover.core.objects.list("StorageClass"))
    for other in [each for each in classes if each != claim.spec.storage_class_name][:TRIED]:

        def edit(document: Json, other: str = other) -> None:
            document["spec"]["storageClassName"] = other

        yield from _claim_change(question, claim, f"use the StorageClass {other}", edit, "storageClass")


def _smaller_group(question: Question) -> Iterator[Change]:
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

        def edit(document: Json) -> None:
            document["spec"]["schedulingPolicy"]["gang"]["minCount"] = count

        what = f"lower minCount from {gang.min_count} to {count}"
        yield from _claim_change(question, found, what, edit, "minCount")
