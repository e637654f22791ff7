"""What a plugin may ask of the profile that it belongs to: would a pod fit if other pods came to a node, or left it?

Plugins reach it through `Handle.profile`. `berth.engine` answers; these Protocols are all that plugins know of it.
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
    """The filters that have something to say of one pod, over some rows that hold nodes, under any load."""

    def passing(self, load: RowLoad) -> NDArray[np.bool_]:
        """Return, bool (rows,), where the pod fits under a load; the caller may write to it."""

    def refusals(self, load: RowLoad, wanted: NDArray[np.bool_]) -> Iterator[tuple[Status, RowArray]]:
        """Yield what the first failing filter says, with the positions within `wanted`, bool (rows,), that it means."""


class ColumnWhatIf(Protocol):
    """The filters that have something to say of one pod, to be asked about many rows as if other pods ran there."""

    @property
    def is_possible(self) -> bool:
        """Whether all of them can be asked like this; if not, the plain forms are asked node by node."""

    @property
    def answers_key(self) -> Hashable | None:
        """Equal for two pods only where all filters say the same of both; None where that is not known."""

    @property
    def looks_at_single_pods(self) -> bool:
        """Whether any of them looks at more than the load of a row."""

    def is_affected_by(self, other: PodInfo) -> bool:
        """Say whether the coming or going of `other` may change more than the load of its row."""

    def load(self, rows: RowArray, rivals: NominatedClaims | None = None) -> RowLoad:
        """Return what the pods there take of some rows, nominated ones too if given, in arrays of the caller's own."""

    def on(self, rows: RowArray) -> FiltersOverRows:
        """Return the filters over some rows that hold nodes."""


class ProfileView(Protocol):
    """The profile of a plugin, as far as plugins may use it."""

    @property
    def name(self) -> str:
        """Its `schedulerName`: the pods of the profile name it in their spec."""

    @property
    def extenders(self) -> Sequence[Extender]:
        """Who is asked beside the plugins, in this order."""

    @property
    def table(self) -> NodeTable:
        """The nodes."""

    def what_if(self, state: CycleState, pod: PodInfo) -> ColumnWhatIf:
        """Return the filters that did not skip the pod, to be asked by column."""

    def basis(self, state: CycleState, pod: PodInfo) -> Hashable:
        """Return what the filters that did not skip the pod depend on, beside each row and the pod's shape.

        As long as it is equal, they say the same of a row with the same node and pods, and the same pods nominated to
        it. None where one of them does not say what it depends on.
        """

    def rivals(self, pod: PodInfo) -> NominatedClaims | None:
        """Return what nominated pods of at least the pod's priority claim; None where nobody is nominated."""

    def rivals_on(self, node_name: str, pod: PodInfo) -> Sequence[PodInfo]:
        """Return the pods nominated to a node whose claim to it is at least as good as the pod's own."""

    def run_add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Tell prepared states that a pod came to a node; return the first failure."""

    def run_remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Tell prepared states that a pod left a node; return the first failure."""

    def run_filter_beside_nominated(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Ask about one node with the nominated pods that count there, if any, and without; return a rejection."""
