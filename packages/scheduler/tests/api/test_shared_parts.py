"""Equal parts of objects are held once, nothing that anybody sees changes, and what is remembered is bounded."""

import msgspec
import pytest

from berth.api.codec import decode
from berth.api.quantity import QuantityError
from berth.api.read_only import EMPTY
from berth.api.recent import LARGE_BYTES
from berth.api.shared_parts import NodeSharing, PodSharing, RecentParts, sharing_of
from berth.core.builders import make_node, make_pod


def fresh(obj):
    """The same object decoded anew."""
    return decode(type(obj).__name__, msgspec.json.encode(obj))


def replica(name, node="", start=None):
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    made = make_pod(name).request(cpu="1").labels({"app": "web"}).tolerate("k").owned_by("ReplicaSet", "web", uid="u")
    made = made.annotation("a", "b").set_status(**status, **({"startTime": start} if start else {}))
    return fresh((made.node(node) if node else made).build())


PODS = [
    replica("a"),
    replica("b", node="n1", start="2026-01-01T00:00:00Z"),
    replica("c", node="n2", start="2026-01-02T00:00:00Z"),
    fresh(make_pod("d").request(cpu="2").node("n1").build()),
    fresh(make_pod("e").build()),
]


def test_pods_are_what_they_were():
    for order in (PODS, PODS[::-1], [*PODS[1:], PODS[0]]):
        share = PodSharing()
        for pod in order:
            shared = fresh(pod)
            share(shared)
            assert shared == pod


def test_replicas_share_all_but_what_is_theirs():
    share, pods = PodSharing(), [fresh(pod) for pod in PODS[:3]]
    for pod in pods:
        share(pod)
    first, second, third = pods
    assert second.spec.containers is third.spec.containers is first.spec.containers
    assert second.spec.tolerations is third.spec.tolerations
    assert second.status.conditions is third.status.conditions
    assert second.metadata.labels is third.metadata.labels is first.metadata.labels
    assert second.metadata.owner_references is third.metadata.owner_references
    assert second.metadata.annotations is third.metadata.annotations
    assert (second.spec.node_name, third.spec.node_name, first.spec.node_name) == ("n1", "n2", "")


def test_pods_without_annotations_hold_no_map_for_them():
    share = PodSharing()
    for name in ("a", "b"):
        pod = decode("Pod", {"metadata": {"name": name, "labels": {"app": name}, "annotations": {}}})
        share(pod)
        assert pod.metadata.annotations is EMPTY


@pytest.mark.parametrize("differs", ["labels", "annotations", "owner_references", "namespace"])
def test_a_pod_that_differs_from_the_one_before_shares_what_is_equal(differs):
    share, first, second = PodSharing(), replica("a"), replica("b")
    other = {"namespace": "elsewhere", "owner_references": ()}.get(differs, {"x": "y"})
    second = msgspec.structs.replace(second, metadata=msgspec.structs.replace(second.metadata, **{differs: other}))
    share(first)
    share(second)
    assert getattr(second.metadata, differs) == other
    for field in {"labels", "annotations", "owner_references"} - {differs}:
        assert getattr(second.metadata, field) is getattr(first.metadata, field)
    assert second.spec is first.spec


def test_what_is_remembered_is_written_to_no_more():
    share, first, second = PodSharing(), replica("a", node="n1"), replica("b")
    share(first)
    share(second)
    assert second.spec.node_name == "" and first.spec.node_name == "n1"
    third = replica("c", node="n3")
    share(third)
    assert (first.spec.node_name, second.spec.node_name) == ("n1", "")


@pytest.mark.parametrize("seen", [[], ["a"], ["a", "b"]])
def test_a_bad_quantity_is_found_whatever_came_before(seen):
    share = PodSharing()
    for name in seen:
        share(replica(name))
    bad = msgspec.json.decode(msgspec.json.encode(PODS[0]))
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    for _ in range(2):
        with pytest.raises(QuantityError, match=r"spec\.containers\[0\]"):
            share(msgspec.convert(bad, type(PODS[0])))


def test_nodes_share_images():
    share = NodeSharing()
    nodes = [fresh(make_node(name).image("a:1", "b:1", size_bytes=5).capacity(cpu="4").build()) for name in "xy"]
    expected = [fresh(node) for node in nodes]
    for node in nodes:
        share(node)
    assert nodes == expected
    assert nodes[0].status.images[0] is nodes[1].status.images[0]
    assert nodes[0].status.allocatable is nodes[1].status.allocatable


def test_other_kinds_are_checked_only():
    volume = {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}}}
    sharing_of("PersistentVolume")(decode("PersistentVolume", volume))


def test_what_is_remembered_is_bounded_and_keeps_what_is_used():
    parts = RecentParts(limit=100)
    parts.put("used", ("used",))
    for number in range(100_000):
        parts.put(number, (number,))
        if number % 50 == 0:
            assert parts.find("used") == ("used",)
        assert len(parts) <= 200
    assert parts.find(5) is None


def test_large_parts_are_not_remembered():
    parts = RecentParts()
    large = "x" * (LARGE_BYTES + 1)
    assert parts.same(large) is large and parts.find(large) is None


def test_what_is_remembered_is_bounded_in_size():
    parts = RecentParts()
    parts.bytes_at_most = 1000
    for number in range(500):
        parts.same(f"{number}-{'x' * 90}")
    assert len(parts) <= 2 * 11
