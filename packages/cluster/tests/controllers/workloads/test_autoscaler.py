"""HorizontalPodAutoscalers and what they read, after upstream's specs "[sig-autoscaling] Horizontal pod autoscaling".

Those scale "from 1 pod to 3 pods and then from 3 pods to 5 pods" and back with a stabilization of five minutes.
"""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.storage.usage import measured
from packages.cluster.tests.controllers.world import World, condition, deployment, meta, pod_template


def scaler(most=5, metrics=None, **spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": most, **spec}
    return {
        "kind": "HorizontalPodAutoscaler",
        "metadata": meta("web"),
        "spec": spec | ({"metrics": metrics} if metrics else {}),
    }


def cpu(**target):
    kind = "Utilization" if "averageUtilization" in target else "AverageValue"
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"type": kind, **target}}}


def use(world, share):
    """Have each pod, which requests 100m, use so many milli-cpu."""
    for pod in world.pods("app=web"):
        world.patch("Pod", pod["metadata"]["name"], {"metadata": {"annotations": {"berth.dev/cpu-usage": f"{share}m"}}})


@pytest.fixture
def world():
    world = World()
    world.create(deployment("web", 1))
    world.run(20)
    return world


def replicas(world):
    return world.get("Deployment", "web")["spec"]["replicas"]


def test_should_scale_from_1_pod_to_3_pods_and_then_from_3_pods_to_5_pods_and_back(world):
    world.create(scaler(metrics=[cpu(averageUtilization=50)]))
    use(world, 125)
    world.run(15)
    assert replicas(world) == 3
    world.run(20)
    use(world, 80)
    world.run(15)
    assert replicas(world) == 5
    world.run(20)
    use(world, 10)
    world.run(240)
    assert replicas(world) == 5
    world.run(90)
    assert replicas(world) == 1
    news = world.events("HorizontalPodAutoscaler", "SuccessfulRescale")
    assert news[0] == "New size: 3; reason: cpu resource utilization (percentage of request) above target"
    assert news[-1] == "New size: 1; reason: All metrics below target"


def test_it_doubles_at_most_but_may_always_have_four(world):
    world.create(scaler(most=50, metrics=[cpu(averageUtilization=1)]))
    sizes = []
    for seconds in (0, 15, 15):
        use(world, 100)
        world.run(seconds)
        sizes.append(replicas(world))
    assert sizes == [4, 8, 16]


def test_the_status_says_why(world):
    made = world.create(scaler(most=2))
    assert made["spec"]["metrics"] == [cpu(averageUtilization=80)]
    use(world, 400)
    world.run(30)
    found = world.get("HorizontalPodAutoscaler", "web")
    assert condition(found, "ScalingLimited") == (
        ("True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")
    )
    assert condition(found, "ScalingActive")[:2] == ("True", "ValidMetricFound")
    assert condition(found, "AbleToScale")[:2] == ("True", "ReadyForNewScale")
    assert found["status"]["desiredReplicas"] == 2
    (metric,) = found["status"]["currentMetrics"]
    assert metric["resource"]["name"] == "cpu"


def test_within_the_tolerance_nothing_happens(world):
    world.scale("Deployment", "web", 3)
    world.run(20)
    world.create(scaler(metrics=[cpu(averageValue="50m")]))
    use(world, 54)
    world.run(600)
    assert replicas(world) == 3


@pytest.mark.parametrize(
    ("spec", "kind", "expected"),
    [
        ({"scaleTargetRef": {"kind": "Deployment", "name": "gone"}}, "AbleToScale", ("False", "FailedGetScale")),
        (
            {"metrics": [{"type": "Pods", "pods": {"metric": {"name": "x"}, "target": {"averageValue": "1"}}}]},
            "ScalingActive",
            ("False", "FailedGetPodsMetric"),
        ),
    ],
)
def test_what_it_cannot_do(world, spec, kind, expected):
    made = scaler()
    world.create({**made, "spec": {**made["spec"], **spec}})
    world.run(15)
    assert condition(world.get("HorizontalPodAutoscaler", "web"), kind)[:2] == expected
    assert replicas(world) == 1


def test_pods_without_requests_cannot_be_measured(world):
    template = pod_template({"app": "web"})
    template["spec"]["containers"][0]["resources"] = {}
    world.patch("Deployment", "web", {"spec": {"template": template}})
    world.run(30)
    world.create(scaler())
    world.run(15)
    status, reason, why = condition(world.get("HorizontalPodAutoscaler", "web"), "ScalingActive")
    assert (status, reason) == ("False", "FailedGetResourceMetric")
    assert "missing request for cpu in container main of Pod web-" in why


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"maxReplicas": 0}, "spec.maxReplicas: Invalid value: 0: must be greater than 0"),
        ({"minReplicas": 6}, "spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"),
        ({"scaleTargetRef": {"kind": "Deployment"}}, "spec.scaleTargetRef.name: Required value"),
    ],
)
def test_autoscalers_that_are_refused(world, spec, why):
    made = scaler()
    with pytest.raises(StoreError) as refused:
        world.create({**made, "spec": {**made["spec"], **spec}})
    assert why in refused.value.message


def test_what_pods_and_nodes_use(world):
    use(world, 250)
    world.patch("Node", "node-0", {"metadata": {"annotations": {"berth.dev/memory-usage": "1Gi"}}}, "")
    (pod,) = measured(world.store, "pods", "default", "app=web")
    assert pod["containers"] == [{"name": "main", "usage": {"cpu": "250m", "memory": "0"}}]
    nodes = {one["metadata"]["name"]: one["usage"] for one in measured(world.store, "nodes", "", "")}
    assert sorted(usage["cpu"] for usage in nodes.values()) == ["0", "0", "250m"]
    assert nodes["node-0"]["memory"] == "1Gi"
