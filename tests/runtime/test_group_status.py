"""Conditions of pod groups: one at a time for each group, the newest, and told when they cannot be written."""

import random
from datetime import UTC, datetime

import msgspec
import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.framework.effects import SetPodGroupCondition
from berth.kube.fence import WriteRefused
from berth.kube.pauses import Pauses
from berth.runtime.acting.group_status import GroupStatusPatcher, condition_patch
from berth.runtime.acting.status_patcher import MAX_TRIES
from berth_cluster.apimachinery.resource_types import BY_KEY
from tests.runtime.world import World, at_once
from tests.waiting import WAIT_S

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GROUPS = BY_KEY["scheduling.k8s.io", "podgroups"]


def condition(uid, status="False", message="", has_changed=True):
    reason = "Scheduled" if status == "True" else "Unschedulable"
    return SetPodGroupCondition("default", "g", uid, status, reason, message, 1, has_changed)


class Bench:
    def __init__(self):
        self.world = World(nodes=1)
        self.said, self.bugs = [], []
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        made = self.world.store.create(GROUPS, "default", {"metadata": {"name": "g"}, "spec": spec})
        self.uid = made["metadata"]["uid"]
        self.patcher = GroupStatusPatcher(
            self.world.transport, report=self.said.append, bug=self.bugs.append, rng=random.Random(1), sleep=at_once,
            clock=lambda: NOW,
        )  # fmt: skip

    def conditions(self):
        return self.world.store.get(GROUPS, "default", "g").get("status", {}).get("conditions", [])


@pytest.mark.parametrize("has_changed", [True, False])
def test_the_transition_time_changes_with_the_status_only(has_changed):
    (patched,) = msgspec.json.decode(condition_patch(condition("u", has_changed=has_changed), NOW))["status"][
        "conditions"
    ]
    assert patched.get("lastTransitionTime") == ("2026-01-02T03:04:05Z" if has_changed else None)


async def test_the_newest_condition_stands():
    bench = Bench()
    bench.patcher.put(condition(bench.uid, message="first"))
    bench.patcher.put(condition(bench.uid, message="second"))
    bench.patcher.put(condition(bench.uid, "True"))
    assert await bench.patcher.drain(WAIT_S)
    (found,) = bench.conditions()
    assert (found["type"], found["status"], found["reason"]) == ("PodGroupScheduled", "True", "Scheduled")
    assert found["observedGeneration"] == 1
    assert len(bench.patcher) == 0 and bench.bugs == []


@pytest.mark.parametrize(
    ("error", "times", "said"),
    [
        (ConnectionLost("gone"), 1, ""),
        (ConnectionLost("gone"), MAX_TRIES, "status of pod group default/g not written: gone"),
        (ApiError(403, "Forbidden", "no"), 1, "the RBAC role needs patch on podgroups/status"),
        (ApiError(404, "NotFound", "no such group"), 1, ""),
    ],
    ids=["once", "for good", "forbidden", "no group"],
)
async def test_what_cannot_be_written_is_tried_again_or_told(error, times, said):
    bench = Bench()
    bench.world.transport.refuse("patch", *[error] * times)
    bench.patcher.put(condition(bench.uid))
    assert await bench.patcher.drain(WAIT_S)
    assert bench.bugs == []
    assert said in "".join(bench.said) and bool(bench.said) == bool(said)


async def test_a_later_group_of_the_same_name_is_left_alone():
    bench = Bench()
    bench.patcher.put(condition("another-uid"))
    assert await bench.patcher.drain(WAIT_S)
    assert bench.conditions() == [] and bench.said == []


async def test_a_server_that_asks_to_be_left_alone_is_left_alone(monkeypatch):
    bench, slept = Bench(), []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(bench.patcher, "_pauses", Pauses(sleep))
    bench.world.transport.refuse("patch", ApiError(429, "TooManyRequests", "slow down", retry_after_s=42.0))
    bench.patcher.put(condition(bench.uid))
    assert await bench.patcher.drain(WAIT_S)
    assert slept == [42.0]


async def test_without_the_lease_it_is_left_to_whoever_has_it():
    bench = Bench()
    bench.world.transport.refuse("patch", WriteRefused("not sent: the lease is not held"))
    bench.patcher.put(condition(bench.uid))
    assert await bench.patcher.drain(WAIT_S)
    assert bench.world.transport.count("patch") == 1 and bench.conditions() == [] and bench.said == []
