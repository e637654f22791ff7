"""Rows of the single-cycle tables of upstream's `pkg/scheduler/schedule_one_test.go`, under their names.

What is compared is what upstream's rows compare: the node, how many nodes were looked at, each node's status, the
plugins that a pod waits for, and scores. A pod here lives through the whole cycle, so messages are compared as well.
"""

from datetime import UTC, datetime

import msgspec
import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.node_sample import feasible_nodes_to_find
from berth.decisions.explanation import explain
from berth.framework.effects import Bind, PatchPodStatus, PodRef
from berth.framework.extenders import EXTENDER_NAME
from berth.framework.interface import PreFilterResult
from berth.framework.status import SKIP, error, unresolvable, unschedulable
from berth.runtime.acting.pod_status import patch_body
from packages.scheduler.tests.extender.support import FAILS, FakeExtenders, keeping, listed
from packages.scheduler.tests.support import plugin, requests_of, with_profiles

A, B = "http://a.test", "http://b.test"
FAKE = "Nodes failed the fake predicate"
LOW, MID, HIGH = 0, 100, 1000


def hosts(*names):
    return [make_node(name).label("kubernetes.io/hostname", name).capacity(cpu="8", memory="8Gi") for name in names]


def single(nodes, *fakes, points=None, extenders=(), answers=None, percentage=0, seed=0):
    """A cluster whose profile has these plugins only; `points` lists in-tree plugins by extension point."""
    enabled = [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]
    enabled += [{"name": made.name, "weight": getattr(made, "weight", 1)} for made in fakes]
    plugins = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}
    plugins |= {point: {"enabled": [{"name": name} for name in names]} for point, names in (points or {}).items()}
    config = with_profiles({"plugins": plugins}, percentageOfNodesToScore=percentage, extenders=list(extenders))
    found = VirtualCluster(*nodes, config=config, plugins={made.name: made for made in fakes}, seed=seed)
    found.answer_call = FakeExtenders(answers or {})
    return found


def tried(found, pod):
    """Let the pod be tried once; return what was decided."""
    found.put(pod)
    found.step()
    return found.core.trace[f"default/{pod.build().metadata.name}"]


def weighing(made, weight):
    made.weight = weight
    return made


def true_filter():
    return plugin("TrueFilter", filter=lambda *_: None)


def false_filter():
    return plugin("FalseFilter", filter=lambda *_: unschedulable(FAKE))


def match_filter():
    return plugin("MatchFilter", filter=lambda _s, pod, node: None if node.name == pod.name else unschedulable(FAKE))


def no_pods_filter():
    return plugin("NoPodsFilter", filter=lambda _s, _p, node: unschedulable(FAKE) if node.pods else None)


def fake_filter(codes, name="FakeFilter"):
    """Rejects the nodes that are named; `codes` gives the status for each, made from its reason."""

    def answer(_state, pod, node):
        made = codes.get(node.name)
        return None if made is None else made(f"injecting failure for pod {pod.name}")

    return plugin(name, filter=answer)


def equal_prioritizer():
    return plugin("EqualPrioritizerPlugin", score=lambda *_: 1)


def numeric_map():
    return plugin("NumericMap", score=lambda _s, _p, node: int(node.name))


def reverse_numeric_map():
    made = plugin(
        "ReverseNumericMap",
        score=lambda _s, _p, node: int(node.name),
        normalize_score=lambda _s, _p, scores: scores.max() + scores.min() - scores,
    )
    return weighing(made, 2)


def node2_prioritizer():
    return plugin("Node2Prioritizer", score=lambda _s, _p, node: 100 if node.name == "node2" else 10)


def fake_pre_filter(name, *names, status=None):
    narrowed = PreFilterResult(frozenset(names)) if names else None
    return plugin(name, pre_filter=lambda *_: status or narrowed)


def nothing_left(name):
    return plugin(name, pre_filter=lambda *_: PreFilterResult(frozenset()))


