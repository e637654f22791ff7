"""The API server's admission in front of a simulated cluster: what is filled in when an object is created, and what is
refused.

Manifests come without what is filled in, objects of a cluster have it already and are left as they are. `admitted`
gives a manifest the defaults that depend on nothing else; `Admission` does what depends on the cluster, and is asked by
the cluster whenever a pod or a claim is created, by whatever question. The rules are those of
`berth_workloads.admission` and `berth_workloads.quotas`, by which the embedded API server goes as well. Webhooks and
policies are not known here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from shlex import quote
from typing import Any, NamedTuple

import msgspec

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.dra import ResourceClaim
from berth.api.meta import Struct
from berth.api.near_names import nearest
from berth.api.node import Namespace, PriorityClass
from berth.api.pod import Pod, PodSpec
from berth.api.pod_defaults import BUILT_IN_PRIORITIES, completed_pod_spec
from berth.api.resources import RESOURCES
from berth.api.storage import PersistentVolumeClaim
from berth.api.user_error import UserError
from berth.state.objects import key_of
from berth_workbench.simulation.quotas import QuotaKeeper, QuotaLedger, as_json
from berth_workbench.snapshot.documents import Document, UnreadableObject
from berth_workbench.snapshot.kept_fields import TAKEN
from berth_workloads.admission import apply_runtime_class, being_terminated, complete_pod, pod_refusal
from berth_workloads.amounts import amounts
from berth_workloads.limit_ranges import in_one_line, limit_range_refusal, set_default_amounts
from berth_workloads.pods import contradictions
from berth_workloads.quotas import Kind

Json = dict[str, Any]

OF_ADMISSION = ("LimitRange", "ResourceQuota", "RuntimeClass")
"""The kinds of objects that admission goes by, and that the scheduler does not read."""
_SYSTEM_NAMESPACE = "kube-system"
_POD_SECURITY = "pod-security.kubernetes.io/enforce"
_SPECS_AT_MOST = 1 << 10


def admitted(manifest: Mapping[str, Any], namespace: str = "default") -> Struct:
    """Return a manifest of a kind that the scheduler reads as it would be stored, but for what `Admission` does.

    Raises `ObjectError`, also for a kind that decisions do not depend on.
    """
    kind = str(manifest.get("kind") or "")
    if kind not in KINDS:
        raise ObjectError(kind or "object", "", f"decisions do not depend on objects of kind {kind!r}")
    found: Struct = decode(kind, completed(kind, manifest, namespace))
    return found


def completed(kind: str, manifest: Mapping[str, Any], namespace: str = "default") -> Json:
    """Return a manifest with namespace, uid, and what defaults say of a node or a pod."""
    given = manifest.get("metadata")
    metadata = dict(given) if isinstance(given, Mapping) else {}
    if RESOURCES[kind].namespaced:
        metadata.setdefault("namespace", namespace)
    key = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    if not metadata.get("uid"):
        metadata["uid"] = f"{kind}/{key}"  # the cache needs one
    found: Json = {**manifest, "metadata": metadata}
    status = manifest.get("status")
    if kind == "Node" and isinstance(status, Mapping) and "capacity" in status and "allocatable" not in status:
        found["status"] = {**status, "allocatable": status["capacity"]}
    if kind == "Pod" and isinstance(manifest.get("spec"), Mapping):
        found["spec"] = completed_pod_spec(manifest["spec"])
    return found


class UnknownPriorityClassError(UserError, ValueError):
    """A pod names a class that the cluster does not have."""


def with_priority(pod: Pod, classes: Mapping[str, PriorityClass], *, is_stored: bool = False) -> Pod:
    """Return a pod with the priority of its class, or of the cluster's default class, where it has none.

    Raises `UnknownPriorityClassError` for a class that the cluster does not have, as the API server refuses such a pod.
    One that `is_stored` nobody refuses any more: without a priority it has 0, as the scheduler reads it.
    """
    if pod.spec.priority is not None:
        return pod
    name = pod.spec.priority_class_name
    if name in BUILT_IN_PRIORITIES and name not in classes:
        return _prioritised(pod, BUILT_IN_PRIORITIES[name], None)
    if name and name not in classes:
        if is_stored:
            return _prioritised(pod, 0, None)
        make = f"kubectl create priorityclass {quote(name)} --value=1000"
        hint = nearest(name, classes) or f"; {make} makes one, with the value that is wanted"
        raise UnknownPriorityClassError(f"pod {pod.key}: no PriorityClass with name {name} was found{hint}")
    defaults = (each for each in classes.values() if each.global_default)
    found = classes.get(name) or min(defaults, key=lambda each: each.value, default=None)
    return _prioritised(pod, 0, None) if found is None else _prioritised(pod, found.value, found.preemption_policy)


def _prioritised(pod: Pod, priority: int, policy: str | None) -> Pod:
    replaced = msgspec.structs.replace(
        pod.spec, priority=priority, preemption_policy=pod.spec.preemption_policy or policy or None
    )
    return msgspec.structs.replace(pod, spec=replaced)


# --- what depends on the cluster -------------------------------------------------------------------------------------


class AdmissionRules(NamedTuple):
    """The objects that admission goes by; a value, so that a trial can go back to those of before."""

    limit_ranges: Mapping[str, tuple[Json, ...]] = {}
    """By namespace."""
    quotas: Mapping[str, tuple[Json, ...]] = {}
    """By namespace, in the order of their names."""
    runtime_classes: Mapping[str, Json] = {}
    made: tuple[tuple[str, Kind, Json], ...] = ()
    """What was created beside pods and claims: namespace, kind and manifest, for quotas that count such objects."""


class Admission:
    """Decides about what is created in one cluster."""

    __slots__ = ("_completed", "_objects", "_of", "_rules", "quotas")

    def __init__(self, objects: Mapping[tuple[str, str], Any], of: Callable[[type[Any]], Iterator[Any]]) -> None:
        """`objects` are those of the cluster, by kind and key, and `of` gives those of one struct."""
        self._objects, self._of = objects, of
        self._rules = AdmissionRules()
        self._completed: dict[tuple[str, int], tuple[PodSpec, PodSpec]] = {}
        self.quotas = QuotaKeeper(objects)
        """What the quotas of the cluster count."""

    @property
    def rules(self) -> AdmissionRules:
        """What it goes by."""
        return self._rules

    @rules.setter
    def rules(self, rules: AdmissionRules) -> None:
        self._rules = rules
        self._completed.clear()
        self.quotas.limit(rules.quotas, rules.made)

    def take(self, documents: Iterable[Document], namespace: str = "default") -> list[Document]:
        """Take in the objects that admission goes by, and return the other documents. Raises `ObjectError`."""
        left: list[Document] = []
        taken: dict[str, dict[str, dict[str, Json]]] = {kind: {} for kind in OF_ADMISSION}
        for document in documents:
            if document.kind not in OF_ADMISSION or not _is_of_group(document):
                left.append(document)
                continue
            manifest = _read(document)
            metadata = manifest["metadata"]
            place = "" if document.kind == "RuntimeClass" else str(metadata.get("namespace") or namespace)
            taken[document.kind].setdefault(place, {})[str(metadata["name"])] = manifest
        if any(taken.values()):
            rules = self._rules
            self.rules = AdmissionRules(
                _merged(rules.limit_ranges, taken["LimitRange"]),
                _merged(rules.quotas, taken["ResourceQuota"]),
                {**rules.runtime_classes, **taken["RuntimeClass"].get("", {})},
                rules.made,
            )
            self.quotas.freed |= {*taken["LimitRange"], *taken["ResourceQuota"]}  # who was refused is asked again
        return left

    def drop(self, documents: Iterable[Document], namespace: str = "default") -> list[Document]:
        """Go by these objects no more, and return the other documents."""
        left = [each for each in documents if each.kind not in OF_ADMISSION or not _is_of_group(each)]
        gone: dict[str, set[tuple[str, str]]] = {kind: set() for kind in OF_ADMISSION}
        for each in documents:
            if each.kind in gone and _is_of_group(each):
                gone[each.kind].add((each.namespace or namespace, each.name))
        if any(gone.values()):
            rules, classes = self._rules, {name for _, name in gone["RuntimeClass"]}
            self.rules = AdmissionRules(
                _lessened(rules.limit_ranges, gone["LimitRange"]),
                _lessened(rules.quotas, gone["ResourceQuota"]),
                {name: each for name, each in rules.runtime_classes.items() if name not in classes},
                rules.made,
            )
            self.quotas.freed |= {place for kind in ("LimitRange", "ResourceQuota") for place, _ in gone[kind]}
        return left

    # --- what it looks up ---------------------------------------------------------------------------------------------

    def limit_ranges(self, namespace: str) -> Iterable[Json]:
        """The LimitRanges of a namespace."""
        return self._rules.limit_ranges.get(namespace, ())

    def priority_class(self, name: str) -> Json | None:
        """A PriorityClass, or None; two of them are in every cluster."""
        found: PriorityClass | None = self._objects.get(("PriorityClass", name))
        if found is None and name in BUILT_IN_PRIORITIES:
            return {"metadata": {"name": name}, "value": BUILT_IN_PRIORITIES[name]}
        return None if found is None else as_json(found)

    def priority_classes(self) -> Iterable[Json]:
        """All PriorityClasses."""
        return map(as_json, self._of(PriorityClass))

    def runtime_class(self, name: str) -> Json | None:
        """A RuntimeClass, or None."""
        return self._rules.runtime_classes.get(name)

    # --- what it decides ----------------------------------------------------------------------------------------------

    def complete(self, pod: Pod) -> tuple[Pod, str]:
        """Return a new pod with what is filled in, or why it is refused; quotas are charged later."""
        why = self.namespace_refusal(pod.metadata.namespace)
        if why:
            return pod, why
        key, given = (pod.metadata.namespace, id(pod.spec)), pod.spec
        known = self._completed.get(key)
        if known is None or known[0] is not given:
            manifest = as_json(Pod(spec=given))
            why = self._complete(manifest, pod.metadata.namespace, is_new=given.priority is None)
            if pod.metadata.namespace in self._rules.limit_ranges:  # whose defaults may contradict what is given
                why = why or in_one_line(contradictions(manifest["spec"]))
                why = why or pod_refusal(manifest, pod.metadata.namespace, self)
            if why:
                return pod, why
            if len(self._completed) >= _SPECS_AT_MOST:
                self._completed.clear()
            known = self._completed[key] = given, decode("Pod", manifest).spec
        return msgspec.structs.replace(pod, spec=known[1]), ""

    def _complete(self, manifest: Json, namespace: str, *, is_new: bool) -> str:
        """Fill in the JSON of a pod; one like a pod that runs keeps what classes gave it that may be gone by now."""
        if is_new:
            return complete_pod(manifest, namespace, self)
        for limit_range in self.limit_ranges(namespace):
            set_default_amounts(manifest, limit_range)
        runtime_class = manifest["spec"].get("runtimeClassName")
        is_known = runtime_class and self.runtime_class(runtime_class) is not None
        return apply_runtime_class(manifest["spec"], self) if is_known else ""

    def refusal(self, pod: Pod) -> str:
        """Say why a complete pod cannot be made now, or made again; empty where it can."""
        namespace = pod.metadata.namespace
        why = self.namespace_refusal(namespace)
        if not why and namespace in self._rules.limit_ranges:
            why = pod_refusal(as_json(Pod(spec=pod.spec)), namespace, self)
        return why or self.quotas.refusal(pod)

    def may_refuse_again(self, pod: Pod) -> bool:
        """Say whether a pod that is there might be refused if it had to be made again, whoever goes with it."""
        ledger = self.quotas.ledger(pod.metadata.namespace)
        if ledger is not None and ledger.is_overdrawn(self.quotas.charges(pod)):
            return True
        namespace = pod.metadata.namespace
        ranges = self._rules.limit_ranges.get(namespace, ())
        is_outside = bool(ranges) and bool(pod_refusal(as_json(Pod(spec=pod.spec)), namespace, self))
        return is_outside or bool(self.namespace_refusal(namespace))

    def claim_refusal(self, claim: PersistentVolumeClaim | ResourceClaim) -> str:
        """Say why a claim cannot be made; empty where it can."""
        namespace = claim.metadata.namespace
        is_of_volume = isinstance(claim, PersistentVolumeClaim)
        ranges = self._rules.limit_ranges.get(namespace, ()) if is_of_volume else ()
        why = limit_range_refusal("PersistentVolumeClaim", as_json(claim)["spec"], ranges) if ranges else ""
        return why or self.quotas.refusal(claim)

    def namespace_refusal(self, namespace: str) -> str:
        """Say why nothing new may come into a namespace; empty where it may, or where namespaces are not known."""
        found: Namespace | None = self._objects.get(("Namespace", namespace))
        if found is None:
            # A file that has some namespaces need not have all; one with the system's own is of a whole cluster.
            is_missing = ("Namespace", _SYSTEM_NAMESPACE) in self._objects
            return f'namespaces "{namespace}" not found' if is_missing else ""
        return being_terminated(namespace) if found.metadata.deletion_timestamp is not None else ""

    def note_made(self, document: Document, namespace: str) -> str:
        """Take note of an object that is created and is neither pod nor claim, or say why it is refused."""
        kind = _kind_of(document)
        if kind is None:
            return ""
        why = self.namespace_refusal(namespace)
        if not why and self.quotas.has_quotas(namespace):
            why = self.quotas.refusal_of(namespace, kind, document.manifest)
            if not why:
                made = (*self._rules.made, (namespace, kind, document.manifest))
                self.rules = self._rules._replace(made=made)
        return why

    def unchecked(self, namespaces: Iterable[str]) -> Iterator[str]:
        """Yield what admission does in these namespaces, and nobody knows here."""
        for namespace in sorted(set(namespaces)):
            found: Namespace | None = self._objects.get(("Namespace", namespace))
            level = found.metadata.labels.get(_POD_SECURITY) if found is not None else None
            if level and level != "privileged":
                yield (
                    f"namespace {namespace} enforces the Pod Security Standard {level!r}, by which the API server may "
                    "refuse pods; that is not checked here"
                )


class AdmissionGate:
    """Admission in front of pods that are tried but not made: quotas count those before as if they were."""

    __slots__ = ("_admission", "_ledgers")

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._ledgers: dict[str, QuotaLedger | None] = {}

    def let_in(self, pod: Pod) -> tuple[Pod, str]:
        """Return a pod as it would be made, and count it; or why it is refused."""
        quotas, namespace = self._admission.quotas, pod.metadata.namespace
        pod, why = self._admission.complete(pod)
        if why:
            return pod, why
        if namespace not in self._ledgers:
            self._ledgers[namespace] = quotas.ledger(namespace)
        ledger = self._ledgers[namespace]
        if ledger is None:
            return pod, ""
        charges = quotas.charges(pod)
        why = ledger.refusal(charges)
        if not why:
            ledger.charge(charges)
        return pod, why


def admission_over(objects: Iterable[Any], documents: Iterable[Document]) -> Admission:
    """Return the admission of a cluster that is not simulated, with these objects and documents."""
    by_key = {(type(each).__name__, key_of(each)): each for each in objects}

    def of(struct: type[Any]) -> Iterator[Any]:
        return (each for (kind, _), each in by_key.items() if kind == struct.__name__)

    found = Admission(by_key, of)
    found.take(documents)
    return found


def _merged(
    known: Mapping[str, tuple[Json, ...]], more: Mapping[str, Mapping[str, Json]]
) -> dict[str, tuple[Json, ...]]:
    """Return the objects of each namespace, newer ones in place of those of their names, in the order of the names."""
    found = dict(known)
    for namespace, by_name in more.items():
        together = {**{str(each["metadata"]["name"]): each for each in found.get(namespace, ())}, **by_name}
        found[namespace] = tuple(each for _, each in sorted(together.items()))
    return found


def _lessened(known: Mapping[str, tuple[Json, ...]], gone: set[tuple[str, str]]) -> dict[str, tuple[Json, ...]]:
    """Return the objects of each namespace without those that are gone; namespaces without any are left out."""
    kept = {
        place: tuple(each for each in of if (place, str(each["metadata"]["name"])) not in gone)
        for place, of in known.items()
    }
    return {place: of for place, of in kept.items() if of}


def _is_of_group(document: Document) -> bool:
    return not document.api_version or document.api_version.rpartition("/")[0] == TAKEN[document.kind].group


def _kind_of(document: Document) -> Kind | None:
    """Return the group and plural of a namespaced kind that a cluster has."""
    resource = TAKEN.get(document.kind)
    return (resource.group, resource.plural) if resource is not None and resource.namespaced else None


def _read(document: Document) -> Json:
    """Return an object that admission goes by. Raises `UnreadableObject` where it cannot be read as one."""
    manifest = document.manifest
    metadata, spec = manifest.get("metadata"), manifest.get("spec")
    try:
        if not isinstance(metadata, Mapping) or not metadata.get("name"):
            raise ValueError("metadata.name is missing")
        spec = spec if isinstance(spec, Mapping) else {}
        if document.kind == "RuntimeClass":
            amounts((manifest.get("overhead") or {}).get("podFixed"))
        elif document.kind == "ResourceQuota":
            amounts(spec.get("hard"))
            amounts((manifest.get("status") or {}).get("used"))
        else:
            for item in spec.get("limits") or ():
                for part in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
                    amounts(item.get(part))
    except (ValueError, TypeError, AttributeError) as error:
        raise UnreadableObject(document.where, ObjectError(document.kind, document.name, str(error))) from None
    return manifest
