"""What a plugin may ask of the profile that it belongs to: would a pod fit if other pods came to a node, or left it?

Plugins reach it through `Handle.profile`. `berth.engine` implements it; these Protocols are all that plugins know of
it.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from berth.framework.cycle_state import CycleState
from berth.framework.extenders import Extender
from berth.framework.interface import RowArray, RowLoad
from berth.framework.status import Status
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable


class NominatedClaims(Protocol):
    """What the nominated pods that a pod must make way for would take of each row of the table."""

    @property
    def pods(self) -> NDArray[np.int64]:
        """How many there are on each row, int64 (rows of the table,); not to be written to."""

    def requested(self, resource: str) -> NDArray[np.int64]:
        """Return what they request of a resource, int64 (rows of the table,); not to be written to."""


class FiltersOverRows(Protocol):
    """The filters that do not skip one pod, over some rows that hold nodes, under any load."""

    def passing(self, load: RowLoad) -> NDArray[np.bool_]:
        """Return, bool (rows,), where the pod fits under a load; the caller may write to it."""

    def refusals(self, load: RowLoad, wanted: NDArray[np.bool_]) -> Iterator[tuple[Status, RowArray]]:
        """Yield each status of the first failing filter, with the positions, among those `wanted` (bool (rows,)), that
        it rejects.
        """


class ColumnWhatIf(Protocol):
    """The filters that do not skip one pod, ready to be asked about many rows as if other pods ran there."""

    @property
    def is_possible(self) -> bool:
        """Whether all of them can be asked like this; if not, the plain forms are asked node by node."""

    @property
    def answers_key(self) -> Hashable | None:
        """Equal for two pods only if all filters say the same about both; None if that is not known."""

    @property
    def looks_at_single_pods(self) -> bool:
        """Whether any of them looks at more than the load of a row."""

    def is_affected_by(self, other: PodInfo) -> bool:
        """Say whether adding or removing `other` may change more than the load of its row."""

    def load(self, rows: RowArray, rivals: NominatedClaims | None = None) -> RowLoad:
        """Return what the pods on some rows take, nominated ones included if given; the arrays are the caller's own."""

    def on(self, rows: RowArray) -> FiltersOverRows:
        """Return the filters over some rows that hold nodes."""


class ProfileView(Protocol):
    """The part of its profile that a plugin may use."""

    @property
    def name(self) -> str:
        """Its `schedulerName`, which its pods name in their spec."""

    @property
    def extenders(self) -> Sequence[Extender]:
        """The extenders, in the order in which they are called."""

    @property
    def table(self) -> NodeTable:
        """The nodes."""

    def what_if(self, state: CycleState, pod: PodInfo) -> ColumnWhatIf:
        """Return the filters that did not skip the pod, to be asked by column."""

    def basis(self, state: CycleState, pod: PodInfo) -> Hashable:
        """Return what the filters that did not skip the pod depend on, besides each row and the pod's shape.

        While it is equal, they say the same about a row with the same node, pods and nominated pods. None if one of
        them does not say what it depends on.
        """

    def rivals(self, pod: PodInfo) -> NominatedClaims | None:
        """Return what nominated pods of at least the pod's priority claim; None if no pod is nominated."""

    def rivals_on(self, node_name: str, pod: PodInfo) -> Sequence[PodInfo]:
        """Return the pods nominated to a node whose claim to it is at least as good as the pod's own."""

    def run_add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Tell the prepared states that a pod was added to a node; return the first failure."""

    def run_remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Tell the prepared states that a pod was removed from a node; return the first failure."""

    def run_filter_beside_nominated(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Ask about one node, with the nominated pods that count there, if any, and without them; return a
        rejection.
        """
