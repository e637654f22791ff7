"""The live scheduler on a store without sockets: what it binds, what it survives, how it ends."""

import asyncio
import itertools
import logging
import re
from collections import Counter

import msgspec
import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.api.resources import RESOURCES
from berth.framework.registry import Registry
from berth.kube.wire import WireReader
from berth.plugins.registry import in_tree_registry
from berth.runtime.core_work import SLICE_S, CoreWork
from berth.runtime.scheduler import LeadershipLost, LiveScheduler
from berth.runtime.turns import Inline
from berth.testing.invariants import check
from tests.runtime.world import World, configuration, scheduling
from tests.waiting import WAIT_S, settle, until

LEASE, POD = RESOURCES["Lease"], RESOURCES["Pod"]


async def test_pending_pods_are_bound_and_told_so():
    world = World(nodes=2, cpu="1")
    for number in range(4):
        world.add_pod(f"early-{number}", cpu="250m")
    async with scheduling(world):
        for number in range(4):
            world.add_pod(f"late-{number}", cpu="250m")
        await until(lambda: len(world.accepted()) == 8 and len(world.events("Scheduled")) == 8)
    assert Counter(record.node for record in world.accepted()) == {"node-0": 4, "node-1": 4}
    assert world.condition("late-0")["status"] == "True"
    event = next(e for e in world.events("Scheduled") if e["involvedObject"]["name"] == "late-0")
    assert event["message"] == f"Successfully assigned default/late-0 to {world.node_of('late-0')}"


async def test_a_pod_costs_one_binding_and_one_event_and_is_read_twice(monkeypatch):
    """What a pod costs the API server and us: more requests or more to decode are seen here, on any machine."""
    read = Counter()
    decode_line = WireReader.event

    def counting(reader, line):
        read["lines"] += 1
        read["bytes"] += len(line)
        return decode_line(reader, line)

    world = World(nodes=2, cpu="8")
    async with scheduling(world):
        world.add_pod("first")
        await until(lambda: world.events("Scheduled"))
        before = Counter(world.transport.calls)
        monkeypatch.setattr(WireReader, "event", counting)
        for number in range(20):
            world.add_pod(f"web-{number}", cpu="100m")
        await until(lambda: len(world.events("Scheduled")) == 21 and read["lines"] >= 40)
        asked = Counter(world.transport.calls) - before
    renewals = asked.pop(("update", "leases"), 0)
    assert asked == {("bind", "pods"): 20, ("create", "events"): 20}
    assert renewals <= 2
    assert read["lines"] == 40, "it was made, and it was bound; the kubelet would add its own"
    largest = max(len(msgspec.json.encode(world.pod(f"web-{number}"))) for number in range(20))
    assert read["bytes"] <= 40 * (largest + 100)


async def test_a_pod_that_fits_nowhere_is_told_why_and_placed_when_a_node_comes():
    world = World(nodes=1, cpu="1")
    world.add_pod("big", cpu="3")
    async with scheduling(world):
        await until(lambda: world.condition("big") and world.events("FailedScheduling"))
        condition = world.condition("big")
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert condition["lastTransitionTime"]
        world.add_nodes(1, cpu="4", first=1)
        await until(lambda: world.node_of("big") == "node-1")


@pytest.mark.parametrize("spec", [{"schedulerName": "somebody-else"}, {"schedulingGates": [{"name": "wait"}]}])
async def test_pods_that_are_not_ours_or_not_ready_are_left_alone(spec):
    world = World()
    world.add_pod("not-now", **spec)
    world.add_pod("now")
    async with scheduling(world):
        await until(lambda: world.node_of("now"))
    assert world.node_of("not-now") == ""


async def test_what_runs_already_is_counted():
    world = World(nodes=1, cpu="1")
    world.add_pod("old", cpu="900m")
    world.store.bind("default", "old", {"target": {"name": "node-0"}, "metadata": {"name": "old"}})
    world.add_pod("new", cpu="200m")
    async with scheduling(world):
        await until(lambda: world.condition("new"))
    assert world.node_of("new") == ""


