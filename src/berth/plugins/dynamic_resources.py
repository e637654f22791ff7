"""DynamicResources: devices for pods, by way of resource claims.

Upstream plugin `DynamicResources`, v1.36. Deviation: pods with resource claims, and pods that request an extended
resource behind which a device class stands, are turned away, see `unsupported`. For all others the plugin does what
upstream's does: it gives every node a score of 0, and says in PostFilter that it has no claims whose release could
help.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from berth.config.durations import Duration
from berth.config.errors import invalid
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.events import Action, ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import Dependencies, PostFilterResult, Rows, Scores
from berth.framework.status import SKIP, Status, error, unschedulable
from berth.plugins.device_resources import DeviceResources
from berth.plugins.unsupported import events, refuse_device_resource, refuse_resource_claims
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

NO_CLAIMS = "no new claims to deallocate"
NOT_FOUND = "not found"

MIN_BINDING_TIMEOUT_S = 1.0


class DynamicResourcesArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How long a node may be looked at (0: as long as it takes), and how long devices may take to be bound."""

    filter_timeout: Duration = Duration(10)
    binding_timeout: Duration = Duration(600)

    def validate(self, path: str) -> Iterable[str]:
        """Refuse timeouts that make no sense."""
        if self.filter_timeout < 0:
            yield invalid(f"{path}.filterTimeout", str(self.filter_timeout), "must be zero or positive")
        if self.binding_timeout < MIN_BINDING_TIMEOUT_S:
            yield invalid(f"{path}.bindingTimeout", str(self.binding_timeout), "must be at least 1 second")


class DynamicResources:
    """PreFilter, Filter, PostFilter, Score, Reserve, PreBind."""

    name: ClassVar[str] = "DynamicResources"
    args_type: ClassVar[type[msgspec.Struct]] = DynamicResourcesArgs
    score_dependencies: ClassVar[Dependencies] = frozenset()

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        self._devices = DeviceResources(handle)

    def signature(self, pod: PodInfo) -> Hashable:
        """Nothing of the pod counts: the score is 0 for all that come so far."""
        return ()

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Skip pods without claims, refuse the others; either way leave word for PostFilter."""
        state.write(self.name, True)
        return self._refusal(pod) or SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Say the same where PreFilter was left out of the profile."""
        return self._refusal(pod)

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        """There is nothing to deallocate; where another plugin's PreFilter came first that is an error, as upstream."""
        return None, error(NOT_FOUND) if state.get(self.name) is None else unschedulable(NO_CLAIMS)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return 0: no device, no preference."""
        return 0

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Return zeros, int64 of shape (len(rows),)."""
        return np.zeros(len(table.valid[rows]), dtype=np.int64)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Take nothing."""
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give nothing back."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Skip: there is nothing to bind."""
        return SKIP

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind nothing."""
        return None

    def _refusal(self, pod: PodInfo) -> Status | None:
        backed = next((name for name, amount in pod.requests.items() if amount and self._devices.offers(name)), None)
        return refuse_resource_claims(pod) or (None if backed is None else refuse_device_resource(backed))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Those of upstream."""
        return events(
            ("Node", Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE),
            ("ResourceClaim", Action.ADD | Action.UPDATE),
            ("Pod", Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
            ("DeviceClass", Action.ADD | Action.UPDATE),
            ("ResourceSlice", Action.ADD | Action.UPDATE),
        )
