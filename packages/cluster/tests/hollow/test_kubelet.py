"""The life of a pod on a hollow node, in virtual time."""

import ipaddress

import pytest

from berth_cluster.apimachinery.patches import STRATEGIC_MERGE_PATCH
from berth_cluster.apimachinery.resource_types import PODS
from berth_cluster.hollow.kubelet import KubeletSettings
from berth_cluster.hollow.template import NodeTemplate
from packages.cluster.tests.controllers.world import START_S, World, condition, pod

ONE_CPU = {"requests": {"cpu": "1"}}


def with_resources(name, resources, **spec):
    one = pod(name, **spec)
    one["spec"]["containers"][0]["resources"] = resources
    return one


def placed(world, one, node="node-0"):
    world.bind(world.create(one), node)
    world.run()
    return world.get("Pod", one["metadata"]["name"])


def test_a_bound_pod_runs():
    world = World(nodes=1, binds=False)
    found = placed(world, pod("web"))
    status = found["status"]
    assert status["phase"] == "Running"
    assert status["hostIP"] == "172.16.0.1"
    network = ipaddress.ip_network(world.get("Node", "node-0", "")["spec"]["podCIDR"])
    assert ipaddress.ip_address(status["podIP"]) in network
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    for name in ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
        assert condition(found, name)[0] == "True", name
    (container,) = status["containerStatuses"]
    assert (container["name"], container["ready"], container["started"]) == ("main", True, True)
    assert "running" in container["state"]
    assert status["startTime"] == "2027-01-15T08:00:00Z"


def test_an_unbound_pod_stays_pending():
    world = World(nodes=1, binds=False)
    world.create(pod("web"))
    world.run(60)
    assert world.get("Pod", "web")["status"].get("phase", "Pending") == "Pending"


def test_a_pod_on_a_node_that_is_not_hollow_is_left_alone():
    world = World(nodes=1, binds=False)
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
    found = placed(world, pod("web"), "real")
    assert found["status"].get("phase", "Pending") == "Pending"


def test_pods_have_different_addresses_and_host_network_pods_the_nodes():
    world = World(nodes=1, binds=False)
    addresses = [placed(world, pod(f"p{number}"))["status"]["podIP"] for number in range(5)]
    assert len(set(addresses)) == 5
    shared = placed(world, pod("shared", hostNetwork=True))["status"]
    assert shared["podIP"] == shared["hostIP"]


def test_a_pod_that_does_not_fit_fails_as_a_kubelet_says_it():
    world = World(nodes=1, binds=False, template=NodeTemplate(cpu="4"))
    placed(world, with_resources("big", {"requests": {"cpu": "3900m"}}))
    found = placed(world, with_resources("web", ONE_CPU))
    words = "Node didn't have enough resource: cpu, requested: 1000, used: 3900, capacity: 4000"
    assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", "OutOfcpu")
    assert found["status"]["message"] == f"Pod was rejected: {words}"
    assert condition(found, "PodScheduled")[0] == "True"
    assert world.events("Pod", "OutOfcpu") == [words]


@pytest.mark.parametrize("how", ["deleted", "failed", "succeeded"])
def test_room_comes_back_when_a_pod_ends(how):
    world = World(nodes=1, binds=False, template=NodeTemplate(cpu="1"))
    spec = {"restartPolicy": "Never"} if how == "succeeded" else {}
    placed(world, with_resources("first", ONE_CPU, **spec))
    if how == "deleted":
        world.delete("Pod", "first")
    elif how == "failed":
        world.patch("Pod", "first", {"status": {"phase": "Failed"}}, subresource="status")
    world.run(5)
    assert placed(world, with_resources("second", ONE_CPU))["status"]["phase"] == "Running"


def resize(world, name, **requests):
    container = {"name": "main", "resources": {"requests": requests}}
    patch = {"spec": {"containers": [container]}}
    world.store.patch(PODS, "default", name, patch, STRATEGIC_MERGE_PATCH, "resize")
    world.run()
    return world.get("Pod", name)["status"]


def pending_resize(status):
    return [(one["reason"], one["message"]) for one in status["conditions"] if one["type"] == "PodResizePending"]


