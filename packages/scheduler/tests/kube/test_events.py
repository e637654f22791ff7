"""Events: their form, their series, and that nothing ever waits for them."""

import asyncio
import random
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.api.meta import ObjectReference
from berth.kube.event_spam import BURST, MAX_OBJECTS, REFILL, EventSpamFilter
from berth.kube.events import EventRecorder
from packages.scheduler.tests.kube.fakes import MemoryTransport, VirtualClock
from tests.waiting import settle


def pod(name="web-1"):
    return ObjectReference(api_version="v1", kind="Pod", namespace="shop", name=name, uid=f"uid-{name}")


class Recording:
    def __init__(self, **options):
        self.clock = VirtualClock()
        self.transport = MemoryTransport()
        self.reports = []
        self.recorder = EventRecorder(
            self.transport,
            reporting_controller="default-scheduler",
            reporting_instance="default-scheduler-host-1",
            report=self.reports.append,
            clock=self.clock.wall,
            sleep=self.clock.sleep,
            rng=random.Random(1),
            **options,
        )

    def failed_scheduling(self, name="web-1", note="0/3 nodes are available: 3 Insufficient cpu."):
        self.recorder.record(pod(name), type="Warning", reason="FailedScheduling", action="Scheduling", note=note)

    @property
    def events(self):
        return list(self.transport.objects.values())


@asynccontextmanager
async def recording(**options):
    case = Recording(**options)
    task = asyncio.create_task(case.recorder.run())
    await settle()
    try:
        yield case
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_event_as_the_server_wants_it():
    async with recording() as case:
        case.recorder.record(
            pod(),
            type="Normal",
            reason="Scheduled",
            action="Binding",
            note="Successfully assigned shop/web-1 to n1",
            related=ObjectReference(kind="Node", name="n1"),
        )
        await settle()
        (event,) = case.events
        name = event["metadata"].pop("name")
        assert name.startswith("web-1.") and int(name.removeprefix("web-1."), 16) > 0
        assert event == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": "shop", "resourceVersion": "1"},
            "eventTime": "2026-01-02T03:04:05.678901Z",
            "reportingController": "default-scheduler",
            "reportingInstance": "default-scheduler-host-1",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web-1", "uid": "uid-web-1"},
            "related": {"kind": "Node", "name": "n1"},
            "note": "Successfully assigned shop/web-1 to n1",
            "type": "Normal",
        }
        assert case.recorder.written == 1


