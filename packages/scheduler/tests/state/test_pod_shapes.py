"""Which pods share a shape, and what lies around it."""

import random

import msgspec
import pytest
from msgspec.structs import replace

from berth.api.codec import decode
from berth.api.meta import LabelSelector, OwnerReference
from berth.api.node_selector import NodeSelector, NodeSelectorTerm
from berth.api.pod import Affinity, NodeAffinity, PodAffinity, PodAffinityTerm
from berth.api.read_only import ReadOnlyDict
from berth.api.shared_parts import PodSharing
from berth.state.pod_info import LABELS, REQUESTS, PodInfo, PodShapes
from tests.growth.held import reached_from

TOKEN = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


def pod(name="p", *, cpu="1", label="web", volumes=(), **status):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "volumes": list(volumes)}
    meta = {"name": name, "namespace": "default", "labels": {"app": label}}
    return decode("Pod", {"metadata": meta, "spec": spec, "status": status})


def held(cpu, allocated=None):
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": allocated or cpu}}


def same(*pods):
    shapes = PodShapes()
    first, *others = [shapes.of(each) for each in pods]
    return all(other is first for other in others)


def test_replicas_share_a_shape_whatever_their_token_volume_is_called():
    first, second = (
        pod(name, volumes=[{"name": f"kube-api-access-{name}", **TOKEN}, {"name": "tmp", "emptyDir": {}}])
        for name in ("a", "b")
    )
    assert same(first, second)
    assert first.spec.volumes == ()


@pytest.mark.parametrize(
    "source",
    [{"persistentVolumeClaim": {"claimName": "data"}}, {"ephemeral": {}}, {"csi": {"driver": "d"}}],
    ids=lambda source: next(iter(source)),
)
def test_pods_with_volumes_that_are_looked_at_have_shapes_of_their_own(source):
    volume = {"name": "data", **source}
    assert [each.name for each in pod(volumes=[volume]).spec.volumes] == ["data"]
    assert not same(pod("a", volumes=[volume]), pod("b", volumes=[volume]))


def test_a_pod_that_runs_shares_the_shape_of_one_that_waits_unless_its_status_counts():
    waiting, running = pod("a"), pod("b", phase="Running", containerStatuses=[{"name": "c", "ready": True}])
    assert same(waiting, running)
    reported = pod("c", containerStatuses=[held("1")]), pod("d", containerStatuses=[held("1")])
    assert same(*reported)
    assert not same(waiting, pod("e", containerStatuses=[held("3")]))


PLACES = ("n1", "n2", "")


def made(number, **changed):
    """A replica: its pods differ in name, node and start, and in what is `changed`."""
    meta = {"name": f"p{number}", "namespace": "default", "labels": {"app": "web"}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeName": PLACES[number % 3]}
    status = {"phase": "Running", "startTime": f"2026-01-0{number + 1}T00:00:00Z"}
    meta |= {"ownerReferences": [owner]} | changed.pop("metadata", {})
    return decode("Pod", {"metadata": meta, "spec": spec | changed.pop("spec", {}), "status": status | changed})


OTHERS = (
    {"containerStatuses": [held("3")]},
    {"metadata": {"namespace": "elsewhere"}},
    {"metadata": {"labels": {"app": "db"}}},
    {"metadata": {"ownerReferences": []}},
    {"spec": {"priority": 7}},
    {"spec": {"nodeSelector": {"disk": "ssd"}}},
    {"spec": {"tolerations": [{"key": "k"}]}},
    {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}},
)


@pytest.mark.parametrize("shares", [True, False], ids=["shared by informers", "each by itself"])
def test_whether_informers_share_their_parts_changes_nothing_about_shapes(shares):
    """The shape of pods with shared parts is found by these; it must be the one that their JSON leads to."""
    pods = [made(number, **other) for other in ({}, *OTHERS, {}) for number in range(4)]
    shapes, share, known, before = PodShapes(), PodSharing(), {}, []
    for each in pods:
        before.append(msgspec.json.encode(each))
        if shares:
            share(each)
        shape = shapes.of(each, is_placed=bool(each.spec.node_name))
        bare = replace(each.spec, node_name="")
        meta, counted = each.metadata, bool(each.status.container_statuses)
        key = msgspec.json.encode((meta.namespace, meta.labels, meta.owner_references, bare, counted))
        assert known.setdefault(key, shape) is shape
        assert type(each.metadata.labels) is type(each.spec.node_selector) is ReadOnlyDict
    assert len(known) == len(set(known.values())) == 1 + len(OTHERS)
    assert [msgspec.json.encode(each) for each in pods] == before


def test_pods_that_come_together_share_a_shape_where_their_labels_are_equal_and_not_the_same():
    """They share their containers, which are none, and nothing else."""
    pods = [
        decode(
            "Pod", {"metadata": {"name": f"p{number}", "labels": {"app": "xy"[number % 2]}}, "spec": {"nodeName": "n"}}
        )
        for number in range(6)
    ]
    shapes = list(PodShapes().of_placed(pods))
    assert len(set(map(id, shapes))) == 2 and shapes[::2] == [shapes[0]] * 3
    assert [dict(each.metadata.labels) for each in pods] == [{"app": "xy"[number % 2]} for number in range(6)]


def test_nothing_is_looked_for_by_parts_of_a_shape_that_was_dropped():
    shapes, share = PodShapes(max_shapes=2), PodSharing()
    for round_ in range(3):
        for name in "abcd":
            each = made(round_, metadata={"labels": {"app": name}})
            share(each)
            shape = shapes.of(each, is_placed=True)
            assert shape.label_key == ("default", frozenset({("app", name)}))
    assert len(shapes._by_parts) == 2