def skipped_score():
    bad = "this score function shouldn't be executed because this plugin returned Skip in the PreScore"
    return plugin("FakePreScoreAndScorePlugin", pre_score=lambda *_: SKIP, score=lambda *_: error(bad))


def skipped_filter():
    return plugin("FakeFilter2", pre_filter=lambda *_: SKIP, filter=lambda *_: error("must not be run"))


def spreading(max_skew):
    exists = {"matchExpressions": [{"key": "foo", "operator": "Exists"}]}
    return make_pod("p").label("foo", "").spread("kubernetes.io/hostname", exists, max_skew=max_skew)


def running(name, node):
    return make_pod(name).label("foo", "").node(node).phase("Running")


def claim(name, volume="", **metadata):
    metadata |= {"name": name, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "true"}}
    return decode("PersistentVolumeClaim", {"metadata": metadata, "spec": {"volumeName": volume}})


def volume(name, *hostnames):
    required = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(hostnames)}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [required]}]}}
    spec = {"nodeAffinity": affinity} if hostnames else {}
    return decode("PersistentVolume", {"metadata": {"name": name}, "spec": spec})


SPREAD = {"preFilter": ["PodTopologySpread"], "filter": ["PodTopologySpread"]}
VOLUMES = {"preFilter": ["VolumeBinding"]}


# TestSchedulerSchedulePod, the rows of pods that fit: on which nodes, and how many were looked at.
@pytest.mark.parametrize(
    ("nodes", "fakes", "points", "others", "pod", "want", "evaluated"),
    [
        pytest.param(
            ["node1", "node2"], [true_filter, equal_prioritizer], {}, [], make_pod("ignore"), {"node1", "node2"}, 2,
            id="test 2",
        ),
        pytest.param(["node1", "node2"], [match_filter], {}, [], make_pod("node2"), {"node2"}, 2, id="test 3"),
        pytest.param(["3", "2", "1"], [true_filter, numeric_map], {}, [], make_pod("ignore"), {"3"}, 3, id="test 4"),
        pytest.param(["3", "2", "1"], [match_filter, numeric_map], {}, [], make_pod("2"), {"2"}, 3, id="test 5"),
        pytest.param(
            ["3", "2", "1"], [true_filter, numeric_map, reverse_numeric_map], {}, [], make_pod("2"), {"1"}, 3,
            id="test 6",
        ),
        pytest.param(
            ["node1", "node2"], [true_filter, equal_prioritizer], VOLUMES,
            [claim("existingPVC", "existingPV"), volume("existingPV")], make_pod("ignore").claim("existingPVC"),
            {"node1", "node2"}, 2, id="existing PVC",
        ),
        pytest.param(
            ["node1", "node2"], [], SPREAD, [running("pod1", "node1")], spreading(1), {"node2"}, 2,
            id="test podtopologyspread plugin - 2 nodes with maxskew=1",
        ),
        pytest.param(
            ["node1", "node2", "node3"], [equal_prioritizer], SPREAD,
            [running("pod1a", "node1"), running("pod1b", "node1"), running("pod2", "node2")], spreading(2),
            {"node2", "node3"}, 3, id="test podtopologyspread plugin - 3 nodes with maxskew=2",
        ),
        pytest.param(
            ["1", "2"], [lambda: fake_filter({"1": unschedulable}), numeric_map], {}, [], make_pod("test-filter"),
            {"2"}, 2, id="test with partial failed filter plugin",
        ),
        pytest.param(
            ["node1", "node2", "node3"],
            [
                lambda: fake_pre_filter("FakePreFilter1"),
                lambda: fake_pre_filter("FakePreFilter2", "node2"),
                lambda: fake_pre_filter("FakePreFilter3", "node1", "node2"),
            ],
            {}, [], make_pod("test-prefilter"), {"node2"}, 1, id="test prefilter plugin returning node",
        ),
        pytest.param(
            ["node1", "node2", "node3"],
            [
                lambda: fake_pre_filter("FakePreFilter1"),
                lambda: fake_filter({"node1": unschedulable}, "FakeFilter1"),
                skipped_filter,
                equal_prioritizer,
            ],
            {}, [], make_pod("test-prefilter"), {"node2", "node3"}, 3, id="test prefilter plugin returning skip",
        ),
        pytest.param(
            ["node1", "node2"], [true_filter, skipped_score], {}, [], make_pod("ignore"), {"node1", "node2"}, 2,
            id="test all prescore plugins return skip",
        ),
        pytest.param(
            ["node1", "node2", "node3"], [true_filter], {}, [], make_pod("pod1"), {"node1", "node2", "node3"}, 1,
            id="test without score plugin no extra nodes are evaluated",
        ),
        pytest.param(
            ["node1", "node2", "node3"], [lambda: fake_pre_filter("FakePreFilter", "node1", "node2")], {}, [],
            make_pod("test-prefilter"), {"node1", "node2"}, 1,
            id="test no score plugin, prefilter plugin returning 2 nodes",
        ),
    ],
)  # fmt: skip
def test_scheduler_schedule_pod(nodes, fakes, points, others, pod, want, evaluated):
    found = single(hosts(*nodes), *[make() for make in fakes], points=points)
    for other in others:
        found.put(other)
    decision = tried(found, pod)
    assert decision.message == ""
    assert decision.chosen in want
    assert decision.evaluated_count == evaluated


