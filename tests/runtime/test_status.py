"""Status patches: at most one a pod, the newest, and never after the pod's binding."""

import asyncio
import random
from datetime import UTC, datetime

import msgspec
import pytest

from berth.api.codec import decode
from berth.api.errors import ApiError, ConnectionLost
from berth.framework.effects import PatchPodStatus, PodRef
from berth.kube.fence import WriteRefused
from berth.kube.pauses import Pauses
from berth.runtime.acting.pod_status import PodStatusPatcher, patch_body
from berth.runtime.acting.status_patcher import MAX_TRIES
from tests.runtime.world import World, at_once
from tests.waiting import WAIT_S, until

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
POD = PodRef("default", "web", "uid-1")


def unschedulable(message, pod=POD, nominated=None):
    return PatchPodStatus(pod, "False", "Unschedulable", message, nominated)


def known(status):
    condition = {"type": "PodScheduled", "status": status, "lastTransitionTime": "2025-01-01T00:00:00Z"}
    return decode("Pod", {"metadata": {"name": "web", "uid": "uid-1"}, "status": {"conditions": [condition]}})


class Bench:
    def __init__(self):
        self.world = World(nodes=1)
        self.transport = self.world.transport
        self.said, self.bugs = [], []
        self.patcher = PodStatusPatcher(
            self.transport, lookup=lambda _: None, report=self.said.append, bug=self.bugs.append,
            rng=random.Random(1), sleep=at_once,
        )  # fmt: skip
        self.pod = PodRef("default", "web", self.world.add_pod("web")["metadata"]["uid"])


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        (unschedulable("a"), unschedulable("b"), ("b", None)),
        (unschedulable("a", nominated="n1"), unschedulable("b"), ("b", "n1")),
        (unschedulable("a"), PatchPodStatus(POD, nominated_node_name="n1"), ("a", "n1")),
        (PatchPodStatus(POD, nominated_node_name="n1"), PatchPodStatus(POD, nominated_node_name=""), ("", "")),
    ],
)
def test_what_the_newer_patch_says_stands(older, newer, expected):
    found = PodStatusPatcher.merged(older, newer)
    assert (found.message, found.nominated_node_name) == expected


@pytest.mark.parametrize(
    ("pod", "has_time"),
    [(None, True), (known("True"), True), (known("False"), False)],
    ids=["unknown", "changes", "stays"],
)
def test_the_transition_time_changes_with_the_status_only(pod, has_time):
    body = msgspec.json.decode(patch_body(unschedulable("no room"), pod, NOW))
    (condition,) = body["status"]["conditions"]
    assert condition.get("lastTransitionTime") == ("2026-01-02T03:04:05Z" if has_time else None)
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert body["metadata"] == {"uid": "uid-1"}
    assert "observedGeneration" not in condition


def test_the_condition_says_which_generation_it_is_about_and_the_newer_one_stands():
    older = PatchPodStatus(POD, "False", "Unschedulable", "a", observed_generation=1)
    newer = PatchPodStatus(POD, "False", "Unschedulable", "b", observed_generation=2)
    body = msgspec.json.decode(patch_body(PodStatusPatcher.merged(older, newer), None, NOW))
    assert body["status"]["conditions"][0]["observedGeneration"] == 2
    kept = PodStatusPatcher.merged(older, PatchPodStatus(POD, nominated_node_name="n1"))
    assert msgspec.json.decode(patch_body(kept, None, NOW))["status"]["conditions"][0]["observedGeneration"] == 1


@pytest.mark.parametrize(("nominated", "expected"), [("node-1", "node-1"), ("", None)])
def test_a_nomination_is_set_or_cleared(nominated, expected):
    body = msgspec.json.decode(patch_body(PatchPodStatus(POD, nominated_node_name=nominated), None, NOW))
    assert body["status"] == {"nominatedNodeName": expected}


async def test_the_server_ends_up_with_the_condition():
    bench = Bench()
    bench.patcher.put(unschedulable("no room", bench.pod))
    assert await bench.patcher.drain(WAIT_S)
    condition = bench.world.condition("web")
    assert (condition["status"], condition["message"]) == ("False", "no room")


