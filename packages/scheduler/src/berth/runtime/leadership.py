"""Leader election as the live scheduler sees it: one lease, a lease for each shard, or none at all."""

import logging
import random
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial

from berth.config.types import SchedulerConfiguration
from berth.kube.events import EventRecorder
from berth.kube.fence import Fence, fenced, lease_clock
from berth.kube.leader import LeaderElectionTimes, LeaderElector
from berth.kube.transport import Transport
from berth.runtime.shard_leadership import ShardedElection

_log = logging.getLogger("berth.scheduler")


class Leadership:
    """Whether we lead, and what may be written while we do."""

    __slots__ = ("_elector", "acting_for", "fence_of", "identity", "writing")

    def __init__(
        self,
        config: SchedulerConfiguration,
        transport: Transport,
        identity: str,
        *,
        shards: int,
        on_shards: Callable[[frozenset[int]], None],
        clock: Callable[[], float],
        wall_clock: Callable[[], datetime],
        rng: random.Random,
    ) -> None:
        """`on_shards` is told which of several `shards` are ours, each time that changes."""
        self.identity = identity
        self._elector: LeaderElector | ShardedElection | None = None
        self.writing: Transport = transport
        """What everything is written over: it passes the fence of the lease, if there is one."""
        self.acting_for: Callable[[str], Transport] | None = None
        """What is written over on behalf of a namespace; None where that makes no difference."""
        self.fence_of: Callable[[str], Fence] | None = None
        """The fence of a namespace; None where no leaders are elected."""
        if not config.leader_election.leader_elect:
            return
        own_clock = lease_clock if clock is time.monotonic else clock
        make = partial(_elector, config, transport, identity, own_clock, wall_clock, rng)
        if shards == 1:
            self._elector = single = make()
            self.fence_of = partial(_fence_of, single)
        else:
            self._elector = sharded = _sharded(shards, make, config, identity, own_clock, on_shards)
            self.fence_of = sharded.fence_of
        self.writing = fence = fenced(transport, self.fence_of)
        self.acting_for = fence.acting_for

    @property
    def is_elected(self) -> bool:
        """Whether the lease must be held to schedule."""
        return self._elector is not None

    @property
    def is_lost(self) -> bool:
        """Whether the lease that must be held is not ours."""
        return self._elector is not None and not self._elector.is_leader

    @property
    def leader(self) -> str:
        """Who leads, as far as is known; empty without leader election."""
        return self._elector.leader if self._elector is not None else ""

    @property
    def fenced_writes(self) -> dict[str, int]:
        """Writes that were not sent, or cut off, because the lease was not held; empty without leader election."""
        fence = self._elector.fence if self._elector is not None else None
        return {} if fence is None else {"refused": fence.refused, "cut_off": fence.cut}

    @property
    def under_way(self) -> int:
        """How many writes have begun and not ended, as far as the fence knows."""
        return self._elector.fence.under_way if self._elector is not None else 0

    async def acquire(self, recorder: EventRecorder) -> None:
        """Return once we lead, which an Event announces; at once without leader election."""
        if self._elector is None:
            return
        if self._elector.leader not in ("", self.identity):
            _log.info("standing by: the leader is %s", self._elector.leader)
        await self._elector.acquire()
        recorder.record(
            self._elector.lease,
            type="Normal",
            reason="LeaderElection",
            action="LeaderElection",
            note=f"{self.identity} became leader",
        )

    async def hold(self) -> str:
        """Hold the lease; return why it was lost."""
        assert self._elector is not None, "there is nothing to hold"
        return await self._elector.hold()

    def abandon(self, why: str) -> None:
        """Stop leading without releasing the lease."""
        if self._elector is not None:
            self._elector.abandon(why)

    async def release(self, under_way: int) -> None:
        """Release the lease, unless a request was broken off: that may still take effect when another scheduler already
        leads.
        """
        if self._elector is None:
            return
        if under_way:
            self._elector.abandon(f"requests under way could not be ended: {under_way}")
        else:
            await self._elector.release()


def _fence_of(elector: LeaderElector, _namespace: str) -> Fence:
    """One lease covers all namespaces."""
    return elector.fence


def _sharded(
    shards: int,
    make: Callable[[str, Callable[[], None]], LeaderElector],
    config: SchedulerConfiguration,
    identity: str,
    clock: Callable[[], float],
    on_change: Callable[[frozenset[int]], None],
) -> ShardedElection:
    election = config.leader_election
    return ShardedElection(
        shards,
        make,
        lease_name=election.resource_name,
        identity=identity,
        times=_times(config),
        on_change=on_change,
        clock=clock,
    )


def _times(config: SchedulerConfiguration) -> LeaderElectionTimes:
    election = config.leader_election
    return LeaderElectionTimes(election.lease_duration_s, election.renew_deadline_s, election.retry_period_s)


def _elector(
    config: SchedulerConfiguration,
    transport: Transport,
    identity: str,
    clock: Callable[[], float],
    wall_clock: Callable[[], datetime],
    rng: random.Random,
    name: str = "",
    on_seen: Callable[[], None] = lambda: None,
) -> LeaderElector:
    """The elector of the lease that is configured, or of another of that kind."""
    election = config.leader_election
    return LeaderElector(
        transport,
        namespace=election.resource_namespace,
        name=name or election.resource_name,
        identity=identity,
        times=_times(config),
        on_new_leader=lambda leader: _log.info("the leader%s is %s", f" of {name}" if name else "", leader),
        on_seen=on_seen,
        clock=clock,
        wall_clock=wall_clock,
        rng=rng,
    )