def test_scheduler_schedule_pod_hostname_and_nodename_of_the_node_do_not_match():
    points = {"preFilter": ["VolumeBinding"]}
    node = make_node("node1").label("kubernetes.io/hostname", "host1")
    found = single([node], true_filter(), equal_prioritizer(), points=points)
    found.put(claim("PVC1", "PV1"))
    found.put(volume("PV1", "host1"))
    assert tried(found, make_pod("pod1").claim("PVC1")).chosen == "node1"


INJECTED = "1 injecting failure for pod test-filter."


# TestSchedulerSchedulePod, the rows of pods that fit nowhere: what is said, and the plugins they wait for.
@pytest.mark.parametrize(
    ("nodes", "fakes", "points", "others", "pod", "said", "waits_for"),
    [
        pytest.param(
            ["node1", "node2"], [false_filter], {}, [], make_pod("2"), f"2 {FAKE}.", {"FalseFilter"}, id="test 1"
        ),
        pytest.param(
            ["3", "2", "1"], [true_filter, false_filter, numeric_map], {}, [], make_pod("2"), f"3 {FAKE}.",
            {"FalseFilter"}, id="test 7",
        ),
        pytest.param(
            ["1", "2"], [no_pods_filter, match_filter, numeric_map], {}, [make_pod("other").node("2").phase("Running")],
            make_pod("2"), f"2 {FAKE}.", {"MatchFilter", "NoPodsFilter"}, id="test 8",
        ),
        pytest.param(
            ["node1", "node2"], [true_filter], VOLUMES, [], make_pod("ignore").claim("unknownPVC"),
            'persistentvolumeclaim "unknownPVC" not found.', {"VolumeBinding"}, id="unknown PVC",
        ),
        pytest.param(
            ["node1", "node2"], [true_filter], VOLUMES,
            [claim("existingPVC", deletionTimestamp="2026-01-01T00:00:00Z")], make_pod("ignore").claim("existingPVC"),
            'persistentvolumeclaim "existingPVC" is being deleted.', {"VolumeBinding"}, id="deleted PVC",
        ),
        pytest.param(
            ["3"], [lambda: fake_filter({"3": unschedulable}), numeric_map], {}, [], make_pod("test-filter"), INJECTED,
            {"FakeFilter"}, id="test with filter plugin returning Unschedulable status",
        ),
        pytest.param(
            ["3"], [lambda: fake_filter({"3": unresolvable}), numeric_map], {}, [], make_pod("test-filter"), INJECTED,
            {"FakeFilter"}, id="test with filter plugin returning UnschedulableAndUnresolvable status",
        ),
        pytest.param(
            ["1", "2"],
            [lambda: fake_pre_filter("FakePreFilter", status=unresolvable("injected unschedulable status"))], {}, [],
            make_pod("test-prefilter"), "injected unschedulable status.", {"FakePreFilter"},
            id="test prefilter plugin returning Unschedulable status",
        ),
        pytest.param(
            ["node1", "node2", "node3"],
            [
                lambda: fake_pre_filter("FakePreFilter1"),
                lambda: fake_pre_filter("FakePreFilter2", "node2"),
                lambda: fake_pre_filter("FakePreFilter3", "node1"),
            ],
            {}, [], make_pod("test-prefilter"),
            "node(s) didn't satisfy plugin(s) [FakePreFilter2 FakePreFilter3] simultaneously.",
            {"FakePreFilter2", "FakePreFilter3"}, id="test prefilter plugin returning non-intersecting nodes",
        ),
        pytest.param(
            ["node1"], [lambda: fake_pre_filter("FakePreFilter1"), lambda: nothing_left("FakePreFilter2")], {}, [],
            make_pod("test-prefilter"), "node(s) didn't satisfy plugin FakePreFilter2.", {"FakePreFilter2"},
            id="test prefilter plugin returning empty node set",
        ),
        pytest.param(
            ["node1", "node2"],
            [lambda: fake_pre_filter("FakePreFilter", "node2"), lambda: fake_filter({"node2": unschedulable})], {}, [],
            make_pod("test-prefilter"),
            "1 injecting failure for pod test-prefilter, 1 node(s) didn't satisfy plugin(s) [FakePreFilter].",
            {"FakePreFilter", "FakeFilter"},
            id="test some nodes are filtered out by prefilter plugin and other are filtered out by filter plugin",
        ),
        pytest.param(
            ["1", "2"], [lambda: fake_pre_filter("FakePreFilter", "invalid-node"), true_filter], {}, [],
            make_pod("test-prefilter"), "2 node(s) didn't satisfy plugin(s) [FakePreFilter].", {"FakePreFilter"},
            id="test prefilter plugin returned an invalid node",
        ),
    ],
)  # fmt: skip
def test_scheduler_schedule_pod_that_fits_nowhere(nodes, fakes, points, others, pod, said, waits_for):
    found = single(hosts(*nodes), *[make() for make in fakes], points=points)
    for other in others:
        found.put(other)
    decision = tried(found, pod)
    assert decision.chosen is None
    assert decision.message == f"0/{len(nodes)} nodes are available: {said}"
    (queued,) = found.core.queue
    assert queued.unschedulable_plugins == waits_for


