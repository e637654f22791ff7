"""Webhooks and admission policies that the API server asks before it creates an object, and that cannot be asked here.

Their configurations say which requests they are asked about. So every answer about manifests has a note that names
those that may change or refuse what is created. Their conditions in CEL are not looked at: a request may pass by them.

Source: kubernetes.io, "Dynamic Admission Control" (matching requests), "Validating Admission Policy" and "Mutating
Admission Policy".
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from berth.api.codec import ObjectError, without_nulls
from berth.api.meta import LabelSelector, Struct
from berth.api.resources import Resource
from berth.api.selectors import compile_selector
from berth_workbench.showing.words import listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import Manifests
from berth_workbench.simulation.workloads import POD_MAKERS, WorkloadManifest
from berth_workbench.snapshot.documents import Document, UnreadableObject
from berth_workbench.snapshot.header import MAY_NOT
from berth_workbench.snapshot.kept_fields import TAKEN
from berth_workbench.snapshot.snapshot import Snapshot

NOT_KNOWN = (
    "webhooks and admission policies of the cluster may change or refuse what is created; "
    "the snapshot does not have them"
)
_WEBHOOKS = MappingProxyType({"MutatingWebhookConfiguration": "change", "ValidatingWebhookConfiguration": "refuse"})
_POLICIES = MappingProxyType({"MutatingAdmissionPolicy": "change", "ValidatingAdmissionPolicy": "refuse"})
_BINDINGS = tuple(f"{kind}Binding" for kind in _POLICIES)
DYNAMIC = (*_WEBHOOKS, *_POLICIES, *_BINDINGS)
"""The kinds of objects that tell an API server what to ask."""
SHOWN_AT_MOST = 5
"""So many of those that are asked are named."""
_FURTHER = (Resource("batch", "v1", "cronjobs", "CronJob", True),)
_RESOURCES = MappingProxyType({**TAKEN, **{each.kind: each for each in _FURTHER}})
_MADE_BETWEEN = MappingProxyType({"Deployment": TAKEN["ReplicaSet"], "CronJob": TAKEN["Job"]})
"""What some workloads make that makes the pods."""
_ANY = "*"


def unasked(situation: Situation, documents: Iterable[Document] = ()) -> tuple[str, ...]:
    """Return the notes about the manifests that a situation applies, and about further ones."""
    applied = [each for step in situation.steps if isinstance(step, Manifests) for each in step.documents]
    return unasked_about(situation.snapshot, [*applied, *documents], situation.namespace)


def unasked_about(snapshot: Snapshot, documents: Iterable[Document], namespace: str = "default") -> tuple[str, ...]:
    """Return a note that names those whom the API server of a snapshot would ask about manifests; none if there are
    none.

    Raises `UnreadableObject`, `ManifestError`.
    """
    created = [each for document in documents for each in _created_by(document, namespace)]
    if not created:
        return ()
    asked = list(_asked_of(snapshot))
    labels = {each.name: _labels_of(each) for each in (snapshot.of("Namespace") if asked else ())}
    found = []
    for each in asked:
        plurals = dict.fromkeys(one.plural for one in created if each.is_asked_about(one, labels.get(one.namespace)))
        if plurals:
            found.append(f"{each.kind} {each.name} may {each.does} {listed(list(plurals))}")
    if found:
        told = listed(found, shown=SHOWN_AT_MOST)
        return (f"webhooks and admission policies are not asked here; of this cluster's, {told}",)
    return (NOT_KNOWN,) if not asked and _is_left_out(snapshot) else ()


def _is_left_out(snapshot: Snapshot) -> bool:
    """Whether a snapshot of a cluster is without some of the kinds though the cluster may have such objects."""
    header = snapshot.header
    if header is None:
        return False
    missing = {each.kind: each.reason for each in header.missing}
    listed_kinds = header.resource_versions.keys()
    return any(
        missing.get(kind) == MAY_NOT or (bool(listed_kinds) and kind not in listed_kinds and kind not in missing)
        for kind in DYNAMIC
    )


# -- what is created -------------------------------------------------------------------------------------------------


class _Created(NamedTuple):
    """An object that a manifest leads to."""

    group: str
    plural: str
    namespace: str
    """Empty where its kind has none."""
    name: str
    """Empty where it is made up."""
    labels: Mapping[str, str] | None
    """None where they are not known."""


def _created_by(document: Document, namespace: str) -> Iterator[_Created]:
    """Yield the objects that a manifest leads to, as far as decisions depend on them."""
    resource = _RESOURCES.get(document.kind)
    if resource is None or document.kind in DYNAMIC:
        return
    place = (document.namespace or namespace) if resource.namespaced else ""
    yield _Created(resource.group, resource.plural, place, document.name, _labels_of(document))
    if document.kind in POD_MAKERS:
        labels = WorkloadManifest(document, namespace).template.metadata.labels
        if between := _MADE_BETWEEN.get(document.kind):
            own = labels if document.kind == "Deployment" else None
            yield _Created(between.group, between.plural, place, "", own)
        yield _Created("", "pods", place, "", labels)


def _labels_of(document: Document) -> Mapping[str, str]:
    """Return the labels of an object; a Namespace's have its name, as the API server ensures."""
    metadata = document.manifest.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    found = dict(labels) if isinstance(labels, Mapping) else {}
    return found | {"kubernetes.io/metadata.name": document.name} if document.kind == "Namespace" else found


