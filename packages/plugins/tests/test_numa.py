"""NodeResourceTopologyMatch in a scheduler in virtual time; expectations from upstream's README and records' words.

Fingerprints are those of the tests of github.com/k8stopologyawareschedwg/podfingerprint, hashes those of the xxHash
specification.
"""

import pytest

from berth.testing import make_pod
from berth_plugins.numa.fingerprint import fingerprint, xxh64
from berth_plugins.numa.topology import TOPOLOGIES, Alignment, alignment_of, topology_of
from packages.plugins.tests.topologies import GPU, cluster, guaranteed, node, plugin_of, report, told, zone

RESERVING = {"cacheResyncPeriodSeconds": 5, "cache": {"informerMode": "Shared"}}


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
        (b"", 2654435761, 0xAC75FDA2929B17EF),
    ],
)
def test_hashes_are_those_of_the_specification(data, seed, expected):
    assert xxh64(data, seed) == expected


def test_a_fingerprint_is_that_of_the_package():
    pods = [("ns1", "n1"), ("ns1", "n2"), ("ns2", "n1"), ("ns3", "n1"), ("ns3", "n2")]
    assert fingerprint(pods) == fingerprint(reversed(pods)) == "pfp0v001b92008c14168b3a6"


@pytest.mark.parametrize(
    ("policies", "attributes", "expected"),
    [
        ([], {}, Alignment("none", "container", 8)),
        (["SingleNUMANodePodLevel", "None"], {}, Alignment("single-numa-node", "pod", 8)),
        (["RestrictedContainerLevel"], {}, Alignment("restricted", "container", 8)),
        (["Restricted"], {}, Alignment("none", "container", 8)),
        (["SingleNUMANodePodLevel"], {"topologyManagerScope": "container"}, Alignment("single-numa-node", "container")),
        ([], {"topologyManagerPolicy": "Single-NUMA", "topologyManagerScope": "Pod"}, Alignment()),
        ([], {"topologyManagerMaxNUMANodes": "1"}, Alignment()),
        ([], {"topologyManagerMaxNUMANodes": "2000"}, Alignment(max_zones=1024)),
        ([], {"topologyManagerMaxNUMANodes": "many"}, Alignment()),
    ],
)
def test_how_a_node_aligns_is_read_from_attributes_and_old_policies(policies, attributes, expected):
    listed = [{"name": name, "value": value} for name, value in attributes.items()]
    document = {"metadata": {"name": "n1"}, "topologyPolicies": policies, "attributes": listed, "zones": []}
    assert alignment_of(TOPOLOGIES.read(document)) == expected


def test_only_numa_zones_with_an_id_count_and_what_cannot_be_read_is_nothing():
    names = ("node-1", "node-0", "node-x", "socket-2", "node-64", "node--1")
    zones = [{"name": name, "type": "Node", "resources": [{"name": "cpu", "available": "x"}]} for name in names]
    zones.append({"name": "node-2", "type": "Socket"})
    found = topology_of(TOPOLOGIES.read({"metadata": {"name": "n1"}, "zones": zones}))
    assert [each.number for each in found.zones] == [0, 1]
    assert found.zones[0].free == {"cpu": 0}


def test_a_pod_goes_where_one_zone_has_room_for_it(config):
    split, whole = report("split", zone("4"), zone("4")), report("whole", zone("6"), zone("2"))
    found = cluster(config, node("split"), node("whole"), split, whole, guaranteed("p", cpu="6")).run()
    assert found.nodes_of() == {"p": "whole"}
    found.put(guaranteed("too-large", cpu="8"))
    assert found.run().nodes_of()["too-large"] == ""
    assert told(found, "0/2 nodes are available: 2 cannot align container.")