async def test_repetitions_become_a_series():
    async with recording() as case:
        case.failed_scheduling()
        await settle()
        await case.clock.advance(60)
        case.failed_scheduling(note="0/3 nodes are available: 3 node(s) had untolerated taint(s).")
        await settle()
        assert [verb for verb, _ in case.transport.calls] == ["create", "patch"]
        assert case.events[0]["series"] == {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.678901Z"}
        assert "Insufficient cpu" in case.events[0]["note"]
        for _ in range(5):
            case.failed_scheduling()
        await settle()
        assert len(case.transport.calls) == 2  # later repetitions wait for the refresh
        await case.clock.advance(31)
        assert case.events[0]["series"]["count"] == 7 and len(case.transport.calls) == 3


async def test_after_six_minutes_it_is_a_new_event():
    async with recording() as case:
        case.failed_scheduling()
        await settle()
        await case.clock.advance(361)
        case.failed_scheduling()
        await settle()
        assert len(case.events) == 2 and all("series" not in event for event in case.events)


@pytest.mark.parametrize(
    "other", [{"reason": "Other"}, {"action": "Other"}, {"type": "Normal"}, {"regarding": pod("b")}]
)
async def test_what_differs_is_another_event(other):
    fields = {"regarding": pod(), "type": "Warning", "reason": "R", "action": "A", "note": "n"}
    async with recording() as case:
        case.recorder.record(**fields)
        case.recorder.record(**{**fields, **other})
        await settle()
        assert len(case.events) == 2


async def test_repetition_before_the_first_write_is_created_as_a_series():
    case = Recording()
    case.failed_scheduling()
    case.failed_scheduling()
    task = asyncio.create_task(case.recorder.run())
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert case.events[0]["series"]["count"] == 2 and case.transport.calls[0][0] == "create"
    assert len(case.transport.calls) == 1


async def test_a_repetition_while_the_first_is_being_written_is_written_next():
    async with recording() as case:
        case.transport.gate.clear()
        case.failed_scheduling()
        await settle()
        case.failed_scheduling()
        case.transport.gate.set()
        await settle()
        assert [verb for verb, _ in case.transport.calls] == ["create", "patch"]
        assert case.events[0]["series"]["count"] == 2


async def test_a_series_is_written_to_the_end_when_it_is_over():
    async with recording() as case:
        for _ in range(3):
            case.failed_scheduling()
            await settle()
        assert case.events[0]["series"]["count"] == 2
        case.clock.now_s += 361  # past the window, before the next refresh
        case.failed_scheduling("other")
        await settle()
        assert case.events[0]["series"]["count"] == 3


async def test_a_full_queue_drops_the_oldest_and_counts():
    async with recording(capacity=3) as case:
        case.transport.hang = True
        case.failed_scheduling("stuck")
        await settle()
        for number in range(8):
            case.failed_scheduling(f"p{number}")
        await settle()
        # One worker had taken the first; the eight that came at once found room for three.
        assert case.recorder.dropped == 8 - 3


async def test_drops_are_the_oldest():
    case = Recording(capacity=2)
    for name in ("a", "b", "c"):
        case.failed_scheduling(name)
    assert case.recorder.dropped == 1
    task = asyncio.create_task(case.recorder.run())
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sorted(event["regarding"]["name"] for event in case.events) == ["b", "c"]


async def test_trouble_is_tried_again_then_counted():
    async with recording() as case:
        case.transport.fault = ConnectionLost("down")
        case.failed_scheduling()
        await settle()
        case.transport.fault = None
        await case.clock.advance(2)
        assert len(case.events) == 1 and case.recorder.written == 1
        case.transport.fault = ConnectionLost("down")
        case.failed_scheduling("other")
        await case.clock.advance(300)
        assert case.recorder.failed == 1 and len(case.transport.calls) == 2 + 5
        assert "FailedScheduling of shop/other" in case.reports[0]


async def test_a_refusal_is_not_repeated_and_told_once():
    async with recording() as case:
        case.transport.fault = ApiError(403, "Forbidden", "events is forbidden")
        for number in range(5):
            case.failed_scheduling(f"p{number}")
        await settle()
        assert case.recorder.failed == 5 and len(case.transport.calls) == 5
        assert len(case.reports) == 1 and "RBAC" in case.reports[0]


async def test_an_answer_lost_after_the_write_is_no_second_event():
    async with recording() as case:
        original = case.transport.create

        async def create_then_lose(*arguments, **options):
            case.transport.create = original
            await original(*arguments, **options)
            raise ConnectionLost("the answer is lost")

        case.transport.create = create_then_lose
        case.failed_scheduling()
        await case.clock.advance(5)
        assert len(case.events) == 1 and case.recorder.failed == 0


async def test_a_series_whose_event_has_expired_at_the_server_is_created_again():
    async with recording() as case:
        case.failed_scheduling()
        await settle()
        case.transport.objects.clear()
        case.failed_scheduling()
        await settle()
        assert case.events[0]["series"]["count"] == 2


async def test_drain_writes_what_is_left():
    async with recording() as case:
        for _ in range(5):
            case.failed_scheduling()
            await settle()
        assert await case.recorder.drain(1.0)
        assert case.events[0]["series"]["count"] == 5
        case.transport.hang = True
        case.failed_scheduling("other")
        assert not await case.recorder.drain(0.02)


async def test_one_object_cannot_cause_events_without_end():
    async with recording() as case:
        for number in range(100):
            case.recorder.record(pod(), type="Warning", reason=f"Reason{number}", action="Scheduling", note="no")
        case.failed_scheduling("other")
        await settle()
        assert len(case.events) == BURST + 1
        assert case.recorder.spam == 100 - BURST
        await case.clock.advance(REFILL.total_seconds())
        for number in range(3):
            case.recorder.record(pod(), type="Warning", reason=f"Later{number}", action="Scheduling", note="no")
        await settle()
        assert len(case.events) == BURST + 2


async def test_what_repeats_is_one_series_however_often():
    async with recording() as case:
        for _ in range(1000):
            case.failed_scheduling()
        await case.clock.advance(31)
        assert len(case.events) == 1 and case.recorder.spam == 0
        assert case.events[0]["series"]["count"] == 1000


async def test_the_log_tells_once_for_each_period_how_much_was_dropped():
    async with recording(capacity=3) as case:
        case.transport.hang = True
        for number in range(20):
            case.failed_scheduling(f"p{number}")
        for number in range(30):
            case.recorder.record(pod(), type="Warning", reason=f"Reason{number}", action="Scheduling", note="no")
        await case.clock.advance(31)
        dropped, spam = case.recorder.dropped, case.recorder.spam
        assert case.reports == [
            f"{dropped} events not written in 30 s: the API server does not keep up",
            f"{spam} events not written in 30 s: too many about the same objects",
        ]
        await case.clock.advance(31)
        assert len(case.reports) == 2


async def test_a_server_that_asks_to_be_left_alone_is_left_alone():
    async with recording() as case:
        case.transport.fault = ApiError(429, "TooManyRequests", "slow down", retry_after_s=40.0)
        case.failed_scheduling()
        await settle()
        await case.clock.advance(39)
        assert len(case.transport.calls) == 1
        case.transport.fault = None
        await case.clock.advance(2)
        assert len(case.events) == 1


def test_only_so_many_objects_are_remembered():
    spam, now = EventSpamFilter(), datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(3 * MAX_OBJECTS):
        assert spam.allows(pod(f"p{number}"), now)
    assert len(spam._buckets) == MAX_OBJECTS
