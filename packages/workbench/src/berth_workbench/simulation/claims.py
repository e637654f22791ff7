"""Claims that are made for one pod and go with it: of ResourceClaimTemplates, and of ephemeral volumes.

Plays the controllers that make them (`made_claims`) and that free what a pod leaves behind (`released`), at once and as
pure functions over structs. Sources: pkg/controller/resourceclaim and pkg/controller/volume/ephemeral, v1.36.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.dra import ResourceClaim, ResourceClaimStatus
from berth.api.meta import ObjectMeta, OwnerReference, Struct
from berth.api.pod import Pod, PodResourceClaimStatus
from berth.api.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
Lookup = Callable[[str, str], Struct | None]
"""Returns an object by kind and `namespace/name`."""


class ClaimTemplate(NamedTuple):
    """What claims are made of."""

    kind: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Any
    """The spec of the claims, as the struct of their kind has it."""

    def made(
        self, name: str, namespace: str, owner: Pod | None = None, annotations: Mapping[str, str] | None = None
    ) -> Struct:
        """Return a claim of this template; it goes with its `owner`, if any."""
        metadata = ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"{self.kind}/{namespace}/{name}" + (f"/{owner.metadata.uid}" if owner is not None else ""),
            labels=self.labels,
            annotations={**self.annotations, **(annotations or {})},
            owner_references=() if owner is None else (owned_by(owner),),
        )
        claim: Struct
        if self.kind == "ResourceClaim":
            claim = ResourceClaim(metadata=metadata, spec=self.spec)
        else:
            claim = PersistentVolumeClaim(
                metadata=metadata, spec=self.spec, status=PersistentVolumeClaimStatus(phase="Pending")
            )
        return claim


def claim_template(kind: str, body: Any, name: str = "") -> ClaimTemplate:
    """Return the template that a manifest's part describes: metadata, and the spec of the claims.

    Raises ValueError, which says what is wrong.
    """
    if not isinstance(body, Mapping):
        raise ValueError("must be an object")
    given = body.get("metadata")
    named = {"name": name, **(given if isinstance(given, Mapping) else {})}
    if not named["name"]:
        raise ValueError("metadata.name is missing")
    if not isinstance(body.get("spec"), Mapping):
        raise ValueError("spec is missing")
    assert kind in KINDS, f"{kind} is no kind of claim"
    try:
        found = decode(kind, {"metadata": named, "spec": body["spec"]})
    except ObjectError as error:
        raise ValueError(error.reason) from None
    meta: ObjectMeta = found.metadata
    return ClaimTemplate(kind, meta.name, meta.labels, meta.annotations, found.spec)


def owned_by(pod: Pod) -> OwnerReference:
    """Return the reference by which a claim goes with a pod."""
    meta = pod.metadata
    return OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)


def has_own_claims(pod: Pod) -> bool:
    """Say whether claims are made for the pod alone."""
    return any(use.resource_claim_template_name is not None for use in pod.spec.resource_claims) or any(
        volume.ephemeral is not None for volume in pod.spec.volumes
    )


def made_claims(pod: Pod, templates: Mapping[str, ClaimTemplate]) -> tuple[Pod, list[Struct]]:
    """Return a new pod with its status naming its own claims, and these; `templates` go by `namespace/name`.

    A claim whose template is not known is not made; the scheduler says that the pod waits for it.
    """
    if not has_own_claims(pod):
        return pod, []
    claims: list[Struct] = []
    statuses = []
    for use in pod.spec.resource_claims:
        template = templates.get(f"{pod.metadata.namespace}/{use.resource_claim_template_name}")
        if use.resource_claim_template_name is None or template is None:
            continue
        name = f"{pod.metadata.name}-{use.name}"
        claims.append(template.made(name, pod.metadata.namespace, pod, {POD_CLAIM_NAME: use.name}))
        statuses.append(PodResourceClaimStatus(name=use.name, resource_claim_name=name))
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
            given = volume.ephemeral.volume_claim_template
            of_volume = ClaimTemplate(
                "PersistentVolumeClaim", volume.name, given.metadata.labels, given.metadata.annotations, given.spec
            )
            claims.append(of_volume.made(f"{pod.metadata.name}-{volume.name}", pod.metadata.namespace, pod))
    status = msgspec.structs.replace(pod.status, resource_claim_statuses=tuple(statuses))
    return msgspec.structs.replace(pod, status=status), claims


def templates_behind(pod: Pod, lookup: Lookup) -> dict[str, ClaimTemplate]:
    """Return the templates by which a pod's own claims were made, as far as these are there, by `namespace/name`."""
    found = {}
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        claim = lookup("ResourceClaim", f"{pod.metadata.namespace}/{made.get(use.name)}")
        if use.resource_claim_template_name is not None and isinstance(claim, ResourceClaim):
            name = use.resource_claim_template_name
            found[f"{pod.metadata.namespace}/{name}"] = ClaimTemplate(
                "ResourceClaim", name, claim.metadata.labels, {}, claim.spec
            )
    return found


