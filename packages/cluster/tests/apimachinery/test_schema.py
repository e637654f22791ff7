"""The types: every served kind has one, every name in them leads somewhere, and protobuf numbers name their fields."""

import pytest

from berth_cluster.apimachinery import schema
from berth_cluster.apimachinery.releases import NEWEST_MINOR, OLDEST_MINOR, release
from berth_cluster.apimachinery.schema import find_message, message, message_of, type_name

KINDS = {kind for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1) for kind in release(minor).types}


@pytest.mark.parametrize("kind", sorted(KINDS, key=repr), ids=lambda kind: f"{kind.group}/{kind.version}/{kind.plural}")
def test_every_kind_has_a_type_of_which_all_parts_are_known(kind):
    found = message_of(kind.group, kind.version, kind.kind)
    assert found is not None and found.is_kind
    assert found.fields["metadata"].type == "meta.v1.ObjectMeta"
    waiting, seen = [found.name], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        part = find_message(name)
        assert part is not None, name
        waiting += [field.type for field in (*part.fields.values(), *part.numbers.values()) if not field.is_scalar]


# Versions whose types are those of another version, which may have more fields.
LIKE_ANOTHER = ("resource.v1alpha3.", "resource.v1beta", "scheduling.v1alpha")


@pytest.mark.parametrize("name", schema.numbered_types())
def test_everything_that_is_said_of_a_type_is_about_its_fields(name):
    said = schema._said_of(name)
    named = {field for field in said.numbers.values() if not field.startswith("inline:")}
    found = named | set(said.types) | said.values | said.pointers
    assert found <= set(message(name).fields) or name.startswith(LIKE_ANOTHER)


def test_structs_that_json_has_inline_are_one_level_up():
    volume, probe = message("core.v1.Volume"), message("core.v1.Probe")
    assert {"name", "emptyDir", "configMap", "persistentVolumeClaim"} <= set(volume.fields)
    assert {"httpGet", "exec", "periodSeconds"} <= set(probe.fields)
    assert "inline" not in volume.fields
    assert message(volume.numbers[2].type).numbers[19].name == "configMap"


def test_lists_and_maps_are_told_apart():
    spec = message("core.v1.PodSpec")
    assert spec.fields["containers"].is_list and spec.fields["containers"].type == "core.v1.Container"
    assert spec.fields["nodeSelector"].is_map and spec.fields["nodeSelector"].type == "string"
    assert not spec.fields["nodeName"].is_list


def test_how_lists_merge():
    ports = message("core.v1.Container").fields["ports"]
    assert (ports.merge_key, ports.list_keys) == ("containerPort", ("containerPort", "protocol"))
    assert message("core.v1.Container").fields["command"].is_atomic
    assert message("meta.v1.ObjectMeta").fields["finalizers"].is_set


def test_descriptions():
    assert schema.description("core.v1.PodSpec", "nodeName").startswith("NodeName indicates in which node")
    assert schema.description("core.v1.Pod").startswith("Pod is a collection of containers")


def test_kinds_that_are_not_there():
    assert message_of("apps", "v1", "Gadget") is None
    assert message_of("example.com", "v1", "Pod") is None
    assert type_name("rbac.authorization.k8s.io", "v1", "Role") == "rbac.v1.Role"


@pytest.mark.parametrize("group", ["apps.example.com", "scheduling.x-k8s.io", "batch.volcano.sh"])
def test_a_kind_of_somebody_elses_group_has_no_type_of_kubernetes(group):
    kind = {"apps": "Deployment", "scheduling": "PriorityClass", "batch": "Job"}[group.partition(".")[0]]
    assert message_of(group.partition(".")[0].replace("scheduling", "scheduling.k8s.io"), "v1", kind) is not None
    assert message_of(group, "v1", kind) is None


def test_without_its_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(schema, "find_spec", lambda _name: None)
    with pytest.raises(schema.SchemaError, match=r"pip install 'berth-scheduler\[cluster\]'"):
        schema._definitions.__wrapped__(36)