# -- who is asked ----------------------------------------------------------------------------------------------------


class _Rule(Struct, frozen=True):
    """Which requests a webhook or a policy is about."""

    api_groups: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    scope: str = _ANY

    def matches(self, created: _Created) -> bool:
        """Whether it is about the creation of an object."""
        return (
            not {_ANY, created.group}.isdisjoint(self.api_groups)
            and not {_ANY, "CREATE"}.isdisjoint(self.operations)
            and any(_is_of(each, created.plural) for each in self.resources)
            and (not self.resource_names or created.name in ("", *self.resource_names))
            and self.scope in (_ANY, "Namespaced" if created.namespace else "Cluster")
        )


def _is_of(resource: str, plural: str) -> bool:
    """Whether a resource of a rule (`pods`, `pods/*`, `*`) is an object itself, and not only what is under it."""
    name, _, under = resource.partition("/")
    return name in (_ANY, plural) and under in ("", _ANY)


class _Requests(Struct, frozen=True):
    """What a webhook or a policy is asked about: a webhook's `rules`, a policy's or a binding's `resourceRules`."""

    rules: tuple[_Rule, ...] = ()
    resource_rules: tuple[_Rule, ...] = ()
    exclude_resource_rules: tuple[_Rule, ...] = ()
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None

    def __post_init__(self) -> None:
        """Raise `SelectorError` for an unusable selector."""
        for each in (self.namespace_selector, self.object_selector):
            compile_selector(each)

    def have(self, created: _Created, of_namespace: Mapping[str, str] | None, *, every: bool = False) -> bool:
        """Whether the creation of an object is among them; `every` where no rule at all means every request."""
        rules = (*self.rules, *self.resource_rules)
        return (
            (any(each.matches(created) for each in rules) or (every and not rules))
            and not any(each.matches(created) for each in self.exclude_resource_rules)
            and (not created.namespace or _may_select(self.namespace_selector, of_namespace))
            and _may_select(self.object_selector, created.labels)
        )


def _may_select(selector: LabelSelector | None, labels: Mapping[str, str] | None) -> bool:
    return selector is None or labels is None or compile_selector(selector).matches(labels)


class _Spec(Struct, frozen=True):
    """The parts of the spec of a policy or a binding, whichever either has."""

    match_constraints: _Requests = _Requests()
    policy_name: str = ""
    match_resources: _Requests = _Requests()
    validation_actions: tuple[str, ...] = ("Deny",)


class _Configuration(Struct, frozen=True):
    """The part that is read of any of these objects."""

    webhooks: tuple[_Requests, ...] = ()
    spec: _Spec = _Spec()


class _AdmissionHook(NamedTuple):
    """A configuration of webhooks, or a policy with its bindings."""

    kind: str
    name: str
    does: str
    """What it may do to an object."""
    about: tuple[_Requests, ...]
    """Any of these."""
    bound_to: tuple[_Requests, ...] | None = None
    """And any of these; None where there is no need."""

    def is_asked_about(self, created: _Created, of_namespace: Mapping[str, str] | None) -> bool:
        """Whether it may be asked when an object is created in a namespace with these labels."""
        return any(each.have(created, of_namespace) for each in self.about) and (
            self.bound_to is None or any(each.have(created, of_namespace, every=True) for each in self.bound_to)
        )


def _asked_of(snapshot: Snapshot) -> Iterator[_AdmissionHook]:
    """Yield those that are asked in a cluster, in the order of their kinds and names."""
    documents = sorted(snapshot.of(*DYNAMIC), key=lambda each: (DYNAMIC.index(each.kind), each.name))
    found = [(document.kind, document.name, _read(document)) for document in documents]
    bound_to: dict[tuple[str, str], list[_Requests]] = {}
    for kind, _, each in found:
        if kind in _BINDINGS and "Deny" in each.spec.validation_actions:
            policy = kind.removesuffix("Binding"), each.spec.policy_name
            bound_to.setdefault(policy, []).append(each.spec.match_resources)
    for kind, name, each in found:
        if kind in _WEBHOOKS:
            yield _AdmissionHook(kind, name, _WEBHOOKS[kind], each.webhooks)
        elif kind in _POLICIES:
            bound = tuple(bound_to.get((kind, name), ()))
            yield _AdmissionHook(kind, name, _POLICIES[kind], (each.spec.match_constraints,), bound)


def _read(document: Document) -> _Configuration:
    """Return what is read of an object. Raises `UnreadableObject`."""
    try:
        return msgspec.convert(without_nulls(document.manifest), _Configuration)
    except msgspec.ValidationError as error:
        raise UnreadableObject(document.where, ObjectError(document.kind, document.name, str(error))) from None
