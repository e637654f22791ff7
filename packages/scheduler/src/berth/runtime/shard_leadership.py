"""Leads a part of a cluster: leader election as the live scheduler needs it, for shards instead of one lease.

`ShardedElection` takes the place of a `LeaderElector`. It leads as soon as it has a shard, and from then on shards may
come and go: it tells `on_change`, and each write passes the fence of the shard that its namespace is in. Leases are
named after the one that a single scheduler would hold: `kube-scheduler-shard-0` and so on.
"""

import asyncio
import contextlib
from collections.abc import Callable

from berth.api.meta import ObjectReference
from berth.kube.fence import Fence
from berth.kube.leader import LeaderElectionTimes, LeaderElector
from berth.kube.shard_leases import ShardLeases
from berth.state.shards import shard_of


def shard_lease(name: str, shard: int) -> str:
    """Return the name of a shard's lease; `name` is that of the lease for the whole cluster."""
    return f"{name}-shard-{shard}"


class Fences:
    """What all fences have counted."""

    __slots__ = ("_fences",)

    def __init__(self, fences: tuple[Fence, ...]) -> None:
        self._fences = fences

    @property
    def under_way(self) -> int:
        """How many writes have begun and not ended."""
        return sum(fence.under_way for fence in self._fences)

    @property
    def refused(self) -> int:
        """Writes that were not sent so far."""
        return sum(fence.refused for fence in self._fences)

    @property
    def cut(self) -> int:
        """Writes that were cut off so far."""
        return sum(fence.cut for fence in self._fences)


class ShardedElection:
    """This process's part in leading the shards of a cluster."""

    __slots__ = ("_change", "_count", "_identity", "_leases", "_on_change", "_sharing", "fence", "is_leader")

    def __init__(
        self,
        count: int,
        make_elector: Callable[[str, Callable[[], None]], LeaderElector],
        *,
        lease_name: str,
        identity: str,
        times: LeaderElectionTimes,
        on_change: Callable[[frozenset[int]], None],
        clock: Callable[[], float],
    ) -> None:
        """`make_elector` makes the elector of a lease; its second argument is called for each look at the lease."""
        self._count = count
        self._identity = identity
        self._on_change = on_change
        self._change = asyncio.Event()
        self._leases = ShardLeases(
            count,
            lambda shard, on_seen: make_elector(shard_lease(lease_name, shard), on_seen),
            identity=identity,
            times=times,
            on_change=self._changed,
            clock=clock,
        )
        self._sharing: asyncio.Task[None] | None = None
        self.fence = Fences(tuple(elector.fence for elector in self._leases.electors))
        self.is_leader = False

    @property
    def held(self) -> frozenset[int]:
        """The shards that are ours."""
        return self._leases.held

    @property
    def leader(self) -> str:
        """Who leads: we do if we have a shard; otherwise the last known holder of the first shard."""
        return self._identity if self.held else self._leases.electors[0].leader

    @property
    def lease(self) -> ObjectReference:
        """One of our leases, as events refer to it."""
        return self._leases.electors[min(self.held, default=0)].lease

    def fence_of(self, namespace: str) -> Fence:
        """Return the fence of a namespace; a holder of any shard may write what belongs to no namespace."""
        shard = shard_of(namespace, self._count) if namespace else min(self.held, default=0)
        return self._leases.electors[shard].fence

    async def acquire(self) -> None:
        """Return when we have a shard."""
        self._sharing = asyncio.create_task(self._leases.run(), name="shards")
        while not self.held:
            self._change.clear()
            waiting = asyncio.create_task(self._change.wait())
            try:
                await asyncio.wait({waiting, self._sharing}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            if self._sharing.done():
                self._sharing.result()
        self.is_leader = True

    async def hold(self) -> str:
        """Keep taking part: losing a shard is no reason to end. Raises only bugs."""
        assert self._sharing is not None, "acquire comes first"
        await asyncio.shield(self._sharing)
        return "sharing the shards has ended"

    async def release(self) -> None:
        """Give up every shard; to be called when nothing will be written any more."""
        await self._stop()
        await self._leases.release()

    def abandon(self, why: str) -> None:
        """Stop leading without giving the leases up."""
        if self._sharing is not None:
            self._sharing.cancel()
        for shard in self.held:
            self._leases.electors[shard].abandon(why)

    async def _stop(self) -> None:
        self.is_leader = False
        if self._sharing is not None:
            self._sharing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sharing

    def _changed(self, held: frozenset[int]) -> None:
        self._change.set()
        self._on_change(held)
