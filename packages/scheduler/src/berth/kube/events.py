"""The event recorder: writes what happened to pods as events.k8s.io/v1 Events, without making any caller wait.

The runtime calls `record` for each `EmitEvent` effect and goes on; workers write in the background. The queue is
bounded: if the API server cannot keep up, the oldest unwritten events are dropped and counted, and so are those of an
object that causes too many (`event_spam.py`); the log reports what was dropped. An event that repeats within six
minutes is one Event whose `series.count` grows, as with client-go's recorder.

A series is in the queue, being written, or at rest, and at rest it is in `_untold` if the server does not know its
count yet. A series is queued at most once, so its requests never run concurrently.
"""

import asyncio
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from berth.api.errors import ApiError, TransportError
from berth.api.meta import ObjectReference
from berth.api.resources import RESOURCES
from berth.kube.backoff import Backoff
from berth.kube.event_series import EventKey, EventSeries, EventType
from berth.kube.event_spam import EventSpamFilter
from berth.kube.transport import MERGE_PATCH, Transport

# client-go: a series is over when it has not been seen for this long.
SERIES_WINDOW = timedelta(minutes=6)
# The second occurrence is written at once; after that the count is brought up to date this often.
REFRESH_PERIOD_S = 30.0
QUEUE_CAPACITY = 1000
# At most this many series are remembered. The one seen least recently goes first, and starts over if it recurs.
MAX_SERIES = 4096
MAX_TRIES = 5
WORKERS = 4

_EVENT = RESOURCES["Event"]


def _log(message: str) -> None:
    logging.getLogger("berth.kube.events").warning(message)


