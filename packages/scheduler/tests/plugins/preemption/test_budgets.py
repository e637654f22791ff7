"""PodDisruptionBudgets: which evictions would break one."""

import pytest

from berth.api.codec import decode
from berth.plugins.preemption.budgets import CHANGES_KEPT, Budgets, split_by_violation
from berth.state import objects as store_limits
from berth.state.objects import ObjectStore
from packages.scheduler.tests.plugins.preemption.support import budget, running


def violating(pods, *budgets):
    store = ObjectStore()
    for found in budgets:
        store.put("PodDisruptionBudget", found)
    broken, others = split_by_violation([pod.info() for pod in pods], Budgets(store).all())
    assert len(broken) + len(others) == len(pods)
    return [pod.name for pod in broken]


WEB = [running(f"web-{index}", "a", app="web", tier="gold") for index in range(3)]


@pytest.mark.parametrize(
    ("budgets", "broken"),
    [
        ([], []),
        ([budget("b", {"app": "web"}, 0)], ["web-0", "web-1", "web-2"]),
        ([budget("b", {"app": "web"}, 1)], ["web-1", "web-2"]),
        ([budget("b", {"app": "web"}, 3)], []),
        ([budget("b", {"app": "db"}, 0)], []),
        ([budget("b", {"app": "web"}, 0, namespace="other")], []),
        ([budget("b", {}, 0)], []),
        ([budget("b", None, 0)], []),
        ([budget("b", {"app": "web"}, 1, disrupted=["web-0"])], ["web-2"]),
        ([budget("b", {"app": "web"}, 2), budget("c", {"tier": "gold"}, 1)], ["web-1", "web-2"]),
    ],
)
def test_the_first_pods_use_a_budget_up(budgets, broken):
    assert violating(WEB, *budgets) == broken


def test_a_pod_without_labels_is_in_no_budget():
    expression = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    meta = {"name": "b", "namespace": "default"}
    found = decode("PodDisruptionBudget", {"metadata": meta, "spec": {"selector": expression}})
    assert violating([running("bare", "a")], found) == []
    assert violating([running("other", "a", tier="gold")], found) == ["other"]


def test_a_selector_that_cannot_be_read_covers_nothing():
    expression = {"matchExpressions": [{"key": "app", "operator": "Resembles", "values": ["web"]}]}
    meta = {"name": "b", "namespace": "default"}
    found = decode("PodDisruptionBudget", {"metadata": meta, "spec": {"selector": expression}})
    assert violating(WEB, found) == []


def test_a_changed_budget_is_seen():
    store = ObjectStore()
    budgets = Budgets(store)
    store.put("PodDisruptionBudget", budget("b", {"app": "web"}, 0))
    assert [found.allowed for found in budgets.all()] == [0]
    store.put("PodDisruptionBudget", budget("b", {"app": "web"}, 2))
    assert [found.allowed for found in budgets.all()] == [2]
    store.remove("PodDisruptionBudget", budget("b", {"app": "web"}, 2))
    assert budgets.all() == ()
    changes = budgets.changed_since(0)
    assert changes is not None
    assert [found.allowed for found in changes] == [0, 0, 2, 2]
    assert budgets.changed_since(budgets.position) == []


def test_a_budget_that_has_not_changed_is_not_made_anew():
    store = ObjectStore()
    budgets = Budgets(store)
    store.put("PodDisruptionBudget", budget("a", {"app": "web"}, 0))
    store.put("PodDisruptionBudget", budget("b", {"app": "db"}, 0))
    first, second = budgets.all()
    store.put("PodDisruptionBudget", budget("b", {"app": "db"}, 1))
    store.put("PodDisruptionBudget", budget("c", {}, 1))
    again, changed = budgets.all()
    assert again is first
    assert (second.allowed, changed.allowed) == (0, 1)


def test_of_many_changes_the_last_ones_are_known():
    store = ObjectStore()
    budgets = Budgets(store)
    for number in range(3 * CHANGES_KEPT):
        store.put("PodDisruptionBudget", budget("b", {"app": "web"}, number))
        budgets.all()
    assert budgets.changed_since(0) is None
    assert [found.allowed for found in budgets.changed_since(budgets.position - 1) or ()] == [3 * CHANGES_KEPT - 1]


def test_more_changes_than_the_store_remembers_are_all_seen():
    store = ObjectStore()
    budgets = Budgets(store)
    store.put("PodDisruptionBudget", budget("gone", {"app": "web"}, 0))
    assert len(budgets.all()) == 1
    store.remove("PodDisruptionBudget", budget("gone", {"app": "web"}, 0))
    for number in range(3 * store_limits.CHANGES_KEPT):
        store.put("PodDisruptionBudget", budget("b", {"app": "web"}, number))
    assert [found.allowed for found in budgets.all()] == [3 * store_limits.CHANGES_KEPT - 1]
