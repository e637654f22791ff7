"""Puts the objects of another cluster into an empty store as they are: with their uids, their status, their nodes.

`restore` is what `berth up --from` begins with. Nothing is admitted a second time; what an object leaves open gets the
API server's defaults, at any depth, so that it can be changed afterwards like one that was created here. Nodes become
hollow, so that their pods run on. What these pods' kubelet would know is filled in, and of each StatefulSet the
revision that its pods have, so that its controller leaves them alone.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from berth_cluster.apimachinery.errors import FieldErrors, StoreError
from berth_cluster.apimachinery.field_checks import check_types
from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    find_condition,
    is_condition_true,
    labels_of,
    owner_references,
    uid_of,
)
from berth_cluster.apimachinery.resource_types import DEFINITIONS, PODS, RESOURCE_TYPES, ResourceType, resource_of
from berth_cluster.controllers.workloads.controller_revisions import new_revision
from berth_cluster.hollow import pod_status
from berth_cluster.hollow.container_runs import RUN_SECONDS, ContainerRun
from berth_cluster.hollow.shell import ENDLESS
from berth_cluster.hollow.template import ready_conditions
from berth_cluster.restored_workloads import SELECTING, complete_workloads
from berth_cluster.storage import bootstrap
from berth_cluster.storage.store import Store, own
from berth_cluster.strategies import defaults
from berth_cluster.strategies.names import check_label_name, check_meta
from berth_cluster.strategies.pod_defaults import default_from_limits
from berth_cluster.strategies.registry import strategy_of
from berth_workloads.admission import add_default_tolerations
from berth_workloads.node_lifecycle import HOLLOW
from berth_workloads.pods import containers_of
from berth_workloads.stateful_sets import REVISION_LABEL

_NOT_PREPARED = frozenset({"Service"})
"""A service would be given an address, in time that grows with the number of services."""
_FIRST = ("Namespace", "PriorityClass", "Node")
_LEFT_OUT = "left-out"
"""The image of containers, and the place of volumes, of which the file has none: they may not be without."""
_BESIDE_SOURCES = frozenset(
    {"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
     "storageClassName", "volumeAttributesClassName", "volumeMode"}
)  # fmt: skip
"""What the spec of a PersistentVolume says beside where it is."""
Kinds = dict[tuple[str, str], ResourceType]
"""Resources by group and kind."""


class Restored(msgspec.Struct, frozen=True):
    """What became of the objects that were to be restored."""

    counts: Mapping[str, int]
    """How many objects were restored, by kind."""
    unknown: tuple[str, ...]
    """Kinds that this cluster does not serve."""
    unusable: tuple[str, ...]
    """Workloads without a selector and without pods, as `Kind namespace/name`: no controller could know their pods."""
    invalid: tuple[str, ...]
    """Objects that cannot be changed before that is mended which a message says: `Kind namespace/name: message`."""
    missing_owners: frozenset[str]
    """The uids of owners that are not there, whose dependents have to stay nevertheless."""
    missing_nodes: frozenset[str]
    """The nodes that are not there though pods say that they run on them."""


class UnrestorableError(ValueError):
    """An object that cannot be put into a store; the message says which, and what is wrong with it."""

    def __init__(self, number: int, obj: Object, reason: str) -> None:
        super().__init__(f"{obj.get('kind')} {_key(obj)}: {reason}")
        self.number = number
        """Which of the objects it is, from 0."""


def restore(store: Store, objects: Iterable[Object]) -> Restored:
    """Put objects into a store that has none yet; those that every cluster has are added where they are missing.

    Raises `UnrestorableError`.
    """
    given: dict[ResourceType, list[Object]] = {}
    unknown: set[str] = set()
    invalid: list[str] = []
    numbered = list(enumerate(objects))
    kinds: Kinds = {(each.group, each.kind): each for each in RESOURCE_TYPES}
    for number, original in numbered:
        if _kind_of(original, kinds) is DEFINITIONS:
            definition = _read(DEFINITIONS, number, original, store)
            _complete(store, DEFINITIONS, definition)
            _put(store, DEFINITIONS, definition)  # from then on, what it declares is served
    kinds |= {(each.group, each.kind): each for each in store.custom.stored()}
    for number, original in numbered:
        kind = _kind_of(original, kinds)
        if kind is None:
            unknown.add(f"{original.get('kind', '')}")
        elif kind is not DEFINITIONS:
            given.setdefault(kind, []).append(_read(kind, number, original, store))
    unusable = _complete_workloads(given)
    _add_system_objects(store, given)
    order = sorted(given, key=lambda kind: (kind is PODS, kind.kind not in _FIRST))
    for kind in order:
        if kind is PODS:
            _add_accounts(store, given)
        for obj in given[kind]:
            invalid += _restore(store, kind, obj)
    _add_accounts(store, given)
    _restore_revisions(store)
    given[DEFINITIONS] = store.objects(DEFINITIONS)
    uids = {uid_of(obj) for kind in given for obj in store.objects(kind)}
    owners = {ref.get("uid", "") for kind in given for obj in store.objects(kind) for ref in owner_references(obj)}
    nodes = {obj["metadata"]["name"] for obj in store.objects(resource_of("Node"))}
    used = {str(pod["spec"].get("nodeName") or "") for pod in store.objects(PODS)} - {""}
    counts = {kind.kind: len(found) for kind, found in given.items() if found}
    missing = frozenset(owners - uids), frozenset(used - nodes)
    return Restored(counts, tuple(sorted(unknown)), tuple(unusable), tuple(invalid), *missing)


def _kind_of(obj: Object, kinds: Kinds) -> ResourceType | None:
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    kind = str(obj.get("kind") or "")
    found = kinds.get((group, kind))
    if found is None and not obj.get("apiVersion"):
        found = next((each for each in kinds.values() if each.kind == kind), None)
    return found


def _selects(kind: ResourceType) -> bool:
    """Whether it is a workload that finds its pods by a selector."""
    return kind.kind in SELECTING and not kind.is_custom


def _complete_workloads(given: dict[ResourceType, list[Object]]) -> list[str]:
    """Complete the workloads, and leave out those of which too little is known; say which these are."""
    kinds = [kind for kind in given if _selects(kind)]
    workloads = [obj for kind in kinds for obj in given[kind]]
    claims = given.get(resource_of("PersistentVolumeClaim"), ())
    lacking = complete_workloads(workloads, given.get(PODS, ()), claims)
    for kind in kinds:
        given[kind] = [obj for obj in given[kind] if not any(obj is one for one in lacking)]
    return [f"{one['kind']} {_key(one)}" for one in lacking]


def _read(kind: ResourceType, number: int, original: Object, store: Store) -> Object:
    """A copy of an object that has the types of its kind, and may have its names."""
    try:
        obj = own(original)
        check_types(kind, obj, complete=False)
        obj["metadata"] = _metadata(obj)
        if kind is DEFINITIONS:  # in full, since kinds are made of it
            obj["metadata"].setdefault("name", "")
            strategy_of(kind).prepare_create(obj, store)
            strategy_of(kind).validate_create(kind, obj)
        else:
            _check_names(kind, obj)
    except (StoreError, RecursionError) as error:
        reason = error.message if isinstance(error, StoreError) else "it is nested too deeply"
        raise UnrestorableError(number, original, reason) from None
    return obj


def _add_system_objects(store: Store, given: dict[ResourceType, list[Object]]) -> None:
    """Add what every cluster has, and namespaces that objects are in."""
    names = {kind: {_metadata(obj).get("name") for obj in found} for kind, found in given.items()}
    for kind, obj in bootstrap.system_objects():
        if obj["metadata"]["name"] not in names.get(kind, ()):
            store.create(kind, "", obj)
    there = {obj["metadata"]["name"] for obj in store.objects(resource_of("Namespace"))}
    there |= names.get(resource_of("Namespace"), set())
    used = {_namespace(obj) for kind, found in given.items() if kind.namespaced for obj in found}
    for name in sorted(used - there):
        store.create(resource_of("Namespace"), "", {"metadata": {"name": name}})


def _add_accounts(store: Store, given: dict[ResourceType, list[Object]]) -> None:
    """Add the ServiceAccounts that pods name, without which there would be no more such pods; snapshots have none."""
    accounts = resource_of("ServiceAccount")
    for obj in (obj for kind, found in given.items() if kind.namespaced and not kind.is_custom for obj in found):
        for pod_spec in _pod_specs(obj):
            name = pod_spec.get("serviceAccountName")
            if name and store.find(accounts, _namespace(obj), name) is None:
                store.create(accounts, _namespace(obj), {"metadata": {"name": name}})


def _pod_specs(obj: Object) -> Iterator[Object]:
    """The spec of an object, which may be a pod's, and that in its template."""
    spec = obj.get("spec") or {}
    template = ((spec.get("jobTemplate") or {}).get("spec") or spec).get("template") or {}
    yield from (spec, template.get("spec") or {})


