"""Gangs are helped as a whole, or not at all: two nodes of eight GPUs each, and four pods that want five.

What helps follows from how small the clusters are: two of the pods have room, one on each node.
"""

from berth.config.feature_gates import feature_gates
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth_workbench.planning.help import standing
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.planning.help.words import lines_of
from berth_workbench.simulation.cluster import SimulatedCluster
from packages.workbench.tests.planning.help.test_workloads import by_kind, replicas_of, snapshot_of

GPU = "nvidia.com/gpu"
GATES = {"GenericWorkload": True, "GangScheduling": True}
CLASS = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
NODES = [make_node(f"gpu-{i}").capacity({GPU: "8"}, cpu="32", memory="128Gi", pods="110") for i in range(2)]


def group(needed):
    metadata = {"name": "train", "namespace": "default", "uid": "train"}
    return {"kind": "PodGroup", "metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": needed}}}}


def members(count, gpus=5, kind="ReplicaSet"):
    def build(name):
        return make_pod(name).request({GPU: str(gpus)}, cpu="2").group("train")

    return replicas_of(kind, "train", [""] * count, build)


def help_with(*objects, gates=GATES, key="default/train-0"):
    snapshot = snapshot_of(*objects)
    plain = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster = SimulatedCluster(snapshot.structs(), config=load_config(plain, "a test", feature_gates(gates or {})))
    return what_would_help(cluster, cluster.pods[key], documents=snapshot.documents)


def test_each_remedy_is_one_for_all_four():
    found = help_with(*NODES, CLASS, group(4), *members(4))
    assert (found.state, found.group, found.needed, found.have_place, found.replicas) == (
        "pending", "PodGroup/default/train", 4, 2, 4)  # fmt: skip
    assert (found.never, found.most) == (True, 2)
    kinds = by_kind(found)
    assert set(kinds) == {"requests", "node", "minCount"}, "there is nobody whom a PriorityClass would evict"
    assert (kinds["minCount"].still_pending, kinds["minCount"].what.split(" of ")[0]) == (
        2,
        "lower minCount from 4 to 2",
    )
    assert kinds["minCount"] == found.changes[-1], "two of them stay without a place, so it comes last"
    less = kinds["requests"].patch["spec"]["containers"][0]["resources"]["requests"]
    assert less == {GPU: "4"}
    assert kinds["node"].what.startswith("add 2 nodes like gpu-")
    assert kinds["node"].still_pending == 0


def test_a_priority_class_helps_where_all_who_make_way_have_somewhere_to_go():
    spare = make_node("spare").capacity({GPU: "16"}, cpu="32", memory="128Gi", pods="110").taint("team", "a")
    others = replicas_of("ReplicaSet", "other", ["gpu-0", "gpu-1"], lambda name: make_pod(name).request({GPU: "5"})
                         .tolerate("team", operator="Exists"))  # fmt: skip
    found = help_with(*NODES, spare, CLASS, *others, group(2), *members(2))
    priority = by_kind(found)["priority"]
    assert (priority.still_pending, priority.leaves, priority.moves) == (0, (), ("default/other-0", "default/other-1"))
    assert "podsGone" not in by_kind(found), "one of them is not enough"


def test_without_the_gates_the_pods_are_those_of_a_workload():
    found = help_with(*NODES, CLASS, group(4), *members(4), gates=None)
    assert (found.group, found.needed, found.workload, len(found.pods)) == ("", None, "ReplicaSet/default/train", 2)
    assert by_kind(found)["replicas"].patch == {"spec": {"replicas": 2}}
    assert "priority" not in by_kind(found), "it would evict the siblings"
    (note,) = found.notes
    assert note.startswith("it names the pod group train, but the configuration does not look at groups (feature gates")


def test_a_group_of_which_some_run_is_on_its_own_with_the_rest():
    found = help_with(*NODES, group(2), *members(4))
    assert (found.have_place, found.needed, len(found.pods)) == (2, 2, 2)
    assert by_kind(found)["replicas"].patch == {"spec": {"replicas": 2}}