def test_a_resize_is_given_where_there_is_room():
    """KEP-1287: the spec is what is wanted, the container's status what it has."""
    world = World(nodes=1, binds=False, template=NodeTemplate(cpu="4"))
    placed(world, with_resources("web", ONE_CPU))
    status = resize(world, "web", cpu="3")
    (container,) = status["containerStatuses"]
    assert container["resources"] == {"requests": {"cpu": "3"}}
    assert container["allocatedResources"] == {"cpu": "3"}
    assert not pending_resize(status)
    assert placed(world, with_resources("big", {"requests": {"cpu": "2"}}))["status"]["reason"] == "OutOfcpu"
    resize(world, "web", cpu="1")
    assert placed(world, with_resources("next", {"requests": {"cpu": "3"}}))["status"]["phase"] == "Running"


def test_a_resize_waits_for_room_that_another_pod_holds():
    """pkg/kubelet/allocation: Deferred, and tried again when a pod goes or shrinks."""
    world = World(nodes=1, binds=False, template=NodeTemplate(cpu="4"))
    placed(world, with_resources("web", ONE_CPU))
    placed(world, with_resources("other", {"requests": {"cpu": "2"}}))
    status = resize(world, "web", cpu="3")
    words = "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"
    assert pending_resize(status) == [("Deferred", words)]
    assert status["containerStatuses"][0]["resources"] == ONE_CPU
    world.delete("Pod", "other")
    world.run(5)
    status = world.get("Pod", "web")["status"]
    assert not pending_resize(status)
    assert status["containerStatuses"][0]["resources"] == {"requests": {"cpu": "3"}}


def test_a_resize_beyond_the_node_is_infeasible_until_it_is_taken_back():
    """Documentation of v1.36, Resize CPU and Memory Resources assigned to Containers: the message's form."""
    world = World(nodes=1, binds=False, template=NodeTemplate(cpu="4"))
    placed(world, with_resources("web", ONE_CPU))
    status = resize(world, "web", cpu="1000")
    words = "Node didn't have enough capacity: cpu, requested: 1000000, capacity: 4000"
    assert pending_resize(status) == [("Infeasible", words)]
    assert status["containerStatuses"][0]["resources"] == ONE_CPU
    assert not pending_resize(resize(world, "web", cpu="1"))


def test_a_pod_being_deleted_holds_its_room_until_it_is_gone():
    world = World(nodes=1, binds=False, template=NodeTemplate(cpu="1"))
    placed(world, with_resources("first", ONE_CPU))
    world.delete("Pod", "first")
    assert placed(world, with_resources("second", ONE_CPU))["status"]["reason"] == "OutOfcpu"


@pytest.mark.parametrize(
    ("grace_s", "longest_s", "there_after", "gone_after"),
    [(30, 1.0, 0.5, 1.0), (30, 60.0, 29.0, 30.0), (0, 60.0, None, 0.0)],
)
def test_a_deleted_pod_goes_after_its_grace_period_or_the_longest_allowed(grace_s, longest_s, there_after, gone_after):
    world = World(nodes=1, binds=False, kubelet=KubeletSettings(max_grace_s=longest_s))
    placed(world, pod("web"))
    world.delete("Pod", "web", gracePeriodSeconds=grace_s)
    if there_after is not None:
        world.run(there_after)
        assert world.get("Pod", "web") is not None
        gone_after -= there_after
    world.run(gone_after)
    assert world.get("Pod", "web") is None


@pytest.mark.parametrize(
    ("grace_s", "hooks", "gone_after"),
    [
        (100, {"main": {"sleep": {"seconds": 79}}}, 80),
        (
            100,
            {"main": {"exec": {"command": ["sh", "-c", "sleep 5; sleep 10"]}}, "other": {"sleep": {"seconds": 3}}},
            16,
        ),
        (30, {"main": {"sleep": {"seconds": 79}}}, 30),
        (30, {"main": {"exec": {"command": ["sleep", "infinity"]}}}, 30),
        (0, {"main": {"sleep": {"seconds": 79}}}, 0),
        (100, {"main": {"httpGet": {"port": 80}}, "other": {"exec": {"command": ["/bin/leave"]}}}, 1),
        (100, {"over": {"sleep": {"seconds": 79}}}, 1),
    ],
    ids=["sleep", "the longest of several", "cut off", "endless", "killed", "at once", "of a container that has ended"],
)
def test_a_deleted_pod_goes_once_its_hooks_have_run(grace_s, hooks, gone_after):
    world = World(nodes=1, binds=False)
    runs = {"main": ["sleep", "infinity"], "other": ["sleep", "infinity"], "over": ["true"]}
    hooked = {name: {"lifecycle": {"preStop": hook}} for name, hook in hooks.items()}
    containers = [{"name": name, "image": "x", "command": runs[name], **hooked.get(name, {})} for name in runs]
    placed(world, pod("web", containers=containers, restartPolicy="Never"))
    world.delete("Pod", "web", gracePeriodSeconds=grace_s)
    if gone_after:
        world.run(gone_after - 0.5)
        assert world.get("Pod", "web") is not None
    world.run(0.5)
    assert world.get("Pod", "web") is None


