"""Which volumes a claim may look at: those promised to it, and the free ones of its class.

Kept up to date with each change, so that a claim among thousands of bound volumes costs no search. Used by the
volume controller alone.
"""

from collections.abc import Iterator

from berth_cluster.controllers.index import Change, ObjectIndex
from berth_cluster.controllers.meta import JsonObject, key_of
from berth_cluster.controllers.volume_claims import VOLUME, claim_ref_key, class_name_of


class VolumeOffers:
    """Volumes by the claim they are promised to, and free ones by class."""

    __slots__ = ("_free", "_index", "_promised")

    def __init__(self, index: ObjectIndex) -> None:
        self._index = index
        self._promised: dict[str, dict[str, None]] = {}
        self._free: dict[str, dict[str, None]] = {}

    def apply(self, change: Change) -> None:
        """Take a change of a volume in."""
        if change.old is not None:
            group, place = self._place(change.old)
            group.get(place, {}).pop(change.obj["metadata"]["name"], None)
        if change.type != "DELETED":
            group, place = self._place(change.obj)
            group.setdefault(place, {})[change.obj["metadata"]["name"]] = None

    def _place(self, volume: JsonObject) -> tuple[dict[str, dict[str, None]], str]:
        claim_key = claim_ref_key(volume)
        return (self._promised, claim_key) if claim_key else (self._free, class_name_of(volume))

    def promised_to(self, claim_key: str) -> list[str]:
        """The names of the volumes whose claimRef names a claim."""
        return list(self._promised.get(claim_key, ()))

    def for_claim(self, claim: JsonObject) -> Iterator[JsonObject]:
        """The volumes promised to a claim, then the free ones of its class."""
        names = [*self.promised_to(key_of(claim)), *self._free.get(class_name_of(claim), ())]
        found = (self._index.get(VOLUME, name) for name in names)
        return (volume for volume in found if volume is not None)
