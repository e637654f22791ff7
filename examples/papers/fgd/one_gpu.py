"""A plugin that lets a share of a GPU lie on one GPU, and whole ones be whole: what extended resources cannot say.

It remembers which GPUs it gave to whom, as a device plugin does, and gives a share where the least is left. It hears of
no pod that ends, since none ends in this experiment.
"""

from berth.plugin import CycleState, Handle, NodeView, PodInfo, Status, unschedulable

MILLI = "alibabacloud.com/gpu-milli"


class OneGpu:
    """Filter and Reserve."""

    name = "OneGpu"

    def __init__(self, args: object, handle: Handle) -> None:
        self._free: dict[str, list[int]] = {}
        """By node, how much of each GPU is left, in thousandths."""
        self._given: dict[str, tuple[str, list[tuple[int, int]]]] = {}

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        asked = pod.requests.get(MILLI, 0)
        if not asked:
            return None
        free = self._free.setdefault(node.name, [1000] * (node.allocatable.get(MILLI, 0) // 1000))
        fits = max(free, default=0) >= asked if asked < 1000 else free.count(1000) >= asked // 1000
        return None if fits else unschedulable("no GPU has so much left")

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        asked = pod.requests.get(MILLI, 0)
        if asked:
            free, each = self._free[node_name], min(asked, 1000)
            best = sorted((left, number) for number, left in enumerate(free) if left >= each)
            chosen = [number for _, number in (best[:1] if asked < 1000 else best[: asked // 1000])]
            for number in chosen:
                free[number] -= each
            self._given[pod.uid] = (node_name, [(number, each) for number in chosen])
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        _, given = self._given.pop(pod.uid, ("", []))
        for number, each in given:
            self._free[node_name][number] += each