def test_a_group_that_lacks_members_is_told_how_many_there_are():
    found = help_with(*NODES, group(3), *members(2))
    assert "waiting for minCount pods from a gang to appear in scheduling queue" in found.message
    kinds = by_kind(found)
    assert kinds["minCount"].patch == {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    assert "replicas" not in kinds, "there is no room for a third one"
    more = by_kind(help_with(*NODES, group(3), *members(2, gpus=4)))["replicas"]
    assert (more.patch, more.still_pending) == ({"spec": {"replicas": 3}}, 0)


def test_a_group_is_made_anew_since_its_policy_cannot_be_changed():
    """`ValidatePodGroupUpdate` of v1.36; by the finalizer podgroup-protection it stays as long as pods name it."""
    lower = by_kind(help_with(*NODES, group(3), *members(2)))["minCount"]
    assert lower.what == "lower minCount from 3 to 2 of the PodGroup default/train (make it anew: it cannot be changed)"
    got, patched, deleted, let_go, replaced = lower.command.split("; ")
    assert got == "kubectl -n default get podgroup train -o yaml > podgroup.yaml"
    assert patched.startswith("kubectl patch --local -f podgroup.yaml ") and '"minCount":2' in patched
    assert deleted == "kubectl -n default delete podgroup train --wait=false"
    assert let_go.endswith("""-p '{"metadata":{"finalizers":null}}'""")
    assert replaced == "kubectl replace --force -f new.yaml"


def test_bare_members_of_two_shapes_are_changed_each_by_itself():
    small = [make_pod(f"small-{i}").request({GPU: "1"}).group("train") for i in range(2)]
    large = make_pod("large").request({GPU: "9"}).group("train")
    found = help_with(*NODES, group(3), *small, large, key="default/small-0")
    assert found.pods == ("default/large", "default/small-0", "default/small-1")
    assert found.message.startswith("2 of 3 have a place, and none is bound before 3 have (minCount); default/large")
    less = by_kind(found)["requests"]
    assert less.patch["spec"]["containers"][0]["resources"]["requests"] == {GPU: "8"}
    assert less.command.startswith("kubectl -n default get pod large ")


def test_the_verdict_comes_first_and_says_what_the_next_one_lacks():
    found = help_with(*NODES, CLASS, group(4), *members(4))
    text = " ".join(" ".join(lines_of(found)).split())
    assert text.startswith(
        "No: 2 of 4 pods of PodGroup default/train (ReplicaSet default/train) have a place together; minCount is 4. "
        "default/train-2 has none: 2 nodes lack nvidia.com/gpu (it asks for 5, and the most free on one is 3, on gpu-"
    )
    assert [(each.nodes, each.resource, each.needs, each.most_free) for each in found.lacks] == [(2, GPU, "5", "3")]
    assert "Then all 4 have a place, on gpu-0, gpu-1." in text or "Then all 4 have a place, the pending ones on" in text


RACKS = [make_node(f"{rack}-{i}").label("rack", rack).capacity({GPU: "8"}, cpu="32", memory="128Gi", pods="110")
         for rack in "abc" for i in range(2)]  # fmt: skip
IN_A_RACK = {**GATES, "TopologyAwareWorkloadScheduling": True}


def of_one_rack(needed):
    found = group(needed)
    found["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    return found


def test_a_gang_of_one_rack_is_told_of_the_rack_with_most_places():
    """Six pods of four GPUs: four have room in an empty rack, and in none of those where something runs."""
    busy = [make_pod(f"busy-{rack}").request({GPU: "4"}).node(f"{rack}-0") for rack in "ac"]
    found = help_with(*RACKS, *busy, of_one_rack(6), *members(6, gpus=4), gates=IN_A_RACK)
    assert (found.have_place, found.needed, found.together_in, found.part) == (4, 6, "rack", "b")
    assert [(each.part, each.nodes, each.have_place) for each in found.parts] == [("b", 2, 4), ("a", 2, 3), ("c", 2, 3)]
    short, outside = found.lacks
    assert (short.nodes, short.resource, short.needs, short.most_free) == (2, GPU, "4", "0")
    assert (outside.nodes, outside.reason, outside.plugin) == (4, "outside rack b", "")
    node = by_kind(found)["node"]
    assert (len(node.patch["manifests"]), node.what.endswith("in rack b")) == (1, True), "in another rack it takes two"


def test_an_answer_about_some_of_the_racks_says_that_there_are_more(monkeypatch):
    """Twelve pods are placed in each rack; where 48 may be placed in all, that is four racks of five."""
    fifth = [make_node(f"{rack}-{i}").label("rack", rack).capacity({GPU: "8"}, cpu="32", memory="128Gi", pods="110")
             for rack in "de" for i in range(2)]  # fmt: skip
    asked = [*RACKS, *fifth, of_one_rack(12), *members(12, gpus=4)]
    whole = help_with(*asked, gates=IN_A_RACK)
    assert (len(whole.parts), whole.is_complete) == (5, True)
    monkeypatch.setattr(standing, "MAX_PLACED", 48)
    part = help_with(*asked, gates=IN_A_RACK)
    assert (len(part.parts), part.is_complete) == (4, False)


def test_a_gang_of_one_rack_is_told_where_no_node_has_the_label():
    found = help_with(*NODES, of_one_rack(2), *members(2), gates=IN_A_RACK)
    assert (found.have_place, found.parts) == (0, ())
    assert "no node has the label rack" in found.message