def test_containers_take_from_their_zones_and_init_containers_do_not(config):
    scopes = [report("n1", zone("4"), zone("4")), report("n2", zone("4"), zone("4"), scope="pod")]
    found = cluster(config, node("n1"), node("n2"), *scopes)
    two, amounts = guaranteed("two", cpu="3", containers=2), {"cpu": "4", "memory": "1Gi"}
    two = two.init_container(requests=amounts)
    two.spec["initContainers"][0]["resources"]["limits"] = amounts
    found.put(two)
    found.put(guaranteed("three", cpu="3", containers=3))
    assert found.run().nodes_of() == {"two": "n1", "three": ""}
    assert told(found, "1 cannot align container, 1 cannot align pod")


def test_pods_that_zones_give_nothing_go_anywhere(config):
    found = cluster(config, node("n1"), report("n1", zone("0", "0")), make_pod("best-effort")).run()
    assert found.nodes_of() == {"best-effort": "n1"}
    found.put(make_pod("burstable").request(cpu="1"))
    found.put(make_pod("device").request({GPU: "1"}, cpu="1"))
    assert found.run().nodes_of()["burstable"] == found.nodes_of()["device"] == "n1"


@pytest.mark.parametrize(("kind", "chosen"), [("MostAllocated", "small"), ("LeastAllocated", "large")])
def test_a_strategy_prefers_full_or_empty_zones(config, kind, chosen):
    reports = [report("small", zone("4"), zone("4")), report("large", zone("8"), zone("8"))]
    found = cluster(config, node("small"), node("large"), *reports, scoringStrategy={"type": kind})
    found.put(guaranteed("p", cpu="2"))
    assert found.run().nodes_of() == {"p": chosen}


def test_as_few_zones_as_possible_are_preferred_whatever_the_policy(config):
    reports = [report(name, zone(cpus), zone(cpus), policy="restricted") for name, cpus in (("a", "4"), ("b", "8"))]
    found = cluster(config, node("a"), node("b"), *reports, scoringStrategy={"type": "LeastNUMANodes"})
    found.put(guaranteed("p", cpu="6"))
    assert found.run().nodes_of() == {"p": "b"}


# --- where upstream crashes ---


def with_gap(name):
    gap = report(name, zone("4"), zone("4"))
    document = {"metadata": {"name": name}, "attributes": [{"name": a.name, "value": a.value} for a in gap.attributes]}
    resources = [{"name": each.name, "available": each.available} for each in gap.zones[0].resources]
    zones = [{"name": f"node-{number}", "type": "Node", "resources": resources} for number in (0, 2)]
    return TOPOLOGIES.read(document | {"zones": zones})


def test_gaps_in_the_ids_of_zones_keep_guaranteed_pods_away(config):
    found = cluster(config, node("n1"), with_gap("n1"), guaranteed("p"), make_pod("burstable").request(cpu="1")).run()
    assert found.nodes_of() == {"p": "", "burstable": "n1"}
    assert told(found, "node topology with gaps or repetitions in its NUMA ids")


def test_a_guaranteed_pod_with_a_container_that_asks_for_nothing_is_told_so(config):
    pod = make_pod("p").container()
    level = {"cpu": "1", "memory": "1Gi"}
    pod.spec["resources"] = {"requests": level, "limits": level}
    found = cluster(config, node("n1"), report("n1", zone("4")), pod).run()
    assert found.nodes_of() == {"p": ""}
    assert told(found, "cannot score zones for a container that asks for nothing")
    found.put(report("n1", zone("4"), policy="none", version=2))
    assert found.advance(10).nodes_of() == {"p": "n1"}


def test_more_sets_of_zones_than_anybody_can_try_end_the_attempt(config):
    zones = [zone("1") for _ in range(40)]
    found = cluster(config, node("n1", cpu="64"), node("n2"), scoringStrategy={"type": "LeastNUMANodes"})
    found.put(report("n1", *zones, policy="restricted", topologyManagerMaxNUMANodes="64"))
    found.put(guaranteed("p", cpu="12"))
    assert found.run().nodes_of() == {"p": ""}
    assert told(found, "which tries sets of NUMA zones")


