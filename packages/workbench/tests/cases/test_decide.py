"""Cases beside the recorded ones: how a case goes wrong, and what one pod leaves for the next."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.framework.registry import Registry
from berth.framework.status import Code, Status, unschedulable
from berth.plugins.registry import in_tree_registry
from berth.testing import VirtualCluster
from berth_workbench.cases.cases import CaseError
from berth_workbench.cases.decide import replay
from packages.scheduler.tests.support import boom, document, plugin


def case(objects, pods, **more):
    return {
        "name": "a case",
        "objects": [made.document for made in objects],
        "pods": [made.document for made in pods],
        **more,
    }


def decisions(objects, *pods, **more):
    return replay(case(objects, pods, **more), in_tree_registry())


def node(name="n1", cpu="1"):
    return make_node(name).capacity(cpu=cpu, memory="1Gi")


def test_a_pod_that_fits_takes_its_room_and_one_that_does_not_leaves_nothing():
    first, second, third = decisions(
        [node()],
        make_pod("a").request(cpu="600m"),
        make_pod("b").request(cpu="600m"),
        make_pod("c").request(cpu="400m"),
    )
    assert (first["pod"], first["chosen"], third["chosen"]) == ("default/a", "n1", "n1")
    assert "chosen" not in second
    assert second["filter"] == {"n1": {"NodeResourcesFit": {"code": "Unschedulable", "reasons": ["Insufficient cpu"]}}}
    assert second["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert second["unschedulablePlugins"] == ["NodeResourcesFit"]


def test_among_equals_the_smallest_name_is_chosen():
    (only,) = decisions([node("n2"), node("n10"), node("n1")], make_pod("a"))
    assert only["chosen"] == "n1"
    assert len(set(only["total"].values())) == 1


# `total` is the sum of the scores that are shown (the records of theme `gang`): 0 also where none is configured, though
# prioritizeNodes in pkg/scheduler/schedule_one.go counts 1 for every node.
@pytest.mark.parametrize("memos", [True, False])
@pytest.mark.parametrize(
    ("enabled", "total"), [([], 0), (["NodeAffinity", "NodeResourcesBalancedAllocation", "PodTopologySpread"], 0)]
)
def test_the_total_where_nothing_scores(enabled, total, memos):
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in enabled]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    told = case([node("n1"), node("n2")], [make_pod("a")], config={**kind, "profiles": [{"plugins": plugins}]})
    (only,) = replay(told, in_tree_registry(), memos=memos)
    assert not only.get("scores")
    assert only["total"] == {"n1": total, "n2": total}


def test_without_nodes():
    assert decisions([], make_pod("a")) == [{"pod": "default/a", "message": "no nodes available to schedule pods"}]


ODD = {
    "raises": boom,
    "nothing": lambda *_: None,
    "yes": lambda *_: True,
    "text": lambda *_: "n1",
    "rejects": lambda *_: unschedulable("not here"),
}
"""What a plugin may do, sensible or not, whatever the method."""
METHODS = (
    "pre_filter", "filter", "filter_columns", "post_filter", "pre_score", "score", "score_columns", "normalize_score",
    "signature", "reserve", "permit",
)  # fmt: skip
BESIDE = {
    "filter_columns": {"filter": lambda *_: None},
    "normalize_score": {"score": lambda *_: 1},
    "reserve": {"unreserve": lambda *_: None},
    "signature": {"filter": lambda *_: None},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ODD)
def test_a_plugins_odd_answer_ends_the_attempt_as_it_does_in_the_scheduler(method, kind):
    made = plugin("Odd", **BESIDE.get(method, {}), **{method: ODD[kind]})
    # Unchecked, as the scheduler is by default: the check asks for a signature that nobody else asks for.
    live = VirtualCluster(
        node(), plugins={"Odd": made}, config=document("Odd"), score_single_node=True, check_promises=0
    )
    live.put(make_pod("a"))
    live.run()
    registry = in_tree_registry().merge(Registry({"Odd": made}, "a test"))
    (decision,) = replay(case([node()], [make_pod("a")], config=document("Odd")), registry)
    assert decision.get("chosen", "") == live.nodes_of()["a"]
    told = [patch.message for patch in live.patches("a")]
    assert decision.get("message", "") == (told[-1] if told else "")


def test_a_pod_that_permit_rejects_leaves_its_place_to_the_next():
    made = plugin("Odd", permit=lambda state, pod, node: (unschedulable("no"), 0.0) if pod.name == "a" else None)
    registry = in_tree_registry().merge(Registry({"Odd": made}, "a test"))
    pods = [make_pod(name).request(cpu="1") for name in ("a", "b")]
    first, second = replay(case([node()], pods, config=document("Odd")), registry)
    assert (first["chosen"], first["permit"]["code"]) == ("n1", "Unschedulable")
    assert (first["message"], second["chosen"]) == (
        "0/1 nodes are available: 1 no.",
        "n1",
    )


def test_a_pod_that_permit_has_wait_keeps_its_place():
    made = plugin("Odd", permit=lambda *_: (Status(Code.WAIT), 10.0))
    registry = in_tree_registry().merge(Registry({"Odd": made}, "a test"))
    pods = [make_pod(name).request(cpu="1") for name in ("a", "b")]
    first, second = replay(case([node()], pods, config=document("Odd")), registry)
    assert (first["chosen"], "chosen" in second) == ("n1", False)


def device_objects(reserved_for=()):
    """A class, a slice with one device on n1, and a claim that has it: `default/c`."""
    only_n1 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    result = {"request": "r", "driver": "d", "pool": "n1", "device": "x"}
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    status = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [only_n1]}},
        "reservedFor": list(reserved_for),
    }
    request = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}}
    claim = {"devices": {"requests": [request]}}
    return [
        {"kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}},
        {
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {"driver": "d", "nodeName": "n1", "pool": pool, "devices": [{"name": "x"}]},
        },
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default", "uid": "c"},
            "spec": claim,
            "status": status,
        },
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "other", "namespace": "default", "uid": "other"},
            "spec": claim,
        },
    ]


SOMEBODY = {"resource": "pods", "name": "somebody", "uid": "somebody"}


@pytest.mark.parametrize("memos", [True, False])
@pytest.mark.parametrize(
    ("cpu_of_n2", "reserved_for", "why", "said"),
    [
        ("4", [], "1 Insufficient cpu, 1 {unavailable}", "deallocation of ResourceClaim completed"),
        ("4", [SOMEBODY], "1 Insufficient cpu, 1 {unavailable}", "still not schedulable"),
        # Where an earlier filter has refused the pod, nobody asks whether the claim could be used.
        ("1", [], "2 Insufficient cpu", "still not schedulable"),
    ],
)
def test_an_allocation_is_given_back_in_words_only(cpu_of_n2, reserved_for, why, said, memos):
    # pkg/scheduler/framework/plugins/dynamicresources, PostFilter; what a pod that does not fit asks for is not done.
    made = case(
        [node("n1"), node("n2", cpu=cpu_of_n2)],
        [
            make_pod("big").request(cpu="2").resource_claim("c", "c"),
            make_pod("next").request(cpu="100m").resource_claim("other", "other"),
        ],
    )
    made["objects"] += device_objects(reserved_for)
    first, second = replay(made, in_tree_registry(), memos=memos)
    why = why.format(unavailable="resourceclaim not available on the node")
    assert (first["postFilter"]["code"], first["postFilter"]["plugin"]) == ("Unschedulable", "DynamicResources")
    assert first["message"].startswith(f"0/2 nodes are available: {why}. {said}, preemption: 0/2 nodes are available: ")
    assert second["message"].startswith("0/2 nodes are available: 2 cannot allocate all claims.")


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        ("PodTopologySpread", 'error reading "PreScorePodTopologySpread" from cycleState: not found'),
        ("InterPodAffinity", 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'),
    ],
)
def test_a_plugin_that_scores_without_its_pre_score_is_an_error(plugin, why):
    # getPreScoreState of podtopologyspread and interpodaffinity; the others work it out again, or need nothing.
    plugins = {"multiPoint": {"disabled": [{"name": plugin}]}, "score": {"enabled": [{"name": plugin, "weight": 3}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }
    (only,) = decisions([node("n1"), node("n2")], make_pod("a"), config=config)
    assert only == {
        "pod": "default/a",
        "feasible": ["n1", "n2"],
        "message": f'running Score plugins: plugin "{plugin}" failed with: {why}',
    }


# getPreFilterState in filtering.go of podtopologyspread and interpodaffinity.
@pytest.mark.parametrize("plugin", ["PodTopologySpread", "InterPodAffinity"])
def test_a_plugin_that_filters_without_its_pre_filter_is_an_error(plugin):
    plugins = {"multiPoint": {"disabled": [{"name": plugin}]}, "filter": {"enabled": [{"name": plugin}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    waiting = make_pod("waiting").nominated("n1")
    config = {**kind, "profiles": [{"plugins": plugins}]}
    (only,) = decisions([node("n1"), node("n2"), waiting], make_pod("a"), config=config)
    why = f'reading "PreFilter{plugin}" from cycleState: not found'
    assert only["message"] == f'running "{plugin}" filter plugin: {why}'
    assert only["filter"] == {name: {plugin: {"code": "Error", "reasons": [why]}} for name in ("n1", "n2")}


def test_pods_are_known_by_name_where_a_case_gives_no_uid():
    unnamed = [make_pod("run").node("n1"), make_pod("also").node("n1"), make_pod("a"), make_pod("b")]
    for pod in unnamed:
        del pod.document["metadata"]["uid"]
    first, second = decisions([node("n1"), *unnamed[:2]], *unnamed[2:])
    assert first["chosen"] == second["chosen"] == "n1"


def test_requests_beyond_counting_are_no_more_than_a_full_node():
    much = str(2**63 - 1)
    hogs = [make_pod(f"hog{n}").request(cpu=much, memory=much).node("n1") for n in range(3)]
    one, two = decisions(
        [node("n1"), node("n2"), *hogs], make_pod("a").request(cpu="1m"), make_pod("b").request(cpu=much)
    )
    assert one["filter"] == {"n1": {"NodeResourcesFit": {"code": "Unschedulable", "reasons": ["Insufficient cpu"]}}}
    assert {name: told["NodeResourcesFit"]["code"] for name, told in two["filter"].items()} == {
        "n1": "UnschedulableAndUnresolvable",
        "n2": "UnschedulableAndUnresolvable",
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"objects": [3]}, r"case 'a case': objects\[0\] must be an object, not 3"),
        ({"pods": [None]}, r"case 'a case': pods\[0\] must be an object, not None"),
        ({"pods": {}}, "case 'a case': pods must be a list of objects"),
        (
            {"pods": [make_pod("p").document], "objects": [node().document, make_pod("p").node("n1").document]},
            "default/p.* is on a node already",
        ),
        ({"featureGates": {"DRAAdminAccess": 1}}, "case 'a case': featureGates must be an object of true and false"),
        ({"generation": ["v1.36"]}, "is not known"),
        ({"generation": "v1.99"}, "a case"),
        ({"objects": [{"kind": "Spaceship"}]}, "Spaceship"),
        ({"generation": "v1.20", "provider": "Fast"}, 'a case\': provider: .*"Fast".*"ClusterAutoscalerProvider"'),
    ],
)
def test_cases_that_cannot_be_replayed(more, words):
    with pytest.raises(CaseError, match=words):
        replay({**case([], []), **more}, in_tree_registry())
