"""Leader election in virtual time: who leads when, and what the lease says."""

import asyncio
import random

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.kube.leader import LeaderElectionTimes, LeaderElector
from berth.kube.lease import held_record
from packages.scheduler.tests.kube.fakes import START, MemoryTransport, VirtualClock
from tests.waiting import settle

KEY = ("leases", "kube-system", "kube-scheduler")


class Cluster:
    def __init__(self):
        self.clock = VirtualClock()
        self.transport = MemoryTransport()
        self.reports = []
        self.tasks = []

    def candidate(self, identity, **options):
        return LeaderElector(
            self.transport,
            namespace="kube-system",
            name="kube-scheduler",
            identity=identity,
            report=self.reports.append,
            clock=self.clock,
            wall_clock=self.clock.wall,
            sleep=self.clock.sleep,
            rng=random.Random(1),
            **options,
        )

    def start(self, coroutine):
        self.tasks.append(asyncio.create_task(coroutine))
        return self.tasks[-1]

    @property
    def spec(self):
        return self.transport.objects[KEY]["spec"]


@pytest.fixture
async def cluster():
    made = Cluster()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_the_first_creates_the_lease(cluster):
    heard = []
    one = cluster.candidate("one", on_new_leader=heard.append)
    await cluster.start(one.acquire())
    assert one.is_leader and one.leader == "one" and heard == ["one"]
    assert cluster.spec == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-02T03:04:05.678901Z",
        "renewTime": "2026-01-02T03:04:05.678901Z",
        "leaseTransitions": 0,
    }


