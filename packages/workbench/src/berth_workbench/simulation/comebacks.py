"""When preempted pods come back: at once, unless the same pod would evict them again and again.

A controller replaces an evicted pod at once, and nothing keeps the replacement from a place where it is in the
preemptor's way as before, on another node of the same zone for instance: a nomination keeps its own node free only.
Then the preemptor evicts it once more, and so on. `SimulatedCluster` reports here who is evicted by whom, and is told
who comes back now.

Why that ends. A preemptor that has no node yet may evict the same pod `TIMES` times; from then on the pod stays away
until the preemptor has its node, is gone, or waits for an event that does not come by itself. A preemptor evicts only
pods of lower priority, and begins anew only after it was bound and evicted itself, by one of higher priority. So those
of the highest priority evict a bounded number of times, and therefore those of the next begin anew a bounded number of
times, and so on down to the lowest.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from berth.api.pod import Pod

TIMES = 3
"""How often one pod without a node may evict the same other pod before that one stays away.

Once is what preemption takes. A second time is needed where the pod comes back sooner than the preemptor is tried
again, or where a third pod takes the room first; a third time is more than that, and from there on nothing has changed
but who waits.
"""
AGAIN_AND_AGAIN = "would come back and be evicted again and again by {by}"


@dataclass(slots=True, eq=False, repr=False)
class Comebacks:
    """Who comes back when, and which pods would be evicted again and again."""

    _evicted_by: dict[str, Counter[str]] = field(default_factory=dict, init=False)
    """By preemptor that has no node yet, how often it has evicted each pod; all are `namespace/name`."""
    _staying_away: dict[str, tuple[Pod, str]] = field(default_factory=dict, init=False)
    """The pods that do not come back yet, and their preemptors, by `namespace/name` of the pod."""
    _due: dict[str, None] = field(default_factory=dict, init=False)
    """Those of them that may come back."""
    circles: dict[tuple[str, str], None] = field(default_factory=dict, init=False)
    """The pods that would be evicted again and again, each with its preemptor, as `namespace/name`."""

    def copied(self) -> "Comebacks":
        """Return the same, to be remembered."""
        copied = Comebacks()
        copied._evicted_by = {by: Counter(counts) for by, counts in self._evicted_by.items()}
        copied._staying_away, copied._due = dict(self._staying_away), dict(self._due)
        copied.circles = dict(self.circles)
        return copied

    def __len__(self) -> int:
        """How many pods stay away."""
        return len(self._staying_away)

    def __contains__(self, key: str) -> bool:
        """Say whether a pod stays away."""
        return key in self._staying_away

    def is_to_stay_away(self, pod: Pod, by: str) -> bool:
        """Count an eviction, and say whether it was one too many for the pod to come back at once."""
        counts = self._evicted_by.setdefault(by, Counter())
        counts[pod.key] += 1
        if counts[pod.key] < TIMES:
            return False
        self.circles[pod.key, by] = None
        return True

    def stay_away(self, replacement: Pod, by: str) -> None:
        """Keep a replacement until its time has come."""
        self._staying_away[replacement.key] = (replacement, by)

    def forget(self, key: str) -> None:
        """Drop a pod that stays away: it comes back otherwise, or its controller does not want it any more."""
        self._staying_away.pop(key, None)
        self._due.pop(key, None)

    def begins_anew(self, preemptor: str) -> None:
        """Take note that a pod has got its node, or is gone: who stays away because of it may come back."""
        self._evicted_by.pop(preemptor, None)
        if self._staying_away:
            self.let_back(lambda by: by == preemptor)

    def let_back(self, is_meant: Callable[[str], bool]) -> None:
        """Let the pods come back that stay away because of such preemptors."""
        self._due |= {key: None for key, (_, by) in self._staying_away.items() if is_meant(by)}

    @property
    def are_due(self) -> bool:
        """Say whether pods may come back now."""
        return bool(self._due)

    def due(self) -> list[Pod]:
        """Return the pods that may come back; they stay away until they are put into the cluster."""
        return [self._staying_away[key][0] for key in self._due]
