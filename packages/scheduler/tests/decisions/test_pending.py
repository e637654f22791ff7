"""What is told of a gang that waits: for how many there is room, and what the next one lacks beside these."""

import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.decisions.pending import pending_report
from berth.decisions.shortfall import shortfalls

GPU = "nvidia.com/gpu"


def waiting(needed, members, gates=True):
    """The core of a cluster of two nodes of eight GPUs, once a group of pods that want five has been tried."""
    cluster = VirtualCluster(gates={"GenericWorkload": gates, "GangScheduling": gates})
    group = {"kind": "PodGroup", "metadata": {"name": "train", "namespace": "default", "uid": "train"},
             "spec": {"schedulingPolicy": {"gang": {"minCount": needed}}}}  # fmt: skip
    for number in range(2):
        cluster.put(make_node(f"gpu-{number}").capacity({GPU: "8"}, cpu="32", memory="128Gi", pods="110").build())
    cluster.put(decode("PodGroup", group))
    for number in range(members):
        cluster.put(make_pod(f"train-{number}").request({GPU: "5"}).group("train").owned_by("Job", "train").build())
    return cluster.run().core


def told(core):
    (group,) = pending_report(core, str, lambda _uid: "").groups
    return group


def test_a_gang_says_how_many_have_a_place_and_what_the_next_one_lacks_beside_them():
    group = told(waiting(4, 4))
    assert (group.workload, group.pods) == ("PodGroup/train", 4)
    assert group.missing == (
        "2 of 4 have a place, and none is bound before 4 have: the next one needs 5 nvidia.com/gpu on one node, and "
        "gpu-0 has the most free, 3 of 8."
    )
    assert group.message.startswith("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")


def test_one_member_is_told_the_same_and_not_that_it_would_fit_now():
    core = waiting(4, 4)
    decisions = [core.trace[f"default/train-{number}"] for number in range(4)]
    lacks = [lack for each in decisions for lack in shortfalls(each, core.cache.table, None)]
    assert [(lack.most_free, lack.fits_now) for lack in lacks] == [("3", False)] * 2


@pytest.mark.parametrize(("gates", "needed"), [(False, 4), (True, 2)])
def test_pods_that_wait_for_nobody_are_told_what_they_lack(gates, needed):
    group = told(waiting(needed, 4, gates))
    assert group.workload == ("PodGroup/train" if gates else "Job/train")
    assert group.missing == "Needs 5 nvidia.com/gpu on one node, and gpu-0 has the most free, 3 of 8."


def test_a_gang_that_lacks_members_is_told_so():
    assert "2 of 3 members of pod group default/train are there" in told(waiting(3, 2)).missing
