"""The table of fields is what Kubernetes' OpenAPI documents say, and what it makes of manifests is what a server does.

The documents come with kubernetes-validate, one for each release; the words are those that they list in descriptions.
"""

from typing import NamedTuple

import msgspec
import pytest

from berth.api.strict import Mistake, _table, mistakes_in, repetitions_in, told
from berth_cluster.apimachinery import schema

TABLE = _table()
RELEASES = (36, 37)
SAME = {"ContainerClaim": "ResourceClaim"}
"""Types that have another name here than in Go."""
GROUPS = {"": "core", "resource.k8s.io": "resource", "scheduling.k8s.io": "scheduling", "storage.k8s.io": "storage",
          "node.k8s.io": "node"}  # fmt: skip
VERSIONS = {"DeviceTaintRule": "v1beta2", "PodGroup": "v1alpha2", "Workload": "v1alpha2"}


class Described(NamedTuple):
    """A field as the OpenAPI documents describe it."""

    type: str
    is_list: bool
    is_map: bool
    said: str


def described(name):
    """The fields of a type in all releases."""
    found = {}
    for minor in RELEASES:
        raw = schema._definitions(minor).get(schema.full_name(name))
        if raw is not None:
            for key, field in msgspec.json.decode(raw).get("properties", {}).items():
                of = field.get("items") or field.get("additionalProperties") or field
                shape = ("items" in field, bool(field.get("additionalProperties")))
                found.setdefault(key, Described(type_of(of), *shape, field.get("description", "")))
    return found


def type_of(said):
    if "$ref" in said:
        return schema.referenced(said["$ref"])
    if "format" in said:
        return {"int32": "int32", "int64": "int64", "byte": "bytes", "double": "double"}.get(said["format"], "Time")
    kind = said.get("type", "")
    kind = kind if isinstance(kind, str) else kind[0]
    return {"string": "string", "boolean": "bool", "integer": "int64", "number": "double"}.get(kind, "any")


def full_name(kind):
    group = TABLE.groups[kind]
    return f"{GROUPS.get(group, group)}.{VERSIONS.get(kind, 'v1')}.{kind}"


def all_types():
    """Each type that is reached from a kind, with its full name, once."""
    left, seen = [(kind, full_name(kind)) for kind in TABLE.groups], set()
    while left:
        here, there = left.pop()
        if (here, there) in seen:
            continue
        seen.add((here, there))
        yield here, there
        for name, field in described(there).items():
            ours = TABLE.types[here].get(name)
            if ours is not None and ours.type in TABLE.types:
                left.append((ours.type, field.type))


ALL_TYPES = sorted(all_types())


def test_every_type_of_the_table_is_reached_from_a_kind():
    assert {here for here, _ in ALL_TYPES} == TABLE.types.keys()


@pytest.mark.parametrize(("here", "there"), ALL_TYPES)
def test_a_type_has_the_fields_that_kubernetes_says_it_has(here, there):
    assert SAME.get(here, here) == there.rpartition(".")[2]
    ours, theirs = TABLE.types[here], described(there)
    assert ours.keys() == theirs.keys()
    for name, field in ours.items():
        if field.type == "any":
            continue
        of = theirs[name]
        assert (field.is_list, field.is_map) == (of.is_list, of.is_map), name
        assert field.type == of.type if of.type in schema.SCALARS else field.type in TABLE.types, name


IN_OTHER_WORDS = {
    # Descriptions that name no values, or the default only: these are from the concepts that they point to.
    "CSIDriverSpec.fsGroupPolicy", "Container.restartPolicy", "ContainerResizePolicy.restartPolicy",
    "ContainerRestartRule.action", "HTTPGetAction.scheme", "HostPathVolumeSource.type",
    "PersistentVolumeClaimSpec.accessModes", "PersistentVolumeClaimSpec.volumeMode", "PersistentVolumeSpec.accessModes",
    "PersistentVolumeSpec.volumeMode", "ResourceQuotaSpec.scopes", "ScopedResourceSelectorRequirement.scopeName",
    "SecurityContext.procMount", "StatefulSetUpdateStrategy.type", "StorageClass.reclaimPolicy",
    "StorageClass.volumeBindingMode", "VolumeMount.mountPropagation",
}  # fmt: skip


@pytest.mark.parametrize(("here", "there"), ALL_TYPES)
def test_the_words_of_a_field_are_those_of_its_description(here, there):
    theirs = described(there)
    for name, field in TABLE.types[here].items():
        missing = [word for word in field.words if word not in theirs[name].said]
        assert not missing or f"{here}.{name}" in IN_OTHER_WORDS, (name, missing, theirs[name].said)


def mistakes(spec, kind="Pod", version="v1"):
    return list(map(str, mistakes_in(kind, version, {"kind": kind, "metadata": {"name": "p"}, "spec": spec})))


def test_null_is_as_good_as_nothing():
    assert mistakes({"tolerations": None, "nodeSelector": {"a": None}, "containers": [{"name": None}]}) == []


def test_numbers_are_quantities_and_ports_may_have_names():
    container = {"resources": {"limits": {"cpu": 0.5, "memory": 10**20}}, "livenessProbe": {"tcpSocket": {"port": "a"}}}
    assert mistakes({"containers": [container]}) == []


def test_a_quantity_of_nothing_is_none():
    (said,) = mistakes({"containers": [{"resources": {"limits": {"cpu": None}}}]})
    assert said == "spec.containers[0].resources.limits[cpu]: a quantity is expected, not nothing"


def test_kinds_of_other_groups_are_not_looked_into():
    assert mistakes({"anything": 1}, "Service", "serving.knative.dev/v1") == []
    assert mistakes({"anything": 1}, "Workflow", "argoproj.io/v1alpha1") == []


def test_an_older_version_of_a_group_is_held_against_the_fields_of_today():
    assert mistakes({"selectors": {}}, "PodDisruptionBudget", "policy/v1beta1") == [
        "unknown field spec.selectors; did you mean selector?"
    ]


def test_unknown_fields_come_first_and_few_are_told():
    spec = {"restartPolicy": "Sometimes", **{f"field{number}": 1 for number in range(9)}}
    found = mistakes_in("Pod", "v1", {"spec": spec})
    assert [each.is_unknown for each in found] == [True] * 5
    assert told(found[:2]) == "unknown field spec.field0; unknown field spec.field1"


def test_repeated_fields_are_told_with_their_path():
    text = b'{"spec": {"hostNetwork": true, "hostNetwork": false}}'
    assert repetitions_in(text) == [Mistake("spec.hostNetwork", "is given twice")]


def test_long_names_are_cut():
    (unknown,) = mistakes_in("Pod", "v1", {"spec": {"a" * 5000: 1}})
    assert len(unknown.field) < 200
