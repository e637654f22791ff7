"""Counting a ReplicaSet's pods one by one gives what counting them all gives."""

import random

import pytest

from berth_cluster.controllers.replica_tally import ReplicaTally
from tests.cluster.controllers.world import replica_set


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
    tally = ReplicaTally(replica_set("web", 1))
    tally.put("default/p", one)
    assert (tally.active, tally.ready, tally.labelled) == (active, ready, labelled)
    tally.drop("default/p")
    assert (tally.active, tally.ready, tally.labelled) == (0, 0, 0)


def test_a_pod_that_no_longer_matches_is_a_stray_until_it_is_gone():
    tally = ReplicaTally(replica_set("web", 1))
    tally.put("default/p", pod())
    tally.put("default/p", pod(labels={"app": "debug"}))
    assert list(tally.strays) == ["default/p"]
    assert tally.active == 0
    tally.drop("default/p")
    assert not tally.strays


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_changes_gives_the_same_counts(seed):
    rng = random.Random(seed)
    states = [pod(), pod(ready=False), pod(phase="Succeeded"), pod(going=True), pod(labels={"app": "x"}), None]
    tally, present = ReplicaTally(replica_set("web", 1)), {}
    for _ in range(300):
        key, state = f"default/p{rng.randrange(20)}", rng.choice(states)
        if state is None:
            tally.drop(key)
            present.pop(key, None)
        else:
            tally.put(key, state)
            present[key] = state
    fresh = ReplicaTally(replica_set("web", 1))
    for key, state in present.items():
        fresh.put(key, state)
    counts = ("active", "ready", "labelled")
    assert [getattr(tally, name) for name in counts] == [getattr(fresh, name) for name in counts]
    assert set(tally.strays) == set(fresh.strays)
