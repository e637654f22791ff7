"""Devices: a claim that asks for more than any node has is told to ask for less, whoever shares the template.

Two nodes have two devices each, a third node has one of another make.
"""

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth.core.questions import judge
from berth.decisions import pending
from berth.decisions.pending import pending_report
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.site import Site
from packages.workbench.tests.planning.help.test_prospects import devices
from packages.workbench.tests.planning.help.test_workloads import by_kind, snapshot_of

CLASS = {"kind": "DeviceClass", "metadata": {"name": "gpu"},
         "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.x'"}}]}}  # fmt: skip
LARGE = "device.attributes['gpu.x'].size == 'large'"
NONE = "device.driver == 'other'"
NODES = [make_node(f"n{i}").capacity(cpu="8", memory="32Gi") for i in range(3)]


def slices():
    found = [devices(f"n{i}", count) for i, count in enumerate((2, 2, 1))]
    for published, size in zip(found, ("small", "small", "large"), strict=True):
        for device in published["spec"]["devices"]:
            device["attributes"] = {"size": {"string": size}}
    return found


def asking(count, *selectors):
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    exactly |= {"selectors": [{"cel": {"expression": each}} for each in selectors]} if selectors else {}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def alone(count, *selectors):
    """A pod with a claim that somebody has made."""
    metadata = {"name": "mine", "namespace": "default", "uid": "mine", "resourceVersion": "17"}
    claim = {"kind": "ResourceClaim", "metadata": metadata, "spec": asking(count, *selectors)}
    return [make_pod("p").request(cpu="1").resource_claim("g", "mine"), claim]


def of_template(name, count):
    """A pod of a Job, and the claim that was made for it of a template."""
    pod = make_pod(name).request(cpu="1").owned_by("Job", "train")
    pod.set_spec(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    pod.document["status"] = {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": f"{name}-g"}]}
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": name,
        "uid": pod.document["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": f"{name}-g", "namespace": "default", "uid": f"claim-{name}", "ownerReferences": [owner]}
    return [pod, {"kind": "ResourceClaim", "metadata": metadata, "spec": asking(count)}]


def cluster_of(*objects):
    snapshot = snapshot_of(*NODES, *slices(), CLASS, *objects)
    return SimulatedCluster(snapshot.structs()), snapshot.documents


def missing(*objects):
    cluster, _ = cluster_of(*objects)
    cluster.settle()
    (group,) = pending_report(cluster.core, str, lambda _uid: "").groups
    return group.missing


@pytest.mark.parametrize(
    ("asked", "needs", "best"),
    [
        ((3,), "3 devices of the class gpu", "on one node, and n0 has the most free, 2 of 2."),
        ((2, LARGE), f"2 devices of the class gpu ({LARGE})", "on one node, and n2 has the most free, 1 of 1."),
        ((1, NONE), f"1 device of the class gpu ({NONE}),", "and no node has any that it could be on."),
    ],
)
def test_the_first_sentence_says_what_the_claim_asks_of_one_node_and_what_the_best_has(asked, needs, best):
    assert missing(*alone(*asked)) == f"Needs {needs} {best}"


def test_a_claim_that_asks_for_too_much_is_told_how_much_less_would_do():
    cluster, documents = cluster_of(*alone(3))
    found = what_would_help(cluster, cluster.pods["default/p"], documents=documents)
    assert found.never
    less = by_kind(found)["deviceCount"]
    assert less.what.startswith(
        "ask for 2 instead of 3 devices in request r of the ResourceClaim default/mine (make it"
    )
    assert less.fits_on == ("n0", "n1")
    exactly = less.patch["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly["count"] == 2 and "name" not in exactly, "the API server knows no such field"


def test_all_pods_of_a_template_have_to_have_room():
    """Each of two fits with two devices; three of them only where they ask for one."""
    for pods, count in ((2, 2), (3, 1)):
        parts = [part for number in range(pods) for part in of_template(f"train-{number}", 3)]
        cluster, documents = cluster_of(*parts)
        found = what_would_help(cluster, cluster.pods["default/train-0"], documents=documents)
        less = by_kind(found)["deviceCount"]
        assert less.target == "ResourceClaimTemplate/default/t"
        requests = less.patch["spec"]["spec"]["devices"]["requests"]
        assert (requests[0]["exactly"]["count"], less.still_pending) == (count, 0)
        assert less.command.endswith(f"delete pod {' '.join(f'train-{number}' for number in range(pods))}")


def test_what_was_tried_with_a_claim_leaves_nothing_behind():
    """The claim is written last in the trial; what the plugin remembers of that must not count afterwards."""
    cluster, documents = cluster_of(*alone(3))
    site = Site(cluster, documents)
    site.settle()
    published = next(each for each in cluster.core.objects.list("ResourceSlice") if each.spec.node_name == "n0")
    more = (*published.spec.devices, msgspec.structs.replace(published.spec.devices[0], name="d9"))
    with Rehearsal(site):
        cluster.put(msgspec.structs.replace(published, spec=msgspec.structs.replace(published.spec, devices=more)))
        cluster.now += 10
        site.settle()
        assert cluster.placements["default/p"] == "n0"
    assert judge(cluster.core, cluster.pods["default/p"]).node_names == []


def test_of_many_groups_that_lack_devices_the_largest_is_told_first(monkeypatch):
    monkeypatch.setattr(pending, "STEPS_TO_TELL", 50)  # enough for one group on three nodes
    cluster, _ = cluster_of(*alone(3), *of_template("a", 3), *of_template("b", 3))
    cluster.settle()
    groups = pending_report(cluster.core, str, lambda _uid: "").groups
    assert [(each.workload, bool(each.shortfalls)) for each in groups] == [("Job/train", True), ("", False)]
