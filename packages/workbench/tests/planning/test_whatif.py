"""What an answer says beside where pods are: who keeps room for itself while others are told that they do not fit."""

import random

import msgspec
import pytest

from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth_workbench.planning.whatif import WhoIsWhere
from berth_workbench.simulation.changes import RemoveNodes
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import what_if


def test_a_pod_that_waits_for_another_to_be_gone_keeps_its_room_and_the_answer_says_so():
    """PodEligibleToPreemptOthers: a nomination stays while pods of lower priority are being deleted on the node."""
    made = [
        make_node("n0").capacity(cpu="4", memory="8Gi", pods="9"),
        make_pod("going").request(cpu="2").priority(0).node("n0").terminating(),
        make_pod("high").request(cpu="3").priority(10).nominated("n0"),
        make_pod("low").request(cpu="2").priority(0),
    ]
    snapshot = Snapshot(
        [Document(each.document["kind"], msgspec.json.encode(each.document), "a test") for each in made]
    )
    result = what_if(snapshot)
    assert {each.pod for each in result.unplaced} == {"default/high", "default/low"}
    assert result.notes == (
        "room on n0 is kept for default/high, which is nominated to it, until default/going is gone",
    )
    assert what_if(Snapshot(snapshot.documents[:2])).notes == ()


def test_extenders_are_left_out_and_the_answer_says_so():
    """Nobody answers for them: a pod that waited for that would have no node, as if it did not fit."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}],
    }
    made = [make_node("n0").capacity(cpu="4", memory="8Gi", pods="9"), make_pod("waiting").request(cpu="2")]
    snapshot = Snapshot(
        [Document(each.document["kind"], msgspec.json.encode(each.document), "a test") for each in made]
    )
    result = what_if(snapshot, config=load_config(document, "a test's configuration"))
    assert result.unplaced == ()
    assert result.notes == ("the extenders of the configuration were not asked",)


def test_a_daemon_that_was_pending_before_is_not_broken_by_a_change():
    """It is as it was, and counts among those that are still pending."""
    made = [
        make_node("n0").capacity(cpu="1", memory="8Gi", pods="9"),
        make_node("n1").capacity(cpu="4", memory="8Gi", pods="9"),
        make_node("n2").capacity(cpu="4", memory="8Gi", pods="9"),
        make_pod("daemon").request(cpu="2").node_selector({"kubernetes.io/hostname": "n0"}).owned_by("DaemonSet", "d"),
        make_pod("web").request(cpu="1").owned_by("ReplicaSet", "web").node("n1"),
    ]
    snapshot = Snapshot(
        [Document(each.document["kind"], msgspec.json.encode(each.document), "a test") for each in made]
    )
    result = what_if(snapshot, [RemoveNodes("n1")])
    assert result.broken == ()
    assert {each.pod: each.node for each in result.pods} == {"default/daemon": None, "default/web": "n2"}


@pytest.mark.parametrize("seed", range(4))
def test_the_numbers_of_an_answer_add_up(seed):
    """Who was on a node is on one now, has none, or is among those that are gone; nobody else has come."""
    rng = random.Random(seed)
    owners = (("ReplicaSet", "web"), ("DaemonSet", "agent"), None)
    made = [make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="9") for number in range(4)]
    for number in range(16):
        pod, owner = make_pod(f"p{number}").request(cpu=rng.choice(["1", "2"])), rng.choice(owners)
        pod = pod if owner is None else pod.owned_by(*owner)
        made.append(pod.node(rng.choice(["n0", "n1", "n2", "n3", ""])))
    made.append(make_pod("done").owned_by("Job", "j").node("n0").phase("Succeeded"))
    snapshot = Snapshot(
        [Document(each.document["kind"], msgspec.json.encode(each.document), "a test") for each in made]
    )
    result = what_if(snapshot, [RemoveNodes("n0")])
    gone = result.gone.with_their_nodes + result.gone.lost + result.gone.deleted
    homeless = sum(each.before is not None and each.node is None for each in result.pods)
    placed = sum(each.before is None and each.node is not None for each in result.pods)
    assert result.before.pods - gone - homeless + placed == result.after.pods
    assert result.gone.lost == sum(each.reason == "PodLost" for each in result.broken)
    told = " ".join(WhoIsWhere.of(result.pods).sentences(result))
    for count, what in ((result.gone.with_their_nodes, "went with"), (result.gone.lost, "gone, and nothing makes")):
        assert (what in told) is bool(count)