async def test_lost_answers_bind_nothing_twice():
    world = World(nodes=4, cpu="4")
    world.transport.lose("bind", *[ConnectionLost("broke"), ApiError(504, "Timeout", "late")] * 5)
    world.transport.refuse("bind", *[ConnectionLost("broke")] * 5)
    for number in range(40):
        world.add_pod(f"web-{number}")
    async with scheduling(world):
        await until(lambda: len(world.accepted()) == 40)
    assert set(Counter(record.pod_uid for record in world.accepted()).values()) == {1}


async def test_a_second_scheduler_goes_on_where_the_first_was_cut_off():
    world = World(nodes=2, cpu="2")
    for number in range(20):
        world.add_pod(f"web-{number}", cpu="200m")
    first = asyncio.create_task(LiveScheduler(configuration(), world.transport).run(asyncio.Event()))
    await until(lambda: len(world.accepted()) >= 3)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    async with scheduling(world):
        await until(lambda: len(world.accepted()) == 20)
    assert set(Counter(record.pod_uid for record in world.accepted()).values()) == {1}
    assert Counter(record.node for record in world.accepted()) == {"node-0": 10, "node-1": 10}


async def test_kinds_that_the_server_does_not_serve_are_told_once(caplog):
    world = World()
    world.transport.unserved = {"resourceslices", "resourceclaims"}
    world.add_pod("web")
    async with scheduling(world):
        await until(lambda: world.node_of("web"))
    told = [record.getMessage() for record in caplog.records if "does not serve" in record.getMessage()]
    assert len(told) == 1 and told[0].startswith(("resourceclaims: ", "resourceslices: "))


async def test_a_stop_waits_for_bindings_under_way():
    world = World()
    world.add_pod("web")
    gate = world.transport.hold("bind")
    scheduler = LiveScheduler(configuration(), world.transport)
    stop = asyncio.Event()
    task = asyncio.create_task(scheduler.run(stop))
    await until(lambda: world.transport.count("bind"))
    stop.set()
    await until(lambda: scheduler.is_stopping)
    await settle()
    assert not task.done()
    gate.set()
    await asyncio.wait_for(task, WAIT_S)
    assert world.node_of("web")
    assert len(world.events("Scheduled")) == 1


async def test_nothing_new_begins_once_it_is_stopping():
    world = World()
    world.add_pod("first")
    gate = world.transport.hold("bind")
    stop = asyncio.Event()
    scheduler = LiveScheduler(configuration(), world.transport, runner=Inline())
    task = asyncio.create_task(scheduler.run(stop))
    await until(lambda: world.transport.count("bind"))
    stop.set()
    world.add_pod("second")
    await until(lambda: scheduler.is_stopping)
    await settle()
    gate.set()
    await asyncio.wait_for(task, WAIT_S)
    assert world.node_of("second") == ""


async def test_nothing_is_decided_before_all_lists_are_complete():
    """With some nodes known and others not, a pod would go to the wrong node, or be told that it fits nowhere."""
    world = World(nodes=1, cpu="1")
    world.add_pod("big", cpu="3")
    world.add_pod("small", cpu="500m")
    gate, call = asyncio.Event(), world.transport._call

    async def held(verb, plural, act):
        if (verb, plural) == ("list", "services") and world.transport.count("watch", "nodes"):
            await gate.wait()
        return await call(verb, plural, act)

    world.transport._call = held
    scheduler = LiveScheduler(configuration(), world.transport, runner=Inline())
    stop = asyncio.Event()
    task = asyncio.create_task(scheduler.run(stop))
    await until(lambda: len(scheduler.core.queue) == 2 and len(scheduler.core.cache.table) == 1)
    await settle(50)
    assert not scheduler.is_leading
    assert {verb for verb, _ in world.transport.calls} <= {"read", "list", "watch"}
    assert world.condition("big") is None and world.node_of("small") == ""
    gate.set()
    await until(lambda: world.node_of("small") and world.condition("big"))
    stop.set()
    await task