class Released(NamedTuple):
    """What becomes of a pod's claims when it is gone."""

    deleted: list[tuple[str, str]]
    """Kind and `namespace/name`: claims made for it alone, and the volumes made for those."""
    changed: list[Struct]
    """Claims that others may use; one that nobody holds any more has no devices either."""


def released(pod: Pod, lookup: Lookup) -> Released:
    """Return what becomes of the claims of a pod that is gone."""
    found = Released([], [])
    for claim in _resource_claims(pod, lookup):
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        if any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references):
            found.deleted.append(("ResourceClaim", key))
            continue
        left = tuple(each for each in claim.status.reserved_for if each.uid != pod.metadata.uid)
        if left != claim.status.reserved_for:
            status = msgspec.structs.replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
            found.changed.append(msgspec.structs.replace(claim, status=status))
    for volume in pod.spec.volumes:
        if volume.ephemeral is None:
            continue
        key = f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}"
        made = lookup("PersistentVolumeClaim", key)
        if isinstance(made, PersistentVolumeClaim) and any(
            owner.uid == pod.metadata.uid for owner in made.metadata.owner_references
        ):
            found.deleted.append(("PersistentVolumeClaim", key))
            if made.spec.volume_name and lookup("PersistentVolume", made.spec.volume_name) is not None:
                found.deleted.append(("PersistentVolume", made.spec.volume_name))
    return found


def claims_again(pod: Pod, replacement: Pod, lookup: Lookup) -> tuple[Pod, list[Struct]]:
    """Return the pod that takes the place of another, and its own claims: those of the other as if made anew.

    To be asked before the other pod is gone. The claims keep their names, as the replacement keeps the pod's.
    """
    if not has_own_claims(pod):
        return replacement, []
    claims: list[Struct] = [
        ResourceClaim(metadata=_again(claim.metadata, replacement), spec=claim.spec)
        for claim in _resource_claims(pod, lookup)
        if any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)
    ]
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is not None:
            made = ClaimTemplate(
                "PersistentVolumeClaim",
                volume.name,
                template.metadata.labels,
                template.metadata.annotations,
                template.spec,
            )
            claims.append(made.made(f"{pod.metadata.name}-{volume.name}", pod.metadata.namespace, replacement))
    status = msgspec.structs.replace(replacement.status, resource_claim_statuses=pod.status.resource_claim_statuses)
    return msgspec.structs.replace(replacement, status=status), claims


def _again(metadata: ObjectMeta, owner: Pod) -> ObjectMeta:
    return msgspec.structs.replace(
        metadata, uid=f"{metadata.uid}'", owner_references=(owned_by(owner),), deletion_timestamp=None
    )


def _resource_claims(pod: Pod, lookup: Lookup) -> Iterator[ResourceClaim]:
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    names = [use.resource_claim_name or made.get(use.name) for use in pod.spec.resource_claims]
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        names.append(extended.resource_claim_name)
    for name in names:
        claim = lookup("ResourceClaim", f"{pod.metadata.namespace}/{name}") if name else None
        if isinstance(claim, ResourceClaim):
            yield claim
