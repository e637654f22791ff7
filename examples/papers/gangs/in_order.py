"""A plugin that lets jobs begin in the order in which they came, and backfilling, by which a later one may go ahead.

Pods of a job have the labels `job`, `pods` (how many they are) and `runs` (for how many seconds), and ask for one CPU
each. EASY backfilling (Lifka, "The ANL/IBM SP Scheduling System", 1995) reserves room for the first job that waits: at
the time at which enough of what runs has ended. A later job may begin if it has ended by then, or takes what is left
beside that job.
"""

import msgspec

from berth.plugin import CycleState, Handle, PodInfo, Status, unschedulable


class Args(msgspec.Struct, frozen=True):
    """Whether to backfill."""

    backfill: bool = False


class Job:
    """A job that is not over."""

    def __init__(self, pod: PodInfo) -> None:
        self.pods, self.runs = int(pod.labels["pods"]), float(pod.labels["runs"])
        self.ends: dict[str, float] = {}
        """When each pod that runs ends, by uid."""
        self.gone = 0

    @property
    def has_begun(self) -> bool:
        """Whether all its pods run, or have ended."""
        return len(self.ends) + self.gone >= self.pods


class InOrder:
    """PreFilter."""

    name = "InOrder"
    args_type = Args

    def __init__(self, args: Args, handle: Handle) -> None:
        self._args, self._handle = args, handle
        self._jobs: dict[str, Job] = {}
        """By name, in the order in which they came."""

    def pod_added(self, pod: PodInfo) -> None:
        job = self._jobs.setdefault(pod.labels["job"], Job(pod))
        if pod.node_name and pod.uid not in job.ends:
            job.ends[pod.uid] = self._handle.now() + job.runs

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        job = self._jobs[pod.labels["job"]]
        job.ends.pop(pod.uid, None)
        job.gone += 1
        if job.gone == job.pods:
            del self._jobs[pod.labels["job"]]

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        name = pod.labels["job"]
        first = next(each for each, job in self._jobs.items() if not job.has_begun)
        if name == first or (self._args.backfill and self._goes_ahead(self._jobs[name], self._jobs[first])):
            return None
        return unschedulable(f"job {first} came before")

    def _goes_ahead(self, job: Job, first: Job) -> bool:
        free = sum(node.allocatable["cpu"] for node in self._handle.nodes()) // 1000
        ends = sorted(end for each in self._jobs.values() if each is not job for end in each.ends.values())
        free -= len(ends)
        if job.pods > free:
            return False
        begins, then = self._handle.now(), free
        for end in ends:
            if then >= first.pods:
                break
            begins, then = end, then + 1
        then += sum(end == begins for end in ends[then - free :])
        return self._handle.now() + job.runs <= begins or job.pods <= then - first.pods
