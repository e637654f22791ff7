"""GPUs one by one, which extended resources do not tell of: a plugin that gives them out, and four policies of papers.

`OneGpu` sees to it that a share of a GPU lies on one GPU and that whole ones are whole, and remembers who has which, as
a device plugin does. With `policy` it also scores nodes by what is left on each GPU. Nodes must be there before the
first pod, and it hears of no pod that ends, since none ends in this experiment.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from berth.plugin import (
    CycleState,
    FeasibleNodes,
    FilterColumn,
    Handle,
    Narrowed,
    NodeTable,
    NodeView,
    PodInfo,
    Promises,
    Status,
    unresolvable,
    unschedulable,
)

MILLI = "alibabacloud.com/gpu-milli"
WHOLE = 1000
MOST_CPU, MOST_GPU = 128_000, 8 * WHOLE
"""What the largest node has, in thousandths; amounts of different things are compared as shares of that."""
BLIND = unschedulable("no GPU has so much left")


class Args(msgspec.Struct, frozen=True, rename="camel"):
    """`fgd`, `best-fit`, `dot-product` or `packing`; none where other plugins score."""

    policy: str = ""
    ties: str = "lot"
    """How to choose among equals: by `lot`, as kube-scheduler does, or the first `name`, as FGD's simulator does."""
    gpu: str = "fullest"
    """Which GPU of a node a share gets: the `fullest` that has room, or a `random` one. `fgd` knows by itself."""
    typical: tuple[tuple[int, int, int], ...] = ()
    """For `fgd`, the kinds of pods that are expected: CPU and GPU in thousandths, and how frequent they are."""
    seed: int = 0


