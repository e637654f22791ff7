"""The eviction subresource: deletion within the limits of a disruption budget."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from packages.cluster.tests.objects import BUDGETS, PODS, make_store, pod

REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."


def running_pod(store, *, ready=True):
    obj = pod(terminationGracePeriodSeconds=0)
    obj["metadata"]["labels"] = {"app": "web"}
    made = store.create(PODS, "default", obj)
    store.bind("default", "web", {"target": {"name": "node-1"}})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {**made["status"], "phase": "Running", "conditions": conditions}
    metadata = {"name": "web", "labels": {"app": "web"}}
    store.update(PODS, "default", "web", {"metadata": metadata, "status": status}, "status")


def budget(store, name="budget", **status):
    obj = {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
    made = store.create(BUDGETS, "default", obj)
    status = {"observedGeneration": 1, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1, **status}
    store.update(BUDGETS, "default", name, {**made, "status": status}, "status")


def is_gone(store):
    return store.find(PODS, "default", "web") is None


def test_without_a_budget_a_pod_goes():
    store = make_store()
    running_pod(store)
    store.evict("default", "web")
    assert is_gone(store)


def test_a_pod_that_is_evicted_says_so():  # KEP-3329
    store = make_store()
    running_pod(store)
    store.update(PODS, "default", "web", {"metadata": {"name": "web", "finalizers": ["example.com/read-it"]},
                                          "spec": store.get(PODS, "default", "web")["spec"]})  # fmt: skip
    store.evict("default", "web", dry_run=True)
    assert len(store.get(PODS, "default", "web")["status"]["conditions"]) == 1
    store.evict("default", "web")
    told = store.get(PODS, "default", "web")["status"]["conditions"][1]
    assert (told["type"], told["reason"], told["message"]) == (
        "DisruptionTarget", "EvictionByEvictionAPI", "Eviction API: evicting",
    )  # fmt: skip


def test_an_eviction_holds_for_the_version_it_names():
    store = make_store()
    running_pod(store)
    version = store.get(PODS, "default", "web")["metadata"]["resourceVersion"]
    with pytest.raises(StoreError) as caught:
        store.evict("default", "web", {"deleteOptions": {"preconditions": {"resourceVersion": "1"}}})
    assert caught.value.status_code == 409
    store.evict("default", "web", {"deleteOptions": {"preconditions": {"resourceVersion": version}}})
    assert is_gone(store)


def test_a_budget_that_allows_it_is_spent():
    store = make_store()
    running_pod(store)
    budget(store, disruptionsAllowed=1)
    store.evict("default", "web")
    assert is_gone(store)
    status = store.get(BUDGETS, "default", "budget")["status"]
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"web": "2025-03-01T12:00:00Z"}


def test_an_empty_budget_refuses():
    store = make_store()
    running_pod(store)
    budget(store, disruptionsAllowed=0)
    with pytest.raises(StoreError) as caught:
        store.evict("default", "web")
    error = caught.value
    assert (error.status_code, error.reason, error.message) == (429, "TooManyRequests", REFUSAL)
    assert error.details["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget budget needs 1 healthy pods and has 1 currently",
        }
    ]
    assert not is_gone(store)


def test_a_budget_that_was_not_counted_yet_refuses_for_now():
    store = make_store()
    running_pod(store)
    budget(store, observedGeneration=0, disruptionsAllowed=1)
    with pytest.raises(StoreError) as caught:
        store.evict("default", "web")
    assert caught.value.status_code == 429
    assert caught.value.details["retryAfterSeconds"] == 10


def test_two_budgets_are_one_too_many():
    store = make_store()
    running_pod(store)
    budget(store, "one", disruptionsAllowed=1)
    budget(store, "two", disruptionsAllowed=1)
    with pytest.raises(StoreError, match="more than one PodDisruptionBudget") as caught:
        store.evict("default", "web")
    assert caught.value.status_code == 500


def test_a_pod_that_never_ran_disrupts_nobody():
    store = make_store()
    obj = pod()
    obj["metadata"]["labels"] = {"app": "web"}
    store.create(PODS, "default", obj)
    budget(store, disruptionsAllowed=0)
    store.evict("default", "web")
    assert is_gone(store)


@pytest.mark.parametrize(("current", "gone"), [(1, True), (0, False)])
def test_an_unready_pod_may_go_while_the_others_keep_the_budget(current, gone):
    store = make_store()
    running_pod(store, ready=False)
    budget(store, disruptionsAllowed=0, currentHealthy=current)
    if gone:
        store.evict("default", "web")
    else:
        with pytest.raises(StoreError, match="disruption budget"):
            store.evict("default", "web")
    assert is_gone(store) is gone


def test_preconditions_hold_for_evictions_too():
    store = make_store()
    running_pod(store)
    with pytest.raises(StoreError) as caught:
        store.evict("default", "web", {"deleteOptions": {"preconditions": {"uid": "another"}}})
    assert caught.value.status_code == 409 and not is_gone(store)
