"""The disruption controller: what budgets allow, counted from pods and from what their workloads ask for.

Rules: Kubernetes' task page "Specifying a Disruption Budget for your Application" and pkg/controller/disruption, v1.36.
"""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from packages.cluster.tests.controllers.world import World, condition, deployment, meta, pod, replica_set, stateful_set


def budget(name="budget", app="web", **spec):
    spec = {"selector": {"matchLabels": {"app": app}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(name), "spec": spec}


def counts(world, name="budget"):
    """(allowed, healthy, desired, expected)"""
    status = world.status("PodDisruptionBudget", name)
    return tuple(status[key] for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"))


def labelled_pod(name, app="web"):
    made = pod(name)
    made["metadata"]["labels"] = {"app": app}
    return made


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (3, 5, 2, 5)),
        ({"minAvailable": 5}, (0, 5, 5, 5)),
        ({"minAvailable": 9}, (0, 5, 9, 5)),
        ({"minAvailable": "50%"}, (2, 5, 3, 5)),  # rounded up
        ({"minAvailable": "100%"}, (0, 5, 5, 5)),
        ({"maxUnavailable": 1}, (1, 5, 4, 5)),
        ({"maxUnavailable": 9}, (5, 5, 0, 5)),
        ({"maxUnavailable": "30%"}, (2, 5, 3, 5)),  # rounded up too: 2 of 5
        ({"maxUnavailable": "0%"}, (0, 5, 5, 5)),
    ],
)
@pytest.mark.parametrize("make", [deployment, replica_set, stateful_set])
def test_what_is_allowed(make, spec, expected):
    world = World()
    world.create(budget(**spec))
    world.create(make("web", 5))
    world.run(1)
    assert counts(world) == expected
    allowed = str(expected[0] > 0)
    assert condition(world.get("PodDisruptionBudget", "budget"), "DisruptionAllowed") == (
        allowed,
        "SufficientPods" if expected[0] else "InsufficientPods",
        "",
    )
    assert world.status("PodDisruptionBudget", "budget")["observedGeneration"] == 1


def test_percentages_are_of_what_is_asked_for_not_of_what_is_there():
    world = World(nodes=0)
    world.create(deployment("web", 10))
    world.create(budget("share", minAvailable="50%"))
    world.create(budget("number", minAvailable=1))
    world.run()
    assert (counts(world, "share"), counts(world, "number")) == ((0, 0, 5, 10), (0, 0, 1, 10))
    world.scale("Deployment", "web", 4)
    world.run()
    assert counts(world, "share") == (0, 0, 2, 4)


def test_pods_without_a_controller_count_only_for_numbers():
    world = World()
    for number in range(3):
        world.create(labelled_pod(f"web-{number}"))
    world.create(budget("number", minAvailable=1))
    world.create(budget("share", maxUnavailable=1))
    world.run()
    assert counts(world, "number") == (2, 3, 1, 3)
    assert counts(world, "share") == (0, 3, 0, 0)
    (said,) = set(world.events("PodDisruptionBudget", "UnmanagedPods"))
    assert said.startswith('Pods selected by this PodDisruptionBudget (selector: {"matchLabels":{"app":"web"}}) were')


def test_a_controller_that_cannot_be_counted_allows_nothing():
    world = World()
    world.create(deployment("web", 3))
    world.create(budget(maxUnavailable=2))
    world.run()
    assert counts(world)[0] == 2
    stray = labelled_pod("stray")
    uid = world.get("Node", "node-0", "")["metadata"]["uid"]
    owner = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": uid, "controller": True}
    stray["metadata"]["ownerReferences"] = [owner]
    world.create(stray)
    world.run()
    assert counts(world)[0] == 0
    message = 'found no controllers for pod "stray"'
    assert condition(world.get("PodDisruptionBudget", "budget"), "DisruptionAllowed") == (
        "False",
        "SyncFailed",
        message,
    )


def test_only_ready_pods_that_stay_are_healthy():
    world = World()
    world.create(replica_set("web", 4))
    world.create(budget(minAvailable=1))
    world.run()
    first, second = (one["metadata"]["name"] for one in world.pods()[:2])
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    world.patch("Pod", first, not_ready, subresource="status")
    world.binds = False
    world.delete("Pod", second)
    world.run()
    assert counts(world) == (1, 2, 1, 5)  # the one going still counts as a pod, its replacement is not ready


@pytest.mark.parametrize(("selector", "expected"), [({}, 3), (None, 0), ({"matchLabels": {"app": "none"}}, 0)])
def test_which_pods_are_meant(selector, expected):  # policy/v1: an empty selector matches all, none at all nothing
    world = World()
    world.create(replica_set("web", 3))
    world.run()
    world.create(budget(minAvailable=0, selector=selector))
    world.run()
    assert counts(world)[3] == expected
    assert world.events("PodDisruptionBudget", "NoPods") == ([] if expected else ["No matching pods found"])


def test_a_selector_that_changes_and_pods_that_change_their_labels():
    world = World()
    for name, app in (("a", "web"), ("b", "db"), ("c", "db")):
        world.create(labelled_pod(name, app))
    world.create(budget(minAvailable=0))
    world.run()
    assert counts(world)[3] == 1
    world.patch("PodDisruptionBudget", "budget", {"spec": {"selector": {"matchLabels": {"app": "db"}}}})
    world.run()
    assert counts(world)[3] == 2
    world.patch("Pod", "b", {"metadata": {"labels": {"app": "web"}}})
    world.run()
    assert counts(world)[3] == 1
    world.delete("Pod", "c")
    world.run(2)
    assert counts(world)[3] == 0


def test_evictions_spend_the_budget_and_replacements_fill_it_again():
    world = World()
    world.create(replica_set("web", 3))
    world.create(budget(maxUnavailable=1))
    world.run()
    first, second = (one["metadata"]["name"] for one in world.pods()[:2])
    world.store.evict("default", first)
    with pytest.raises(StoreError) as caught:  # at once, before any controller has counted
        world.store.evict("default", second)
    assert caught.value.status_code == 429
    assert list(world.status("PodDisruptionBudget", "budget")["disruptedPods"]) == [first]
    world.run(2)
    assert counts(world) == (1, 3, 2, 3)
    assert "disruptedPods" not in world.status("PodDisruptionBudget", "budget")
    world.store.evict("default", second)


def test_an_eviction_that_comes_to_nothing_is_forgotten_after_two_minutes():
    world = World()
    world.create(replica_set("web", 3))
    world.create(budget(maxUnavailable=1))
    world.run()
    name = world.pods()[0]["metadata"]["name"]
    when = world.pods()[0]["metadata"]["creationTimestamp"]
    world.patch("PodDisruptionBudget", "budget", {"status": {"disruptedPods": {name: when}}}, subresource="status")
    world.run(119)
    assert counts(world)[:2] == (0, 2)
    world.run(2)
    assert counts(world)[:2] == (1, 3)
    said = "Pod was expected by PDB default/budget to be deleted but it wasn't"
    assert world.events("Pod", "NotDeleted") == [said]
