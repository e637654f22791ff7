"""Fields that do not exist and values of the wrong type, with upstream's paths and messages."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.field_checks import FieldCheck
from berth_cluster.apimachinery.schema import message


def unknown(kind, obj, *, partial=False):
    return FieldCheck(kind.rpartition(".")[2], "v1", partial=partial).run(message(kind), obj)


@pytest.mark.parametrize(
    ("obj", "paths"),
    [
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n"}}, []),
        ({"specs": {}}, ["specs"]),
        ({"spec": {"kind": "x"}}, ["spec.kind"]),
        ({"spec": {"containers": [{"name": "a"}, {"imag": "b"}]}}, ["spec.containers[1].imag"]),
        ({"spec": {"affinity": {"podAffinity": {"required": []}}}}, ["spec.affinity.podAffinity.required"]),
        ({"metadata": {"labels": {"any": "thing"}, "lables": {}}}, ["metadata.lables"]),
    ],
)
def test_unknown_fields(obj, paths):
    assert unknown("core.v1.Pod", obj) == paths


def test_unknown_fields_and_nulls_are_dropped():
    obj = {"metadata": {"creationTimestamp": None, "name": "a"}, "spec": {"oops": 1, "nodeName": "n"}}
    unknown("core.v1.Pod", obj)
    assert obj == {"metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": None}, "status": {}}


def test_a_patch_keeps_its_nulls_and_directives():
    patch = {
        "spec": {
            "gone": None,
            "$setElementOrder/containers": [{"name": "a"}],
            "containers": [{"name": "a", "$patch": "delete"}],
            "nodeName": None,
        }
    }
    before = repr(patch)
    assert unknown("core.v1.Pod", patch, partial=True) == []
    assert repr(patch) == before


@pytest.mark.parametrize(
    ("kind", "obj", "why"),
    [
        (
            "core.v1.Pod",
            {"spec": {"priority": "high"}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32",
        ),
        ("core.v1.Pod", {"spec": {"containers": {}}}, "cannot unmarshal object into Go struct field"),
        ("core.v1.Pod", {"spec": {"hostNetwork": 1}}, "PodSpec.spec.hostNetwork of type bool"),
        ("core.v1.Pod", {"spec": {"priority": 3_000_000_000}}, "unmarshal number 3000000000 into Go struct field"),
        ("core.v1.Pod", {"spec": {"priority": 1.5}}, "cannot unmarshal number 1.5 into Go struct field PodSpec.spec."),
        (  # a number in an IntOrString is read as an int32: apimachinery's pkg/util/intstr
            "policy.v1.PodDisruptionBudget",
            {"spec": {"minAvailable": 1 << 33}},
            (
                "json: cannot unmarshal number 8589934592 into Go struct field "
                "PodDisruptionBudgetSpec.spec.minAvailable of type int32"
            ),
        ),
        ("core.v1.Pod", {"metadata": {"labels": {"a": 1}}}, "cannot unmarshal number into Go struct field ObjectMeta"),
        (
            "core.v1.Pod",
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "1core"}}}]}},
            "cannot be handled as a Pod: quantities must match the regular expression",
        ),
        (
            "core.v1.Node",
            {"status": {"allocatable": {"memory": "12 Gi"}}},
            "cannot be handled as a Node: quantities must match",
        ),
    ],
)
def test_values_of_the_wrong_type(kind, obj, why):
    with pytest.raises(StoreError, match=why) as caught:
        unknown(kind, obj)
    short = kind.rpartition(".")[2]
    assert caught.value.status_code == 400
    assert caught.value.message.startswith(f'{short} in version "v1" cannot be handled as a {short}: ')


@pytest.mark.parametrize("surge", ["25%", 3])
def test_an_int_or_string_may_be_either(surge):
    obj = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": surge}}}}
    assert unknown("apps.v1.Deployment", obj) == []
