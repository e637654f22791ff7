"""DaemonSets in virtual time, after upstream's conformance specs "[sig-apps] Daemon set [Serial] …" of the same names.

What the pods look like is that of a pod made by kube-controller-manager, v1.36.
"""

from berth_cluster.hollow.kubelet import KubeletSettings
from packages.cluster.tests.controllers.world import World, daemon_set, pod_template

REVISION = "controller-revision-hash"


def nodes_of(world):
    return sorted(pod["spec"].get("nodeName", "") for pod in world.pods() if "deletionTimestamp" not in pod["metadata"])


def images(world):
    return sorted(pod["spec"]["containers"][0]["image"] for pod in world.pods())


def change_image(world, image="redis", **strategy):
    template = pod_template({"app": "agent"}, image)
    world.patch("DaemonSet", "agent", {"spec": {"template": template, **strategy}})


def test_should_run_and_stop_simple_daemon():
    world = World()
    world.create(daemon_set("agent"))
    world.run(5)
    assert nodes_of(world) == ["node-0", "node-1", "node-2"]
    assert world.status("DaemonSet", "agent") == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberAvailable": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
    }
    world.delete("Pod", world.pods()[0]["metadata"]["name"])
    world.run(5)
    assert nodes_of(world) == ["node-0", "node-1", "node-2"]
    world.delete("DaemonSet", "agent")
    world.run(60)
    assert world.pods() == []


def test_the_pods_are_made_for_one_node_and_stay_there():
    world = World(nodes=1, binds=False)
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}, "podAffinity": {}}
    bounded = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 9,
    }
    world.create(daemon_set("agent", template=pod_template({"app": "agent"}, affinity=affinity, tolerations=[bounded])))
    world.run()
    (pod,) = world.pods()
    (revision,) = world.all("ControllerRevision")
    assert f"agent-{pod['metadata']['labels'][REVISION]}" == revision["metadata"]["name"]
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}
    assert set(pod["spec"]["affinity"]) == {"nodeAffinity", "podAffinity"}
    tolerated = {(one["key"], one["effect"], one.get("tolerationSeconds")) for one in pod["spec"]["tolerations"]}
    assert tolerated == {
        ("node.kubernetes.io/not-ready", "NoExecute", None),
        ("node.kubernetes.io/unreachable", "NoExecute", None),
        ("node.kubernetes.io/disk-pressure", "NoSchedule", None),
        ("node.kubernetes.io/memory-pressure", "NoSchedule", None),
        ("node.kubernetes.io/pid-pressure", "NoSchedule", None),
        ("node.kubernetes.io/unschedulable", "NoSchedule", None),
    }


def test_should_run_and_stop_complex_daemon():
    world = World()
    world.create(daemon_set("agent", template=pod_template({"app": "agent"}, nodeSelector={"color": "blue"})))
    world.run(5)
    assert nodes_of(world) == []
    world.patch("Node", "node-1", {"metadata": {"labels": {"color": "blue"}}}, "")
    world.run(5)
    assert nodes_of(world) == ["node-1"]
    world.patch("Node", "node-1", {"metadata": {"labels": {"color": "green"}}}, "")
    world.run(5)
    assert nodes_of(world) == []


def test_taints_keep_new_pods_away_and_those_that_do_not_execute_let_others_stay():
    world = World()
    world.create(daemon_set("agent"))
    world.run(5)
    for node, effect in (("node-0", "NoSchedule"), ("node-1", "NoExecute")):
        world.patch("Node", node, {"spec": {"taints": [{"key": "own", "effect": effect}]}}, "")
    world.run(5)
    assert nodes_of(world) == ["node-0", "node-2"]
    status = world.status("DaemonSet", "agent")
    assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (1, 1)
    world.delete("Pod", next(pod["metadata"]["name"] for pod in world.pods() if pod["spec"]["nodeName"] == "node-0"))
    world.run(5)
    assert nodes_of(world) == ["node-2"]


def test_nodes_come_and_go():
    world = World(nodes=2)
    world.create(daemon_set("agent"))
    world.run(5)
    made = world.get("Node", "node-0")
    fresh = {"kind": "Node", "metadata": {"name": "late", "annotations": made["metadata"]["annotations"]}}
    world.create({**fresh, "status": made["status"]})
    world.delete("Node", "node-1", "")
    world.run(60)
    assert nodes_of(world) == ["late", "node-0"]