def test_scheduler_schedule_pod_with_extender_which_filters_out_some_nodes():
    failed = {name: f'FakeExtender: node "{name}" failed' for name in ("1", "2")}
    answers = {(0, "filter"): keeping(failed=failed)}
    fakes = fake_filter({"3": unschedulable}), numeric_map()
    found = single(hosts("1", "2", "3"), *fakes, extenders=[listed(A, "filter")], answers=answers)
    decision = tried(found, make_pod("test-filter"))
    said = ", ".join(f"1 {reason}" for reason in failed.values())
    assert decision.message == f"0/3 nodes are available: {said}, {INJECTED}"
    (queued,) = found.core.queue
    assert queued.unschedulable_plugins == {"FakeFilter", EXTENDER_NAME}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        pytest.param(
            lambda: plugin("FalseMap", score=lambda *_: error("priority map encounters an error")),
            'running Score plugins: plugin "FalseMap" failed with: priority map encounters an error',
            id="test error with priority map",
        ),
        pytest.param(
            lambda: fake_pre_filter("FakePreFilter", status=error("injected error status")),
            'running PreFilter plugin "FakePreFilter": injected error status',
            id="test prefilter plugin returning error status",
        ),
    ],
)
def test_scheduler_schedule_pod_error(made, message):
    found = single(hosts("2", "1"), true_filter(), made(), weighing(plugin("TrueMap", score=lambda *_: 1), 2))
    decision = tried(found, make_pod("2"))
    assert (decision.outcome, decision.message) == ("error", message)


