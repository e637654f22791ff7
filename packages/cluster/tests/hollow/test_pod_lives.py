"""Containers that start, end and start again on hollow nodes, and what the pod's status says of it, in virtual time.

Tests of what an upstream conformance spec tests carry its name. Reasons and back-off: the documentation of v1.36, Pod
Lifecycle and Sidecar Containers.
"""

import itertools

import pytest

from berth_cluster.hollow.kubelet import KubeletSettings
from packages.cluster.tests.controllers.world import World, condition, meta


def pod(name="web", annotations=None, inits=(), policy="Never", **containers):
    """A pod of containers by name, each with its shell script."""
    spec = {"restartPolicy": policy, "containers": [container(one, script) for one, script in containers.items()]}
    if inits:
        spec["initContainers"] = list(inits)
    metadata = meta(name, annotations={f"berth.dev/{key}": text for key, text in (annotations or {}).items()})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container(name, script="", **fields):
    command = {"command": ["sh", "-c", script]} if script else {}
    return {"name": name, "image": "busybox", **command, **fields}


def started(*pods, **settings):
    world = World(nodes=1, kubelet=KubeletSettings(**settings))
    for one in pods:
        world.create(one)
    world.run()
    return world


def states(world, name="web"):
    """The state of each container: `running`, `waiting REASON`, or `terminated CODE REASON`."""
    status = world.status("Pod", name)
    found = {}
    for one in [*status.get("initContainerStatuses", []), *status["containerStatuses"]]:
        [(state, more)] = one["state"].items()
        found[one["name"]] = " ".join(str(more[key]) for key in ("exitCode", "reason") if key in more) or state
    return found


def phase(world, name="web"):
    return world.status("Pod", name)["phase"]


@pytest.mark.parametrize(
    ("script", "ended_phase", "state"),
    [("sleep 3; exit 4", "Failed", "4 Error"), ("sleep 3", "Succeeded", "0 Completed")],
)
def test_a_pod_ends_as_its_command_says(script, ended_phase, state):
    world = started(pod(main=script))
    assert (phase(world), states(world)) == ("Running", {"main": "running"})
    world.run(3)
    assert (phase(world), states(world)) == (ended_phase, {"main": state})
    why = "PodCompleted" if ended_phase == "Succeeded" else "PodFailed"
    found = world.get("Pod", "web")
    assert condition(found, "Ready") == ("False", why, None)
    assert condition(found, "ContainersReady") == ("False", why, None)


def test_a_pod_runs_until_its_last_container_has_ended_and_fails_if_one_has():
    world = started(pod(one="sleep 2; false", other="sleep 5"))
    world.run(2)
    assert (phase(world), states(world)) == ("Running", {"one": "1 Error", "other": "running"})
    unready = ("False", "ContainersNotReady", "containers with unready status: [one]")
    assert condition(world.get("Pod", "web"), "Ready") == unready
    world.run(3)
    assert (phase(world), states(world)) == ("Failed", {"one": "1 Error", "other": "0 Completed"})


def test_init_container_should_invoke_init_containers_on_a_restartnever_pod():
    """[sig-node] InitContainer [NodeConformance] should invoke init containers on a RestartNever pod"""
    world = started(pod(inits=[container("init1", "sleep 2"), container("init2", "sleep 3")], main="sleep 4"))
    assert states(world) == {"init1": "running", "init2": "PodInitializing", "main": "PodInitializing"}
    assert phase(world) == "Pending"
    incomplete = "containers with incomplete status: [init1 init2]"
    assert condition(world.get("Pod", "web"), "Initialized") == ("False", "ContainersNotInitialized", incomplete)
    world.run(2)
    assert states(world) == {"init1": "0 Completed", "init2": "running", "main": "PodInitializing"}
    world.run(3)
    assert (phase(world), states(world)["main"]) == ("Running", "running")
    assert condition(world.get("Pod", "web"), "Initialized")[0] == "True"
    world.run(4)
    assert phase(world) == "Succeeded"
    assert condition(world.get("Pod", "web"), "Initialized") == ("True", "PodCompleted", None)


