"""Leader election on a Lease, with client-go's rules: of several schedulers with one name, one is active.

The runtime awaits `acquire`, starts scheduling, and runs `hold` alongside; when `hold` returns, leadership is lost and
the process must end without another write.

Why two never lead at once, though their clocks differ: a candidate takes the lease only when its record has not changed
for the whole lease duration by the candidate's own clock, whatever times are written in it, and the elector's `fence`
lets a leader's writes pass for the renew deadline only, which is shorter, counted from before the renewal was sent. So
the leader no longer writes once anybody may take over, even if it was stopped meanwhile without knowing. Two who try at
the same moment are kept apart by the server: both send the resourceVersion that they read, and one of the two writes is
refused. (Clocks may show different times, but are assumed to run at about the same speed.)

A candidate looks twice as often as a leader renews, and at the very moment when the lease runs out, so that it leads
within a retry period from then.

    candidate ── acquire ──> leader ── hold: renewed every retry period ──┐
        ^                      │                                         │
        └── lease held by      ├── cancelled: release, if so wished <────┘
            somebody else      └── not renewed for the renew deadline, or taken: lost
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from berth.api.errors import ApiError, TransportError
from berth.api.meta import ObjectReference
from berth.api.resources import RESOURCES
from berth.kube.fence import Fence, lease_clock
from berth.kube.lease import (
    LeaderRecord,
    LeaseError,
    ObservedLease,
    held_record,
    new_lease_body,
    read_lease,
    released_record,
)
from berth.kube.transport import Transport

# client-go: renewDeadline must leave room for a retry period with this much jitter.
JITTER_FACTOR = 1.2
# Candidates look this often in a retry period, and spread over a part of it, so that they do not all ask at once.
LOOKS_A_PERIOD = 2
SPREAD = 0.1

_LEASE = RESOURCES["Lease"]
_T = TypeVar("_T")


class LeaderElectionTimes(msgspec.Struct, frozen=True):
    """`leaderElection` of the configuration, in seconds; the defaults are kube-scheduler's."""

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def problem(self) -> str:
        """Return why these times do not work together; empty where they do."""
        if self.lease_duration_s < 1 or self.renew_deadline_s <= 0 or self.retry_period_s <= 0:
            return "leaseDuration must be at least 1s, renewDeadline and retryPeriod greater than zero"
        if self.lease_duration_s <= self.renew_deadline_s:
            return "leaseDuration must be greater than renewDeadline"
        if self.renew_deadline_s <= JITTER_FACTOR * self.retry_period_s:
            return "renewDeadline must be greater than retryPeriod*JitterFactor"
        return ""


def _log(message: str) -> None:
    logging.getLogger("berth.kube.leader").info(message)


