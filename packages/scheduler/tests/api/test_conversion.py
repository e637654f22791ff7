"""Objects of other API versions, as the servers of those releases give them, in the shape of the structs and back.

The shapes are those of k8s.io/api: resource/v1alpha3 of v1.31, resource/v1beta1 of v1.32, scheduling/v1beta1 of v1.37.
"""

from contextlib import suppress

import msgspec
import pytest

from berth.api.codec import ObjectError, decode
from berth.api.conversion import reader_of, to_served, to_structs
from berth.api.resources import RESOURCES, versions_of

META = {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "7"}


def at(kind, version):
    return RESOURCES[kind]._replace(version=version)


def read(kind, version, **fields):
    document = {"apiVersion": at(kind, version).api_version, "kind": kind, "metadata": META, **fields}
    return reader_of(at(kind, version))(msgspec.json.encode(document))


SELECTOR = {"cel": {"expression": "device.driver == 'd'"}}
FLAT_REQUEST = {
    "name": "gpu",
    "deviceClassName": "c",
    "selectors": [SELECTOR],
    "allocationMode": "ExactCount",
    "count": 2,
}
NESTED_REQUEST = {"name": "gpu", "exactly": {key: value for key, value in FLAT_REQUEST.items() if key != "name"}}
CHOICE = {"name": "any", "firstAvailable": [{"name": "big", "deviceClassName": "b"}, {"name": "small", "count": 1}]}


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
def test_flat_requests_are_those_of_today(version):
    found = read("ResourceClaim", version, spec={"devices": {"requests": [FLAT_REQUEST, CHOICE], "constraints": []}})
    today = {"metadata": META, "spec": {"devices": {"requests": [NESTED_REQUEST, CHOICE]}}}
    assert found == decode("ResourceClaim", today)
    assert found.spec.devices.requests[0].exactly.count == 2
    assert [each.name for each in found.spec.devices.requests[1].first_available] == ["big", "small"]


def test_v1beta2_has_todays_shape():
    assert read("ResourceClaim", "v1beta2", spec={"devices": {"requests": [NESTED_REQUEST]}}) == read(
        "ResourceClaim", "v1", spec={"devices": {"requests": [NESTED_REQUEST]}}
    )


@pytest.mark.parametrize(("version", "amount"), [("v1alpha3", "40Gi"), ("v1beta1", {"value": "40Gi"})])
def test_devices_are_unpacked(version, amount):
    basic = {"attributes": {"model": {"string": "a"}}, "capacity": {"memory": amount}, "nodeName": "n1"}
    spec = {"driver": "d", "nodeName": "n1", "pool": {"name": "p"}, "devices": [{"name": "dev", "basic": basic}]}
    (device,) = read("ResourceSlice", version, spec=spec).spec.devices
    assert (device.name, device.attributes["model"].string, device.node_name) == ("dev", "a", "n1")
    assert device.capacity["memory"].value == "40Gi"


def test_a_quantity_of_another_version_is_checked_like_any():
    basic = {"capacity": {"memory": {"value": "much"}}}
    with pytest.raises(ObjectError, match=r"ResourceSlice n/x: spec\.devices\[0\]\.capacity\[memory\]"):
        read("ResourceSlice", "v1beta1", spec={"devices": [{"name": "dev", "basic": basic}]})


def test_a_rule_that_selects_by_more_than_is_evaluated_is_refused():
    spec = {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    assert read("DeviceTaintRule", "v1alpha3", spec=spec).spec.device_selector.driver == "d"
    spec["deviceSelector"]["deviceClassName"] = "c"
    with pytest.raises(ObjectError, match=r"spec\.deviceSelector\.deviceClassName was given up"):
        read("DeviceTaintRule", "v1alpha3", spec=spec)


@pytest.mark.parametrize(("mode", "word"), [({"all": {}}, "PodGroup"), ({"single": {}}, "Pod"), ({}, None)])
def test_pod_groups_of_v1_37(mode, word):
    conditions = [{"type": "PodGroupInitiallyScheduled", "status": "True"}, {"type": "DisruptionTarget"}]
    group = read(
        "PodGroup", "v1beta1", status={"conditions": conditions},
        spec={"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": mode},
    )  # fmt: skip
    assert (group.spec.scheduling_policy.gang.min_count, group.spec.disruption_mode) == (3, word)
    assert [each.type for each in group.status.conditions] == ["PodGroupScheduled", "DisruptionTarget"]


@pytest.mark.parametrize(
    "junk", [None, 1, "x", [], {"devices": 1}, {"devices": {"requests": 1}}, {"devices": [1, {"basic": 2}]}]
)
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceSlice", "DeviceTaintRule"])
def test_what_has_no_shape_at_all_is_read_or_an_error_of_the_object(kind, junk):
    with suppress(ObjectError):
        found = reader_of(at(kind, "v1alpha3"))(msgspec.json.encode({"metadata": META, "spec": junk}))
        assert found.metadata.name == "x"


@pytest.mark.parametrize("raw", [b"[]", b"1", b'{"metadata"', b"\xff"])
def test_what_is_no_object_is_an_error(raw):
    with pytest.raises(ObjectError):
        reader_of(at("ResourceClaim", "v1beta1"))(raw)


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1", "v1beta2", "v1"])
def test_what_is_written_has_the_shape_that_is_served(version):
    there = at("ResourceClaim", version)
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "metadata": META,
        "spec": {"devices": {"requests": [NESTED_REQUEST, CHOICE]}},
    }
    (first, second) = to_served(there, claim)["spec"]["devices"]["requests"]
    assert first == (NESTED_REQUEST if version in ("v1beta2", "v1") else FLAT_REQUEST) and second == CHOICE
    again = to_structs(there, to_served(there, claim))
    assert again == claim


def test_every_version_has_a_reader():
    for kind in RESOURCES:
        for resource in versions_of(kind):
            assert reader_of(resource)(msgspec.json.encode({"metadata": META})).metadata.name == "x"
    assert versions_of("PodGroup")[0].version == "v1beta1"