def test_init_container_should_not_start_app_containers_if_init_containers_fail_on_a_restartalways_pod():
    """[sig-node] InitContainer [NodeConformance] should not start app containers if init containers fail on a …"""
    world = started(pod(inits=[container("init1", "false"), container("init2")], policy="Always", main=""))
    assert phase(world) == "Pending"
    assert states(world) == {"init1": "CrashLoopBackOff", "init2": "PodInitializing", "main": "PodInitializing"}
    assert restarts(world, "initContainerStatuses") == [1, 0]
    world.run(10)
    assert restarts(world, "initContainerStatuses") == [2, 0]
    assert phase(world) == "Pending"


def test_init_container_should_fail_the_pod_if_init_containers_fail_on_a_restartnever_pod():
    """[sig-node] InitContainer [NodeConformance] should not start app containers and fail the pod if init …"""
    world = started(pod(inits=[container("init1"), container("init2", "exit 2")], main="sleep 9"))
    assert phase(world) == "Failed"
    assert states(world) == {"init1": "0 Completed", "init2": "2 Error", "main": "PodInitializing"}


def restarts(world, field="containerStatuses", name="web"):
    return [one["restartCount"] for one in world.status("Pod", name)[field]]


def test_a_container_that_fails_is_restarted_at_once_and_then_later_and_later():
    """Pod Lifecycle: an exponential back-off delay (10s, 20s, 40s, …), capped at 300 seconds."""
    world = started(pod(policy="Always", main="sleep 1; exit 3"))
    world.run(1)
    assert (states(world), restarts(world)) == ({"main": "running"}, [1])
    [status] = world.status("Pod", "web")["containerStatuses"]
    assert status["lastState"]["terminated"]["exitCode"] == 3
    world.run(1)
    assert states(world) == {"main": "CrashLoopBackOff"}
    [status] = world.status("Pod", "web")["containerStatuses"]
    words = "back-off 10s restarting failed container=main pod=web_default(uid-"
    assert status["state"]["waiting"]["message"].startswith(words)
    assert phase(world) == "Running"
    at = [world.now_s - 1]
    while len(at) < 9:
        before = restarts(world)
        while restarts(world) == before:
            world.run(1)
        at.append(world.now_s)
    assert [later - earlier - 1 for earlier, later in itertools.pairwise(at)] == [
        10, 20, 40, 80, 160, 300, 300, 300,
    ]  # fmt: skip


def test_a_container_that_ran_for_long_is_forgiven():
    """Pod Lifecycle: the kubelet resets the back-off of a container that has run for 10 minutes without problems."""
    world = started(pod(policy="Always", annotations={"run-seconds": "0,0,700"}, main=""))
    assert (states(world), restarts(world)) == ({"main": "CrashLoopBackOff"}, [1])
    world.run(10)
    assert (states(world), restarts(world)) == ({"main": "running"}, [2])
    world.run(700)
    assert (states(world), restarts(world)) == ({"main": "running"}, [3])


def test_on_failure_a_container_is_restarted_until_it_succeeds():
    world = started(pod(policy="OnFailure", annotations={"exit-code": "1,1,0"}, main="sleep 1"))
    world.run(14)
    assert (phase(world), states(world), restarts(world)) == ("Succeeded", {"main": "0 Completed"}, [2])


def test_a_container_may_have_a_restart_policy_of_its_own():
    """KEP-5307: a rule for exit codes comes first, then the container's own policy."""
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    world = started(pod(annotations={"exit-code": "42,1"}, main="sleep 1"))
    assert world.get("Pod", "web") is not None
    one = pod("ruled", annotations={"exit-code": "42,1"}, main="sleep 1")
    one["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": rules}
    world.create(one)
    world.run(3)
    assert (phase(world), restarts(world)) == ("Failed", [0])
    assert (phase(world, "ruled"), restarts(world, name="ruled")) == ("Failed", [1])


def test_sidecars_start_before_the_others_and_end_after_them():
    """KEP-753, and Sidecar Containers: the pod ends as its other containers have, whatever its sidecars do."""
    proxy = container("proxy", "", restartPolicy="Always")
    world = started(pod(inits=[proxy, container("setup", "sleep 1")], main="sleep 2"))
    assert states(world) == {"proxy": "running", "setup": "running", "main": "PodInitializing"}
    world.run(1)
    assert condition(world.get("Pod", "web"), "Ready")[0] == "True"
    seen = []
    world.store.subscribe(lambda _event, kind, obj, _old: seen.append(obj) if kind.kind == "Pod" else None)
    world.run(2)
    assert (phase(world), states(world)["proxy"]) == ("Succeeded", "0 Completed")
    [between] = [one for one in seen if one["status"]["phase"] == "Running"]
    assert "terminated" in between["status"]["containerStatuses"][0]["state"]
    assert "running" in between["status"]["initContainerStatuses"][0]["state"]