def _namespace(obj: Object) -> str:
    return str(_metadata(obj).get("namespace") or "default")


def _key(obj: Object) -> str:
    meta = _metadata(obj)
    if not isinstance(meta, dict):
        return ""
    return "/".join(str(meta[part]) for part in ("namespace", "name") if meta.get(part))


def _check_names(kind: ResourceType, obj: Object) -> None:
    errors = FieldErrors()
    meta = _metadata(obj)
    if meta.get("name"):
        strategy_of(kind).check_name(obj, errors)
    if kind.namespaced:
        check_label_name(_namespace(obj), "metadata.namespace", errors)
    errors.raise_for(kind.kind, kind.group, str(meta.get("name") or ""))


def _metadata(obj: Object) -> Object:
    return obj.get("metadata") or {}


def _restore(store: Store, kind: ResourceType, obj: Object) -> list[str]:
    """Put one object into the store, which it belongs to from then on; say what is wrong with it."""
    _complete(store, kind, obj)
    if not kind.is_custom:
        _fill_in_defaults(kind, obj)
    prepared = obj
    if kind.kind not in _NOT_PREPARED:
        prepared = own(obj)
        try:
            strategy_of(kind).prepare_create(prepared, store)
        except StoreError:  # such as a pod whose priority class is gone: it was admitted once, and stays as it is
            prepared = obj
    if kind.kind in ("Pod", "Job"):
        # Admission would add to what was admitted before.
        prepared["spec"] = {**(prepared.get("spec") or {}), **(obj.get("spec") or {})}
    if obj.get("status"):
        prepared["status"] = {**(prepared.get("status") or {}), **obj["status"]}
    prepared["metadata"] = {**prepared["metadata"], **obj["metadata"]}
    if kind is PODS:
        _fill_in(store, prepared)
    elif kind.kind == "Node":
        _fill_in_node(store, prepared)
    _put(store, kind, prepared)
    return _mistakes(kind, prepared)