class LeaderElector:
    """One candidate for one lease; its `identity` must be unique, such as the host name and a random part."""

    __slots__ = (
        "_clock", "_identity", "_name", "_namespace", "_observed", "_observed_at_s", "_on_new_leader", "_on_seen",
        "_report", "_reported_leader", "_rng", "_sleep", "_times", "_transport", "_wall_clock", "fence", "is_leader",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaderElectionTimes | None = None,
        on_new_leader: Callable[[str], None] = lambda _identity: None,
        on_seen: Callable[[], None] = lambda: None,
        report: Callable[[str], None] = _log,
        clock: Callable[[], float] = lease_clock,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        """`transport` must not be one inside this elector's fence; `on_seen` is called for each look."""
        self._times = times or LeaderElectionTimes()
        if problem := self._times.problem():
            raise ValueError(f"leaderElection: {problem}")
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._on_new_leader = on_new_leader
        self._on_seen = on_seen
        self._report = report
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._observed: ObservedLease | None = None
        self._observed_at_s = 0.0
        self._reported_leader = ""
        self.is_leader = False
        self.fence = Fence(f"{namespace}/{name}", clock)
        """What writes must pass that are only for who holds the lease."""

    @property
    def held_until(self) -> float:
        """Until when the lease is held, on the clock that was given, unless it is renewed before."""
        return self.fence.held_until_s

    @property
    def leader(self) -> str:
        """The identity of the leader as last seen; empty when none is known."""
        return self._observed.record.holder if self._observed is not None else ""

    @property
    def lease(self) -> ObjectReference:
        """The lease, as events refer to it."""
        document = self._observed.document if self._observed is not None else {}
        uid = str((document.get("metadata") or {}).get("uid", ""))
        return ObjectReference("coordination.k8s.io/v1", "Lease", self._namespace, self._name, uid)

    @property
    def wisher(self) -> str:
        """Who has asked the holder to give the lease up, as far as was seen; empty if nobody has."""
        return self._observed.wisher if self._observed is not None else ""

    @property
    def is_free(self) -> bool:
        """Whether nobody else holds the lease, as far as was seen."""
        known = self._observed
        return known is None or not self._is_held_by_other() or self._has_expired(known.record)

    async def acquire(self, may_take: Callable[[], bool] = lambda: True) -> None:
        """Return when we lead. Trouble with the server is reported and waited out, however long it lasts.

        A lease that may be taken is left alone while `may_take` says no; it is asked at each look.
        """
        while not await self._try(self._patience_s, may_take):
            await self._sleep(self._until_next_look_s())
        self.is_leader = True
        self._report(f"{self._identity} became leader on the lease {self._namespace}/{self._name}")

    async def hold(self) -> str:
        """Renew until leadership is lost, and return why; the caller must then stop at once.

        The fence is shut before: it counts from the last renewal.
        """
        cutting = asyncio.ensure_future(self.fence.cut_off_when_due(self._sleep))
        try:
            return await self._renew_until_lost()
        finally:
            cutting.cancel()

    async def _renew_until_lost(self) -> str:
        while True:
            await self._sleep(self._times.retry_period_s)
            # From before the first try of a round, so a renewal whose answer was lost counts as failed: it is better to
            # stop although the lease was renewed than to go on although it was not.
            deadline_s = self._clock() + self._times.renew_deadline_s
            while not await self._try(min(deadline_s - self._clock(), self._patience_s)):
                if self._is_held_by_other():
                    return self._lost(f"it was taken over by {self.leader}")
                await self._sleep(min(self._times.retry_period_s, deadline_s - self._clock()))
                if self._clock() >= deadline_s:
                    return self._lost(f"it could not be renewed for {self._times.renew_deadline_s:g} s")

    async def release(self) -> None:
        """Give the lease up, so that another can lead at once; to be called when nothing will be written any more."""
        if not self.is_leader:
            return
        # First: once others may take the lease, nothing of ours may be on its way.
        self._stop_leading("it is being released")
        try:
            await self._within(self._give_up(), self._times.renew_deadline_s)
        except (TransportError, LeaseError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            self._report(f"the lease {self._namespace}/{self._name} could not be released: {why}; it will expire")

    def abandon(self, why: str) -> None:
        """Stop leading without releasing the lease: others must wait until it expires."""
        if self.is_leader:
            self._stop_leading(why)
            self._report(f"the lease {self._namespace}/{self._name} is not released, but left to expire: {why}")

    def _stop_leading(self, why: str) -> None:
        self.is_leader = False
        self.fence.shut(why)

    async def _give_up(self) -> None:
        """Read the lease before writing it: a renewal that was cut off under way may have changed it."""
        observed = read_lease(await self._transport.get(_LEASE, self._namespace, self._name))
        if observed.record.holder == self._identity:
            await self._update(observed.body_with(released_record(self._wall_clock(), observed.record)))

    def _lost(self, why: str) -> str:
        self._stop_leading(why)
        return f"leadership of the lease {self._namespace}/{self._name} is lost: {why}"

    def _is_held_by_other(self) -> bool:
        return self.leader not in ("", self._identity)

    @property
    def _patience_s(self) -> float:
        """How long one try may take; a connection that is dead must leave time for another."""
        return self._times.renew_deadline_s / 2

    def _until_next_look_s(self) -> float:
        """How long a candidate waits; not beyond the moment when the lease may be taken over."""
        spread_s = self._times.retry_period_s * SPREAD * self._rng.random()
        wait_s = self._times.retry_period_s / LOOKS_A_PERIOD
        if self._observed is not None and self._is_held_by_other():
            left_s = self._expires_at_s(self._observed.record) - self._clock()
            if left_s > 0:
                wait_s = min(wait_s, left_s)
        return wait_s + spread_s

    # -- one try -------------------------------------------------------------------------------------------

    async def wish(self) -> None:
        """Ask the holder to give the lease up, which it may or may not do. Failures do not matter: the wish can be
        repeated.
        """
        with contextlib.suppress(TransportError, LeaseError, TimeoutError):
            await self._within(self._write_wish(), self._patience_s)

    async def _write_wish(self) -> None:
        self._note(read_lease(await self._transport.get(_LEASE, self._namespace, self._name)))
        if self._observed is not None and self._is_held_by_other() and not self.wisher:
            await self._update(self._observed.body_wishing(self._identity))

    async def _try(self, timeout_s: float, may_take: Callable[[], bool] = lambda: True) -> bool:
        """Take or renew the lease; return whether that worked, and report why if it did not."""
        try:
            return await self._within(self._acquire_or_renew(may_take), timeout_s)
        except (TransportError, LeaseError) as error:
            self._report(f"the lease {self._namespace}/{self._name} was not written: {error}{_remedy(error)}")
        except TimeoutError:
            self._report(f"the lease {self._namespace}/{self._name} was not written: no answer in {timeout_s:.1f} s")
        finally:
            self._tell_new_leader()
        return False

    async def _acquire_or_renew(self, may_take: Callable[[], bool]) -> bool:
        if self.is_leader and self._observed is not None and await self._renew_as_known(self._observed):
            return True
        try:
            observed = read_lease(await self._transport.get(_LEASE, self._namespace, self._name))
        except ApiError as error:
            if not error.is_not_found:
                raise
            return may_take() and await self._create()
        self._note(observed)
        if self._is_held_by_other() and not self._has_expired(observed.record):
            return False
        # Only about a lease to be taken: a holder renews without being asked.
        if not self.is_leader and not may_take():
            return False
        await self._take(observed)
        return True

    async def _renew_as_known(self, observed: ObservedLease) -> bool:
        """Renew without reading first; return False if the lease is not as we left it."""
        # Once our lease has expired, another may have taken it unseen, so it is read first. Until then it is safe to
        # write without reading: the body carries the resourceVersion we saw, and the server refuses it if that is old.
        if observed.record.holder != self._identity or self._has_expired(observed.record):
            return False
        try:
            await self._take(observed)
        except ApiError as error:
            if error.is_conflict or error.is_not_found:
                return False
            raise
        return True

    async def _create(self) -> bool:
        body = new_lease_body(self._namespace, self._name, self._held(None))
        began_s = self._clock()
        self._note(read_lease(await self._transport.create(_LEASE, self._namespace, body)))
        self._taken(began_s)
        return True

    async def _take(self, observed: ObservedLease) -> None:
        """Write ourselves as the holder; raises if somebody else was faster."""
        # Before the request is sent: others count from when they see the new record, which is later.
        began_s = self._clock()
        await self._update(observed.body_with(self._held(observed.record)))
        self._taken(began_s)

    def _taken(self, began_s: float) -> None:
        """The lease is ours since a request that was sent at `began_s`, on our clock."""
        # By what the server answered, not by what it was asked for.
        if self._observed is not None and self._observed.record.holder == self._identity:
            self.fence.extend(began_s + self._times.renew_deadline_s)

    async def _update(self, body: bytes) -> None:
        self._note(read_lease(await self._transport.update(_LEASE, self._namespace, self._name, body)))

    def _held(self, before: LeaderRecord | None) -> LeaderRecord:
        return held_record(self._identity, self._times.lease_duration_s, self._wall_clock(), before)

    def _note(self, observed: ObservedLease) -> None:
        """Remember the lease, and since when, by our own clock, its record has been unchanged."""
        # Any change shows that the holder lives. The times in the record are another clock's, and are not compared with
        # ours.
        if self._observed is None or self._observed.record != observed.record:
            self._observed_at_s = self._clock()
        self._observed = observed
        self._on_seen()

    def _has_expired(self, record: LeaderRecord) -> bool:
        return self._clock() >= self._expires_at_s(record)

    def _expires_at_s(self, record: LeaderRecord) -> float:
        return self._observed_at_s + (record.lease_duration_seconds or 0)

    def _tell_new_leader(self) -> None:
        if self.leader and self.leader != self._reported_leader:
            self._reported_leader = self.leader
            self._on_new_leader(self.leader)

    async def _within(self, request: Awaitable[_T], limit_s: float) -> _T:
        """Return the result of `request`; raises TimeoutError after `limit_s` by the clock that was given."""
        task = asyncio.ensure_future(request)
        alarm = asyncio.ensure_future(self._sleep(limit_s))
        try:
            await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise TimeoutError
        finally:
            # It may take effect all the same. Then the next write carries an old resourceVersion, is refused, and the
            # lease is read anew.
            task.cancel()
            alarm.cancel()


def _remedy(error: Exception) -> str:
    if isinstance(error, ApiError) and error.is_forbidden:
        return "; the RBAC role needs get, create and update on leases.coordination.k8s.io"
    if isinstance(error, ApiError) and error.status == 404:
        return "; does the namespace exist?"
    return ""