def test_should_retry_creating_failed_daemon_pods():
    world = World(nodes=1)
    world.create(daemon_set("agent"))
    world.run(5)
    names = set()
    for _ in range(3):
        (pod,) = world.pods()
        names.add(pod["metadata"]["name"])
        world.patch("Pod", pod["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status")
        world.run(5)
    assert len(names) == 3
    assert len(world.events("DaemonSet", "FailedDaemonPod")) == 3


def test_a_pod_that_its_node_refuses_is_tried_again_ever_less_often():
    world = World(nodes=1)
    # The kubelet finds no room, though the scheduler of these tests did.
    template = pod_template({"app": "agent"})
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
    world.create(daemon_set("agent", template=template))
    world.run(1000)
    tries = len(world.events("DaemonSet", "FailedDaemonPod"))
    assert 8 <= tries <= 12


def test_should_update_pod_when_spec_was_updated_and_update_strategy_is_rolling_update():
    world = World(nodes=5, kubelet=KubeletSettings(start_delay_s=10))
    world.create(
        daemon_set("agent", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "30%"}})
    )
    world.run(20)
    change_image(world)
    while images(world) != ["redis"] * 5:
        assert world.status("DaemonSet", "agent").get("numberUnavailable", 0) <= 2
        world.run(1)
    world.run(20)
    assert world.status("DaemonSet", "agent")["updatedNumberScheduled"] == 5
    assert len(world.all("ControllerRevision")) == 2


def test_should_not_update_pod_when_spec_was_updated_and_update_strategy_is_on_delete():
    world = World()
    world.create(daemon_set("agent", updateStrategy={"type": "OnDelete"}))
    world.run(5)
    change_image(world)
    world.run(60)
    assert images(world) == ["nginx"] * 3
    assert {pod["metadata"]["labels"]["pod-template-generation"] for pod in world.pods()} == {"1"}
    annotations = world.get("DaemonSet", "agent")["metadata"]["annotations"]
    assert annotations["deprecated.daemonset.template.generation"] == "2"
    world.delete("Pod", world.pods()[0]["metadata"]["name"])
    world.run(5)
    assert images(world) == ["nginx", "nginx", "redis"]
    assert world.status("DaemonSet", "agent")["updatedNumberScheduled"] == 1


def test_should_rollback_without_unnecessary_restarts():
    world = World()
    world.create(daemon_set("agent"))
    world.run(5)
    before = {pod["metadata"]["name"] for pod in world.pods()}
    world.binds = False  # so that the first new pod never becomes available, and the other nodes keep theirs
    change_image(world, "no:such")
    world.run(60)
    change_image(world, "nginx")
    world.binds = True
    world.run(60)
    assert images(world) == ["nginx"] * 3
    assert len(before & {pod["metadata"]["name"] for pod in world.pods()}) == 2
    assert [revision["revision"] for revision in world.all("ControllerRevision")] in ([3, 2], [2, 3])


def test_should_surge_pods_onto_nodes_when_spec_was_updated_and_update_strategy_is_rolling_update():
    world = World(kubelet=KubeletSettings(start_delay_s=10))
    rolling = {"maxUnavailable": 0, "maxSurge": 1}
    world.create(
        daemon_set("agent", minReadySeconds=5, updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    )
    world.run(30)
    change_image(world)
    most = 0
    while images(world) != ["redis"] * 3:
        assert world.status("DaemonSet", "agent").get("numberUnavailable", 0) == 0
        most = max(most, len(nodes_of(world)))
        world.run(1)
    assert most == 4


def test_orphans_are_adopted():
    world = World()
    world.create(daemon_set("agent"))
    world.run(5)
    before = {pod["metadata"]["name"] for pod in world.pods()}
    world.delete("DaemonSet", "agent", propagationPolicy="Orphan")
    world.run(5)
    assert not any(pod["metadata"].get("ownerReferences") for pod in world.pods())
    world.create(daemon_set("agent"))
    world.run(5)
    assert {pod["metadata"]["name"] for pod in world.pods()} == before
