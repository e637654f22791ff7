"""The feature gates that mean something to this scheduler, and what a command line makes of them.

`--feature-gates A=true,B=false` goes through `parse_feature_gates`; the result rides in
`SchedulerConfiguration` and decides the default profile, plugin behaviour and queue policies. A gate not
listed here is an error, since a switch that does nothing is worse than none.
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


class Gate(NamedTuple):
    """What is known of one gate: its default in v1.36, its stage, and whether it is fixed to that."""

    default: bool
    stage: Stage
    locked: bool = False


_ALPHA: Final = Gate(default=False, stage=Stage.ALPHA)
_BETA: Final = Gate(default=True, stage=Stage.BETA)
_BETA_OFF: Final = Gate(default=False, stage=Stage.BETA)
_GA: Final = Gate(default=True, stage=Stage.GA)
_LOCKED: Final = Gate(default=True, stage=Stage.GA, locked=True)

KNOWN_GATES: Final[Mapping[str, Gate]] = MappingProxyType(
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

    def enabled(self, name: str) -> bool:
        """Whether a gate is on; asking for one that is not known is a bug and a KeyError."""
        gate = KNOWN_GATES[name]
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
    errors.extend(_faults(settings))
    if not errors:
        errors.extend(_unmet(FeatureGates(overrides=settings)))
    if errors:
        raise ConfigError(errors)
    return FeatureGates(overrides=settings)


def feature_gates(settings: Mapping[str, bool]) -> FeatureGates:
    """Gates from a mapping, checked like the command line's."""
    gates = FeatureGates(overrides=dict(settings))
    if errors := tuple(_faults(settings)) or tuple(_unmet(gates)):
        raise ConfigError(errors)
    return gates


def _faults(settings: Mapping[str, bool]) -> Iterable[str]:
    """Say what is wrong with the names, and which gates cannot be switched any more."""
    for name, value in settings.items():
        if name in _GROUPS:
            continue
        gate = KNOWN_GATES.get(name)
        if gate is None:
            hint = nearest(name, (*KNOWN_GATES, *_GROUPS)) or "; the known ones are in `berth run --help`"
            yield f"--feature-gates: unrecognized feature gate: {name}{hint}"
        elif gate.locked and value is not gate.default:
            fixed = str(gate.default).lower()
            yield (
                f"--feature-gates: cannot set feature gate {name} to {str(value).lower()}, "
                f"feature is locked to {fixed}: leave it out"
            )


def _unmet(gates: FeatureGates) -> Iterable[str]:
    """Say which gates are on whose needs are not met."""
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
