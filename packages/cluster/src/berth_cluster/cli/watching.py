"""`berth up --watch`: what was saved is put in force, and what that changes for the pods that are pending is shown.

Files are known by their content, which is looked at twice a second; a change counts when it is seen twice, since an
editor may be at it. The old plugins are asked about each pending pod before they go, the new ones when they are there:
where the pod would go, or why it would not.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from berth.core.core import Core
from berth.core.questions import choose, search_beside
from berth.framework.blame import described
from berth.runtime.reload import APPLIED, POSTPONED, ConfigFile, NewSetup, fingerprint
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.turns import CycleBusy

LOOK_EVERY_S, ASKED_WITHIN_S = 0.5, 5.0
MOST_PODS, MOST_LINES, MOST_NAMES = 200, 10, 3
"""About so many pending pods plugins are asked; so many changes are shown, each with the names of so many pods."""


class Prospect(NamedTuple):
    """What would come of a pending pod now, which is called `namespace/name`: a node, or why there is none."""

    pod: str
    node: str
    reason: str


class FileWatch:
    """Has saved files put in force; `tell` prints a line."""

    def __init__(self, file: ConfigFile[NewSetup], live: LiveScheduler, tell: Callable[[str], None]) -> None:
        self._file, self._live, self._tell = file, live, tell
        self._settled = self._seen = self._read()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Put in force what was saved, if the last look has seen the same."""
        found = await asyncio.to_thread(self._read)
        before, self._seen = self._seen, found
        # A file that is new here was loaded as it is, by code that was.
        changed = [path for path, content in found.items() if self._settled.setdefault(path, content) != content]
        if changed and all(before.get(path) == found[path] for path in changed) and await self._put_in_force():
            self._settled.update(found)

    def _read(self) -> dict[Path, str]:
        return {path: fingerprint(path) for path in self._file.sources() if path.exists()}

    async def _put_in_force(self) -> bool:
        """Say whether that is done with, well or badly; what was wrong has been told."""
        applied, postponed = (self._file.reloads.value((result,)) for result in (APPLIED, POSTPONED))
        before = await self._ask(None)
        await self._file.look(at_once=True)
        if self._file.reloads.value((APPLIED,)) > applied and before is not None:
            after = await self._ask(before)
            for line in () if after is None else differences(before, after):
                self._tell(line)
        return self._file.reloads.value((POSTPONED,)) == postponed

    async def _ask(self, uids: Iterable[str] | None) -> "dict[str, Prospect] | None":
        """Return prospects; None where the scheduler is too busy to be asked, as with a plugin that never ends."""
        with contextlib.suppress(CycleBusy):
            return await self._live.ask(lambda core: prospects(core, uids), ASKED_WITHIN_S)
        return None


def prospects(core: Core, uids: Iterable[str] | None = None) -> dict[str, Prospect]:
    """Return what would come of pods by uid, or has; by itself of those that are pending. Nothing is changed."""
    pending = [each.pod.uid for each in (*core.queue, *core.waiting)][:MOST_PODS]
    told = ((uid, _prospect(core, uid)) for uid in (pending if uids is None else uids))
    return {uid: each for uid, each in told if each is not None}


def _prospect(core: Core, uid: str) -> Prospect | None:
    """Return what would come of a pod, or has: what Permit holds has its node. None where it is gone."""
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
    return [f"{len(changed)} of {asked} would fare otherwise, each by itself:", *lines[:MOST_LINES], *more]


def _named(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
    return ", ".join(listed[:MOST_NAMES]) + more
