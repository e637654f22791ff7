"""Feature gates that change what happens, switched; those of a single plugin are switched in its own tests.

Expectations: the KEPs named at each test, and pkg/features/kube_features.go, v1.36.
"""

import pytest

from berth.config.feature_gates import SWITCHED
from berth.config.kubernetes_gates import KUBERNETES_GATES
from berth.core.builders import make_pod
from berth.framework.status import unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import cluster, document, node, once, plugin, pod
from tests.paths import ROOT

GROUPS = {"GangScheduling", "GenericWorkload", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"}

TESTS = (ROOT / "packages/scheduler/tests", ROOT / "tests")


def test_every_gate_that_can_be_switched_is_switched_somewhere():
    texts = [
        path.read_text()
        for place in TESTS
        for path in place.rglob("test_*.py")
        if path.parent.name not in ("config", "cli")
    ]
    switchable = {name for name in SWITCHED if not KUBERNETES_GATES[name].locked}
    untested = {name for name in switchable if not any(f'"{name}": ' in text for text in texts)}
    assert untested <= GROUPS


# KEP-2837: spec.resources of the pod stands in for what its containers ask for.
@pytest.mark.parametrize(("is_on", "fits"), [(True, False), (False, True)])
def test_pod_level_resources(is_on, fits):
    asking = make_pod("a").request(cpu="500m").pod_level(cpu="3")
    gates = {"PodLevelResources": is_on, "InPlacePodLevelResourcesVerticalScaling": is_on}
    found = cluster(node(cpu="2"), asking, gates=gates).run()
    assert found.nodes_of() == {"a": "n1" if fits else ""}
    assert found.core.intake.info(asking.build()).requests["cpu"] == (500 if fits else 3000)


# KEP-5419: while a pod-level resize is in flight, the most of what is asked, allocated and in force counts.
@pytest.mark.parametrize(("is_on", "fits"), [(True, False), (False, True)])
def test_resizes_of_pod_level_resources(is_on, fits):
    shrinking = make_pod("running").request(cpu="100m").pod_level(cpu="1").node("n1")
    shrinking.set_status(resources={"requests": {"cpu": "2"}}, allocatedResources={"cpu": "2"})
    gates = {"InPlacePodLevelResourcesVerticalScaling": is_on}
    found = cluster(node(cpu="2"), shrinking, pod("a", cpu="1"), gates=gates).run()
    assert found.nodes_of()["a"] == ("n1" if fits else "")
    check(found.core)


# KEP-5142: an idle scheduler takes the next pod from the backoff queue before its time.
@pytest.mark.parametrize(("is_on", "attempts"), [(True, 2), (False, 1)])
def test_popping_from_the_backoff_queue(is_on, attempts):
    found = cluster(node(cpu="1"), pod("a", cpu="2"), gates={"SchedulerPopFromBackoffQ": is_on}).run()
    found.put(node("n2", cpu="2").taint("no"))
    found.run()
    assert found.core.queue.find("default/a").attempts == attempts
    found.advance(2.0)  # without the gate backoffs are looked through once a second, and this one at 1.0 still lasts
    assert found.core.queue.find("default/a").attempts == 2


# KEP-5278: the API server is told where a pod is going that still waits before it is bound.
@pytest.mark.parametrize(("is_on", "told"), [(True, {"n1"}), (False, set())])
def test_nominated_node_name_for_expectation(is_on, told):
    busy = plugin("Busy", pre_bind_pre_flight=lambda *_: None, pre_bind=once(unschedulable("later")))
    gates = {"NominatedNodeNameForExpectation": is_on}
    found = cluster(node(), config=document("Busy"), plugins={"Busy": busy}, gates=gates)
    found.put(pod("a"))
    found.run()
    assert {patch.nominated_node_name for patch in found.patches("a")} - {None, ""} == told
    assert ("pre_bind_pre_flight" in busy.calls) is is_on


def test_locked_gates_are_on():
    assert all(gate.default for gate in (KUBERNETES_GATES[name] for name in SWITCHED) if gate.locked)
