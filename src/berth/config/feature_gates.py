"""The feature gates that mean something to this scheduler, and how the command line sets them.

`--feature-gates A=true,B=false` goes through `parse_feature_gates`; the result rides in
`SchedulerConfiguration` and decides the default profile, plugin behaviour and queue policies. A gate not
listed here is an error, since a switch that does nothing is worse than none. Each generation has its own gates; which
generation applies is known only when the configuration has been read (`FeatureGates.of`).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from berth.config.errors import ConfigError, nearest


class Stage(StrEnum):
    """How far a feature has come; alpha and beta can be switched as a group."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


class FeatureSpec(NamedTuple):
    """What is known of one gate: its default in v1.36, its stage, and whether it is fixed to that."""

    default: bool
    stage: Stage
    locked: bool = False


_ALPHA: Final = FeatureSpec(default=False, stage=Stage.ALPHA)
_BETA: Final = FeatureSpec(default=True, stage=Stage.BETA)
_BETA_OFF: Final = FeatureSpec(default=False, stage=Stage.BETA)
_GA: Final = FeatureSpec(default=True, stage=Stage.GA)
_LOCKED: Final = FeatureSpec(default=True, stage=Stage.GA, locked=True)

KNOWN_GATES: Final[Mapping[str, FeatureSpec]] = MappingProxyType(
    {
        "DRAAdminAccess": _LOCKED,
        "DRAConsumableCapacity": _BETA,
        "DRADeviceBindingConditions": _BETA,
        "DRADeviceTaintRules": _BETA_OFF,
        "DRADeviceTaints": _BETA,
        "DRAExtendedResource": _BETA,
        "DRAPartitionableDevices": _BETA,
        "DRAPrioritizedList": _GA,
        "DRAResourceClaimDeviceStatus": _BETA,
        "DRASchedulerFilterTimeout": _BETA,
        "DynamicResourceAllocation": _LOCKED,
        "GangScheduling": _ALPHA,
        "GenericWorkload": _ALPHA,
        "InPlacePodLevelResourcesVerticalScaling": _BETA,
        "InPlacePodVerticalScaling": _LOCKED,
        "MatchLabelKeysInPodTopologySpread": _BETA,
        "NodeDeclaredFeatures": _BETA,
        "NodeInclusionPolicyInPodTopologySpread": _LOCKED,
        "NominatedNodeNameForExpectation": _BETA,
        "OpportunisticBatching": _BETA,
        "PodLevelResources": _BETA,
        "SchedulerAsyncAPICalls": _BETA_OFF,
        "SchedulerAsyncPreemption": _BETA,
        "SchedulerPopFromBackoffQ": _BETA,
        "SchedulerQueueingHints": _LOCKED,
        "SidecarContainers": _LOCKED,
        "StorageCapacityScoring": _ALPHA,
        "TaintTolerationComparisonOperators": _ALPHA,
        "TopologyAwareWorkloadScheduling": _ALPHA,
        "VolumeAttributesClass": _LOCKED,
        "VolumeLimitScaling": _ALPHA,
        "WorkloadAwarePreemption": _ALPHA,
    }
)

V1_20_GATES: Final[Mapping[str, FeatureSpec]] = MappingProxyType(
    {
        "BalanceAttachedNodeVolumes": _ALPHA,
        "CSIMigration": _BETA,
        "CSIMigrationAWS": _BETA_OFF,
        "CSIMigrationAzureDisk": _BETA_OFF,
        "CSIMigrationGCE": _BETA_OFF,
        "CSIMigrationOpenStack": _BETA_OFF,
        "DefaultPodTopologySpread": _BETA,
    }
)

GATES_BY_GENERATION: Final[Mapping[str, Mapping[str, FeatureSpec]]] = MappingProxyType(
    {"v1.36": KNOWN_GATES, "v1.20": V1_20_GATES}
)

_GROUPS: Final[Mapping[str, Stage]] = MappingProxyType({"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA})


_NEEDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "GangScheduling": ("GenericWorkload",),
        "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
        "WorkloadAwarePreemption": ("GenericWorkload",),
    }
)
"""Gates that mean nothing without others."""


