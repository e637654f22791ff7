"""Pod groups and workloads as the embedded API server takes them.

Rules: staging/src/k8s.io/api/scheduling/v1alpha2/types.go of v1.36 (its validation tags); kubernetes.io "Pod Group
Disruption and Priority" (the default mode, the priority of the class) and "PodGroup lifecycle" (the template).
"""

import copy

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import BY_KEY
from packages.cluster.tests.objects import PODS, PRIORITY_CLASSES, make_store

GROUPS = BY_KEY["scheduling.k8s.io", "podgroups"]
WORKLOADS = BY_KEY["scheduling.k8s.io", "workloads"]
GANG = {"gang": {"minCount": 2}}


def group(**spec):
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": GANG, **spec}}


def workload(*templates):
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": list(templates)}}


def test_defaults_are_filled_in():
    made = make_store().create(GROUPS, "default", group())
    assert made["spec"] == {"schedulingPolicy": GANG, "disruptionMode": "Pod", "priority": 0}
    assert "status" not in made or made["status"] == {}


def test_the_priority_is_that_of_the_class():
    store = make_store()
    store.create(PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 1000})
    made = store.create(GROUPS, "default", group(priorityClassName="high"))
    assert made["spec"]["priority"] == 1000
    with pytest.raises(StoreError, match="no PriorityClass with name low was found"):
        store.create(GROUPS, "default", {**group(priorityClassName="low"), "metadata": {"name": "h"}})


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"schedulingPolicy": {}}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
        ({"schedulingPolicy": {"basic": {}, **GANG}}, "must specify exactly one of: `basic`, `gang`"),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}}, "gang.minCount: Invalid value: -1: must be greater than or"),
        ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
        ({"disruptionMode": "All"}, 'supported values: "Pod", "PodGroup"'),
        ({"schedulingConstraints": {"topology": [{"key": "a b"}]}}, "spec.schedulingConstraints.topology[0].key: "),
        ({"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}}, "must have at most 1 item"),
    ],
)
def test_groups_that_are_wrong(spec, why):
    with pytest.raises(StoreError) as caught:
        make_store().create(GROUPS, "default", group(**spec))
    assert why in str(caught.value)


def test_the_spec_of_a_group_never_changes_and_its_status_does():
    store = make_store()
    made = store.create(GROUPS, "default", group())
    harder = {**made, "spec": {**made["spec"], "schedulingPolicy": {"gang": {"minCount": 3}}}}
    with pytest.raises(StoreError, match=r"spec.schedulingPolicy: Invalid value: .*: field is immutable"):
        store.update(GROUPS, "default", "g", harder)
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled"}
    store.update(GROUPS, "default", "g", {**made, "status": {"conditions": [condition]}}, subresource="status")
    kept = store.update(GROUPS, "default", "g", group())
    assert kept["status"]["conditions"] == [condition]


def test_a_group_names_a_template_that_exists():
    store = make_store()
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "workers"}}
    with pytest.raises(StoreError, match="no Workload with name w was found"):
        store.create(GROUPS, "default", group(podGroupTemplateRef=reference))
    store.create(WORKLOADS, "default", workload({"name": "drivers", "schedulingPolicy": GANG}))
    with pytest.raises(StoreError, match="Workload w has no podGroupTemplate with name workers"):
        store.create(GROUPS, "default", group(podGroupTemplateRef=reference))
    reference["workload"]["podGroupTemplateName"] = "drivers"
    store.create(GROUPS, "default", group(podGroupTemplateRef=reference))


@pytest.mark.parametrize(
    ("templates", "why"),
    [
        ([], "spec.podGroupTemplates: Required value"),
        ([{"name": f"t{n}", "schedulingPolicy": GANG} for n in range(9)], "must have at most 8 items"),
        ([{"name": "a", "schedulingPolicy": GANG}] * 2, "spec.podGroupTemplates[1]: Duplicate value"),
        ([{"name": "a.b", "schedulingPolicy": GANG}], "spec.podGroupTemplates[0].name: Invalid value"),
        ([{"name": "a"}], "spec.podGroupTemplates[0].schedulingPolicy: Invalid value"),
    ],
)
def test_workloads_that_are_wrong(templates, why):
    with pytest.raises(StoreError) as caught:
        make_store().create(WORKLOADS, "default", workload(*templates))
    assert why in str(caught.value)


def test_the_templates_of_a_workload_never_change():
    store = make_store()
    made = copy.deepcopy(store.create(WORKLOADS, "default", workload({"name": "a", "schedulingPolicy": GANG})))
    made["spec"]["podGroupTemplates"][0]["schedulingPolicy"] = {"basic": {}}
    with pytest.raises(StoreError, match="field is immutable"):
        store.update(WORKLOADS, "default", "w", made)


def test_a_pod_stays_in_its_group():
    store = make_store()
    spec = {"schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c", "image": "i"}]}
    made = copy.deepcopy(store.create(PODS, "default", {"metadata": {"name": "p"}, "spec": spec}))
    assert made["spec"]["schedulingGroup"] == {"podGroupName": "g"}
    made["spec"]["schedulingGroup"]["podGroupName"] = "other"
    with pytest.raises(StoreError, match="pod updates may not change fields other than"):
        store.update(PODS, "default", "p", made)