def _fill_in_defaults(kind: ResourceType, obj: Object) -> None:
    """What the API server fills in for any object of the kind, and what a file may leave out though it may not."""
    if kind.kind == "PersistentVolume" and not (spec := obj.setdefault("spec", {})).keys() - _BESIDE_SOURCES:
        spec["hostPath"] = {"path": f"/{_LEFT_OUT}"}
    for spec in _pod_specs(obj) if kind.namespaced else ():
        for container in containers_of(spec):
            container["image"] = container.get("image") or _LEFT_OUT
    defaults.fill_in(obj)
    if kind is PODS:
        default_from_limits(obj["spec"])
        add_default_tolerations(obj["spec"])  # as an update does


def _mistakes(kind: ResourceType, obj: Object) -> list[str]:
    """Why an update of the object would be refused, whatever it changes."""
    errors, name = FieldErrors(), obj["metadata"]["name"]
    check_meta(obj["metadata"], errors)
    strategy_of(kind).check(obj, "", errors)
    return [errors.refusal(kind.kind, kind.group, name).message] if errors else []


def _fill_in_node(store: Store, node: Object) -> None:
    """Have a node be ready of which the file does not say how it is, and as large as what it can give away."""
    status = node.setdefault("status", {})
    if find_condition(node, "Ready") is None:
        healthy, known = ready_conditions(store.clock().timestamp()), status.get("conditions") or []
        types = {one.get("type") for one in known}
        status["conditions"] = [*known, *(one for one in healthy if one["type"] not in types)]
    if status.get("allocatable") and not status.get("capacity"):
        status["capacity"] = dict(status["allocatable"])


