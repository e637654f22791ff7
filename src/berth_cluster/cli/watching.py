"""`berth up --watch`: what was saved is put in force, and what that changes for the pods that are pending is shown.

Files are known by their content, which is looked at twice a second; a change counts when it is seen twice, since an
editor may be at it. The old plugins are asked about each pending pod before they go, the new ones when they are there:
where the pod would go, or why it would not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from berth.core.core import Core
from berth.core.questions import choose, search_beside
from berth.framework.blame import described
from berth.runtime.reload import APPLIED, fingerprint
from berth.runtime.turns import CycleBusy

if TYPE_CHECKING:
    from berth.runtime.reload import ConfigFile, NewSetup
    from berth.runtime.scheduler import LiveScheduler

LOOK_EVERY_S = 0.5
ASKED_WITHIN_S = 5.0
MOST_PODS = 200
"""About so many pending pods plugins are asked."""
MOST_LINES, MOST_NAMES = 10, 3
"""So many changes are shown, each with the names of so many pods."""


class Prospect(NamedTuple):
    """What would come of a pending pod now."""

    pod: str
    """`namespace/name`."""
    node: str
    reason: str
    """Why it would have no node; empty where it would."""


class Watch:
    """Has saved files put in force; `tell` prints a line."""

    __slots__ = ("_file", "_live", "_seen", "_settled", "_sleep", "_tell")

    def __init__(
        self,
        file: "ConfigFile[NewSetup]",
        live: "LiveScheduler",
        tell: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._file = file
        self._live = live
        self._tell = tell
        self._sleep = sleep
        self._settled = self._seen = {path: fingerprint(path) for path in file.sources()}

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self._sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Put in force what was saved, if the last look has seen the same."""
        found = await asyncio.to_thread(self._read)
        before, self._seen = self._seen, found
        # A file that is new here was loaded as it is, by code that was.
        changed = [path for path, content in found.items() if self._settled.setdefault(path, content) != content]
        if changed and all(before.get(path) == found[path] for path in changed):
            self._settled.update(found)
            await self._put_in_force(changed)

    def _read(self) -> dict[Path, str]:
        return {path: fingerprint(path) for path in self._file.sources() if path.exists()}

    async def _put_in_force(self, changed: Iterable[Path]) -> None:
        applied = self._file.reloads.value((APPLIED,))
        try:
            before = await self._live.ask(prospects, ASKED_WITHIN_S)
            await self._file.look(at_once=True)
            if self._file.reloads.value((APPLIED,)) == applied:
                return  # what is in the way was told
            after = await self._live.ask(lambda core: prospects(core, before), ASKED_WITHIN_S)
        except CycleBusy as busy:
            self._tell(f"what changes for pending pods is not known: {busy}")
            return
        for line in differences(before, after):
            self._tell(line)


def prospects(core: Core, uids: Iterable[str] | None = None) -> dict[str, Prospect]:
    """Return what would come of pods by uid, or has; by itself of those that are pending. Nothing is changed."""
    pending = [each.pod.uid for each in (*core.queue, *core.waiting)][:MOST_PODS]
    told = ((uid, _prospect(core, uid)) for uid in (pending if uids is None else uids))
    return {uid: each for uid, each in told if each is not None}


def _prospect(core: Core, uid: str) -> Prospect | None:
    """Return what would come of a pod, or has; None where it is gone."""
    if (held := core.waiting.get(uid)) is not None:
        return Prospect(held.pod.key, "", f"waits at Permit for {', '.join(held.pending_plugins)}")
    if (state := core.cache.state_of(uid)) is not None:
        return Prospect(state.pod.key, core.cache.table.names[state.row], "")
    if (queued := core.queue.find(uid)) is None:
        return None
    if queued.is_gated:
        reasons = ", ".join(queued.gating_reasons)
        return Prospect(queued.pod.key, "", f"held back by {queued.gating_plugin}: {reasons}")
    outcome = choose(core, queued.pod, search=search_beside(core), on_bug=described).outcome
    node = "" if outcome.chosen_row is None else core.cache.table.names[outcome.chosen_row]
    reason = (outcome.message.partition("nodes are available: ")[2] or outcome.message).rstrip(".")
    return Prospect(queued.pod.key, node, reason)


def differences(before: Mapping[str, Prospect], after: Mapping[str, Prospect]) -> list[str]:
    """Return lines for what has changed, pods of the same change in one; one line that says so where nothing has."""
    changed = [(before[uid], now) for uid, now in after.items() if before[uid] != now]
    asked = f"{len(after)} pending pod{'' if len(after) == 1 else 's'}"
    if not changed:
        return [f"nothing changes for {asked}"] if after else ["no pod is pending"]
    pods: dict[tuple[str, str], list[Prospect]] = {}
    for was, now in changed:
        pods.setdefault((was.reason or was.node, now.reason), []).append(now)
    lines = [f"  {_named(each.pod for each in alike)}: {was} → {now or _named({each.node for each in alike})}"
             for (was, now), alike in pods.items()]  # fmt: skip
    more = [f"  … and {len(lines) - MOST_LINES} more changes"] if len(lines) > MOST_LINES else []
    return [f"{len(changed)} of {asked} would fare otherwise:", *lines[:MOST_LINES], *more]


def _named(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
    return ", ".join(listed[:MOST_NAMES]) + more