def test_a_pod_with_a_finalizer_shows_how_it_ended():
    world = World(nodes=1, binds=False)
    held = pod("web")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    placed(world, held)
    world.delete("Pod", "web")
    world.run(5)
    found = world.get("Pod", "web")
    assert found["status"]["phase"] == "Failed"
    world.patch("Pod", "web", {"metadata": {"finalizers": None}})
    world.run(5)
    assert world.get("Pod", "web") is None


@pytest.mark.parametrize(
    ("policy", "annotations", "after_s", "phase"),
    [
        ("Always", {}, 1000, "Running"),
        ("Never", {}, 1, "Running"),
        ("Never", {}, 2, "Succeeded"),
        ("OnFailure", {}, 2, "Succeeded"),
        ("Never", {"berth.dev/run-seconds": "10"}, 9, "Running"),
        ("Never", {"berth.dev/run-seconds": "10"}, 10, "Succeeded"),
        ("Never", {"berth.dev/exit-code": "3"}, 2, "Failed"),
        ("Never", {"berth.dev/run-seconds": "soon"}, 2, "Succeeded"),
    ],
)
def test_when_and_how_pods_end(policy, annotations, after_s, phase):
    world = World(nodes=1, binds=False)
    one = pod("task", restartPolicy=policy)
    one["metadata"]["annotations"] = annotations
    placed(world, one)
    world.run(after_s)
    found = world.get("Pod", "task")
    assert found["status"]["phase"] == phase
    if phase != "Running":
        code = int(annotations.get("berth.dev/exit-code", "0"))
        (container,) = found["status"]["containerStatuses"]
        assert container["state"]["terminated"]["exitCode"] == code
        assert container["state"]["terminated"]["reason"] == ("Error" if code else "Completed")
        assert condition(found, "Ready")[0] == "False"


def test_the_pods_own_deadline():
    world = World(nodes=1, binds=False)
    placed(world, pod("long", activeDeadlineSeconds=20))
    world.run(21)
    status = world.get("Pod", "long")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_pods_that_ran_before_the_kubelet_looked_are_counted():
    world = World(nodes=1, binds=False, template=NodeTemplate(cpu="1"))
    placed(world, with_resources("first", ONE_CPU))
    later = World.__new__(World)
    later.__dict__.update(world.__dict__)
    from berth_cluster.controllers.manager import ControllerManager
    from berth_cluster.embedded import ClusterSettings, make_controllers

    later.manager = ControllerManager(world.store)
    later.manager.add(make_controllers(later.manager.client, ClusterSettings(heartbeat_s=0)))
    later.run()
    assert later.get("Pod", "first")["status"]["phase"] == "Running"
    later.bind(later.create(with_resources("second", ONE_CPU)), "node-0")
    later.run()
    assert later.get("Pod", "second")["status"]["reason"] == "OutOfcpu"


def test_a_changed_node_offers_what_it_says_now():
    world = World(nodes=1, binds=False, template=NodeTemplate(cpu="1"))
    placed(world, with_resources("first", ONE_CPU))
    world.patch("Node", "node-0", {"status": {"allocatable": {"cpu": "2"}}}, namespace="", subresource="status")
    world.run()
    assert placed(world, with_resources("second", ONE_CPU))["status"]["phase"] == "Running"


def test_the_work_grows_with_the_pods_and_no_faster():
    template = NodeTemplate(cpu="1000", pods=2000)
    world = World(nodes=10, binds=False, template=template)
    for number in range(2000):
        world.create(pod(f"p{number}"))
    for number, one in enumerate(world.pods()):
        world.bind(one, f"node-{number % 10}")
    steps = world.manager.run_until_quiet(START_S)
    assert all(one["status"]["phase"] == "Running" for one in world.pods())
    assert steps <= 2 * 2000 + 10  # one to admit, one to see its own status