async def test_while_one_is_under_way_the_others_become_one():
    bench = Bench()
    gate = bench.transport.hold("patch")
    for number in range(100):
        bench.patcher.put(unschedulable(f"try {number}", bench.pod))
        await asyncio.sleep(0)
    assert len(bench.patcher) == 1
    gate.set()
    assert await bench.patcher.drain(WAIT_S)
    assert bench.transport.count("patch") == 2
    assert bench.world.condition("web")["message"] == "try 99"


async def test_a_patch_that_waits_is_withdrawn_and_one_under_way_is_awaited():
    bench = Bench()
    gate = bench.transport.hold("patch")
    bench.patcher.put(unschedulable("first", bench.pod))
    await until(lambda: bench.transport.count("patch"))
    bench.patcher.put(unschedulable("second", bench.pod))
    done = asyncio.ensure_future(bench.patcher.withdraw(bench.pod.uid))
    await asyncio.sleep(0)
    assert not done.done()
    gate.set()
    await asyncio.wait_for(done, WAIT_S)
    assert bench.transport.count("patch") == 1
    assert bench.patcher.withdraw(bench.pod.uid) is None


async def test_a_patch_that_failed_is_not_repeated_once_the_pod_is_being_bound():
    bench = Bench()
    gate = bench.transport.hold("patch")
    bench.transport.refuse("patch", ConnectionLost("broke"))
    bench.patcher.put(unschedulable("first", bench.pod))
    await until(lambda: bench.transport.count("patch"))
    done = asyncio.ensure_future(bench.patcher.withdraw(bench.pod.uid))
    gate.set()
    await asyncio.wait_for(done, WAIT_S)
    assert await bench.patcher.drain(WAIT_S)
    assert bench.transport.count("patch") == 1
    assert bench.world.condition("web") is None


async def test_passing_trouble_is_waited_out():
    bench = Bench()
    bench.transport.refuse("patch", ConnectionLost("broke"), ApiError(503, "", "not now"))
    bench.patcher.put(unschedulable("no room", bench.pod))
    assert await bench.patcher.drain(WAIT_S)
    assert bench.world.condition("web")["message"] == "no room"
    assert bench.said == []


@pytest.mark.parametrize(
    ("errors", "calls", "words"),
    [
        ([ApiError(403, "Forbidden", "no")], 1, "RBAC"),
        ([ApiError(422, "Invalid", "what?")], 1, "what?"),
        ([ConnectionLost("broke")] * MAX_TRIES, MAX_TRIES, "broke"),
        ([ApiError(404, "NotFound", "gone")], 1, ""),
    ],
    ids=["forbidden", "invalid", "lost", "gone"],
)
async def test_what_does_not_pass_is_given_up_with_a_word(errors, calls, words):
    bench = Bench()
    bench.transport.refuse("patch", *errors)
    bench.patcher.put(unschedulable("no room", bench.pod))
    assert await bench.patcher.drain(WAIT_S)
    assert bench.transport.count("patch") == calls
    assert [words in line for line in bench.said] == ([True] if words else [])
    assert bench.bugs == []


async def test_a_server_that_asks_to_be_left_alone_is_left_alone(monkeypatch):
    bench, slept = Bench(), []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(bench.patcher, "_pauses", Pauses(sleep))
    bench.transport.refuse("patch", ApiError(429, "TooManyRequests", "slow down", retry_after_s=42.0))
    bench.patcher.put(unschedulable("no room", bench.pod))
    assert await bench.patcher.drain(WAIT_S)
    assert slept == [42.0]


async def test_without_the_lease_it_is_left_to_whoever_has_it():
    bench = Bench()
    bench.transport.refuse("patch", WriteRefused("not sent: the lease is not held"))
    bench.patcher.put(unschedulable("no room", bench.pod))
    assert await bench.patcher.drain(WAIT_S)
    assert bench.transport.count("patch") == 1 and bench.said == []