# --- what wakes pods; a pod that nobody wakes is tried again after five minutes ---


def waiting(config, *objects, pod=None, **args):
    """A cluster whose pod `p` waits for its zone."""
    found = cluster(config, *objects, **args)
    found.put(pod or guaranteed("p", cpu="4"))
    assert found.advance(60).nodes_of()["p"] == ""
    return found


def test_a_report_helps_if_it_has_room(config):
    found = waiting(config, node("n1"), report("n1", zone("2"), zone("2")))
    attempts = len(found.events("FailedScheduling"))
    found.put(report("n1", zone("3"), zone("3"), version=2))
    assert len(found.advance(100).events("FailedScheduling")) == attempts
    found.put(report("n1", zone("4"), zone("2"), version=3))
    assert found.advance(20).nodes_of() == {"p": "n1"}


def test_a_report_that_goes_helps(config):
    found = waiting(config, node("n1"), report("n1", zone("2"), zone("2")))
    found.delete(TOPOLOGIES.name, "n1")
    assert found.advance(20).nodes_of() == {"p": "n1"}


def test_a_node_that_gets_a_device_helps(config):
    without = node("n1")
    del without.status["allocatable"][GPU]
    pod = guaranteed("p", gpu=1)
    found = waiting(config, without, report("n1", zone("4", gpu=1)), pod=pod)
    found.put(node("n1"))
    assert found.advance(20).nodes_of() == {"p": "n1"}


def test_a_pod_that_is_reported_and_runs_helps(config):
    found = cluster(config, node("n1"), report("n1", zone("4"), zone("4"), pods=[]), **RESERVING)
    found.put(guaranteed("first", cpu="3"))
    found.run()
    found.put(guaranteed("p", cpu="4"))
    assert found.advance(60).nodes_of() == {"first": "n1", "p": ""}
    found.put(report("n1", zone("1"), zone("4"), pods=[("default", "first")], version=2))
    assert found.advance(60).nodes_of()["p"] == ""
    found.put(guaranteed("first", cpu="3").node("n1").phase("Running"))
    assert found.advance(20).nodes_of()["p"] == "n1"


def test_a_pod_that_goes_gives_back_what_it_had_reserved(config):
    found = cluster(config, node("n1"), report("n1", zone("4"), zone("4")), **RESERVING)
    found.put(guaranteed("first", cpu="3"))
    found.run()
    found.put(guaranteed("p", cpu="4"))
    assert found.advance(60).nodes_of() == {"first": "n1", "p": ""}
    found.delete("Pod", "default/first")
    assert found.advance(20).nodes_of() == {"p": "n1"}


def test_a_pod_of_others_makes_its_node_unusable_until_it_runs_and_is_reported(config):
    other = guaranteed("other").scheduler("other").node("n1")
    found = waiting(config, node("n1"), report("n1", zone("4"), pods=[]), other, **RESERVING)
    assert told(found, "0/1 nodes are available: 1 invalid node topology data.")
    found.put(report("n1", zone("4"), pods=[("default", "other")], version=2))
    assert found.advance(60).nodes_of()["p"] == ""
    found.put(other.phase("Running"))
    assert found.advance(20).nodes_of()["p"] == "n1"


def test_a_node_with_a_pod_on_its_way_is_avoided_until_the_pod_is_bound(config):
    found = cluster(config, node("n1"), report("n1", zone("8")), discardReservedNodes=True)
    found.answers_binds = False
    found.put(guaranteed("first"))
    found.run()
    found.put(guaranteed("p"))
    assert found.advance(20).nodes_of() == {"first": "", "p": ""}
    assert told(found, "1 invalid node topology data")
    found.answers_binds = True
    (request,) = found.requests
    found.answer(request)
    found.put(guaranteed("first").node("n1"))
    assert found.advance(20).nodes_of()["p"] == "n1"