def test_find_fit_all_error():
    found = single(hosts("3", "2", "1"), true_filter(), match_filter())
    (group,) = explain(tried(found, make_pod("nobody"))).rejected
    assert (group.plugin, group.code, group.reasons) == ("MatchFilter", "Unschedulable", (FAKE,))
    assert set(group.nodes) == {"1", "2", "3"}


def test_find_fit_some_error():
    found = single(hosts("3", "2", "1"), true_filter(), match_filter())
    decision = tried(found, make_pod("1"))
    assert decision.chosen == "1"
    (group,) = explain(decision).rejected
    assert (group.plugin, group.reasons, set(group.nodes)) == ("MatchFilter", (FAKE,), {"2", "3"})


@pytest.mark.parametrize(
    ("priority", "calls"),
    [
        pytest.param(HIGH, 1, id="nominated pods have lower priority, predicate is called once"),
        pytest.param(LOW, 2, id="nominated pods have higher priority, predicate is called twice"),
    ],
)
def test_find_fit_predicate_call_counts(priority, calls):
    fake = fake_filter({})
    found = single(hosts("1"), fake)
    found.core.nominator.nominate(make_pod("nominated").priority(MID).info(), "1")
    assert tried(found, make_pod("1").priority(priority)).chosen == "1"
    assert fake.calls.count("filter") == calls


@pytest.mark.parametrize(
    ("nominated", "codes", "calls"),
    [
        pytest.param("node1", {}, 1, id="pod has the nominated node set, filter is called only once"),
        pytest.param("", {}, 3, id="pod without the nominated pod, filter is called for each node"),
        pytest.param(
            "node1", {"node1": unschedulable}, 4,
            id="nominated pod cannot pass the filter, filter is called for each node",
        ),
    ],
)  # fmt: skip
def test_prefer_nominated_node_filter_call_counts(nominated, codes, calls):
    fake = fake_filter(codes)
    found = single(hosts("node1", "node2", "node3"), fake, equal_prioritizer())
    tried(found, make_pod("p").priority(HIGH).nominated(nominated))
    assert fake.calls.count("filter") == calls


def test_evaluate_nominated_node_that_is_not_present_in_snapshot():
    """Upstream's function returns an error, which its caller logs before it looks at all nodes."""
    found = single(hosts("n1", "n2"), equal_prioritizer())
    decision = tried(found, make_pod("p").nominated("n3"))
    assert decision.chosen in {"n1", "n2"}
    assert decision.evaluated_count == 2


BALANCED = "NodeResourcesBalancedAllocation"


# Test_prioritizeNodes; plugins that give zero everywhere may be left out of what is recorded.
@pytest.mark.parametrize(
    ("fakes", "points", "extended", "want"),
    [
        pytest.param(
            [node2_prioritizer], {"score": [BALANCED]}, False,
            {"node1": {"Node2Prioritizer": 10}, "node2": {"Node2Prioritizer": 100}},
            id="the score from all plugins should be recorded in PluginToNodeScores",
        ),
        pytest.param(
            [], {"score": [BALANCED]}, True, {"node1": {A: 300, B: 20}, "node2": {A: 30, B: 200}},
            id="the score from extender should also be recorded in PluginToNodeScores with plugin scores",
        ),
        pytest.param(
            [node2_prioritizer, skipped_score], {"score": [BALANCED]}, False,
            {"node1": {"Node2Prioritizer": 10}, "node2": {"Node2Prioritizer": 100}},
            id="plugin which returned skip in preScore shouldn't be executed in the score phase",
        ),
        pytest.param([skipped_score], {}, False, {"node1": {}, "node2": {}}, id="all score plugins are skipped"),
    ],
)  # fmt: skip
def test_prioritize_nodes(fakes, points, extended, want):
    answers = {
        (0, "prioritize"): [{"Host": "node1", "Score": 30}, {"Host": "node2", "Score": 3}],
        (1, "prioritize"): [{"Host": "node1", "Score": 2}, {"Host": "node2", "Score": 20}],
    }
    extenders = [listed(A, "prioritize"), listed(B, "prioritize")] if extended else []
    nodes = [make_node(name).capacity(cpu="1", memory="2000Mi") for name in want]
    found = single(nodes, *[make() for make in fakes], points=points, extenders=extenders, answers=answers)
    scored = explain(tried(found, make_pod("p"))).best
    assert {node.node: {name: score for name, score in node.scores.items() if score} for node in scored} == want
    assert {node.node: node.total for node in scored} == {name: sum(scores.values()) for name, scores in want.items()}