async def test_cycles_pause_while_too_many_bindings_are_unanswered(monkeypatch):
    monkeypatch.setattr("berth.runtime.core_work.MAX_PENDING_BINDINGS", 4)
    world = World(nodes=2, cpu="8")
    gate = world.transport.hold("bind")
    async with scheduling(world) as scheduler:
        for number in range(40):
            world.add_pod(f"web-{number}")
        await until(lambda: (world.transport.count("bind") and not scheduler.core.has_work) or scheduler.pending_calls)
        await settle(200)
        assert 1 <= scheduler.pending_calls["pod_binding"] <= 8
        assert len(scheduler.core.queue) >= 32
        gate.set()
        await until(lambda: len(world.accepted()) == 40)


@pytest.mark.parametrize("passes", range(8))
async def test_what_arrives_while_a_slice_is_left_half_done_is_not_forgotten(monkeypatch, passes):
    """On a slow machine a slice may end after each arrival; its rest and what comes meanwhile are both taken in."""
    sleep = CoreWork._sleep_until
    monkeypatch.setattr(CoreWork, "_sleep_until", lambda self, _deadline: sleep(self, None))  # nothing else wakes it
    times = itertools.count()
    world = World(nodes=1, cpu="8")
    async with scheduling(world, clock=lambda: next(times) * SLICE_S):
        for name in ("one", "two", "three"):
            world.add_pod(name)
        await settle(passes)
        world.add_pod("last")
        await until(lambda: len(world.accepted()) == 4)


# --- bad input --------------------------------------------------------------------------------------------------------


async def test_a_pod_that_cannot_be_read_is_set_aside_with_a_word(caplog):
    world = World()
    world.transport.garbled = {b'"123m"': b'"12 apples"'}
    world.add_pod("bad", cpu="123m")
    world.add_pod("good")
    async with scheduling(world):
        await until(lambda: world.node_of("good") and world.events("FailedScheduling"))
        world.add_pod("later")
        await until(lambda: world.node_of("later"))
    (event,) = world.events("FailedScheduling")
    assert event["involvedObject"]["name"] == "bad"
    assert "12 apples" in event["message"]
    assert "spec.containers[0].resources.requests[cpu]" in event["message"]
    told = [record.getMessage() for record in caplog.records if "default/bad" in record.getMessage()]
    assert len(told) == 1
    assert "spec.containers[0].resources.requests[cpu]" in told[0]
    assert world.node_of("bad") == ""


