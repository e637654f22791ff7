"""Which namespaces' pods are this scheduler's to place, if several schedulers divide a cluster.

Namespaces are divided into a fixed number of shards by a hash of their names, which must never change: schedulers of
different releases have to agree. The holder of a shard's lease schedules the pods of its namespaces. Pods on nodes
count for every scheduler, whichever placed them. A pod group is within one namespace, and so within one shard.
"""

import hashlib


def shard_of(namespace: str, count: int) -> int:
    """Return the shard of a namespace, from 0 to `count - 1`: the first eight bytes of its name's SHA-256, modulo."""
    if count == 1:
        return 0
    return int.from_bytes(hashlib.sha256(namespace.encode()).digest()[:8], "big") % count


class Ownership:
    """The shards that are held now. With a single shard, everything is ours from the start."""

    __slots__ = ("_count", "_held", "_owns_all")

    def __init__(self, count: int = 1) -> None:
        """`count` is how many shards the cluster is divided into."""
        self._count = count
        self._owns_all = count == 1
        self._held: frozenset[int] = frozenset(range(count)) if self._owns_all else frozenset()

    @property
    def held(self) -> frozenset[int]:
        """The shards that are ours."""
        return self._held

    def owns(self, namespace: str) -> bool:
        """Say whether the pods of a namespace are ours to place."""
        return self._owns_all or shard_of(namespace, self._count) in self._held

    def hold(self, shards: frozenset[int]) -> frozenset[int]:
        """Hold exactly these from now on; return those that came or went."""
        changed = self._held ^ shards
        self._held = shards
        self._owns_all = len(shards) == self._count
        return changed

    def is_of(self, namespace: str, shards: frozenset[int]) -> bool:
        """Say whether a namespace belongs to one of these shards."""
        return shard_of(namespace, self._count) in shards
