"""What needs attention, on clusters where it can be counted on one's fingers; each line leads to a question."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from berth.core.builders import make_node, make_pod
from berth.decisions.pending import PendingReport
from berth_workbench.page.attention import FINDINGS, WORKS, of_pending
from berth_workbench.planning.node_groups import read_groups
from berth_workbench.questions.survive import QUESTION as SURVIVE
from berth_workbench.questions.typed import value_of
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.sources.cluster_file import ClusterFileSource
from packages.workbench.tests.planning.test_survival import node, pod, snapshot_of

GPU = "nvidia.com/gpu"


def findings(name, *objects):
    return WORKS[name](Situation(snapshot_of(objects)), WorkWatch())


def asked(finding):
    return {name: values[0] for name, values in parse_qs(urlsplit(finding.asks).query).items()}


def gpu_node(name, cpu="8"):
    return make_node(name).capacity(**{"cpu": cpu, "memory": "64Gi", "pods": "110", GPU: "4"}).label("pool", "gpu")


def training(name, on, cpu, gpus):
    return make_pod(name).owned_by("ReplicaSet", "train").request(**{"cpu": cpu, GPU: gpus}).node(on)


def test_a_cluster_without_worries_has_no_findings():
    """Two nodes, each more than half full, in one zone each; either could take what is on the other."""
    full = [node("a", "x", "8"), node("b", "y", "8"), node("c", "z", "8")]
    full += [pod(f"{on}{i}", on, "5") for on in "ab" for i in range(1)] + [pod("big", "c", "8", owner="")]
    assert findings("stranded", *full) == [] and findings("quotas", *full) == []
    assert findings("removable", *full) == []


def test_what_is_lost_with_a_node_or_a_zone_is_asked_of_survive():
    (lost,) = findings("lost", node("a", "x", "4"), node("b", "y", "4"), pod("w", "a", "4"), pod("v", "b", "4"))
    assert lost.figure == "2 of 2 nodes and 2 of 2 zones"
    assert lost.says.startswith("cannot be lost: default/") and " if node a is lost" in lost.says
    kinds = next(field for field in SURVIVE.fields() if field.name == "kinds")
    assert lost.asks.startswith("/survive?") and value_of(kinds, asked(lost)["kinds"]) == ("node", "zone")


def test_gpus_are_stranded_where_the_pods_that_ask_for_them_find_no_cpu():
    """Of four free ones on either node, one has a CPU beside it on the first, and none on the second."""
    objects = [gpu_node("g1", "6"), gpu_node("g2", "4"), training("t", "g1", "1", "1"), pod("x", "g1", "4")]
    (found,) = findings("stranded", *objects, pod("y", "g2", "4"))
    assert found.figure == f"6 {GPU}", "two of three on g1, and all four on g2"
    assert found.says == "stranded, of 7 free: too little CPU or memory is left beside them on g1 and g2."
    assert asked(found) == {"colour": GPU}


def test_nodes_that_could_go_are_asked_of_autoscale_with_the_pools_of_the_cluster():
    (found,) = findings("removable", node("a", "x", "8"), node("b", "y", "8"), pod("w", "a", "1"), pod("v", "b", "5"))
    assert found.figure == "1 node" and found.says.endswith("has another place: a.")
    (group,) = read_groups(json.loads(asked(found)["groups"]))
    assert group.name == "std"


@pytest.mark.parametrize(("used", "count"), [("3", 0), ("4", 1)])
def test_a_quota_binds_once_it_is_used_up(used, count):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ml"},
             "spec": {"hard": {"requests.cpu": "4"}}, "status": {"used": {"requests.cpu": used}}}  # fmt: skip
    found = findings("quotas", quota)
    assert [each.says for each in found] == ["binds: nothing is left of requests.cpu in ml."] * count


async def test_pending_pods_are_told_with_the_first_workload():
    assert of_pending(PendingReport(0, ())) == []
    source = ClusterFileSource("test", snapshot_of([node("a"), pod("x", cpu="9"), pod("y", cpu="9")]))
    (found,) = of_pending(await source.pending())
    assert found.figure == "2 pods" and found.asks == "/workloads"
    assert (
        found.says == "pending, of 1 workload; ReplicaSet default/web: needs 9 CPU on one node, and a "
        "has the most free, 4 of 4."
    )


def test_every_finding_is_worked_out():
    assert set(FINDINGS) == set(WORKS) - {"help"}