async def test_a_node_that_cannot_be_read_keeps_its_last_good_state(caplog):
    world = World(nodes=2, cpu="1")
    async with scheduling(world):
        node = next(n for n in world.store.objects(RESOURCES["Node"]) if n["metadata"]["name"] == "node-0")
        world.transport.garbled = {b'"memory":"31Gi"': b'"memory":"plenty"'}
        allocatable = {**node["status"]["allocatable"], "memory": "31Gi"}
        world.store.patch(
            RESOURCES["Node"], "", "node-0", {"status": {"allocatable": allocatable}},
            "application/merge-patch+json", "status",
        )  # fmt: skip
        await until(lambda: any("plenty" in record.getMessage() for record in caplog.records))
        for number in range(2):
            world.add_pod(f"web-{number}", cpu="900m")
        await until(lambda: len(world.accepted()) == 2)
    told = [record.getMessage() for record in caplog.records if "plenty" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("Node node-0 cannot be read, so its last good state is used")


async def test_a_watch_line_cut_short_loses_nothing(caplog):
    world = World(nodes=1, cpu="4")
    world.transport.cuts["pods"] = [b"web-3"]
    async with scheduling(world):
        for number in range(8):
            world.add_pod(f"web-{number}")
        await until(lambda: len(world.accepted()) == 8)
    told = [record.getMessage() for record in caplog.records if "cut short" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("pods: ")


class Breaks:
    """A plugin with a bug that shows for one pod, at one point."""

    name = "Breaks"
    at = ""

    def __init__(self, args, handle):
        pass

    def _break(self, point, pod):
        if pod.name == "cursed" and point in self.at.split():
            raise RuntimeError(f"a bug in {point}")

    def pre_filter(self, state, pod):
        self._break("pre_filter", pod)

    def reserve(self, state, pod, node_name):
        self._break("reserve", pod)

    def unreserve(self, state, pod, node_name):
        self._break("unreserve", pod)

    def permit(self, state, pod, node_name):
        self._break("permit", pod)
        return None, 0.0

    def pre_bind(self, state, pod, node_name):
        self._break("pre_bind", pod)


@pytest.mark.parametrize(
    ("at", "point"),
    [
        ("pre_filter", "PreFilter"),
        ("reserve", "Reserve"),
        ("permit", "Permit"),
        ("pre_bind", "PreBind"),
        ("permit unreserve", "Permit"),
    ],
)
async def test_a_bug_costs_one_attempt_and_is_logged(caplog, at, point):
    world = World(nodes=1, cpu="1")
    registry = in_tree_registry().merge(Registry({"Breaks": type("Breaking", (Breaks,), {"at": at})}, "the test"))
    plugins = {"multiPoint": {"enabled": [{"name": "Breaks"}]}}
    config = configuration(profiles=[{"schedulerName": "default-scheduler", "plugins": plugins}])
    world.add_pod("cursed", cpu="600m")
    async with scheduling(world, config, registry=registry) as scheduler:
        await until(lambda: world.condition("cursed"))
        # The room that was taken is there again, even where it stays promised (nominatedNodeName) to the cursed pod.
        world.add_pod("fine", cpu="400m")
        await until(lambda: world.node_of("fine"))
        assert scheduler.core.cache.state_of(world.pod("cursed")["metadata"]["uid"]) is None
    condition = world.condition("cursed")
    message = f'running {point} plugin "Breaks": RuntimeError: a bug in {at.split()[0]}'
    assert condition["reason"] == "SchedulerError"
    assert re.fullmatch(re.escape(message) + r" \(tests/runtime/test_scheduler\.py:\d+\)", condition["message"])
    in_full = [record for record in caplog.records if record.exc_info]
    told = [f"plugin Breaks broke in {method}: RuntimeError: a bug in {method} " for method in at.split()]
    assert len(in_full) == len(told)
    assert all(record.getMessage().startswith(said) for record, said in zip(in_full, told, strict=True))


async def test_even_a_bug_in_the_core_does_not_end_it(caplog, monkeypatch):
    world = World()
    async with scheduling(world) as scheduler:
        step, broken = scheduler.core.step, [KeyError("lost")]

        def step_after_a_fall(now, **options):
            if broken:
                raise broken.pop()
            return step(now, **options)

        monkeypatch.setattr(scheduler.core, "step", step_after_a_fall)
        world.add_pod("web")
        await until(lambda: world.node_of("web"))
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert told[0].exc_info[0] is KeyError


# --- leaders ----------------------------------------------------------------------------------------------------------


def lease_of(world):
    return next(iter(world.store.objects(LEASE)), None)


def held_by(world, holder):
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "leaseTransitions": 1}
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kube-scheduler"},
        "spec": spec,
    }
    world.store.create(LEASE, "kube-system", body)


async def test_the_leader_schedules_and_gives_the_lease_up_at_the_end():
    world = World()
    world.add_pod("web")
    async with scheduling(world, configuration(leader_elect=True), identity="me"):
        await until(lambda: world.node_of("web"))
        assert lease_of(world)["spec"]["holderIdentity"] == "me"
    (told,) = world.events("LeaderElection")
    assert (told["type"], told["message"]) == ("Normal", "me became leader")
    regarding = told["involvedObject"]
    assert (regarding["kind"], regarding["namespace"], regarding["name"]) == ("Lease", "kube-system", "kube-scheduler")
    assert regarding["uid"] == lease_of(world)["metadata"]["uid"]
    assert not lease_of(world)["spec"].get("holderIdentity")