class EventRecorder:
    """Aggregates, queues and writes events; `run` must be a task for anything to be written."""

    __slots__ = (
        "_capacity", "_clock", "_in_flight", "_queue", "_report", "_reported", "_reporting_controller",
        "_reporting_instance", "_rng", "_serial", "_series", "_sleep", "_spam", "_told_dropped", "_transport",
        "_untold", "_wake", "dropped", "failed", "spam", "written",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        *,
        reporting_controller: str,
        reporting_instance: str,
        capacity: int = QUEUE_CAPACITY,
        report: Callable[[str], None] = _log,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._transport = transport
        self._reporting_controller = reporting_controller
        self._reporting_instance = reporting_instance[:128]  # the server's limit
        self._capacity = capacity
        self._report = report
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._queue: deque[EventSeries] = deque()
        self._series: OrderedDict[EventKey, EventSeries] = OrderedDict()
        self._untold: dict[EventSeries, None] = {}
        self._wake = asyncio.Event()
        self._in_flight = 0
        self._serial = 0
        self._reported: set[tuple[int, str]] = set()
        self.written = 0
        """Requests that the server took."""
        self.dropped = 0
        """Events given up unwritten because the queue was full."""
        self.spam = 0
        """Events given up unwritten because they were too many about one object."""
        self._spam = EventSpamFilter()
        self._told_dropped = (0, 0)
        self.failed = 0
        """Requests that the server refused finally, or that did not get through in several tries."""

    def record(
        self,
        regarding: ObjectReference,
        *,
        type: EventType,  # noqa: A002 - the field's own name
        reason: str,
        action: str,
        note: str,
        related: ObjectReference | None = None,
        reporting_controller: str = "",
    ) -> None:
        """Note that something happened to `regarding`. Returns at once, whatever the server is doing.

        `reporting_controller` names the profile that acted, if a scheduler has several.
        """
        key = EventKey(type, reason, action, regarding, related, reporting_controller or self._reporting_controller)
        now = self._clock()
        self._forget_old(now)
        series = self._series.get(key)
        if series is None:
            if not self._spam.allows(regarding, now):
                self.spam += 1
                return
            self._serial += 1
            series = self._series[key] = EventSeries(key, note, now, self._serial)
            self._enqueue(series)
            return
        series.observe(now)
        self._series.move_to_end(key)
        if series.count == 2:
            self._enqueue(series)
        # One in the queue is written with the count that it has when its turn comes.
        elif not series.is_queued:
            self._untold[series] = None

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"events:{number}")
            group.create_task(self._refresh(), name="events:refresh")

    async def drain(self, timeout_s: float) -> bool:
        """Wait, at the end of the process, until everything is written; return False if time ran out."""
        self._enqueue_untold()
        try:
            async with asyncio.timeout(timeout_s):
                while self._queue or self._in_flight:
                    await asyncio.sleep(0.005)
        except TimeoutError:
            return False
        return True

    def tell_what_was_done_first(self) -> None:
        """Let warnings wait: the process is ending, and the next leader will find reason for them again."""
        self._queue = deque(sorted(self._queue, key=lambda series: series.key.type != "Normal"))

    # -- the queue -----------------------------------------------------------------------------------------

    def _enqueue(self, series: EventSeries) -> None:
        if series.is_queued:
            return
        if len(self._queue) >= self._capacity:
            self._drop(self._queue.popleft())
        series.is_queued = True
        self._untold.pop(series, None)
        self._queue.append(series)
        self._wake.set()

    def _drop(self, series: EventSeries) -> None:
        """Drop a request. A series that was never created is forgotten; for any other only the newer count is lost."""
        self.dropped += 1
        series.is_queued = False
        if series.is_created:
            self._untold[series] = None
        elif self._series.get(series.key) is series:
            del self._series[series.key]

    def _forget_old(self, now: datetime) -> None:
        """End the series that were not seen for a while, and write what the server does not know about them yet."""
        while self._series:
            series = next(iter(self._series.values()))
            # They are in the order in which they were last seen, so the first recent one ends the search.
            if len(self._series) <= MAX_SERIES and now - series.last_at <= SERIES_WINDOW:
                return
            del self._series[series.key]
            if series in self._untold:
                self._enqueue(series)

    async def _refresh(self) -> None:
        while True:
            await self._sleep(REFRESH_PERIOD_S)
            self._forget_old(self._clock())
            self._enqueue_untold()
            self._tell_dropped()

    def _tell_dropped(self) -> None:
        """Report, once for each period, what was dropped in it."""
        before, now = self._told_dropped, (self.dropped, self.spam)
        self._told_dropped = now
        dropped, spam = now[0] - before[0], now[1] - before[1]
        if dropped:
            self._report(f"{dropped} events not written in {REFRESH_PERIOD_S:.0f} s: the API server does not keep up")
        if spam:
            self._report(f"{spam} events not written in {REFRESH_PERIOD_S:.0f} s: too many about the same objects")

    def _enqueue_untold(self) -> None:
        for series in tuple(self._untold):
            self._enqueue(series)

    # -- writing -------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            series = self._queue.popleft()
            self._in_flight += 1
            try:
                await self._write_patiently(series)
            finally:
                # Only now, so that no other worker takes it up while its request is under way.
                series.is_queued = False
                self._in_flight -= 1
            self._follow_up(series)

    def _follow_up(self, series: EventSeries) -> None:
        """Handle what happened while a request was under way: a second occurrence at once, others at the refresh."""
        if not series.is_created or series.is_told:
            return
        if series.told_count < 2:
            self._enqueue(series)
        else:
            self._untold[series] = None

    async def _write_patiently(self, series: EventSeries) -> None:
        backoff = Backoff(self._rng)
        for attempt in range(1, MAX_TRIES + 1):
            try:
                await self._write(series)
            except TransportError as error:
                refused = isinstance(error, ApiError) and not error.is_retryable
                if refused or attempt == MAX_TRIES:
                    self._give_up(series, error)
                    return
                delay_s = backoff.delay_after_s(error)
            else:
                self.written += 1
                return
            await self._sleep(delay_s)

    async def _write(self, series: EventSeries) -> None:
        # Read before the request: what happens while it is under way is not in it.
        count = series.count
        if series.is_created:
            try:
                await self._transport.patch(_EVENT, series.namespace, series.name, series.patch_body(), MERGE_PATCH)
            except ApiError as error:
                if not error.is_not_found:
                    raise
                series.is_created = False  # events expire at the server, after an hour by default
        if not series.is_created:
            await self._create(series)
        series.told_count = count

    async def _create(self, series: EventSeries) -> None:
        body = series.create_body(self._reporting_instance)
        try:
            await self._transport.create(_EVENT, series.namespace, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            # An earlier try of ours got through although its answer was lost.
        series.is_created = True

    def _give_up(self, series: EventSeries, error: TransportError) -> None:
        self.failed += 1
        if not series.is_created and self._series.get(series.key) is series:
            del self._series[series.key]
        kind = (error.status, error.reason) if isinstance(error, ApiError) else (0, "")
        if kind not in self._reported:  # once for each kind of failure: lost events do not deserve more of the log
            self._reported.add(kind)
            hint = "; the RBAC role needs create and patch on events.events.k8s.io" if kind[0] == 403 else ""
            self._report(f"event {series.key.reason} of {series.namespace}/{series.name} not written: {error}{hint}")
