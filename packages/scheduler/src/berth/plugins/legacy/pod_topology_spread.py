"""PodTopologySpread of v1.20: simpler constraints, other rounding, and scores also for pods without constraints.

Constraints had no minDomains, matchLabelKeys or inclusion policies: nodes outside the pod's node affinity make no
domain, but their pods count in a domain that other nodes make. An empty selector selects all pods.
"""

from collections.abc import Iterable
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.framework.handle import Handle
from berth.framework.promises import Promises
from berth.plugins.legacy.pods_of_owners import MatchingSelectors
from berth.plugins.pod_topology_spread.args import LIST, SYSTEM, DefaultConstraint, PodTopologySpreadArgs
from berth.plugins.pod_topology_spread.constraints import Counted, SpreadConstraint
from berth.plugins.pod_topology_spread.hard_constraints import Spread
from berth.plugins.pod_topology_spread.plugin import PodTopologySpread
from berth.state.pod_info import PodInfo

DEFAULTS_GATE = "DefaultPodTopologySpread"


class LegacyPodTopologySpreadArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Constraints for pods without any; the type absent means System, or List with the gate off or a list given."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: str = ""

    def todays(self, *, has_system_defaults: bool) -> PodTopologySpreadArgs:
        """Return the args with the type filled in."""
        default = SYSTEM if has_system_defaults and not self.default_constraints else LIST
        return PodTopologySpreadArgs(self.default_constraints, self.defaulting_type or default)

    def validate(self, path: str) -> Iterable[str]:
        """Name everything that is wrong."""
        return self.todays(has_system_defaults=True).validate(path)


@final
class LegacyPodTopologySpread(PodTopologySpread):
    """PreFilter (with AddPod, RemovePod), Filter, PreScore, Score, NormalizeScore."""

    name: ClassVar[str] = "PodTopologySpread"
    args_type: ClassVar[type[msgspec.Struct]] = LegacyPodTopologySpreadArgs
    rounding: ClassVar[float] = 0.0
    promises: ClassVar[Promises] = msgspec.structs.replace(
        PodTopologySpread.promises,
        score_when_skipped=100,
    )

    def __init__(self, args: LegacyPodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args.todays(has_system_defaults=handle.features.enabled(DEFAULTS_GATE)), handle)
        self._selectors = MatchingSelectors(handle.objects)

    def _compiled(self, pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
        return tuple(
            constraint._replace(min_domains=1, honor_affinity=True, honor_taints=False, empty_selects_all=True)
            for constraint in super()._compiled(pod, action)
        )

    def _spread(self, counted: Counted) -> Spread:
        spread = super()._spread(counted)
        everywhere = self._topologies.get(counted.constraint.topology_key)
        if spread.topology is everywhere:
            return spread
        over_all = self._index.group(counted.group).by_domain(everywhere).values
        pods = np.zeros_like(spread.pods)
        known = min(len(over_all), len(pods)) - 1
        pods[:known] = np.where(spread.topology.exists[:known], over_all[:known], 0)
        return spread._replace(pods=pods)