class FeatureGates(msgspec.Struct, frozen=True):
    """The gates as set; what is not set has its default."""

    overrides: Mapping[str, bool] = {}
    generation: str = "v1.36"

    def of(self, generation: str) -> "FeatureGates":
        """Return the same settings for a generation. Raises ConfigError where it does not know one of them."""
        return feature_gates(self.overrides, generation)

    def enabled(self, name: str) -> bool:
        """Say whether a gate is on. One of another generation is off; one of no generation is a bug and a KeyError."""
        gate = GATES_BY_GENERATION[self.generation].get(name)
        if gate is None:
            if not any(name in gates for gates in GATES_BY_GENERATION.values()):
                raise KeyError(name)
            return False
        if name in self.overrides:
            return self.overrides[name]
        for group, stage in _GROUPS.items():
            if stage is gate.stage and group in self.overrides:
                return self.overrides[group]
        return gate.default


def parse_feature_gates(text: str) -> FeatureGates:
    """Read the value of `--feature-gates`: comma-separated `Name=true` or `Name=false`; the last wins."""
    settings: dict[str, bool] = {}
    errors: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        # Upstream also takes `component:Name=value`; the only component here is the one called kube.
        name = name.strip().removeprefix("kube:")
        flag = parse_bool(value.strip())
        if not equals:
            errors.append(f"--feature-gates: missing bool value for {name}: write {name}=true or =false")
        elif flag is None:
            errors.append(f"--feature-gates: invalid value of {item}: {value!r} is neither true nor false")
        else:
            settings[name] = flag
    generation = _generation_that_knows(settings)
    errors.extend(_faults(settings, generation))
    if not errors:
        errors.extend(_unmet(FeatureGates(settings, generation)))
    if errors:
        raise ConfigError(errors)
    return FeatureGates(settings, generation)


def feature_gates(settings: Mapping[str, bool], generation: str = "v1.36") -> FeatureGates:
    """Gates from a mapping, checked like the command line's."""
    gates = FeatureGates(dict(settings), generation)
    if errors := tuple(_faults(settings, generation)) or tuple(_unmet(gates)):
        raise ConfigError(errors)
    return gates


def _generation_that_knows(settings: Mapping[str, bool]) -> str:
    """Return the generation that has all these gates, or today's where several have them or none has."""
    names = settings.keys() - _GROUPS.keys()
    return next((name for name, gates in GATES_BY_GENERATION.items() if names <= gates.keys()), "v1.36")


def _faults(settings: Mapping[str, bool], generation: str) -> Iterable[str]:
    """Say what is wrong with the names, and which gates cannot be switched any more."""
    known = GATES_BY_GENERATION[generation]
    for name, value in settings.items():
        if name in _GROUPS:
            continue
        gate = known.get(name)
        if gate is None:
            hint = nearest(name, (*known, *_GROUPS)) or "; the known ones are in `berth run --help`"
            others = [other for other, gates in GATES_BY_GENERATION.items() if name in gates]
            if others:
                hint = f": {', '.join(others)} has it, and the configuration is of {generation}; leave it out"
            yield f"--feature-gates: unrecognized feature gate: {name}{hint}"
        elif gate.locked and value is not gate.default:
            fixed = str(gate.default).lower()
            yield (
                f"--feature-gates: cannot set feature gate {name} to {str(value).lower()}, "
                f"feature is locked to {fixed}: leave it out"
            )


def _unmet(gates: FeatureGates) -> Iterable[str]:
    """Report the gates that are on without those that they need."""
    for name, needs in _NEEDS.items():
        missing = [need for need in needs if not gates.enabled(need)]
        if missing and gates.enabled(name):
            also = ",".join(f"{need}=true" for need in missing)
            yield (
                f"--feature-gates: {name} is enabled, but depends on features that are disabled: "
                f"[{' '.join(missing)}]: add {also}"
            )


def parse_bool(text: str) -> bool | None:
    """The spellings of a bool that Go's flag parser takes."""
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    return False if text in {"0", "f", "F", "false", "FALSE", "False"} else None
