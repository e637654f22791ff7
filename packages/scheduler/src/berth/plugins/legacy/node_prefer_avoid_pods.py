"""NodePreferAvoidPods of v1.20: nodes may ask in an annotation not to be given the pods of a controller.

Only ReplicationControllers and ReplicaSets can be named. An annotation that cannot be read asks for nothing. Its weight
of 10,000 outweighs all other plugins together.
"""

from collections.abc import Iterable
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.api.node import Node
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.interface import MAX_NODE_SCORE, ColumnScorePlugin, Rows, ScorePlugin, Scores, SignaturePlugin
from berth.framework.promises import Dependency, Promises
from berth.plugins.pod_topology_spread.defaults import controller_of
from berth.state.follower import RowFollower, RowsByKey
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

ANNOTATION = "scheduler.alpha.kubernetes.io/preferAvoidPods"

CONTROLLERS = ("ReplicationController", "ReplicaSet")

Controller = tuple[str, str]
"""Kind and uid."""


class _Controller(msgspec.Struct, frozen=True):
    kind: str = ""
    uid: str = ""


class _Signature(msgspec.Struct, frozen=True, rename="camel"):
    pod_controller: _Controller | None = None


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    pod_signature: _Signature = _Signature()


class _Avoided(msgspec.Struct, frozen=True, rename="camel"):
    prefer_avoid_pods: list[_Entry] | None = None


def avoided_by(node: Node) -> frozenset[Controller]:
    """Return the controllers whose pods a node would rather not run."""
    text = node.metadata.annotations.get(ANNOTATION)
    if not text:
        return frozenset()
    try:
        found = msgspec.json.decode(text, type=_Avoided)
    except msgspec.MsgspecError:
        return frozenset()
    named = (entry.pod_signature.pod_controller for entry in found.prefer_avoid_pods or ())
    return frozenset((each.kind, each.uid) for each in named if each is not None)


def controller(pod: PodInfo) -> Controller | None:
    """Return the controller that nodes may name for a pod, or None."""
    owner = controller_of(pod)
    return None if owner is None or owner.kind not in CONTROLLERS else (owner.kind, owner.uid)


@final
class NodePreferAvoidPods(ScorePlugin, ColumnScorePlugin, SignaturePlugin):
    """Score."""

    name: ClassVar[str] = "NodePreferAvoidPods"
    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset({Dependency.NODE}),
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._table = handle.cache.table
        self._follower = RowFollower(self._table, nodes=True)
        self._avoiding: RowsByKey[Controller] = RowsByKey()

    def signature(self, pod: PodInfo) -> Controller | tuple[()]:
        """Return the controller, which is all that is read of the pod."""
        return controller(pod) or ()

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Give 0 to a node that avoids the pod, 100 to all others."""
        return 0 if controller(pod) in avoided_by(node.node) else MAX_NODE_SCORE

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Return int64 of shape (len(rows),): 0 where the node avoids the pod, else 100."""
        column = np.full(table.capacity, MAX_NODE_SCORE, dtype=np.int64)
        wanted = controller(pod)
        if wanted is not None:
            column[list(self._rows_avoiding(wanted))] = 0
        return column[rows]

    def _rows_avoiding(self, wanted: Controller) -> Iterable[int]:
        for row in self._follower.rows_to_look_at():
            node = self._table.nodes[row]
            self._avoiding.put(row, frozenset() if node is None else avoided_by(node))
        return self._avoiding.of(wanted)
