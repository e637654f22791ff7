"""Reads and checks a `Policy` document; `predicates` makes the plugins of a profile from it.

Called by `load` for files, by the live process for a ConfigMap's `policy.cfg`, and by `berth decide`. The struct
fields are the document's; None means that it leaves a field out: predicates and priorities then have their defaults.
Source: release-1.20, staging/src/k8s.io/kube-scheduler/config/v1, pkg/scheduler/apis/config/validation.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from berth.config.decode import Decoder
from berth.config.durations import Duration
from berth.config.errors import ConfigError, invalid
from berth.config.parts import Doc, ExtenderDoc, Int32, Int64, extender_of
from berth.config.shape import shape_errors
from berth.config.types import ExtenderConfig

KIND: Final = "Policy"
API_VERSIONS: Final = ("v1", "kubescheduler.config.k8s.io/v1")
CONFIG_MAP_KEY: Final = "policy.cfg"

MAX_WEIGHT: Final = (2**63 - 1) // 10
"""Weights must be below this."""


class LabelsDoc(Doc, frozen=True):
    labels: tuple[str, ...] = ()


class LabelsPresenceDoc(Doc, frozen=True):
    labels: tuple[str, ...] = ()
    presence: bool = False


class PredicateArgumentDoc(Doc, frozen=True):
    service_affinity: LabelsDoc | None = None
    labels_presence: LabelsPresenceDoc | None = None


class PredicateDoc(Doc, frozen=True):
    name: str
    argument: PredicateArgumentDoc | None = None


class LabelDoc(Doc, frozen=True):
    label: str = ""


class LabelPreferenceDoc(Doc, frozen=True):
    label: str = ""
    presence: bool = False


class ShapePointDoc(Doc, frozen=True):
    utilization: Int32 = 0
    score: Int32 = 0


class ResourceDoc(Doc, frozen=True):
    name: str
    weight: Int64 = 0


class RatioDoc(Doc, frozen=True):
    shape: tuple[ShapePointDoc, ...] = ()
    resources: tuple[ResourceDoc, ...] = ()


class PriorityArgumentDoc(Doc, frozen=True):
    service_anti_affinity: LabelDoc | None = None
    label_preference: LabelPreferenceDoc | None = None
    requested_to_capacity_ratio_arguments: RatioDoc | None = None


class PriorityDoc(Doc, frozen=True):
    name: str
    weight: Int64 = 0
    argument: PriorityArgumentDoc | None = None


class PolicyDoc(Doc, frozen=True):
    api_version: str
    kind: str
    predicates: tuple[PredicateDoc, ...] | None = None
    priorities: tuple[PriorityDoc, ...] | None = None
    extenders: tuple[ExtenderDoc, ...] = ()
    hard_pod_affinity_symmetric_weight: Int32 = 0
    always_check_all_predicates: bool = False


class Policy(msgspec.Struct, frozen=True):
    """A checked Policy."""

    predicates: tuple[PredicateDoc, ...] | None = None
    priorities: tuple[PriorityDoc, ...] | None = None
    extenders: tuple[ExtenderConfig, ...] = ()
    hard_pod_affinity_symmetric_weight: int = 0
    always_check_all_predicates: bool = False


def is_policy(document: Any) -> bool:
    """Say whether a parsed document calls itself a Policy."""
    return isinstance(document, Mapping) and document.get("kind") == KIND


def parse_policy(document: Any) -> Policy:
    """Return a parsed document as a Policy. Raises ConfigError with everything that is wrong."""
    if not is_policy(document) or document.get("apiVersion") not in API_VERSIONS:
        raise ConfigError([f"invalid policy: expected apiVersion: v1 and kind: Policy, got {_said_to_be(document)}"])
    decoder = Decoder()
    doc = decoder.decode(_todays_spelling(document), PolicyDoc)
    if doc is None:
        raise ConfigError([f"invalid policy: {error}" for error in decoder.errors])
    if errors := [*_weights(doc), *_arguments(doc), *_redeclared(doc), *_ratios(doc), *_contrary(doc)]:
        raise ConfigError(errors)
    return Policy(
        predicates=doc.predicates,
        priorities=doc.priorities,
        extenders=tuple(map(extender_of, doc.extenders)),
        hard_pod_affinity_symmetric_weight=doc.hard_pod_affinity_symmetric_weight,
        always_check_all_predicates=doc.always_check_all_predicates,
    )


def _said_to_be(document: Any) -> str:
    """Return the apiVersion and kind of a document, written like those that were expected."""
    if not isinstance(document, Mapping):
        return "nothing" if document is None else type(document).__name__
    said = (f"{field}: {document[field]}" if field in document else f"no {field}" for field in ("apiVersion", "kind"))
    return " and ".join(said)


def _todays_spelling(document: Mapping[str, Any]) -> Any:
    """Extenders as today's documents write them: a Policy says enableHttps, and timeouts in nanoseconds."""
    extenders = document.get("extenders")
    if not isinstance(extenders, list):
        return document
    return {**document, "extenders": [_respelled(each) if isinstance(each, Mapping) else each for each in extenders]}


