"""Counting a ReplicaSet's pods one by one gives what counting them all gives."""

import random

import pytest

from berth_cluster.controllers.workloads.replicaset import ReplicaCounts
from packages.cluster.tests.controllers.world import replica_set


def pod(phase="Running", ready=True, going=False, labels=None):
    metadata = {"labels": labels or {"app": "web"}}
    if going:
        metadata["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2027-01-15T08:00:00Z"}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, "conditions": [condition]}}


@pytest.mark.parametrize(
    ("one", "active", "ready", "labelled"),
    [
        (pod(), 1, 1, 1),
        (pod(ready=False), 1, 0, 1),
        (pod(phase="Failed"), 0, 0, 0),
        (pod(going=True), 0, 0, 0),
        (pod(labels={"app": "web", "more": "x"}), 1, 1, 1),
        (pod(labels={"app": "db"}), 0, 0, 0),
    ],
)
def test_what_a_pod_counts_for(one, active, ready, labelled):
    counts = ReplicaCounts(replica_set("web", 1))
    counts.put("default/p", one)
    assert counts.total == (active, ready, labelled, one["metadata"].get("deletionTimestamp") is not None)
    counts.drop("default/p")
    assert counts.total == (0, 0, 0, 0)


def test_a_pod_that_no_longer_matches_is_a_stray_until_it_is_gone():
    counts = ReplicaCounts(replica_set("web", 1))
    counts.put("default/p", pod())
    counts.put("default/p", pod(labels={"app": "debug"}))
    assert list(counts.mismatched) == ["default/p"]
    assert counts.total.active == 0
    counts.drop("default/p")
    assert not counts.mismatched


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_changes_gives_the_same_counts(seed):
    rng = random.Random(seed)
    states = [pod(), pod(ready=False), pod(phase="Succeeded"), pod(going=True), pod(labels={"app": "x"}), None]
    counts, present = ReplicaCounts(replica_set("web", 1)), {}
    for _ in range(300):
        key, state = f"default/p{rng.randrange(20)}", rng.choice(states)
        if state is None:
            counts.drop(key)
            present.pop(key, None)
        else:
            counts.put(key, state)
            present[key] = state
    fresh = ReplicaCounts(replica_set("web", 1))
    for key, state in present.items():
        fresh.put(key, state)
    assert counts.total == fresh.total
    assert set(counts.mismatched) == set(fresh.mismatched)