async def test_a_standby_writes_nothing():
    world = World()
    held_by(world, "another")
    world.add_pod("web")
    async with scheduling(world, configuration(leader_elect=True), identity="me") as scheduler:
        await until(lambda: scheduler.leader == "another" and len(scheduler.core.queue) == 1)
        await settle()
        assert not scheduler.is_leading
    assert {verb for verb, _ in world.transport.calls} <= {"list", "watch", "get", "read"}
    assert lease_of(world)["spec"]["holderIdentity"] == "another"


async def test_a_lost_lease_ends_the_process_without_another_write():
    world = World()
    election = {
        "leaderElect": True, "leaseDuration": "2s", "renewDeadline": "1s", "retryPeriod": "50ms",
    }  # fmt: skip
    scheduler = LiveScheduler(configuration(leaderElection=election), world.transport, identity="me")
    task = asyncio.create_task(scheduler.run(asyncio.Event()))
    await until(lambda: scheduler.is_leading)
    world.transport.hold("bind")
    world.add_pod("web")
    await until(lambda: world.transport.count("bind"))
    spec = {**lease_of(world)["spec"], "holderIdentity": "another"}
    world.store.patch(LEASE, "kube-system", "kube-scheduler", {"spec": spec}, "application/merge-patch+json")
    with pytest.raises(LeadershipLost, match="taken over by another"):
        await asyncio.wait_for(task, WAIT_S)
    assert not scheduler.is_leading
    assert world.node_of("web") == ""
    assert lease_of(world)["spec"]["holderIdentity"] == "another"


async def test_the_lease_is_released_only_when_what_was_under_way_has_ended():
    world = World()
    world.add_pod("web")
    gate = world.transport.hold("bind")
    scheduler = LiveScheduler(configuration(leader_elect=True), world.transport, identity="me")
    stop = asyncio.Event()
    task = asyncio.create_task(scheduler.run(stop))
    await until(lambda: world.transport.count("bind"))
    stop.set()
    await settle(100)
    assert lease_of(world)["spec"]["holderIdentity"] == "me"
    gate.set()
    await asyncio.wait_for(task, WAIT_S)
    assert world.node_of("web") and not lease_of(world)["spec"].get("holderIdentity")


async def test_a_binding_that_does_not_end_keeps_the_lease_until_it_expires(caplog, monkeypatch):
    monkeypatch.setattr("berth.runtime.graceful_stop.DRAIN_S", 0.02)
    caplog.set_level(logging.INFO)
    world = World()
    world.add_pod("web")
    world.transport.hold("bind")
    scheduler = LiveScheduler(configuration(leader_elect=True), world.transport, identity="me")
    stop = asyncio.Event()
    task = asyncio.create_task(scheduler.run(stop))
    await until(lambda: world.transport.count("bind"))
    stop.set()
    await asyncio.wait_for(task, WAIT_S)
    assert lease_of(world)["spec"]["holderIdentity"] == "me"
    (told,) = [record.getMessage() for record in caplog.records if "not released" in record.getMessage()]
    assert told.startswith("the lease kube-system/kube-scheduler is not released, but left to expire: requests under")


async def test_a_scheduler_that_was_stopped_for_long_writes_nothing_before_it_has_looked_at_the_lease():
    """It stood still from the cycle on; when it goes on, another leads, and its own pods are there to be bound."""
    world = World(nodes=4, cpu="4")
    now = [1000.0]
    scheduler = LiveScheduler(configuration(leader_elect=True), world.transport, identity="me", clock=lambda: now[0])
    task = asyncio.create_task(scheduler.run(asyncio.Event()))
    await until(lambda: scheduler.is_leading)
    for number in range(60):
        world.add_pod(f"web-{number}", cpu="10m")
    now[0] += 30.0  # before any of them is seen
    spec = {**lease_of(world)["spec"], "holderIdentity": "another"}
    world.store.patch(LEASE, "kube-system", "kube-scheduler", {"spec": spec}, "application/merge-patch+json")
    with pytest.raises(LeadershipLost, match="taken over by another"):
        await asyncio.wait_for(task, WAIT_S)
    assert world.transport.count("bind") == 0 and world.accepted() == []
    assert world.events("Scheduled") == []


