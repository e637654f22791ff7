"""Label and field selectors over stored JSON objects.

`make_matcher` turns the selector strings of a list or watch into one predicate (None stands for "everything"); which
fields can be selected on is a closed set for each resource, as upstream. `selector_of` compiles the label selector in a
workload's spec; one that cannot be read selects nothing, since a controller must never claim pods by mistake.
"""

import logging
import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import msgspec

from berth.api.meta import LabelSelector
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.selectors import (
    NOTHING,
    Selector,
    SelectorError,
    compile_selector,
    parse_field_selector,
    parse_label_selector,
    selector_from_map,
)
from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceKey, ResourceType

Getter = Callable[[Object], str]
Matcher = Callable[[Object], bool]
logger = logging.getLogger(__name__)


def _at(path: str, default: str = "") -> Getter:
    """A getter for a field or a field of a field, giving its text as field selectors compare it."""
    parent, _, key = path.rpartition(".")

    def get(obj: Object) -> str:
        # Called once per watcher for every change in the store, so the common case (a string) is decided first.
        holder = obj.get(parent) if parent else obj
        value: Any = holder.get(key) if holder else None
        if value is None:
            return default
        if value.__class__ is str:
            return value
        return str(value).lower() if isinstance(value, bool) else str(value)

    return get


def _fields(text: str) -> dict[str, Getter]:
    """The getters for fields, each with what counts where it is absent if that is not the empty text."""
    given = (word.partition("=") for word in text.split())
    return {path: _at(path, default) for path, _, default in given}


_COMMON = MappingProxyType(_fields("metadata.name metadata.namespace"))
_OF_POD = "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork=false"
_OF_EVENT = "{0}.kind {0}.namespace {0}.name {0}.uid {0}.apiVersion {0}.resourceVersion {0}.fieldPath reason type {1}"
_FIELDS: MappingProxyType[ResourceKey, dict[str, Getter]] = MappingProxyType(
    {
        ("", "pods"): _fields(f"{_OF_POD} status.phase status.nominatedNodeName status.podIP"),
        ("", "nodes"): _fields("spec.unschedulable=false"),
        ("", "namespaces"): _fields("status.phase"),
        ("", "secrets"): _fields("type"),
        ("", "services"): _fields("spec.clusterIP spec.type"),
        ("", "replicationcontrollers"): _fields("status.replicas=0"),
        ("apps", "replicasets"): _fields("status.replicas=0"),
        ("batch", "jobs"): _fields("status.successful=0"),
        ("", "events"): _fields(_OF_EVENT.format("involvedObject", "reportingComponent source")),
        ("events.k8s.io", "events"): _fields(_OF_EVENT.format("regarding", "reportingController")),
        ("resource.k8s.io", "resourceslices"): _fields("spec.nodeName spec.driver"),
    }
)
_SAID_OF_UNKNOWN: MappingProxyType[ResourceKey, str] = MappingProxyType(
    {
        ("batch", "jobs"): 'field label "{0}" not supported for batchv1.Job',
        ("resource.k8s.io", "resourceslices"): (
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {0}"
        ),
    }
)
_NO_KEY = re.compile(r"\s*(==?|!=|[(),<>])")  # a selector that begins with an operator


def make_matcher(resource: ResourceType, label_selector: str, field_selector: str) -> Matcher | None:
    """The predicate for both selectors together; None when they select everything."""
    tests: list[Matcher] = []
    if field_selector:
        tests.extend(_field_tests(resource, field_selector))
    if label_selector:
        tests.append(_label_test(label_selector))
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda obj: all(test(obj) for test in tests)


def _unknown_field(resource: ResourceType, path: str) -> str:
    if resource.is_custom or (resource.key in _FIELDS and resource.key != ("apps", "replicasets")):
        return _SAID_OF_UNKNOWN.get(resource.key, "field label not supported: {0}").format(path)
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _label_test(text: str) -> Matcher:
    try:
        selector = parse_label_selector(text)
    except SelectorError as error:
        begin = _NO_KEY.match(text)
        if begin is not None:
            raise bad_request(f"found '{begin[1]}', expected: !, identifier, or 'end of string'") from None
        raise bad_request(f"unable to parse requirement: {error}") from None
    return lambda obj: selector.matches(obj["metadata"].get("labels") or {})


def _field_tests(resource: ResourceType, text: str) -> list[Matcher]:
    known = _FIELDS.get(resource.key, {})
    tests: list[Matcher] = []
    try:
        terms = parse_field_selector(text)
    except SelectorError as error:
        raise bad_request(f"invalid field selector {text!r}: {error}") from None
    for path, operator, value in terms:
        getter = known.get(path) or _COMMON.get(path) or resource.getter(path)
        if getter is None:
            raise bad_request(_unknown_field(resource, path))
        tests.append(_compare(getter, value, wanted=operator != "!="))
    return tests


def _compare(getter: Getter, value: str, *, wanted: bool) -> Matcher:
    return lambda obj: (getter(obj) == value) is wanted


def node_matches(pod: Pod, node: Node) -> bool:
    """Whether a pod's node selector and required node affinity admit a node."""
    labels = node.metadata.labels
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    selected = all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    return selected and (required is None or required.matches(labels, node.metadata.name))


def selector_of(workload: Object) -> Selector:
    """The compiled `spec.selector` of a workload; that of a ReplicationController or a Service is a plain map."""
    if workload["kind"] in ("ReplicationController", "Service"):
        labels = workload["spec"].get("selector")
        return selector_from_map(labels) if labels else NOTHING
    return compile_json(workload["spec"].get("selector") or None, workload["metadata"]["name"])


def compile_json(selector: Any, name: str) -> Selector:
    """A label selector compiled: none at all selects nothing, an empty one everything; `name` is whose it is."""
    if selector is None:
        return NOTHING
    try:
        return compile_selector(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError) as error:
        logger.warning("%s: spec.selector selects nothing, because it cannot be read: %s", name, error)
        return NOTHING


def selector_text(selector: Object) -> str:
    """A label selector on one line, in the order of its keys; that of a ReplicationController is a plain map."""
    is_plain = not {"matchLabels", "matchExpressions"} & set(selector)
    labels = selector if is_plain else selector.get("matchLabels") or {}
    terms = [(key, f"{key}={value}") for key, value in labels.items()]
    for term in () if is_plain else selector.get("matchExpressions") or ():
        key, operator, values = term.get("key", ""), term.get("operator"), ",".join(sorted(term.get("values") or []))
        has_values = operator in ("In", "NotIn")
        said = f"{key} {operator.lower()} ({values})" if has_values else f"{'!' * (operator == 'DoesNotExist')}{key}"
        terms.append((key, said))
    return ",".join(said for _, said in sorted(terms))
