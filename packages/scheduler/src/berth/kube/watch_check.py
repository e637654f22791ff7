"""Finds changes that a watch has lost: every few minutes, what the informers know is compared with the API server.

A watch that drops an event goes on as if nothing were wrong, so nothing else would ever notice. The comparison is
cheap: one kind at a time, in pages, metadata only, of which the uid and the resourceVersion are looked at. Informer and
server are never at the same version, so one look proves nothing. A difference is real if a second look, later than any
watch lags behind, finds both sides exactly as they were: neither was ahead of the other. The informer then lists again,
which repairs it.

A comparison without such a difference also shows that the informer was up to date when it began.
"""

import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from berth.api.errors import TransportError
from berth.kube.mirror import Key
from berth.kube.reflector import Reflector
from berth.kube.trouble import InformerTrouble, Report
from berth.kube.wire import MalformedError

PERIOD_S = 300.0
"""How often each kind is compared, about."""
LAG_S = 15.0
"""Watches lag behind by less than this, as a rule; where they do not, an informer lists once in vain."""
PAGE_PAUSE_S = 0.1
"""The pause between two pages, so that a comparison is never what the server is busy with."""

Sleep = Callable[[float], Awaitable[None]]


class Version(NamedTuple):
    """An object and the state it is in; both empty where there is no object."""

    uid: str = ""
    resource_version: str = ""


class Difference(NamedTuple):
    """What an informer knows of an object, and what the server has."""

    known: Version
    there: Version


@dataclass(slots=True, eq=False, repr=False)
class WatchCheck:
    """Compares the informers with the API server, one after the other, until cancelled."""

    _reflectors: Callable[[], Iterable[Reflector]]
    """Those of the moment."""
    _report: Report
    _random: random.Random
    _sleep: Sleep

    async def run(self) -> None:
        """Compare until cancelled; raises only bugs."""
        while True:
            due = [reflector for reflector in self._reflectors() if reflector.is_synced]
            for reflector in due:
                # Spread over the period, and not in step with other schedulers.
                await self._sleep(PERIOD_S / len(due) * (0.8 + 0.4 * self._random.random()))
                await self.compare(reflector)
            if not due:
                await self._sleep(PERIOD_S)

    async def compare(self, reflector: Reflector) -> None:
        """Compare one informer, and have it list again where it has lost something."""
        began_s, lists = reflector.now_s(), reflector.lists
        try:
            lost = await self._lost(reflector)
        except (TransportError, MalformedError) as error:
            is_shared = isinstance(error, TransportError) and error.is_of_all_requests
            message = f"not compared with the API server: {error}"
            self._report(InformerTrouble(reflector.resource.plural, message, is_shared))
            return
        if reflector.lists != lists:
            return  # it has listed meanwhile, which says more than any comparison
        reflector.comparisons += 1
        if not lost:
            reflector.confirm(began_s)
            return
        namespace, name = min(lost)
        example = f"{namespace}/{name}" if namespace else name
        reflector.repair(f"the watch has lost {len(lost)} changes, of {example} for one")

    async def _lost(self, reflector: Reflector) -> set[Key]:
        """Return the objects that still differ when looked at again."""
        first = await self._differences(reflector)
        if not first:
            return set()
        await self._sleep(LAG_S)
        if all(version_of(reflector, key) != difference.known for key, difference in first.items()):
            return set()  # the watch has brought news of all of them
        second = await self._differences(reflector)
        return {key for key, difference in first.items() if second.get(key) == difference}

    async def _differences(self, reflector: Reflector) -> dict[Key, Difference]:
        """Return the objects whose state differs between informer and server, read page by page."""
        found: dict[Key, Difference] = {}
        mirror, token = reflector.mirror, ""
        # An object that is known now and missing from a later list is gone; one that arrives meanwhile proves nothing.
        unseen = {*mirror.objects, *mirror.invalid}
        while True:
            page = await reflector.metadata_page(token)
            for item in page.items or ():
                meta = item.metadata
                key, there = (meta.namespace, meta.name), Version(meta.uid, meta.resource_version)
                unseen.discard(key)
                known = version_of(reflector, key)
                if known != there:
                    found[key] = Difference(known, there)
            token = page.metadata.continue_token or ""
            if not token:
                break
            await self._sleep(PAGE_PAUSE_S)
        for key in unseen:
            if (known := version_of(reflector, key)) != Version():
                found[key] = Difference(known, Version())
        return found


def version_of(reflector: Reflector, key: Key) -> Version:
    """Return the state of an object as an informer knows it."""
    mirror = reflector.mirror
    if (invalid := mirror.invalid.get(key)) is not None:
        return Version(invalid.uid, invalid.resource_version)
    found = mirror.objects.get(key)
    return Version() if found is None else Version(found.metadata.uid, found.metadata.resource_version)
