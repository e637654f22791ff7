"""Which claims a pod uses, and who may use them.

Takes a pod and the ledger; returns claims, or a reason why not. Called by the plugin, its hints and PreBind. Source:
k8s.io/dynamic-resource-allocation/resourceclaim, v1.36.
"""

from berth.api.dra import ResourceClaim
from berth.api.pod import PodResourceClaim
from berth.plugins.dra.ledger import Ledger
from berth.state.pod_info import PodInfo

NOT_CREATED = 'pod "{pod}": ResourceClaim not created yet'
UNSUPPORTED = 'pod "{pod}", spec.resourceClaim "{claim}": none of the supported fields are set'
NOT_FOUND = 'could not find ResourceClaim "{claim}"'
BEING_DELETED = 'resourceclaim "{claim}" is being deleted'
NOT_OWNER = "ResourceClaim {claim} was not created for pod {pod} (pod is not owner)"


class ClaimsMissingError(Exception):
    """A claim of the pod does not exist or is not the pod's; the text says which one and why."""


def claims_of(pod: PodInfo, ledger: Ledger) -> list[ResourceClaim]:
    """Return the pod's claims in the order of its spec. Raises `ClaimsMissingError`."""
    claims = []
    for use in pod.spec.resource_claims:
        name = claim_name(pod, use)
        if name is None:
            continue  # the claim controller decided that this pod needs none
        claim = ledger.get(pod.namespace, name)
        if claim is None:
            raise ClaimsMissingError(NOT_FOUND.format(claim=f"{pod.namespace}/{name}"))
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimsMissingError(BEING_DELETED.format(claim=name))
        if use.resource_claim_name is None and not is_owner(pod, claim):
            raise ClaimsMissingError(NOT_OWNER.format(claim=f"{pod.namespace}/{name}", pod=pod.key))
        claims.append(claim)
    return claims


def claim_name(pod: PodInfo, use: PodResourceClaim) -> str | None:
    """Return the name of a claim; None where the pod deliberately has none. Raises `ClaimsMissingError`."""
    if use.resource_claim_name is not None:
        return use.resource_claim_name
    if use.resource_claim_template_name is None:
        raise ClaimsMissingError(UNSUPPORTED.format(pod=pod.key, claim=use.name))
    for status in pod.status.resource_claim_statuses:
        if status.name == use.name:
            return status.resource_claim_name
    raise ClaimsMissingError(NOT_CREATED.format(pod=pod.key))


def is_owner(pod: PodInfo, claim: ResourceClaim) -> bool:
    """Say whether a claim was made for this pod."""
    return any(owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references)


def is_reserved_for(pod: PodInfo, claim: ResourceClaim) -> bool:
    """Say whether a pod is entered as a user of a claim."""
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)


def is_used_by_others(pod: PodInfo, claim: ResourceClaim) -> bool:
    """Say whether any other pod is entered as a user of a claim."""
    reserved_for = claim.status.reserved_for
    return bool(reserved_for) and (len(reserved_for) > 1 or reserved_for[0].uid != pod.uid)