def test_a_binding_that_fails_gives_back_what_was_reserved(config):
    found = cluster(config, node("n1"), report("n1", zone("4")), **RESERVING)
    found.refuse("no")
    found.put(guaranteed("p", cpu="4"))
    assert found.advance(60).nodes_of() == {"p": "n1"}


# --- args ---


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            {"scoringStrategy": {"type": "Odd"}},
            'scoringStrategy.type: Invalid value: "Odd": invalid ScoringStrategyType',
        ),
        ({"scoringStrategy": {}}, 'scoringStrategy.type: Invalid value: "": invalid ScoringStrategyType'),
        ({"preemptionMode": "Odd"}, 'preemptionMode: Invalid value: "Odd": invalid PreemptionMode'),
        ({"preemptionMode": "Enabled"}, 'preemptionMode: Unsupported value: "Enabled"'),
        ({"cache": {"foreignPodsDetect": "Some"}}, 'cache.foreignPodsDetect: Unsupported value: "Some"'),
        ({"cache": {"informerMode": "Odd"}}, 'cache.informerMode: Unsupported value: "Odd"'),
    ],
)
def test_wrong_args_are_refused(config, args, words):
    with pytest.raises(ValueError, match=words.replace("[", r"\[")):
        cluster(config, **args)


# --- for people ---


def explained(found, pod):
    return plugin_of(found).explain_rejection(pod.info())


def test_the_nearest_node_is_told_zone_by_zone(config):
    reports = [report("a", zone("2"), zone("1")), report("b", zone("3"), zone("5"), zone("4"))]
    found = cluster(config, node("a"), node("b", cpu="12"), *reports)
    (sentence,) = explained(found, guaranteed("p", cpu="6"))
    assert sentence == (
        "a container needs 6 CPU in one NUMA zone; b, the nearest of 2 nodes rejected for it, has "
        "5 CPU free in node-1; 3 CPU free in node-0; 4 CPU free in node-2"
    )


def test_a_zone_lacks_several_things_at_a_time(config):
    found = cluster(config, node("a"), report("a", zone("8", "1Gi", gpu=2), zone("2", "8Gi", gpu=0), scope="pod"))
    (sentence,) = explained(found, guaranteed("p", cpu="4", memory="6Gi", gpu=3))
    assert sentence == (
        "the pod needs 3 example.com/gpu and 6Gi memory in one NUMA zone; a, the only node rejected for it, has "
        "2 example.com/gpu and 1Gi memory free in node-0; 0 example.com/gpu and 8Gi memory free in node-1"
    )


def test_what_is_reserved_and_what_cannot_be_relied_on_is_told(config):
    found = cluster(config, node("a"), node("b"), report("a", zone("4")), report("b", zone("4")), **RESERVING)
    found.put(guaranteed("other").scheduler("other").node("b"))
    found.put(guaranteed("first", cpu="3"))
    found.run()
    lacking, unknown = explained(found, guaranteed("p", cpu="2"))
    assert lacking == (
        "a container needs 2 CPU in one NUMA zone; a, the only node rejected for it, has 1 CPU free in node-0, "
        "without what is reserved for 1 pod"
    )
    assert (
        unknown == "b is not used: pods of other schedulers have come or gone, and no report is known to include that"
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (guaranteed("p", cpu="6"), {"cpu": 5000}),
        (guaranteed("p", cpu="5"), {}),
        (guaranteed("p", cpu="4", containers=3), {"cpu": 9000}),
        (guaranteed("p", cpu="6", gpu=1), {"cpu": 5000}),
    ],
)
def test_less_that_would_do_is_said_for_the_whole_pod(config, pod, expected):
    found = cluster(config, node("a"), report("a", zone("5"), zone("4")))
    table = found.core.cache.table
    view = table.view(table.row_of["a"])
    assert plugin_of(found).lesser_requests(pod.info(), view) == expected
