"""PoolsInOrder: pools of nodes in a strict order, such as spot before on-demand: the first where a pod fits gets it.

A preference among scores can be outweighed by other scores, so the rule is kept where scores have no say: of the nodes
that pass all filters, only those of the first pool that has any are left. Nodes of no pool come last. Preemption begins
where the pod fits into no pool at all.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    CycleState,
    FeasibleNodes,
    Handle,
    LabelSelector,
    Narrowed,
    NarrowingPlugin,
    NodeTable,
    NodeView,
    PodInfo,
    Promises,
    ScoreExplainingPlugin,
    SelectorError,
    compile_selector,
    invalid,
    required,
    unschedulable,
)

LATER = 'node(s) were in later pools, as the pod fits on {count} node(s) of pool "{pool}"'


REMEMBERED = 1000
"""Of so many pods is remembered how many nodes of each pool they fitted on."""


class Pool(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Some of the nodes."""

    name: str = ""
    selector: LabelSelector = LabelSelector()


class PoolsInOrderArgs(msgspec.Struct, frozen=True, rename="camel"):
    """The pools, the first one first; a node is in the first whose selector selects it."""

    pools: tuple[Pool, ...] = ()
    pod_selector: LabelSelector = LabelSelector()
    """The pods for which the order counts; all, unless told otherwise."""

    def validate(self, path: str) -> Iterable[str]:
        """Refuse no pools, pools without a name, and selectors that cannot be read."""
        if not self.pools:
            yield required(f"{path}.pools", "at least one pool is needed")
        named = [(f"{path}.pools[{index}].selector", pool.selector) for index, pool in enumerate(self.pools)]
        for index, pool in enumerate(self.pools):
            if not pool.name:
                yield required(f"{path}.pools[{index}].name", "messages name the pool")
        for place, selector in [*named, (f"{path}.podSelector", self.pod_selector)]:
            try:
                compile_selector(selector)
            except SelectorError as wrong:
                yield invalid(place, "", str(wrong))


@final
class PoolsInOrder(NarrowingPlugin, ScoreExplainingPlugin):
    """PreScore: a step for each pool, over all nodes at once."""

    name: ClassVar[str] = "PoolsInOrder"
    args_type: ClassVar[type[msgspec.Struct]] = PoolsInOrderArgs
    promises: ClassVar[Promises] = Promises()

    def __init__(self, args: PoolsInOrderArgs, handle: Handle) -> None:
        self._names = [pool.name for pool in args.pools]
        self._selectors = [compile_selector(pool.selector) for pool in args.pools]
        self._pods = compile_selector(args.pod_selector)
        self._pools: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._position = -1
        self._fitted: dict[str, NDArray[np.intp]] = {}
        """On how many nodes of each pool, and of none, a pod fitted when it was tried last, by uid; the latest last."""

    def narrow(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Narrowed | None:
        """Keep the nodes of the first pool that has any."""
        if not self._pods.matches(pod.labels):
            return None
        pools = self._pools_of(nodes.table)
        fitted = np.bincount(pools[nodes.mask], minlength=len(self._names) + 1)
        self._remember(pod.uid, fitted)
        first = int(np.flatnonzero(fitted)[0])
        if first == len(self._names):
            return None
        mask = nodes.mask & (pools == first)
        count = int(np.count_nonzero(mask))
        return Narrowed(mask, unschedulable(LATER.format(count=count, pool=self._names[first])))

    def _remember(self, uid: str, fitted: NDArray[np.intp]) -> None:
        self._fitted.pop(uid, None)
        self._fitted[uid] = fitted
        if len(self._fitted) > REMEMBERED:
            del self._fitted[next(iter(self._fitted))]

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]:
        """Return, pool by pool up to the one that was taken, on how many of its nodes the pod fitted."""
        fitted = self._fitted.get(pod.uid)
        if fitted is None:
            return ()
        looked_at = self._names[: int(np.flatnonzero(fitted)[0]) + 1]
        return [f'the pod fitted on {fitted[at]} node(s) of pool "{name}"' for at, name in enumerate(looked_at)]

    def _pools_of(self, table: NodeTable) -> NDArray[np.int32]:
        """Return the number of each row's pool; only nodes that have changed are looked at again."""
        position = table.node_log.position
        if position != self._position or len(self._pools) != table.capacity:
            changed = table.node_log.since(self._position) if len(self._pools) == table.capacity else None
            if changed is None:
                self._pools = np.zeros(table.capacity, dtype=np.int32)
                changed = list(range(table.capacity))
            for row in changed:
                self._pools[row] = self._pool_of(table, row)
            self._position = position
        return self._pools

    def _pool_of(self, table: NodeTable, row: int) -> int:
        node = table.nodes[row]
        labels = {} if node is None else node.metadata.labels
        selecting = (number for number, selector in enumerate(self._selectors) if selector.matches(labels))
        return next(selecting, len(self._names))
