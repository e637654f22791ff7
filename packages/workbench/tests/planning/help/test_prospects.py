"""That it is never is said where it is proven alone: devices that others hold are free once those are gone."""

from typing import ClassVar

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.interface import FilterPlugin
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.simulation.cluster import SimulatedCluster
from packages.workbench.tests.planning.help.test_workloads import by_kind, help_for, replicas_of

CLASS = {"kind": "DeviceClass", "metadata": {"name": "gpu"}}
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
TEMPLATE = {"kind": "ResourceClaimTemplate", "metadata": {"name": "t", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [REQUEST]}}}}  # fmt: skip


def devices(node, count):
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.x", "nodeName": node, "pool": pool, "devices": [{"name": f"d{i}"} for i in range(count)]}
    return {"kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


def pod_with_claim(name, on="", device=""):
    """A pod and the claim that was made for it."""
    pod = make_pod(name).request(cpu="1").label("app", name.partition("-")[0]).owned_by("ReplicaSet", name[0])
    pod.set_spec(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    pod.document["status"] = {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": f"{name}-g"}]}
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": name,
        "uid": pod.document["metadata"]["uid"],
        "controller": True,
    }
    claim = {"kind": "ResourceClaim", "spec": {"devices": {"requests": [REQUEST]}},
             "metadata": {"name": f"{name}-g", "namespace": "default", "uid": f"claim-{name}",
                          "ownerReferences": [owner]}}  # fmt: skip
    if on:
        pod.node(on).phase("Running")
        allocated = [{"request": "r", "driver": "gpu.x", "pool": on, "device": device}]
        user = {"resource": "pods", "name": name, "uid": pod.document["metadata"]["uid"]}
        claim["status"] = {"allocation": {"devices": {"results": allocated}}, "reservedFor": [user]}
    return [pod, claim]


@pytest.mark.parametrize("count", [2, 3])
def test_pods_whose_devices_others_hold_are_not_never_to_be_placed(count):
    """Both pods of b have a device once a-0 is gone; three have none in this cluster, which nobody proves here."""
    node = make_node("n0").capacity(cpu="8", memory="32Gi")
    pods = [part for number in range(count) for part in pod_with_claim(f"b-{number}")]
    found = help_for("default/b-0", node, devices("n0", 2), CLASS, TEMPLATE, *pod_with_claim("a-0", "n0", "d0"), *pods)
    assert (found.never, found.most, len(found.pods)) == (False, None, count - 1)
    assert by_kind(found)["replicas"].patch == {"spec": {"replicas": 1}}


def test_a_search_that_was_given_up_proves_nothing():
    class Broken(FilterPlugin):
        """Has a bug."""

        name: ClassVar[str] = "Broken"

        def __init__(self, args, handle):
            pass

        def filter(self, state, pod, node):
            raise RuntimeError("a bug")

    made = VirtualCluster(plugins=[Broken])
    node = make_node("n0").capacity(cpu="4", memory="8Gi").build()
    cluster = SimulatedCluster([node], config=made.config, registry=made.registry)
    assert not what_would_help(cluster, make_pod("p").request(cpu="1").build()).never


def test_amounts_of_which_there_is_too_little_in_all_are_never_enough():
    nodes = [make_node(f"n{i}").capacity(cpu="4", memory="32Gi") for i in range(2)]
    busy = make_pod("busy").request(cpu="1").node("n1")
    pods = replicas_of("ReplicaSet", "web", ["n0", "", ""], lambda name: make_pod(name).request(cpu="3"))
    found = help_for("default/web-1", *nodes, busy, *pods)
    assert (found.never, found.most) == (True, 2)
