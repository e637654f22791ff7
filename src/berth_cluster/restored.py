"""Puts the objects of another cluster into an empty store as they are: with their uids, their status, their nodes.

`restore` is what `berth up --from` begins with. Nothing is admitted or validated a second time; only what an object
leaves open gets the API server's defaults. Nodes become hollow, so that their pods run on. What these pods' kubelet
would know is filled in, and of each StatefulSet the revision that its pods have, so that its controller leaves them
alone.
"""

from collections.abc import Iterable, Mapping

import msgspec

from berth_cluster.apimachinery.errors import FieldErrors, StoreError
from berth_cluster.apimachinery.field_checks import check_types
from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
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
from berth_cluster.hollow.template import HOLLOW_ANNOTATION
from berth_cluster.storage import bootstrap
from berth_cluster.storage.store import Store, own
from berth_cluster.strategies.names import check_label_name
from berth_cluster.strategies.registry import strategy_of
from berth_workloads.stateful_sets import REVISION_LABEL

_NOT_PREPARED = frozenset({"Service"})
"""A service would be given an address, in time that grows with the number of services."""
_FIRST = ("Namespace", "PriorityClass", "Node")
_SELECTING = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"})
Kinds = dict[tuple[str, str], ResourceType]
"""Resources by group and kind."""


class Restored(msgspec.Struct, frozen=True):
    """What became of the objects that were to be restored."""

    counts: Mapping[str, int]
    """How many objects were restored, by kind."""
    unknown: tuple[str, ...]
    """Kinds that this cluster does not serve."""
    unusable: tuple[str, ...]
    """Workloads without a selector, as `Kind namespace/name`: no controller could know their pods."""
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
    unusable = []
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
            obj = _read(kind, number, original, store)
            if _selects(kind) and not isinstance((obj.get("spec") or {}).get("selector"), dict):
                unusable.append(f"{kind.kind} {_key(obj)}")
            else:
                given.setdefault(kind, []).append(obj)
    _add_system_objects(store, given)
    order = sorted(given, key=lambda kind: (kind is PODS, kind.kind not in _FIRST))
    for kind in order:
        if kind is PODS:
            _add_accounts(store, given)
        for obj in given[kind]:
            _restore(store, kind, obj)
    _add_accounts(store, given)
    _restore_revisions(store)
    given[DEFINITIONS] = store.objects(DEFINITIONS)
    uids = {uid_of(obj) for kind in given for obj in store.objects(kind)}
    owners = {ref.get("uid", "") for kind in given for obj in store.objects(kind) for ref in owner_references(obj)}
    nodes = {obj["metadata"]["name"] for obj in store.objects(resource_of("Node"))}
    used = {str(pod["spec"].get("nodeName") or "") for pod in store.objects(PODS)} - {""}
    counts = {kind.kind: len(found) for kind, found in given.items() if found}
    return Restored(counts, tuple(sorted(unknown)), tuple(unusable), frozenset(owners - uids), frozenset(used - nodes))


def _kind_of(obj: Object, kinds: Kinds) -> ResourceType | None:
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    kind = str(obj.get("kind") or "")
    found = kinds.get((group, kind))
    if found is None and not obj.get("apiVersion"):
        found = next((each for each in kinds.values() if each.kind == kind), None)
    return found


def _selects(kind: ResourceType) -> bool:
    """Whether it is a workload that finds its pods by a selector."""
    return kind.kind in _SELECTING and not kind.is_custom


def _read(kind: ResourceType, number: int, original: Object, store: Store) -> Object:
    """A copy of an object that has the types of its kind, and may have its names."""
    try:
        obj = own(original)
        check_types(kind, obj, complete=False)
        if kind is DEFINITIONS:  # in full, since kinds are made of it
            obj["metadata"] = _metadata(obj)
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
        spec = obj.get("spec") or {}
        template = ((spec.get("jobTemplate") or {}).get("spec") or spec).get("template") or {}
        for pod_spec in (spec, template.get("spec") or {}):
            name = pod_spec.get("serviceAccountName")
            if name and store.find(accounts, _namespace(obj), name) is None:
                store.create(accounts, _namespace(obj), {"metadata": {"name": name}})


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


def _restore(store: Store, kind: ResourceType, obj: Object) -> None:
    """Put one object into the store, which it belongs to from then on."""
    _complete(store, kind, obj)
    if _selects(kind) and not isinstance(obj["spec"].get("template"), dict):
        # Enough for a controller that has all its pods; it could not make another one.
        labels = dict(obj["spec"]["selector"].get("matchLabels") or {})
        obj["spec"]["template"] = {"metadata": {"labels": labels}, "spec": {"containers": []}}
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
    _put(store, kind, prepared)


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
        meta["annotations"] = {**(meta.get("annotations") or {}), HOLLOW_ANNOTATION: "true"}
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