def test_each_resize_counts_as_it_stands():
    infeasible = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    shapes = PodShapes()
    pods = [
        pod("a"),
        pod("b", containerStatuses=[held("3")]),
        pod("c", containerStatuses=[held("1", "2")]),
        pod("d", cpu="5", containerStatuses=[held("1")]),
        pod("e", cpu="5", containerStatuses=[held("1")], conditions=infeasible),
    ]
    asked = [PodInfo.of(one, shapes.of(one)).requests["cpu"] for one in pods]
    # KEP-1287: the most of what is asked, allocated and in force; what is infeasible is not asked.
    assert asked == [1000, 3000, 2000, 5000, 1000]


@pytest.mark.parametrize("is_placed", [True, False])
def test_replicas_share_what_is_equal_in_their_objects_and_keep_what_is_not(is_placed):
    shapes = PodShapes()
    nodes = ("n1", "n2", "n2") if is_placed else ("", "", "")
    made = [pod(name) for name in "abc"]
    pods = [replace(one, spec=replace(one.spec, node_name=node)) for one, node in zip(made, nodes, strict=True)]
    before = [replace(one, metadata=replace(one.metadata), spec=replace(one.spec)) for one in pods]
    for one in pods:
        shapes.of(one, is_placed=is_placed)
    first, *others = pods
    for other in others:
        assert other.metadata.labels is first.metadata.labels
        assert other.spec.containers is first.spec.containers
    assert pods == before


def test_pods_of_other_labels_share_no_labels():
    shapes = PodShapes()
    first, second = pod("a", label="web"), pod("b", label="db")
    assert shapes.of(first) is not shapes.of(second)
    assert (first.metadata.labels, second.metadata.labels) == ({"app": "web"}, {"app": "db"})
    assert first.spec.containers is second.spec.containers


def test_families_are_of_other_requests_and_around_them_of_other_labels_too():
    shapes = PodShapes()
    first, larger, labelled = (shapes.of(one) for one in (pod(), pod(cpu="2"), pod(cpu="3", label="db")))
    assert first is not larger
    assert first.wider is larger.wider
    assert first.wider is not labelled.wider
    assert first.wider.wider is labelled.wider.wider
    assert (first.ignored, first.wider.ignored, first.wider.wider.ignored) == (set(), {REQUESTS}, {REQUESTS, LABELS})
    assert first.wider.wider.wider is None


def test_a_pod_on_its_node_shares_the_shape_of_one_that_waits_but_one_that_demands_a_node_does_not():
    waiting, named = pod("a"), pod("b")
    named = replace(named, spec=replace(named.spec, node_name="n"))
    shapes = PodShapes()
    assert shapes.of(named, is_placed=True) is shapes.of(waiting)
    assert shapes.of(named) is not shapes.of(waiting)
    assert shapes.of(named).wider.wider is not shapes.of(waiting).wider.wider


def test_a_shape_holds_nothing_that_is_its_first_pods_own():
    first = pod("first", conditions=[{"type": "Ready", "status": "True", "message": "own message"}])
    first = replace(first, metadata=replace(first.metadata, annotations={"own": "own value"}))
    shape = PodShapes().of(first)
    assert not {"own value", "own message"} & {one for one, _ in reached_from(shape) if isinstance(one, str)}
    assert shape.label_key == PodShapes().of(pod()).label_key


@pytest.mark.parametrize("seed", range(30))
def test_pods_that_come_together_have_what_each_has_by_itself(seed):
    lots = random.Random(seed)
    first = pod()
    others = {"priority": (0, 5), "host_network": (True, False), "scheduler_name": ("a", "b")}
    nodes = [NodeAffinity(NodeSelector((NodeSelectorTerm(match_fields=()),))), None]
    terms = [PodAffinity((PodAffinityTerm(name, LabelSelector({"app": "web"})),)) for name in "xy"]
    pods = []
    for number in range(40):  # all have the containers of the first
        spec = replace(first.spec, node_name=f"n{lots.randrange(3)}")
        for field, values in others.items():
            if lots.random() < 0.1:
                spec = replace(spec, **{field: lots.choice(values)})
        if lots.random() < 0.4:
            spec = replace(spec, affinity=Affinity(lots.choice(nodes), lots.choice((None, *terms))))
        labels = lots.choice(({"app": "web"}, {"app": "db"}, first.metadata.labels))
        owners = (OwnerReference(name=lots.choice("ab")),) if lots.random() < 0.1 else ()
        namespace = "other" if lots.random() < 0.1 else "default"
        meta = replace(first.metadata, name=str(number), labels=labels, owner_references=owners, namespace=namespace)
        pods.append(replace(first, metadata=meta, spec=spec))
    before = msgspec.json.encode(pods)

    shapes = list(PodShapes().of_placed(pods))

    assert msgspec.json.encode(pods) == before
    for each, shape in zip(pods, shapes, strict=True):
        alone = PodShapes().of(replace(each), is_placed=True)
        for name in ("requests", "scoring_requests", "qos_class", "host_ports", "label_key", "required_affinity_terms"):
            assert getattr(shape, name) == getattr(alone, name)
        assert shape.spec == alone.spec
        assert shape.wider is not None and shape.wider.ignored == {REQUESTS}
    assert 1 < len(set(shapes)) < len(pods)