async def test_renews_every_two_seconds_without_reading(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    cluster.transport.calls.clear()
    holding = cluster.start(one.hold())
    await cluster.clock.advance(21)
    assert not holding.done()
    assert [verb for verb, _ in cluster.transport.calls] == ["update"] * 10
    assert cluster.spec["renewTime"] == "2026-01-02T03:04:25.678901Z"
    assert cluster.spec["acquireTime"] == "2026-01-02T03:04:05.678901Z"
    assert cluster.spec["leaseTransitions"] == 0


async def test_a_standby_waits_until_the_lease_is_silent_for_its_duration(cluster):
    one, two = cluster.candidate("one"), cluster.candidate("two")
    await one.acquire()
    holding = cluster.start(one.hold())
    waiting = cluster.start(two.acquire())
    await cluster.clock.advance(100)
    assert not waiting.done() and two.leader == "one"
    holding.cancel()  # as if it had been killed
    await cluster.clock.advance(12)
    assert not waiting.done()
    await cluster.clock.advance(9)  # 15 s of silence, and up to 4.4 s until the next try
    assert waiting.done() and two.is_leader
    assert cluster.spec["holderIdentity"] == "two" and cluster.spec["leaseTransitions"] == 1


async def test_the_times_written_in_a_lease_do_not_matter(cluster):
    """Clocks of machines differ: a lease that looks years old is still honoured from when it was first seen."""
    one, two = cluster.candidate("one"), cluster.candidate("two")
    await one.acquire()
    cluster.spec["renewTime"] = "1999-01-01T00:00:00.000000Z"
    waiting = cluster.start(two.acquire())
    await cluster.clock.advance(14)
    assert not waiting.done()
    await cluster.clock.advance(6)
    assert waiting.done()


async def test_a_released_lease_is_taken_at_the_next_try(cluster):
    one, two = cluster.candidate("one"), cluster.candidate("two")
    await one.acquire()
    waiting = cluster.start(two.acquire())
    await settle()
    await one.release()
    assert cluster.spec["holderIdentity"] == "" and cluster.spec["leaseDurationSeconds"] == 1
    await cluster.clock.advance(5)
    assert waiting.done() and cluster.spec["leaseTransitions"] == 1
    assert not one.is_leader


async def test_release_after_a_renewal_whose_answer_was_lost(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    lease = cluster.transport.objects[KEY]
    cluster.transport.objects[KEY] = {**lease, "metadata": {**lease["metadata"], "resourceVersion": "x"}}
    await one.release()
    assert cluster.spec["holderIdentity"] == ""


async def test_release_of_what_somebody_took_changes_nothing(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    cluster.spec["holderIdentity"] = "thief"
    await one.release()
    assert cluster.spec["holderIdentity"] == "thief"


@pytest.mark.parametrize("hang", [False, True])
async def test_a_release_that_fails_is_told(cluster, hang):
    one = cluster.candidate("one")
    await one.acquire()
    cluster.transport.fault = ConnectionLost("down")
    cluster.transport.hang = hang
    releasing = cluster.start(one.release())
    await cluster.clock.advance(11)
    assert releasing.done() and "could not be released" in cluster.reports[-1]
    assert "it will expire" in cluster.reports[-1]


async def test_release_by_one_that_does_not_lead_changes_nothing(cluster):
    one, two = cluster.candidate("one"), cluster.candidate("two")
    await one.acquire()
    await two.release()
    assert cluster.spec["holderIdentity"] == "one"


@pytest.mark.parametrize("trouble", ["refused", "lost", "hanging"])
async def test_leadership_is_lost_when_the_lease_cannot_be_renewed(cluster, trouble):
    one = cluster.candidate("one")
    await one.acquire()
    holding = cluster.start(one.hold())
    await cluster.clock.advance(4.5)
    faults = {"refused": ApiError(500, "InternalError", "etcd"), "lost": ConnectionLost("down"), "hanging": None}
    cluster.transport.fault = faults[trouble]
    cluster.transport.hang = trouble == "hanging"
    await cluster.clock.advance(11)  # the first renewal to fail is that of 6 s, so the deadline is 16 s
    assert not holding.done()
    await cluster.clock.advance(1)
    assert holding.done() and "could not be renewed for 10 s" in holding.result()
    assert not one.is_leader


async def test_a_short_trouble_is_survived(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    holding = cluster.start(one.hold())
    cluster.transport.fault = ConnectionLost("down")
    await cluster.clock.advance(8)
    cluster.transport.fault = None
    await cluster.clock.advance(30)
    assert not holding.done() and one.is_leader
    assert "not written: down" in cluster.reports[-1]


async def test_a_takeover_is_noticed(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    holding = cluster.start(one.hold())
    lease = cluster.transport.objects[KEY]
    taken = {**lease["spec"], "holderIdentity": "thief", "leaseTransitions": 9}
    cluster.transport.objects[KEY] = {**lease, "spec": taken, "metadata": {**lease["metadata"], "resourceVersion": "x"}}
    await cluster.clock.advance(3)
    assert holding.done() and "taken over by thief" in holding.result()
    assert cluster.spec["holderIdentity"] == "thief"


async def test_a_lease_touched_by_somebody_else_is_renewed_all_the_same(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    holding = cluster.start(one.hold())
    lease = cluster.transport.objects[KEY]
    metadata = {**lease["metadata"], "resourceVersion": "x", "labels": {"seen": "yes"}}
    cluster.transport.objects[KEY] = {**lease, "metadata": metadata}
    await cluster.clock.advance(3)
    assert not holding.done()
    assert cluster.transport.objects[KEY]["metadata"]["labels"] == {"seen": "yes"}
    assert cluster.spec["renewTime"] > "2026-01-02T03:04:06"


async def test_two_at_once_and_only_one_wins(cluster):
    candidates = [cluster.candidate(name) for name in ("one", "two", "three")]
    for candidate in candidates:
        cluster.start(candidate.acquire())
    await cluster.clock.advance(10)
    assert sum(candidate.is_leader for candidate in candidates) == 1


async def test_the_fence_is_open_until_the_renew_deadline_from_before_the_renewal_was_sent(cluster):
    one = cluster.candidate("one")
    assert not one.fence.is_open
    await one.acquire()
    assert one.held_until == 10.0 and one.fence.is_open
    cluster.start(one.hold())
    cluster.transport.gate.clear()  # the answer to the renewal of 2 s takes three seconds
    await cluster.clock.advance(5)
    cluster.transport.gate.set()
    await settle()
    assert one.held_until == 12.0
    cluster.transport.fault = ConnectionLost("down")
    await cluster.clock.advance(6.9)
    assert one.fence.is_open
    await cluster.clock.advance(0.2)
    assert not one.fence.is_open


async def test_the_fence_is_shut_when_the_lease_is_lost_given_up_or_left(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    one.abandon("requests are under way")
    assert not one.fence.is_open and not one.is_leader and cluster.spec["holderIdentity"] == "one"
    assert "not released, but left to expire: requests are under way" in cluster.reports[-1]
    two = cluster.candidate("two")
    waiting = cluster.start(two.acquire())
    await cluster.clock.advance(17)
    assert waiting.done() and two.fence.is_open
    await two.release()
    assert not two.fence.is_open and cluster.spec["holderIdentity"] == ""


async def test_a_leader_that_was_stopped_reads_the_lease_before_it_takes_it_for_its_own(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    holding = cluster.start(one.hold())
    await settle()
    cluster.clock.now_s += 30.0
    lease = cluster.transport.objects[KEY]
    taken = {**lease["spec"], "holderIdentity": "two"}
    cluster.transport.objects[KEY] = {**lease, "spec": taken, "metadata": {**lease["metadata"], "resourceVersion": "x"}}
    cluster.transport.calls.clear()
    assert not one.fence.is_open
    await cluster.clock.advance(0)
    assert cluster.transport.calls == [("get", "kube-scheduler")]
    assert holding.done() and "taken over by two" in holding.result()


async def test_a_leader_that_was_stopped_and_whom_nobody_followed_goes_on(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    holding = cluster.start(one.hold())
    await settle()
    cluster.clock.now_s += 30.0
    assert not one.fence.is_open
    await cluster.clock.advance(0)
    assert not holding.done() and one.fence.is_open


async def test_a_renewal_on_a_dead_connection_leaves_time_for_another(cluster):
    one = cluster.candidate("one")
    await one.acquire()
    holding = cluster.start(one.hold())
    cluster.transport.hang = True
    await cluster.clock.advance(6)
    cluster.transport.hang = False
    await cluster.clock.advance(30)
    assert not holding.done() and one.fence.is_open


@pytest.mark.parametrize("phase_s", [0.0, 0.3, 0.7, 1.1, 1.5, 1.9])
async def test_a_standby_leads_soon_after_the_leases_end(cluster, phase_s):
    """However the two are set off against one another. The lease ends its duration after the last renewal."""
    one, two = cluster.candidate("one"), cluster.candidate("two")
    await one.acquire()
    holding = cluster.start(one.hold())
    await cluster.clock.advance(phase_s)
    waiting = cluster.start(two.acquire())
    await cluster.clock.advance(20.9)
    holding.cancel()  # killed; it renewed at 20 s, or at 22 s
    renewed_at_s = one.held_until - 10.0
    await cluster.clock.advance(renewed_at_s + 15.0 - cluster.clock.now_s - 0.01)
    assert not waiting.done()
    await cluster.clock.advance(1.6)
    assert waiting.done() and two.fence.is_open


def test_a_lease_lasts_no_shorter_in_the_record_than_in_the_configuration():
    """The record has whole seconds: rounded down, another would take over before our renew deadline."""
    times = LeaderElectionTimes(lease_duration_s=1.4, renew_deadline_s=1.3, retry_period_s=0.1)
    assert held_record("one", times.lease_duration_s, START, None).lease_duration_seconds == 2


async def test_fields_that_we_do_not_know_are_kept(cluster):
    cluster.transport.objects[KEY] = {
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system", "resourceVersion": "7"},
        "spec": {"strategy": "OldestEmulationVersion"},
    }
    await cluster.candidate("one").acquire()
    assert cluster.spec["strategy"] == "OldestEmulationVersion" and cluster.spec["holderIdentity"] == "one"


async def test_a_lease_that_cannot_be_read_is_told(cluster):
    cluster.transport.objects[KEY] = {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": 7}}
    waiting = cluster.start(cluster.candidate("one").acquire())
    await settle()
    assert not waiting.done() and "cannot be read" in cluster.reports[0]


async def test_missing_rights_are_told_with_the_remedy(cluster):
    cluster.transport.fault = ApiError(403, "Forbidden", "leases is forbidden")
    cluster.start(cluster.candidate("one").acquire())
    await settle()
    assert "RBAC" in cluster.reports[0] and "kube-system/kube-scheduler" in cluster.reports[0]


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (LeaderElectionTimes(lease_duration_s=10), "leaseDuration must be greater than renewDeadline"),
        (LeaderElectionTimes(renew_deadline_s=2.4), "renewDeadline must be greater than retryPeriod"),
        (LeaderElectionTimes(lease_duration_s=0.5), "at least 1s"),
        (LeaderElectionTimes(retry_period_s=0), "greater than zero"),
    ],
)
def test_times_that_cannot_work_are_refused(times, words):
    assert words in times.problem()
    with pytest.raises(ValueError, match="leaderElection"):
        Cluster().candidate("one", times=times)
