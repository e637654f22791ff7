"""PodDisruptionBudgets: which evictions would break one."""

import pytest

from berth.api.codec import decode
from berth.plugins.preemption.budgets import Budgets, split_by_violation
from berth.state.objects import ObjectStore
from tests.plugins.preemption.support import budget, running


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