DEFAULTS = {"cpu": "100m", "memory": "200Mi"}
THRICE = {"cpu": "300m", "memory": "600Mi"}


# TestZeroRequest, which is in earlier releases. Of its totals NodeResourcesFit's part is compared; the rest is 100 each
# for SelectorSpread, which is no more, and for NodeResourcesBalancedAllocation as it was.
@pytest.mark.parametrize(
    ("pod", "total"),
    [
        pytest.param(
            make_pod("p").container(), 250, id="test priority of zero-request pod with node with zero-request pod"
        ),
        pytest.param(
            make_pod("p").request(DEFAULTS), 250,
            id="test priority of nonzero-request pod with node with zero-request pod",
        ),
        pytest.param(
            make_pod("p").request(THRICE), 230, id="test priority of larger pod with node with zero-request pod"
        ),
    ],
)  # fmt: skip
def test_zero_request(pod, total):
    nodes = [make_node(name).capacity(cpu="1", memory="2000Mi") for name in ("node1", "node2")]
    fit = ["NodeResourcesFit"]
    found = single(nodes, points={"preScore": fit, "score": fit})
    found.put(make_pod("large1").request(THRICE).node("node1"))
    found.put(make_pod("zero1").container().node("node1"))
    found.put(make_pod("large2").request(THRICE).node("node2"))
    found.put(make_pod("small2").request(DEFAULTS).node("node2"))
    scored = explain(tried(found, pod)).best
    assert {node.node: node.total for node in scored} == {"node1": total - 200, "node2": total - 200}


MB = 1024 * 1024


@pytest.mark.parametrize(
    ("image", "want"),
    [
        pytest.param("gcr.io/40", (5, 5, 5), id="the score from Image Locality plugin with image in all nodes"),
        pytest.param("gcr.io/300", (18, 18, 0), id="the score from Image Locality plugin with image in partial nodes"),
    ],
)
def test_prioritize_nodes_by_images(image, want):
    both = "gcr.io/40:latest", "gcr.io/40:v1"
    node1 = make_node("node1").image(*both, size_bytes=80 * MB)
    node1.image("gcr.io/300:latest", "gcr.io/300:v1", size_bytes=300 * MB)
    node2 = make_node("node2").image("gcr.io/300:latest", size_bytes=300 * MB).image(*both, size_bytes=80 * MB)
    node3 = make_node("node3").image("gcr.io/600:latest", size_bytes=600 * MB)
    node3.image("gcr.io/40:latest", size_bytes=80 * MB).image("gcr.io/900:latest", size_bytes=900 * MB)
    found = single([node1, node2, node3], points={"score": ["ImageLocality"]})
    best = explain(tried(found, make_pod("p").container(image))).best
    totals = {node.node: node.total for node in best}
    assert tuple(totals[name] for name in ("node1", "node2", "node3")) == want


# Test_SelectHost: upstream orders all nodes, by score and then by chance; what can be seen is the first.
@pytest.mark.parametrize(
    ("scores", "first"),
    [
        pytest.param({"node1": 1, "node2": 2}, {"node2"}, id="unique properly ordered scores"),
        pytest.param(
            {"node2.2": 2, "node2.1": 2, "node2.3": 2}, {"node2.1", "node2.2", "node2.3"}, id="equal scores"
        ),
        pytest.param(
            {"node3.1": 3, "node2.1": 2, "node1.1": 1, "node3.2": 3}, {"node3.1", "node3.2"}, id="out of order scores"
        ),
    ],
)  # fmt: skip
def test_select_host(scores, first):
    chosen = set()
    for seed in range(20):
        scoring = plugin("Scores", score=lambda _s, _p, node: scores[node.name])
        chosen.add(tried(single(hosts(*scores), scoring, seed=seed), make_pod("p")).chosen)
    assert chosen == first


