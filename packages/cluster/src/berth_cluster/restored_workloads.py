"""Makes workloads whole of which a file says little more than a name and an owner's uid: from the pods that they have.

Called by `restored`. Without a selector no controller would know its pods, and without a template it could not make
another one; both are read off the pods. A file that shows what matters to a question leaves such things out.
"""

from collections.abc import Iterable

from berth_cluster.apimachinery.meta import Object, labels_of, owner_references
from berth_workloads.stateful_sets import REVISION_LABEL

SELECTING = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds of workloads that find their pods by a selector."""
HASH_LABEL = "pod-template-hash"
_OF_ONE_POD = frozenset(
    {HASH_LABEL, REVISION_LABEL, "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}
)
_NOT_OF_TEMPLATES = frozenset(
    {"nodeName", "hostname", "subdomain", "priority", "preemptionPolicy", "ephemeralContainers"}
)
_REVISION = "restored"


def complete_workloads(workloads: Iterable[Object], pods: Iterable[Object], claims: Iterable[Object]) -> list[Object]:
    """Give workloads the selectors and templates that they lack; return those that cannot be given a selector.

    What a workload has gets the labels that tell whose it is.
    """
    ordered = sorted(workloads, key=lambda one: str(one["kind"]) == "Deployment")  # which are made of ReplicaSets
    owned: dict[str, list[Object]] = {}
    for one in (*ordered, *pods):
        for ref in owner_references(one):
            owned.setdefault(str(ref.get("uid") or ""), []).append(one)
    sizes = {_place(claim): claim.get("spec") or {} for claim in claims}
    lacking = []
    for workload in ordered:
        spec = workload["spec"] = workload.get("spec") or {}
        members = owned.get(str(workload["metadata"].get("uid") or "-"), [])
        if not isinstance(spec.get("selector"), dict):
            labels = _labels(workload, members)
            if not labels:
                lacking.append(workload)
                continue
            spec["selector"] = {"matchLabels": labels}
        if not isinstance(spec.get("template"), dict):
            spec["template"] = _template(workload, members, sizes)
    return lacking


def _labels(workload: Object, members: list[Object]) -> dict[str, str]:
    """Labels that tell a workload's pods: of its template, else those that its pods have in common, or get now."""
    templates = [one["spec"].get("template") for one in (workload, *members) if "replicas" in one.get("spec", {})]
    of_templates = [(one.get("metadata") or {}).get("labels") for one in templates if one]
    known = [labels for labels in of_templates if labels][:1] or [labels_of(pod) for pod in members]
    common = [pair for pair in (known[0].items() if known else ()) if all(pair in one.items() for one in known)]
    found = {key: value for key, value in common if key not in _OF_ONE_POD}
    if not found and members:
        found = {"app": _name_of_all(workload)}
    for one in members:  # which are let go of otherwise
        one["metadata"]["labels"] = {**labels_of(one), **found}
    return found


def _name_of_all(workload: Object) -> str:
    """The workload's name, or that of the Deployment whose ReplicaSet it is."""
    refs = owner_references(workload)
    return str((refs[0] if refs else workload["metadata"]).get("name") or "")


def _template(workload: Object, members: list[Object], claims: dict[tuple[str, str], Object]) -> Object:
    """The template of which a workload's pods may be made; without pods one that is enough for having none."""
    labels = dict(workload["spec"]["selector"].get("matchLabels") or {})
    if not members:
        return {"metadata": {"labels": labels}, "spec": {"containers": []}}
    first, kind = members[0], workload["kind"]
    if first["kind"] == "ReplicaSet":
        template: Object = first["spec"]["template"]
        metadata = template.get("metadata") or {}
        labels |= {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
        return {**template, "metadata": {**metadata, "labels": labels}}
    pod_spec = first.get("spec") or {}
    spec = {key: value for key, value in pod_spec.items() if key not in _NOT_OF_TEMPLATES}
    if kind == "DaemonSet":
        spec.pop("affinity", None)  # to the node of that pod
    if kind == "StatefulSet":
        _set_claims_apart(workload, first, spec, claims)
    if kind != "ReplicaSet":
        _count_as_present(workload, members)
    labels |= {key: value for key, value in labels_of(first).items() if key not in _OF_ONE_POD}
    return {"metadata": {"labels": labels}, "spec": spec}


def _set_claims_apart(workload: Object, pod: Object, spec: Object, claims: dict[tuple[str, str], Object]) -> None:
    """Make templates of the claims that each pod of a StatefulSet has under its own name."""
    made = []
    for volume in spec.get("volumes") or []:
        claim = f"{volume.get('name')}-{pod['metadata'].get('name')}"
        if (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim:
            wanted = claims.get((_place(pod)[0], claim), {})
            claim_spec = {key: value for key, value in wanted.items() if key != "volumeName"}
            made.append({"metadata": {"name": volume["name"]}, "spec": claim_spec})
    names = {each["metadata"]["name"] for each in made}
    if names and not workload["spec"].get("volumeClaimTemplates"):
        workload["spec"]["volumeClaimTemplates"] = made
        rest = [each for each in spec.pop("volumes") if each.get("name") not in names]
        spec |= {"volumes": rest} if rest else {}


def _count_as_present(workload: Object, pods: list[Object]) -> None:
    """Have pods that do not say of which revision they are be of the present one, so that they stay."""
    name = _REVISION if workload["kind"] == "DaemonSet" else f"{workload['metadata'].get('name')}-{_REVISION}"
    for pod in pods:
        pod["metadata"]["labels"] = {REVISION_LABEL: name, **labels_of(pod)}


def _place(obj: Object) -> tuple[str, str]:
    return (str(obj["metadata"].get("namespace") or "default"), str(obj["metadata"].get("name") or ""))
