"""Extended resources backed by devices (KEP-5004, v1.36): `example.com/gpu: 2` without a claim of one's own."""

from berth.core.builders import make_node, make_pod
from berth.framework.status import SKIP, unschedulable
from packages.scheduler.tests.plugins.dra.support import (
    World,
    answered,
    claim,
    device,
    device_class,
    pod_with,
    request,
    resource_slice,
)
from packages.scheduler.tests.plugins.support import diagnosed

GPU = "example.com/gpu"
BACKED = device_class("gpu", extendedResourceName=GPU)
SLICE = resource_slice("s", device("d0"), device("d1"), device("d2"))
ANNOTATION = {"resource.kubernetes.io/extended-resource-claim": "true"}


def world(*objects, **options):
    return World(BACKED, SLICE, *objects, **options)


def container(name, restart=None, **amounts):
    spec = {"name": name, "resources": {"requests": {key.replace("__", "/"): value for key, value in amounts.items()}}}
    return {**spec, **({"restartPolicy": restart} if restart else {})}


def wanting(amount="2"):
    return make_pod("p").request(**{GPU: amount}).info()


def test_devices_are_taken_where_the_node_has_none_of_the_resource_itself():
    w = world()
    assert w.take(wanting()) == [("container-0-request-0", "a", "d0"), ("container-0-request-0", "a", "d1")]
    assert w.messages(make_pod("q").request(**{GPU: "2"}).info()) == {"a": "cannot allocate all claims"}


def test_nodes_that_have_the_resource_themselves_need_no_devices():
    node = make_node("a").capacity(cpu="8", pods=110, **{GPU: "4"}).build()
    w = world(nodes=(node, "b"))
    assert w.messages(wanting()) == {"a": None, "b": "cannot allocate all claims"}
    assert w.plugin.reserve(w.state, wanting(), "a") is None
    assert not w.state.read("DynamicResources").allocations


def test_a_class_may_be_asked_for_by_its_own_name():
    pod = make_pod("p").request(**{"deviceclass.resource.kubernetes.io/gpu": "1"}).info()
    assert world().take(pod) == [("container-0-request-0", "a", "d0")]


def test_resources_without_a_class_and_the_feature_switched_off():
    assert world().look(make_pod("p").request(**{"example.com/other": "1"}).info()) is SKIP
    assert world(gates={"DRAExtendedResource": False}).look(wanting()) is SKIP


def test_a_resource_that_a_node_cannot_have_at_all():
    pod = make_pod("p").request(**{GPU: "1", "example.com/other": "1"}).info()
    assert world().messages(pod) == {"a": "cannot fit resource"}


def test_of_several_classes_the_youngest_stands_behind_a_resource():
    young = device_class("aaa", "false", extendedResourceName=GPU)
    w = world(young)
    assert w.messages(wanting()) == {"a": "cannot allocate all claims"}  # equally old: the first by name


def requests_of(pod):
    w = world()
    assert w.look(pod) is not SKIP
    made = w.state.read("DynamicResources").by_node["a"].node_claim
    asked = {r.name: r.exactly.count for r in made.claim.spec.devices.requests}
    return asked, [tuple(mapping) for mapping in made.mappings]


def test_each_container_has_a_request_of_its_own():
    amounts = {"example.com__gpu": "1", "cpu": "1"}
    pod = pod_with(containers=[container("c0", **amounts), container("c1", cpu="1"), container("c2", **amounts)])
    assert requests_of(pod) == (
        {"container-0-request-1": 1, "container-2-request-1": 1},
        [("c0", GPU, "container-0-request-1"), ("c2", GPU, "container-2-request-1")],
    )


def test_init_containers_use_what_later_containers_will_have():
    gpu = "example.com__gpu"
    pod = pod_with(
        containers=[container("main", **{gpu: "1"})],
        initContainers=[container("i0", **{gpu: "1"}), container("i1", **{gpu: "3"}), container("i2", **{gpu: "2"})],
    )
    # i1 needs two more than main has, i2 one more: the larger request serves both.
    assert requests_of(pod) == (
        {"container-1-request-0": 2, "container-3-request-0": 1},
        [
            ("main", GPU, "container-3-request-0"),
            ("i0", GPU, "container-3-request-0"),
            ("i1", GPU, "container-3-request-0"),
            ("i1", GPU, "container-1-request-0"),
            ("i2", GPU, "container-3-request-0"),
            ("i2", GPU, "container-1-request-0"),
        ],
    )


def test_sidecars_last():
    gpu = "example.com__gpu"
    pod = pod_with(
        containers=[container("main", **{gpu: "1"})], initContainers=[container("side", restart="Always", **{gpu: "1"})]
    )
    assert requests_of(pod)[0] == {"container-0-request-0": 1, "container-1-request-0": 1}


def test_the_pod_may_have_claims_beside():
    pod = pod_with("c", containers=[container("c0", **{"example.com__gpu": "1"})])
    assert world(claim("c", request(count=2))).take(pod) == [
        ("r0", "a", "d0"), ("r0", "a", "d1"), ("container-0-request-0", "a", "d2"),
    ]  # fmt: skip


def test_a_claim_of_an_earlier_attempt_is_deleted_first():
    pod = wanting()
    finalizers = ["resource.kubernetes.io/delete-protection", "other"]
    stale = claim("p-x", request(), owner=pod.uid, annotations=ANNOTATION, finalizers=finalizers)
    w = world(stale)
    assert w.messages(pod) == {"a": "cannot schedule extended resource claim"}
    calls, result = answered(w.plugin.post_filter(w.state, pod, diagnosed(w.handle)), {}, {})
    assert result == (None, unschedulable("deletion of ResourceClaim completed"))
    assert [(call.verb, call.name) for call in calls] == [("patch", "p-x"), ("delete", "p-x")]
    assert calls[0].body["metadata"]["finalizers"] == ["other"]
