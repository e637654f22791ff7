"""The leases of a cluster's shards: each has one holder at a time, and the schedulers share them out.

`ShardLeases` has an elector for each shard. It takes leases that nobody holds, renews those it has, and reports each
that comes or goes to `on_change`. A scheduler with few leaves a wish on a lease of one with many
(`berth.kube.lease.WISH`); the holder then gives it up gracefully: it calls off what has not been sent, waits for what
has, and releases the lease.

    free, or expired ── taken, sooner by who has few ──> held ── wished for by who has two fewer ──> given up
           ^                                              │                                            │
           └──────────────── lost, or its holder died ────┴────────────────────────────────────────────┘

No scheduler needs to know how many there are: while one has two leases more than another, the other wishes for one of
them. A lease that is lost costs its shard, and not the process: its fence is shut.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from berth.kube.leader import LeaderElectionTimes, LeaderElector

DRAIN_S = 5.0
"""How long a shard that is given up waits for what was sent."""
RELUCTANCE = 0.125
"""How many retry periods later a free lease is taken for each lease that is held already, up to `MOST_RELUCTANT`."""
MOST_RELUCTANT = 0.5
STAND_BACK = 2.0
"""For so many retry periods, who gave a lease up leaves it to the candidate that wished for it."""


def _log(message: str) -> None:
    logging.getLogger("berth.kube.shards").info(message)


class ShardLeases:
    """One scheduler's part in sharing out the leases. `make_elector(shard, on_seen)` makes the elector of a shard."""

    __slots__ = (
        "_clock", "_free_since", "_held", "_identity", "_on_change", "_pressed", "_report", "_sleep", "_times",
        "electors",
    )  # fmt: skip

    def __init__(
        self,
        count: int,
        make_elector: Callable[[int, Callable[[], None]], LeaderElector],
        *,
        identity: str,
        times: LeaderElectionTimes,
        on_change: Callable[[frozenset[int]], None],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        report: Callable[[str], None] = _log,
    ) -> None:
        self._identity = identity
        self._times = times
        self._on_change = on_change
        self._clock = clock
        self._sleep = sleep
        self._report = report
        self._held: set[int] = set()
        self._free_since: dict[int, float] = {}
        """Since when a lease that we do not have is free."""
        self._pressed = {shard: asyncio.Event() for shard in range(count)}
        """Set when a shard that we have is to be given up."""

        def seen(shard: int) -> Callable[[], None]:
            return lambda: self._seen(shard)

        self.electors = tuple(make_elector(shard, seen(shard)) for shard in range(count))

    @property
    def held(self) -> frozenset[int]:
        """The shards that are ours."""
        return frozenset(self._held)

    async def run(self) -> None:
        """Take part until cancelled."""
        async with asyncio.TaskGroup() as group:
            for shard in range(len(self.electors)):
                group.create_task(self._share(shard), name=f"shard:{shard}")
            group.create_task(self._wish_for_more(), name="shards:wishes")

    async def release(self, drain_s: float = DRAIN_S) -> None:
        """Give up every shard, at the end of the process, when `run` has been cancelled."""
        await asyncio.gather(*(self._give_up(shard, "the scheduler ends", drain_s) for shard in self.held))

    # -- one shard -----------------------------------------------------------------------------------------

    async def _share(self, shard: int) -> None:
        elector = self.electors[shard]
        while True:
            await elector.acquire(lambda: self._may_take(shard))
            self._pressed[shard].clear()
            self._change(shard, is_ours=True)
            why = await self._hold(shard, elector)
            if why:
                self._change(shard, is_ours=False)
                self._report(why)
            else:
                await self._give_up(shard, "another scheduler has fewer", DRAIN_S)
                await self._sleep(STAND_BACK * self._times.retry_period_s)

    async def _hold(self, shard: int, elector: LeaderElector) -> str:
        """Hold a lease until it is lost, and return why, or until it is to be given up, and return nothing."""
        holding = asyncio.ensure_future(elector.hold())
        pressed = asyncio.ensure_future(self._pressed[shard].wait())
        try:
            await asyncio.wait({holding, pressed}, return_when=asyncio.FIRST_COMPLETED)
            return holding.result() if holding.done() else ""
        finally:
            holding.cancel()
            pressed.cancel()
            # Waited for, so that a renewal that is cancelled does not meet what is done about the lease next.
            await asyncio.gather(holding, pressed, return_exceptions=True)

    async def _give_up(self, shard: int, why: str, drain_s: float) -> None:
        """Start nothing more for a shard, wait for what was sent, and release the lease if that has ended."""
        elector = self.electors[shard]
        # After that the fence cuts off what is under way in any case.
        drain_s = min(drain_s, elector.fence.left_s())
        # First, so that nothing more of the shard is begun while what was sent is waited for.
        self._change(shard, is_ours=False)
        closing = asyncio.ensure_future(elector.fence.close(why))
        alarm = asyncio.ensure_future(self._sleep(drain_s))
        try:
            await asyncio.wait({closing, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if closing.done():
                await elector.release()
            else:
                elector.abandon(f"requests under way did not end: {elector.fence.under_way}")
        finally:
            closing.cancel()
            alarm.cancel()

    def _change(self, shard: int, *, is_ours: bool) -> None:
        before = self.held
        (self._held.add if is_ours else self._held.discard)(shard)
        self._free_since.pop(shard, None)
        if self.held != before:
            self._on_change(self.held)

    # -- sharing out ---------------------------------------------------------------------------------------

    def _may_take(self, shard: int) -> bool:
        """Say whether to take a free lease now: schedulers with fewer get the first chance."""
        free_since = self._free_since.setdefault(shard, self._clock())
        periods = min(RELUCTANCE * len(self._held), MOST_RELUCTANT)
        return self._clock() - free_since >= periods * self._times.retry_period_s

    def _seen(self, shard: int) -> None:
        """A lease was read or written: heed a wish for one of ours, and note when another's is free no more."""
        elector = self.electors[shard]
        if not elector.is_free:
            self._free_since.pop(shard, None)
        wisher = elector.wisher
        if shard in self._held and wisher not in ("", self._identity) and self._is_richer_than(wisher):
            self._pressed[shard].set()

    def _is_richer_than(self, other: str) -> bool:
        """Whether giving one up would still leave us at least as many as the other then has."""
        staying = sum(not self._pressed[shard].is_set() for shard in self._held)
        # So after the exchange we have at least as many as the other, and no lease goes to and fro between two.
        return staying >= self._counts()[other] + 2

    def _counts(self) -> Counter[str]:
        """How many leases each scheduler holds, as far as was seen."""
        return Counter(elector.leader for elector in self.electors if elector.leader and not elector.is_free)

    async def _wish_for_more(self) -> None:
        """From time to time, ask who has at least two more for one of theirs."""
        while True:
            await self._sleep(self._times.retry_period_s)
            richest = self._richest(self._counts().items())
            if richest:
                theirs = [elector for elector in self.electors if elector.leader == richest and not elector.is_free]
                if not any(elector.wisher == self._identity for elector in theirs):
                    await theirs[len(theirs) // 2].wish()

    def _richest(self, counts: Iterable[tuple[str, int]]) -> str:
        """Return the scheduler with the most, if that is at least two more than we have."""
        others = [(count, name) for name, count in counts if name != self._identity]
        count, name = max(others, default=(0, ""))
        return name if count >= len(self._held) + 2 else ""