REFUSED = ConnectionLost("cannot connect to it: connection refused", sent=False, is_of_all_requests=True)
"""As `berth.kube.http.connections` words and marks it."""


async def test_an_unreachable_server_is_told_and_tried_again(caplog):
    world = World()
    world.add_pod("web")
    world.transport.refuse("list", *[REFUSED] * 12)
    scheduler = LiveScheduler(configuration(), world.transport)
    stop = asyncio.Event()
    with caplog.at_level(logging.INFO):
        task = asyncio.create_task(scheduler.run(stop))
        await until(lambda: "connection refused" in scheduler.following.unsynced()["pods"])
        await until(lambda: world.node_of("web"))
    stop.set()
    await task
    told = [record.getMessage() for record in caplog.records if "cannot connect to it" in record.getMessage()]
    assert len(told) == 1


async def test_pods_that_are_deleted_before_their_bindings_are_sent_cost_no_request(caplog):
    """A storm: most of what was created is deleted at once, while bindings wait for the client's rate limit."""
    world = World(nodes=2, cpu="8")
    world.transport.turns.clear()
    async with scheduling(world) as scheduler:
        for number in range(60):
            world.add_pod(f"web-{number}")
        await until(lambda: scheduler.pending_calls["pod_binding"] == 60)
        for number in range(50):
            world.store.delete(POD, "default", f"web-{number}")
        held = world.add_pod("held")["metadata"]
        world.store.patch(
            POD, "default", "held", {"metadata": {"finalizers": ["example.com/a"]}}, "application/merge-patch+json"
        )
        await until(lambda: scheduler.pending_calls["pod_binding"] == 61)
        world.store.delete(POD, "default", "held")
        await until(lambda: scheduler.following.find("Pod", "default", "held").metadata.deletion_timestamp)
        assert held["uid"]
        world.transport.turns.set()
        await until(lambda: len(world.accepted()) == 10 and not scheduler.pending_calls["pod_binding"])
        await until(lambda: len(world.events("Scheduled")) == 10 and not len(scheduler.core.cache.assumed))
        assert world.transport.count("bind") == 10
        assert world.transport.count("get", "pods") == 0, "nothing has to be looked up"
        assert sum(scheduler.core.cache.table.pod_count) == 10, "no room is lost"
        assert not world.events("FailedScheduling")
        check(scheduler.core)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("status", [404, 409])
async def test_pods_whose_deletion_the_api_server_knows_before_the_watch_are_not_tried_again(status, caplog):
    """It answers 404 about a pod that is gone, and 409 about one that is being deleted, as finalizers keep it.

    Source: BindingREST in pkg/registry/core/pod/storage/storage.go.
    """
    world = World(nodes=2, cpu="8")
    gate = world.transport.hold("bind")
    async with scheduling(world) as scheduler:
        metadata = {"finalizers": ["example.com/a"]} if status == 409 else {}
        for number in range(20):
            world.add_pod(f"web-{number}")
            world.store.patch(POD, "default", f"web-{number}", {"metadata": metadata}, "application/merge-patch+json")
        await until(lambda: world.transport.count("bind") == 20)
        for number in range(15):
            world.store.delete(POD, "default", f"web-{number}")
        gate.set()
        await until(lambda: len(world.accepted()) == 5 and not scheduler.core.cache.assumed)
        await settle()
        assert world.transport.count("bind") == 20
        assert world.transport.count("get", "pods") == (15 if status == 409 else 0)
        assert not world.events("FailedScheduling")
        assert sum(scheduler.core.cache.table.pod_count) == 5
        check(scheduler.core)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