@pytest.mark.parametrize(
    ("everywhere", "profile", "nodes", "want"),
    [
        pytest.param(0, None, 10, 10, id="not set percentageOfNodesToScore and nodes number not more than 50"),
        pytest.param(0, 40, 10, 10, id="set profile percentageOfNodesToScore and nodes number not more than 50"),
        pytest.param(0, None, 1000, 420, id="not set percentageOfNodesToScore and nodes number more than 50"),
        pytest.param(0, 40, 1000, 400, id="set profile percentageOfNodesToScore and nodes number more than 50"),
        pytest.param(
            100, 40, 1000, 400, id="set global and profile percentageOfNodesToScore and nodes number more than 50"
        ),
        pytest.param(40, None, 1000, 400, id="set global percentageOfNodesToScore and nodes number more than 50"),
        pytest.param(
            0, None, 6000, 300, id="not set profile percentageOfNodesToScore and nodes number more than 50*125"
        ),
        pytest.param(0, 40, 6000, 2400, id="set profile percentageOfNodesToScore and nodes number more than 50*125"),
    ],
)  # fmt: skip
def test_num_feasible_nodes_to_find(everywhere, profile, nodes, want):
    """Upstream's defaults make an unset percentage 0, which is given here: unset, every node is scored."""
    fields = {} if profile is None else {"percentageOfNodesToScore": profile}
    found = VirtualCluster(config=with_profiles(fields, percentageOfNodesToScore=everywhere))
    percentage = found.core.profiles["default-scheduler"].percentage_of_nodes_to_score
    assert feasible_nodes_to_find(nodes, percentage) == want


