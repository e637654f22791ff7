"""NoExecute taints of nodes: who goes, and when.

Rules: Kubernetes' page "Taints and Tolerations"; names and sentences: pkg/controller/tainteviction, v1.36.
"""

import pytest

from berth.api.taints import Taint, Toleration
from berth_cluster.controllers.disruption.taint_eviction import FOREVER, tolerated_s
from packages.cluster.tests.controllers.world import World, pod

BROKEN = {"key": "broken", "value": "disk", "effect": "NoExecute"}


def tolerating(seconds=None):
    more = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"tolerations": [{"key": "broken", "operator": "Exists", "effect": "NoExecute", **more}]}


def world_with(**pods):
    world = World(nodes=2, binds=False)
    for name, spec in pods.items():
        world.bind(world.create(pod(name, **spec)), "node-0")
    world.run()
    return world


def taint(world, *taints):
    world.patch("Node", "node-0", {"spec": {"taints": list(taints)}}, namespace="")
    world.run()


def staying(world):
    return {one["metadata"]["name"] for one in world.pods() if "deletionTimestamp" not in one["metadata"]}


def test_pods_that_do_not_tolerate_the_taint_go_at_once():
    world = world_with(plain={}, tough=tolerating(), none=tolerating(0))
    world.bind(world.create(pod("elsewhere")), "node-1")
    taint(world, BROKEN)
    assert staying(world) == {"tough", "elsewhere"}
    expected = {f"Marking for deletion Pod default/{name}" for name in ("plain", "none")}
    assert set(world.events("Pod", "TaintManagerEviction")) == expected
    (status,) = [one["status"] for one in world.pods() if one["metadata"]["name"] == "plain"]
    (why,) = [one for one in status["conditions"] if one["type"] == "DisruptionTarget"]
    assert (why["reason"], why["message"]) == (
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    )


def test_other_effects_move_nobody():
    world = world_with(plain={})
    taint(world, {**BROKEN, "effect": "NoSchedule"}, {**BROKEN, "effect": "PreferNoSchedule"})
    world.run(1000)
    assert staying(world) == {"plain"}


def test_a_toleration_with_seconds_runs_out():
    world = world_with(web=tolerating(60))
    taint(world, BROKEN)
    world.run(59)
    assert staying(world) == {"web"}
    world.run(1)
    assert staying(world) == set()


def test_a_taint_that_is_taken_away_in_time_spares_the_pod():
    world = world_with(web=tolerating(60))
    taint(world, BROKEN)
    world.run(30)
    taint(world)
    assert world.events("Pod", "TaintManagerEviction") == ["Cancelling deletion of Pod default/web"]
    world.run(1000)
    assert staying(world) == {"web"}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [((), 0.0), ((None,), FOREVER), ((30,), 30.0), ((-5,), 0.0), ((None, 30), FOREVER), ((30, None), 30.0)],
)
def test_the_first_toleration_that_covers_a_taint_counts(seconds, expected):
    tolerations = [Toleration("broken", "Exists", toleration_seconds=one) for one in seconds]
    assert tolerated_s([Taint("broken", "disk", "NoExecute")], tolerations) == expected


def test_of_several_taints_the_one_tolerated_least_counts():
    taints = [Taint(key, "", "NoExecute") for key in ("a", "b")]
    tolerations = [Toleration("a", "Exists", toleration_seconds=60), Toleration("b", "Exists", toleration_seconds=20)]
    assert tolerated_s(taints, tolerations) == 20.0
    assert tolerated_s(taints, tolerations[:1]) == 0.0
