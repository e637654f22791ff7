"""Workloads of scheduler_perf in process: every operation, in time that a test lets pass."""

import asyncio

import pytest

from berth.config.load import default_config
from berth.plugins.registry import in_tree_registry
from berth_workbench.scheduler_perf.documents import PerfError, read_workloads
from berth_workbench.scheduler_perf.in_process import InProcess
from berth_workbench.scheduler_perf.play import Play
from packages.workbench.tests.scheduler_perf.documents import measured, nodes, pods, written

STEP_S = 0.01
"""What everything that the core does takes in these tests."""


class Played:
    """One workload, played; its figures and what is there in the end."""

    def __init__(self, directory, *operations, **workload):
        (read,) = read_workloads(written(directory, *operations, **workload))
        looks = iter(range(10**9))
        self.site = InProcess(default_config(), in_tree_registry(), stopwatch=lambda: next(looks) * STEP_S)
        self.figures = asyncio.run(Play(read, self.site).figures())
        self.site.close()

    def nodes_of(self, namespace):
        return [pod.node for pod in self.site.pods.values() if pod.namespace == namespace]


def test_pods_are_measured_after_those_that_come_first(tmp_path):
    played = Played(tmp_path, nodes(3), pods(2), measured(4), threshold=60)
    figures = played.figures
    assert (figures.nodes, figures.pods, figures.failed, figures.threshold) == (3, 4, 0, 60.0)
    assert figures.pods_per_s == pytest.approx(4 / figures.seconds, rel=0.01)
    assert all(played.nodes_of("namespace-1"))
    assert all(played.nodes_of("namespace-2"))


def test_pods_that_fit_nowhere_are_counted(tmp_path):
    assert (Played(tmp_path, nodes(1), measured(6)).figures.failed) == 2


def test_nodes_have_labels_and_volumes_by_their_strategies(tmp_path):
    played = Played(
        tmp_path,
        {**nodes(3), "labelNodePrepareStrategy": {"labelKey": "zone", "labelValues": ["a", "b"]}},
        {
            **nodes(1),
            "nodeTemplatePath": "node.yaml",
            "nodeAllocatableStrategy": {
                "nodeAllocatable": {"example.com/slots": "2"},
                "csiNodeAllocatable": {"csi.example.com": {"count": 20}},
            },
        },
        {**nodes(1), "uniqueNodeLabelStrategy": {"labelKey": "own"}},
    )
    objects = played.site._cluster.objects
    made = [objects["Node", name] for name in played.site.nodes]
    assert [node.metadata.labels.get("zone") for node in made] == ["a", "b", "a", None, None]
    assert all(node.metadata.labels["kubernetes.io/hostname"] == node.metadata.name for node in made)
    assert made[4].metadata.labels["own"] == made[4].metadata.name
    assert made[3].status.allocatable == {"pods": "9", "cpu": "4", "memory": "8Gi", "example.com/slots": "2"}
    assert objects["CSINode", made[3].metadata.name].spec.drivers[0].allocatable.count == 20


def test_pods_of_sets_are_in_namespaces_of_their_own(tmp_path):
    inner = {"opcode": "createPods", "count": 2, "podTemplatePath": "pod.yaml"}
    played = Played(
        tmp_path,
        nodes(2),
        {"opcode": "createNamespaces", "prefix": "team", "count": 2},
        {"opcode": "createPodSets", "count": 2, "namespacePrefix": "team", "createPodsOp": inner},
    )
    assert all(played.nodes_of("team-0"))
    assert len(played.nodes_of("team-0")) == len(played.nodes_of("team-1")) == 2


def test_a_barrier_waits_for_pods_that_nobody_has_waited_for(tmp_path):
    played = Played(
        tmp_path,
        nodes(1),
        pods(3, namespace="here", skipWaitToCompletion=True),
        pods(3, namespace="here", podTemplatePath="huge.yaml", skipWaitToCompletion=True),
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        {"opcode": "barrier", "labelSelector": {"half": "0"}},
    )
    assert played.nodes_of("here").count("") == 3
    assert played.figures.failed == 2, "two of the large ones have the label"


def test_gated_pods_pass_for_tried(tmp_path):
    played = Played(
        tmp_path,
        nodes(1),
        pods(2, podTemplatePath="gated.yaml", skipWaitToCompletion=True),
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        measured(1),
    )
    assert (played.figures.pods, played.figures.failed) == (1, 0)


def test_churn_goes_on_beside_what_is_measured(tmp_path):
    churn = {"opcode": "churn", "mode": "create", "templatePaths": ["huge.yaml"], "intervalMilliseconds": 100}
    played = Played(tmp_path, nodes(50), {**churn, "number": 3}, measured(100))
    assert played.figures.pods == 100
    assert len(played.nodes_of("namespace-1")) == 3