def _respelled(extender: Mapping[str, Any]) -> dict[str, Any]:
    found = {("enableHTTPS" if key == "enableHttps" else key): value for key, value in extender.items()}
    timeout = found.get("httpTimeout")
    if isinstance(timeout, int) and not isinstance(timeout, bool):
        found["httpTimeout"] = str(Duration(timeout / 1e9))
    return found


def _weights(doc: PolicyDoc) -> Iterable[str]:
    for index, priority in enumerate(doc.priorities or ()):
        if not 0 < priority.weight < MAX_WEIGHT:
            detail = f"priority {priority.name} should have a positive weight applied to it or it has overflown"
            yield invalid(f"priorities[{index}].weight", priority.weight, f"{detail}; write 1 to {MAX_WEIGHT - 1}")
    hard = doc.hard_pod_affinity_symmetric_weight
    if not 0 <= hard <= 100:
        yield invalid("hardPodAffinitySymmetricWeight", hard, "not in valid range [0-100]")


def _arguments(doc: PolicyDoc) -> Iterable[str]:
    """Check that each argument holds exactly one of the things that it may hold."""
    entries: tuple[tuple[str, str, Sequence[PredicateDoc | PriorityDoc]], ...] = (
        ("predicate", "predicates", doc.predicates or ()),
        ("priority", "priorities", doc.priorities or ()),
    )
    for what, plural, listed in entries:
        for index, entry in enumerate(listed):
            if entry.argument is None:
                continue
            given = msgspec.structs.asdict(entry.argument)
            count = sum(value is not None for value in given.values())
            if count != 1:
                names = ", ".join(field.encode_name for field in msgspec.structs.fields(entry.argument))
                yield (
                    f"{plural}[{index}].argument: Exactly 1 {what} argument is required, numArgs: {count}, "
                    f"{what.title()}: {entry.name}; give one of {names}, or leave the argument out"
                )


def _redeclared(doc: PolicyDoc) -> Iterable[str]:
    """Check custom priorities: those of a kind share a plugin, so their weights must agree; one ratio is allowed."""
    first: dict[str, PriorityDoc] = {}
    for index, priority in enumerate(doc.priorities or ()):
        kind = custom_kind(priority)
        if not kind:
            continue
        earlier = first.setdefault(kind, priority)
        if earlier is priority:
            continue
        if kind == "RequestedToCapacityRatio":
            yield (
                f'priorities[{index}]: priority "{priority.name}" redeclares custom priority "{kind}", '
                f'from: "{earlier.name}"; keep one of them'
            )
        elif earlier.weight != priority.weight:
            yield (
                f'priorities[{index}].weight: {kind} priority "{priority.name}" has a different weight with '
                f'"{earlier.name}"; give both the same'
            )


def _ratios(doc: PolicyDoc) -> Iterable[str]:
    """Refuse what the plugin would refuse in its args; here the message can name the Policy's entry."""
    for index, priority in enumerate(doc.priorities or ()):
        ratio = priority.argument.requested_to_capacity_ratio_arguments if priority.argument is not None else None
        if ratio is None:
            continue
        path = f"priorities[{index}].argument.requestedToCapacityRatioArguments"
        yield from shape_errors(ratio.shape, f"{path}.shape")
        for number, resource in enumerate(ratio.resources):
            if resource.weight < 0:
                yield invalid(f"{path}.resources[{number}].weight", resource.weight, "must not be negative")


def _contrary(doc: PolicyDoc) -> Iterable[str]:
    """Check that no label is demanded, or preferred, both to be present and to be absent."""
    demands = (
        (f"predicates[{index}].argument.labelsPresence.labels", given.labels, given.presence)
        for index, entry in enumerate(doc.predicates or ())
        if entry.argument is not None and (given := entry.argument.labels_presence) is not None
    )
    preferences = (
        (f"priorities[{index}].argument.labelPreference.label", (liked.label,), liked.presence)
        for index, entry in enumerate(doc.priorities or ())
        if entry.argument is not None and (liked := entry.argument.label_preference) is not None
    )
    for entries in (demands, preferences):
        first: dict[str, tuple[str, bool]] = {}
        for path, labels, presence in entries:
            for label in labels:
                earlier, wanted = first.setdefault(label, (path, presence))
                if wanted != presence:
                    yield invalid(path, label, f"{earlier} asks for the contrary; name the label once")


def custom_kind(priority: PriorityDoc) -> str:
    """Return which kind of custom priority this is, by upstream's name, or the empty string."""
    argument = priority.argument
    if argument is None:
        return ""
    if argument.label_preference is not None:
        return "LabelPreference"
    if argument.service_anti_affinity is not None:
        return "ServiceAntiAffinity"
    return "RequestedToCapacityRatio" if argument.requested_to_capacity_ratio_arguments is not None else ""