class OneGpu:
    """Filter and Reserve; Score, and the choice among equals, with a policy."""

    name = "OneGpu"
    args_type = Args
    promises: ClassVar[Promises] = Promises()

    def __init__(self, args: Args, handle: Handle) -> None:
        self._args, self._table = args, handle.cache.table
        self._lots = np.random.default_rng(args.seed)
        self._left = np.zeros((0, 8), dtype=np.int64)
        """By row of the table, what is left on each of its GPUs."""
        self._gpus = np.zeros(0, dtype=np.int64)
        """How many each row has."""
        self._given: dict[str, tuple[int, list[int], int]] = {}
        self._expected = Expected(args.typical)
        self._kept: dict[tuple[int, int], tuple[Any, int]] = {}
        """FGD's scores by what a pod requests, and up to which placement they hold."""
        self._changed: list[int] = []
        """The rows on which something was placed, in order."""

    def left(self, table: NodeTable) -> Any:
        """Return what is left on each GPU, (rows, 8)."""
        if len(self._left) != table.capacity:
            self._gpus = table.allocatable[table.resource_index[MILLI]] // WHOLE
            self._left = np.where(np.arange(8) < self._gpus[:, None], WHOLE, 0)
        return self._left

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        row = self._table.row_of[node.name]
        return BLIND if self.filter_columns(state, pod, self._table, np.array([row])).codes[0] else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Any) -> FilterColumn:
        asked, left = pod.requests.get(MILLI, 0), self.left(table)[rows]
        found = (left >= min(asked, WHOLE)).sum(axis=1) < max(1, asked // WHOLE) if asked else np.zeros(len(left))
        return FilterColumn(found.astype(np.int32), lambda _code: BLIND)

    # -- who gets which GPU ------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        asked, row = pod.requests.get(MILLI, 0), self._table.row_of[node_name]
        left, each = self.left(self._table)[row], min(asked, WHOLE)
        rooms = np.flatnonzero(left >= each)
        if not asked:
            chosen = []
        elif asked >= WHOLE:
            chosen = rooms[: asked // WHOLE].tolist()
        elif self._args.policy == "fgd":
            chosen = [int(self._fgd(pod, self._table, np.array([row]))[1][0])]
        elif self._args.gpu == "random":
            chosen = [int(self._lots.choice(rooms))]
        else:
            chosen = [int(rooms[np.argmin(left[rooms])])]
        left[chosen] -= each
        self._given[pod.uid] = row, chosen, each
        self._changed.append(row)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        row, chosen, each = self._given.pop(pod.uid, (0, [], 0))
        self._left[row, chosen] += each
        self._changed.append(row)

    # -- policies ----------------------------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return int(self.score_columns(state, pod, self._table, np.array([self._table.row_of[node.name]]))[0])

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Any) -> Any:
        if self._args.policy == "fgd":
            return self._fgd(pod, table, rows)[0]
        by_policy = {"best-fit": self._best_fit, "dot-product": self._dot_product, "packing": self._packing}
        return by_policy[self._args.policy](pod, table, rows)

    def narrow(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Narrowed | None:
        if self._args.ties == "lot":
            return None
        rows = nodes.row_array()
        scores = self.score_columns(state, pod, nodes.table, rows) if self._args.policy else np.zeros(len(rows))
        first = min(rows[scores == scores.max()], key=nodes.table.names.__getitem__)
        mask = np.zeros(nodes.table.capacity, dtype=np.bool_)
        mask[first] = True
        return Narrowed(mask, unresolvable("another node is as good and has a smaller name, or is better"))

    def _free(self, table: NodeTable, rows: Any) -> tuple[Any, Any]:
        """Return the free CPU of rows, and of each of their GPUs what is left."""
        return table.allocatable[0][rows] - table.requested[0][rows], self.left(table)[rows]

    def _best_fit(self, pod: PodInfo, table: NodeTable, rows: Any) -> Any:
        """Prefer the node that has the least left, CPU and GPUs counting alike."""
        cpu, left = self._free(table, rows)
        cpu_rest, gpu_rest = cpu - pod.requests.get("cpu", 0), left.sum(axis=1) - pod.requests.get(MILLI, 0)
        return stretched((100 - 50 * (cpu_rest / MOST_CPU + gpu_rest / MOST_GPU)).astype(np.int64))

    def _dot_product(self, pod: PodInfo, table: NodeTable, rows: Any) -> Any:
        """Prefer the node of which the least is left of what the pod asks most of (as Tetris, the other way round)."""
        cpu, left = self._free(table, rows)
        product = cpu / MOST_CPU * pod.requests.get("cpu", 0) / MOST_CPU
        product += left.sum(axis=1) / MOST_GPU * pod.requests.get(MILLI, 0) / MOST_GPU
        return (100 * (1 - product / 2)).astype(np.int64)

    def _packing(self, pod: PodInfo, table: NodeTable, rows: Any) -> Any:
        """Prefer GPUs that are shared already, the fullest of them, then unused GPUs of a used node, then any."""
        (_, left), asked = self._free(table, rows), pod.requests.get(MILLI, 0)
        if not asked:
            return np.zeros(len(left), dtype=np.int64)
        unused = (left == WHOLE).sum(axis=1)
        shared = np.where((left >= asked) & (left < WHOLE), left, WHOLE).min(axis=1)
        is_unused = unused == self._gpus[rows]
        on_whole = np.where(is_unused, np.maximum(33 - unused, unused), max(50 - max(1, asked // WHOLE), 33))
        return np.where(shared < WHOLE, 100 - shared // 100, on_whole).astype(np.int64)

    def _fgd(self, pod: PodInfo, table: NodeTable, rows: Any) -> tuple[Any, Any]:
        """Return for rows how few fragments the pod adds, 0 to 100 and 50 for none, and on which GPU a share does."""
        cpu, milli = shape = pod.requests.get("cpu", 0), pod.requests.get(MILLI, 0)
        kept, upto = self._kept.get(shape, (None, 0))
        if kept is None or kept.shape[1] != table.capacity:
            kept, changed = np.zeros((2, table.capacity), dtype=np.int64), np.flatnonzero(table.valid)
        else:
            changed = np.array(sorted(set(self._changed[upto:])), dtype=np.intp)
        if len(changed):
            kept[:, changed] = self._expected.scores(*self._free(table, changed), cpu, milli)
        self._kept[shape] = kept, len(self._changed)
        return kept[0][rows], kept[1][rows]


class Expected:
    """What of a node's free GPUs is of no use to the pods that are expected: fragments (section 4 of FGD's paper)."""

    def __init__(self, typical: Sequence[tuple[int, int, int]]) -> None:
        kinds = np.array(typical, dtype=np.int64).reshape(-1, 3)
        self._cpu, self._milli = kinds[:, 0], kinds[:, 1]
        self._share = kinds[:, 2] / max(1, kinds[:, 2].sum())
        self._each, self._count = np.minimum(self._milli, WHOLE), np.maximum(1, self._milli // WHOLE)

    def fragments(self, cpu: Any, left: Any) -> Any:
        """Return the thousandths of GPUs that are fragments, on average over the pods that are expected, (rows,)."""
        large_enough = left[:, None, :] >= self._each[None, :, None]
        fits = (large_enough.sum(axis=2) >= self._count) & (cpu[:, None] >= self._cpu) & (self._milli > 0)
        usable = (large_enough * left[:, None, :]).sum(axis=2) * fits
        return left.sum(axis=1) - usable @ self._share

    def scores(self, cpu: Any, left: Any, asked_cpu: int, asked: int) -> tuple[Any, Any]:
        """Return the scores of rows for a pod, and the GPU that a share should get."""
        before, each = self.fragments(cpu, left), min(asked, WHOLE)
        if not asked or asked >= WHOLE:  # whole GPUs are unused ones, whichever
            taken = np.where((np.cumsum(left >= each, axis=1) <= asked // WHOLE) & (left >= each), each, 0)
            added = self.fragments(cpu - asked_cpu, left - taken) - before
            return levels(added), np.zeros(len(left), dtype=np.int64)
        after = [self._with(cpu - asked_cpu, left, gpu, each) for gpu in range(8)]
        scores = levels(np.stack(after) - before)
        return scores.max(axis=0), scores.argmax(axis=0)

    def _with(self, cpu: Any, left: Any, gpu: int, each: int) -> Any:
        """Return the fragments once a share lies on this GPU of each row, infinite where it has no room there."""
        then = left.copy()
        then[:, gpu] -= each
        return np.where(then[:, gpu] >= 0, self.fragments(cpu, then), np.inf)


def levels(added: Any) -> Any:
    """Return scores for fragments that are added, in thousandths: from 0 to 100 by a sigmoid, 50 for none."""
    with np.errstate(over="ignore"):
        return (100 / (1 + np.exp(added / WHOLE))).astype(np.int64)


def stretched(scores: Any) -> Any:
    """Return scores from 0 to 100."""
    least, most = (scores.min(), scores.max()) if len(scores) else (0, 0)
    return (scores - least) * 100 // (most - least) if most > least else scores