def test_a_sidecar_that_fails_is_restarted_even_if_the_pod_is_not():
    world = started(pod(inits=[container("proxy", "sleep 2; false", restartPolicy="Always")], main="sleep 3"))
    world.run(2)
    assert restarts(world, "initContainerStatuses") == [1]
    world.run(1)
    assert phase(world) == "Succeeded"


def test_a_container_is_ready_after_a_while_if_its_pod_says_so():
    world = started(pod(policy="Always", annotations={"ready-seconds": "5"}, main=""))
    assert condition(world.get("Pod", "web"), "Ready")[1] == "ContainersNotReady"
    world.run(4)
    assert condition(world.get("Pod", "web"), "Ready")[0] == "False"
    world.run(1)
    assert condition(world.get("Pod", "web"), "Ready") == ("True", None, None)


def test_pods_should_support_pod_readiness_gates():
    """[sig-node] Pods should support pod readiness gates [NodeConformance]"""
    gate = "k8s.io/test-condition1"
    one = pod(policy="Always", main="")
    one["spec"]["readinessGates"] = [{"conditionType": gate}]
    world = started(one)
    lacking = f'corresponding condition of pod readiness gate "{gate}" does not exist.'
    assert condition(world.get("Pod", "web"), "Ready") == ("False", "ReadinessGatesNotReady", lacking)
    assert condition(world.get("Pod", "web"), "ContainersReady")[0] == "True"
    for state, ready in (("True", ("True", None, None)), ("False", None)):
        set_gate(world, gate, state)
        closed = f'the status of pod readiness gate "{gate}" is not "True", but False'
        expected = ready or ("False", "ReadinessGatesNotReady", closed)
        assert condition(world.get("Pod", "web"), "Ready") == expected


def set_gate(world, gate, state):
    others = [one for one in world.status("Pod", "web")["conditions"] if one["type"] != gate]
    conditions = [*others, {"type": gate, "status": state}]
    world.patch("Pod", "web", {"status": {"conditions": conditions}}, subresource="status")
    world.run()


def test_a_running_pod_can_be_told_to_end():
    world = started(pod(policy="Always", main=""))
    world.run(100)
    world.patch("Pod", "web", {"metadata": {"annotations": {"berth.dev/exit-code": "9"}}})
    world.run()
    [status] = world.status("Pod", "web")["containerStatuses"]
    assert (status["restartCount"], status["lastState"]["terminated"]["exitCode"]) == (1, 9)


def test_while_a_pod_has_not_started_its_containers_are_being_created():
    world = started(pod(main="sleep 2"), start_delay_s=5)
    assert (phase(world), states(world)) == ("Pending", {"main": "ContainerCreating"})
    world.run(5)
    assert (phase(world), states(world)) == ("Running", {"main": "running"})


def test_pods_should_be_submitted_and_removed():
    """[sig-node] Pods should be submitted and removed [NodeConformance]: a watch sees the deletion in two steps."""
    world = started(pod(policy="Always", main=""))
    seen = []
    world.store.subscribe(lambda event, kind, obj, _old: seen.append((event, obj)) if kind.kind == "Pod" else None)
    world.delete("Pod", "web")
    world.run(5)
    assert [event for event, _ in seen] == ["MODIFIED", "MODIFIED", "DELETED"]
    asked, ended = seen[0][1], seen[1][1]
    assert (asked["metadata"]["deletionGracePeriodSeconds"], asked["status"]["phase"]) == (30, "Running")
    [status] = ended["status"]["containerStatuses"]
    assert (ended["status"]["phase"], status["state"]["terminated"]["exitCode"]) == ("Failed", 137)
    assert world.get("Pod", "web") is None


def test_an_init_container_that_has_succeeded_is_not_run_again():
    world = started(pod(inits=[container("setup", "sleep 1")], policy="Always", main=""))
    world.run(100)
    assert (phase(world), states(world)) == ("Running", {"setup": "0 Completed", "main": "running"})
    assert restarts(world, "initContainerStatuses") == [0]
