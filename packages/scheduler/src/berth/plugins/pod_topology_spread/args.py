"""PodTopologySpreadArgs: constraints for pods that have none of their own.

Source: pkg/scheduler/apis/config, v1.36.
"""

from collections.abc import Iterable, Sequence

import msgspec

from berth.api.meta import LabelSelector
from berth.api.pod import TopologySpreadConstraint
from berth.config.errors import duplicate, invalid, required, unsupported

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
SYSTEM = "System"
LIST = "List"

HOSTNAME_KEY = "kubernetes.io/hostname"
ZONE_KEY = "topology.kubernetes.io/zone"

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME_KEY, when_unsatisfiable=SCHEDULE_ANYWAY),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE_KEY, when_unsatisfiable=SCHEDULE_ANYWAY),
)
"""What `defaultingType: System` stands for."""


class DefaultConstraint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """An entry of `defaultConstraints`; the selector follows from the pod, so none may be given."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()

    def for_pods(self) -> TopologySpreadConstraint:
        """Return the constraint as pods have it."""
        return TopologySpreadConstraint(
            max_skew=self.max_skew,
            topology_key=self.topology_key,
            when_unsatisfiable=self.when_unsatisfiable,
            min_domains=self.min_domains,
            node_affinity_policy=self.node_affinity_policy or "Honor",
            node_taints_policy=self.node_taints_policy or "Ignore",
        )

    def faults(self, path: str) -> Iterable[str]:
        """Name what is wrong with this entry alone."""
        if self.max_skew <= 0:
            yield invalid(f"{path}.maxSkew", self.max_skew, "not in valid range (0, inf)")
        if not self.topology_key:
            yield required(f"{path}.topologyKey", "can not be empty")
        if not self.when_unsatisfiable:
            yield required(f"{path}.whenUnsatisfiable", "can not be empty")
        elif self.when_unsatisfiable not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
            yield unsupported(f"{path}.whenUnsatisfiable", self.when_unsatisfiable, (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
        if self.label_selector is not None:
            detail = "constraint must not define a selector, as they deduced for each pod"
            yield f"{path}.labelSelector: Forbidden: {detail}"


class PodTopologySpreadArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """`System` applies built-in constraints to pods without any, `List` applies `default_constraints` to them."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: str = SYSTEM

    def constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        """Return the constraints of pods that have none of their own."""
        if self.defaulting_type == SYSTEM:
            return SYSTEM_CONSTRAINTS
        return tuple(constraint.for_pods() for constraint in self.default_constraints)

    def validate(self, path: str) -> Iterable[str]:
        """Name everything that is wrong."""
        if self.defaulting_type not in (SYSTEM, LIST):
            yield unsupported(f"{path}.defaultingType", self.defaulting_type, (SYSTEM, LIST))
        elif self.defaulting_type == SYSTEM and self.default_constraints:
            yield invalid(f"{path}.defaultingType", SYSTEM, "when .defaultConstraints are specified")
        for index, constraint in enumerate(self.default_constraints):
            where = f"{path}.defaultConstraints[{index}]"
            yield from constraint.faults(where)
            if _repeats(self.default_constraints, index):
                yield duplicate(where, f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}")


def _repeats(constraints: Sequence[DefaultConstraint], index: int) -> bool:
    one = constraints[index]
    return any(
        other.topology_key == one.topology_key and other.when_unsatisfiable == one.when_unsatisfiable
        for other in constraints[:index]
    )