def test_churn_deletes_again_what_it_has_created(tmp_path):
    churn = {"opcode": "churn", "mode": "recreate", "number": 1, "intervalMilliseconds": 1000}
    with_nodes = {**churn, "templatePaths": ["node.yaml", "huge.yaml"]}
    played = Played(tmp_path, nodes(1), with_nodes, {"opcode": "sleep", "duration": "1500ms"})
    assert len(played.site._cluster.core.cache.table) == 2
    played = Played(tmp_path, nodes(1), with_nodes, {"opcode": "sleep", "duration": "2s500ms"})
    assert len(played.site._cluster.core.cache.table) == 1
    assert not played.site.pods


def test_pods_that_go_make_room_at_their_pace(tmp_path):
    played = Played(
        tmp_path,
        nodes(1),
        pods(4, namespace="first"),
        {"opcode": "deletePods", "namespace": "first", "labelSelector": {"half": "0"}, "deletePodsPerSecond": 10,
         "skipWaitToCompletion": True},
        measured(2),
    )  # fmt: skip
    assert (played.figures.failed, len(played.nodes_of("first"))) == (0, 2)


def test_a_pod_with_finalizers_is_deleted_and_stays(tmp_path):
    gone = {"opcode": "deletePods", "namespace": "namespace-1"}
    played = Played(tmp_path, nodes(1), pods(1, podTemplatePath="held.yaml"), gone)
    (pod,) = (obj for (kind, _), obj in played.site._cluster.objects.items() if kind == "Pod")
    assert pod.metadata.deletion_timestamp is not None


def test_what_is_updated_wakes_who_waits_for_it(tmp_path):
    played = Played(
        tmp_path,
        nodes(1),
        {"opcode": "startCollectingMetrics", "namespaces": ["here"]},
        pods(2, namespace="here", podTemplatePath="named.yaml", skipWaitToCompletion=True),
        {"opcode": "barrier", "stageRequirement": "Attempted"},
        {"opcode": "updateAny", "namespace": "here", "templatePath": "smaller.yaml", "count": 2, "updatePerSecond": 5},
        {"opcode": "barrier"},
        {"opcode": "stopCollectingMetrics"},
    )
    assert (played.figures.pods, played.figures.failed) == (2, 0)


def test_who_is_preempted_is_gone(tmp_path):
    played = Played(tmp_path, nodes(1), pods(4, namespace="low"), measured(1, podTemplatePath="important.yaml"))
    assert (played.figures.pods, played.figures.failed, len(played.nodes_of("low"))) == (1, 0, 1)


def test_pods_have_volumes_of_their_own(tmp_path):
    volumes = {"persistentVolumeTemplatePath": "pv.yaml", "persistentVolumeClaimTemplatePath": "pvc.yaml"}
    played = Played(tmp_path, nodes(1), pods(2, namespace="here", **volumes), measured(2, **volumes))
    assert (played.figures.pods, played.figures.failed) == (2, 0)
    claim = played.site._cluster.objects["PersistentVolumeClaim", "here/pvc-1"]
    volume = played.site._cluster.objects["PersistentVolume", claim.spec.volume_name]
    assert volume.spec.claim_ref.name == "pvc-1"


DEVICES = (
    {**nodes(2), "nodeTemplatePath": "device-node.yaml"},
    {"opcode": "createResourceDriver", "driverName": "gpu.example.com", "nodes": "dra-*", "maxClaimsPerNode": 2},
    {"opcode": "createAny", "templatePath": "class.yaml"},
)


def test_claims_are_made_of_templates(tmp_path):
    template = {"opcode": "createAny", "templatePath": "claims.yaml", "namespace": "test"}
    user = {"podTemplatePath": "user.yaml", "namespace": "test"}
    played = Played(tmp_path, *DEVICES, template, measured(5, **user))
    assert (played.figures.pods, played.figures.failed) == (4, 1), "there are four devices"


def test_claims_that_are_allocated_keep_their_devices(tmp_path):
    template = {"opcode": "createAny", "templatePath": "claims.yaml", "namespace": "test"}
    claims = {"opcode": "createAny", "templatePath": "claim.yaml", "namespace": "init", "count": 3}
    user = {"podTemplatePath": "user.yaml", "namespace": "test"}
    allocated = {"opcode": "allocResourceClaims", "namespace": "init"}
    played = Played(tmp_path, *DEVICES, template, claims, allocated, measured(2, **user))
    assert (played.figures.pods, played.figures.failed) == (1, 1)
    assert not played.nodes_of("init")


def test_a_steady_state_goes_on_for_its_time(tmp_path):
    steady = {"steadyState": True, "duration": "2s", "namespace": "test"}
    played = Played(tmp_path, nodes(1), measured(2, **steady))
    assert played.figures.pods > 4, "pods go when they have their nodes, and others come"
    assert played.figures.seconds == pytest.approx(2, rel=0.2)


def test_kinds_that_no_scheduler_watches_are_left_out_by_name(tmp_path):
    secret = {"opcode": "createAny", "templatePath": "secret.yaml", "namespace": "test"}
    assert Played(tmp_path, nodes(1), secret).figures.notes == ("objects that the scheduler does not watch: Secret",)


def test_an_operation_that_nobody_knows(tmp_path):
    with pytest.raises(PerfError, match="operation 1: opcode 'levitate' is not understood; understood are alloc"):
        Played(tmp_path, nodes(1), {"opcode": "levitate"})