def _put(store: Store, kind: ResourceType, obj: Object) -> None:
    existing = store.collection(kind).find(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
    store.commit(kind, "ADDED" if existing is None else "MODIFIED", obj, existing)


def _complete(store: Store, kind: ResourceType, obj: Object) -> None:
    """Fill in the type and the metadata that manifests leave out."""
    given = _metadata(obj)
    dropped = ("managedFields", "selfLink", "resourceVersion", "generateName")
    meta = {key: value for key, value in given.items() if key not in dropped and value is not None}
    meta.setdefault("uid", store.new_uid())
    meta.setdefault("creationTimestamp", store.now())
    if kind.has_generation:
        meta.setdefault("generation", 1)
    if not meta.get("name"):
        meta["name"] = f"{given.get('generateName', '')}{store.new_suffix()}"
    if meta.get("ownerReferences"):
        meta["ownerReferences"] = [{"uid": "", **each} for each in meta["ownerReferences"]]
    if kind.namespaced:
        meta["namespace"] = meta.get("namespace") or "default"
    else:
        meta.pop("namespace", None)
    if kind.kind == "Node":
        meta["annotations"] = {**(meta.get("annotations") or {}), HOLLOW: "true"}
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    obj.clear()
    obj.update(apiVersion=kind.api_version, kind=kind.kind, metadata=meta, **rest)


def _fill_in(store: Store, pod: Object) -> None:
    """Give a running pod the status of its containers, which a snapshot does not keep, and keep it running."""
    spec, status = pod["spec"], pod.setdefault("status", {})
    if status.get("phase") != "Running" or not isinstance(spec.get("containers"), list):
        return
    if spec.get("restartPolicy", "Always") != "Always":
        pod["metadata"]["annotations"] = {RUN_SECONDS: "inf", **annotations_of(pod)}
    now_s = store.clock().timestamp()
    blank = {**pod, "status": {name: value for name, value in status.items() if not name.endswith("Statuses")}}
    made = pod_status.PodLife(blank, _goes_on, now_s).status
    is_ready = not status.get("conditions") or is_condition_true(pod, "Ready")
    for field in ("containerStatuses", "initContainerStatuses"):
        known = {each.get("name"): each for each in status.get(field) or []}
        if field in made:
            entries = ({**each, **known.get(each["name"], {})} for each in made[field])
            status[field] = [_with_readiness(each, is_ready) for each in entries]
    status.setdefault("startTime", made["startTime"])
    if not status.get("conditions"):
        status["conditions"] = made["conditions"]


def _goes_on(container: Object, _restarts: int, is_init: bool) -> ContainerRun:
    return ContainerRun(0.0 if is_init and container.get("restartPolicy") != "Always" else ENDLESS)


def _with_readiness(status: Object, is_ready: bool) -> Object:
    return {**status, "ready": is_ready} if "running" in (status.get("state") or {}) else status


def _restore_revisions(store: Store) -> None:
    """Keep the template of each workload with revisions as the one that its pods have, under the name that they know.

    Pods of a StatefulSet carry the name of the revision, those of a DaemonSet what it ends in.
    """
    revisions = resource_of("ControllerRevision")
    known = {ref.get("uid") for each in store.objects(revisions) for ref in owner_references(each)}
    of_pods: dict[str, str] = {}
    for pod in store.objects(PODS):
        for ref in owner_references(pod):
            if REVISION_LABEL in labels_of(pod):
                of_pods[str(ref.get("uid"))] = labels_of(pod)[REVISION_LABEL]
    for each in (*store.objects(resource_of("StatefulSet")), *store.objects(resource_of("DaemonSet"))):
        uid, meta, template = uid_of(each), each["metadata"], (each.get("spec") or {}).get("template")
        name = label = (each.get("status") or {}).get("updateRevision") or of_pods.get(uid)
        if uid in known or not name or not isinstance(template, dict):
            continue
        if each["kind"] == "DaemonSet":
            name = f"{meta['name']}-{label}"
        _restore(store, revisions, own(new_revision(each, name, str(label))))
