"""The schemas: every stored kind has one, and every name in them leads somewhere."""

import pytest

from berth_cluster.apimachinery.resource_types import RESOURCE_TYPES
from berth_cluster.apimachinery.schema import message_of, messages


@pytest.mark.parametrize("kind", RESOURCE_TYPES, ids=lambda kind: f"{kind.group}/{kind.plural}")
def test_every_kind_has_a_schema(kind):
    message = message_of(kind.group, kind.version, kind.kind)
    assert message is not None and message.is_kind
    assert message.fields["metadata"].type == "meta/ObjectMeta"


def test_every_type_that_is_named_exists():
    named = {field.type for message in messages().values() for field in message.fields.values() if not field.is_scalar}
    assert named <= set(messages())


def test_structs_that_json_has_inline_are_one_level_up():
    volume, probe = messages()["core/Volume"], messages()["core/Probe"]
    assert {"name", "emptyDir", "configMap", "persistentVolumeClaim"} <= set(volume.fields)
    assert {"httpGet", "exec", "periodSeconds"} <= set(probe.fields)
    assert "inline" not in volume.fields


def test_lists_and_maps_are_told_apart():
    spec = messages()["core/PodSpec"]
    assert spec.fields["containers"].is_list and spec.fields["containers"].type == "core/Container"
    assert spec.fields["nodeSelector"].is_map and spec.fields["nodeSelector"].type == "string"
    assert not spec.fields["nodeName"].is_list


def test_kinds_that_are_not_there():
    assert message_of("apps", "v1", "Gadget") is None
    assert message_of("example.com", "v1", "Pod") is None