def test_fair_evaluation_for_nodes():
    count, enough = 500, 150  # 30 %
    found = single(hosts(*map(str, range(count))), true_filter(), equal_prioritizer(), percentage=30)
    for turn in range(2 * (count // enough + 1)):
        decision = tried(found, make_pod(f"p{turn}"))
        assert len(decision.feasible) == enough
        assert found.core.search.start_index == (turn + 1) * enough % count


NOT_B = {"b": 'FakeExtender: node "b" failed'}
NOT_C = {"c": 'FakeExtender: node "c" failed and unresolvable'}
B_FAILED = ("Unschedulable", tuple(NOT_B.values()), ("b",))
C_UNRESOLVABLE = ("UnschedulableAndUnresolvable", tuple(NOT_C.values()), ("c",))


@pytest.mark.parametrize(
    ("nodes", "codes", "filters", "want"),
    [
        pytest.param(["a"], {}, [keeping("a")], set(), id="success"),
        pytest.param(["a", "b"], {}, [keeping("a", failed=NOT_B)], {B_FAILED}, id="unschedulable"),
        pytest.param(
            ["a", "b", "c"], {}, [keeping("a", failed=NOT_B, unresolvable=NOT_C)], {B_FAILED, C_UNRESOLVABLE},
            id="unschedulable and unresolvable",
        ),
        pytest.param(
            ["a", "b", "c"], {"c": unschedulable}, [keeping("a", failed=NOT_B)],
            {B_FAILED, ("Unschedulable", ("injecting failure for pod 1",), ("c",))},
            id="extender does not overwrite the previous statuses",
        ),
        pytest.param(
            ["a", "b", "c"], {}, [keeping("a", failed=NOT_B, unresolvable=NOT_C), keeping("a")],
            {B_FAILED, C_UNRESOLVABLE}, id="multiple extenders",
        ),
    ],
)  # fmt: skip
def test_find_nodes_that_pass_extenders(nodes, codes, filters, want):
    extenders = [listed(url, "filter") for url in (A, B)[: len(filters)]]
    answers = {(place, "filter"): answer for place, answer in enumerate(filters)}
    found = single(hosts(*nodes), fake_filter(codes), equal_prioritizer(), extenders=extenders, answers=answers)
    decision = tried(found, make_pod("1"))
    assert decision.chosen == "a"
    assert {(group.code, group.reasons, group.nodes) for group in explain(decision).rejected} == want


def test_find_nodes_that_pass_extenders_error():
    found = single(hosts("a"), true_filter(), extenders=[listed(A, "filter")], answers={(0, "filter"): FAILS})
    decision = tried(found, make_pod("1"))
    assert (decision.outcome, decision.message) == ("error", FAILS.error)


GPU = "example.com/gpu"
OTHERS = {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]}


# TestSchedulerBinding; an extender that is not interested in a pod is one of a resource that it does not ask for.
@pytest.mark.parametrize(
    ("extenders", "answer", "asked", "by_default"),
    [
        pytest.param([listed(A, "prioritize")], None, [], True, id="the extender is not a binder"),
        pytest.param(
            [listed(A, "prioritize"), listed(B, "bind")], {"Error": ""}, [(1, "bind")], False,
            id="one of the extenders is a binder and interested in pod",
        ),
        pytest.param(
            [listed(A, "prioritize"), listed(B, "bind", **OTHERS)], None, [], True,
            id="one of the extenders is a binder, but not interested in pod",
        ),
        pytest.param(
            [listed(A, "bind", ignorable=True)], {"Error": "failed"}, [(0, "bind")], True,
            id="ignore when extender bind failed",
        ),
    ],
)  # fmt: skip
def test_scheduler_binding(extenders, answer, asked, by_default):
    answers = {(place, "bind"): answer for place in range(len(extenders))}
    found = single(hosts("node"), extenders=extenders, answers=answers)
    tried(found, make_pod("pod0"))
    assert found.answer_call.verbs() == asked
    assert bool(requests_of(found, Bind)) is by_default
    assert found.events("FailedScheduling") == []


TOLD = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}


# TestUpdatePodStatus; the condition is always PodScheduled, and the server merges it with those of other types.
@pytest.mark.parametrize(
    ("conditions", "is_transition"),
    [
        pytest.param([], True, id="Should make patch request to add pod condition when there are none currently"),
        pytest.param(
            [{"type": "someOtherType", "status": "False"}], True,
            id="Should make patch request to add a new pod condition when there is already one with another type",
        ),
        pytest.param(
            [{**TOLD, "status": "True"}], True, id="Should make patch request to update an existing pod condition"
        ),
        pytest.param(
            [{**TOLD, "message": "other"}], False,
            id="Should make patch request to update an existing pod condition, but the transition time should remain "
            "unchanged because the status is the same",
        ),
    ],
)  # fmt: skip
def test_update_pod_status(conditions, is_transition):
    known = make_pod("foo").set_status(conditions=conditions).build()
    patch = PatchPodStatus(PodRef("default", "foo", known.metadata.uid), "False", "Unschedulable", "no room")
    body = msgspec.json.decode(patch_body(patch, known, datetime(2020, 5, 13, 1, 1, 1, tzinfo=UTC)))
    time = {"lastTransitionTime": "2020-05-13T01:01:01Z"} if is_transition else {}
    assert body["status"] == {"conditions": [{**TOLD, **time}]}


@pytest.mark.parametrize("known", [f"0/1 nodes are available: 1 {FAKE}.", "something else"])
def test_update_pod_status_only_where_the_pod_condition_is_not_identical(known):
    """Upstream's row "Should not make patch request if pod condition already exists and is identical […]"."""
    found = single(hosts("n1"), false_filter())
    decision = tried(found, make_pod("p").set_status(conditions=[{**TOLD, "message": known}]))
    assert bool(found.patches("p")) is (known != decision.message)
