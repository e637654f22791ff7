"""The feature gates of a scheduler: how the command line sets them, and what comes of each.

`--feature-gates A=true,B=false` goes through `parse_feature_gates`; the result rides in
`SchedulerConfiguration` and decides the default profile, plugin behaviour and queue policies. As the stock binary, this
one accepts every gate that Kubernetes knows (`kubernetes_gates`), and refuses one that stands without those it depends
on. A gate that switches nothing here causes a warning (`gate_warnings`), since a switch that silently does nothing
is worse than none. Each generation has its own gates; which generation applies is known only when the configuration
has been read (`FeatureGates.of`).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from berth.api.near_names import nearest
from berth.config.errors import ConfigError
from berth.config.kubernetes_gates import (
    ALPHA,
    BETA,
    BETA_OFF,
    DEPENDENCIES,
    KUBERNETES_GATES,
    FeatureSpec,
    Stage,
)

V1_20_GATES: Final[Mapping[str, FeatureSpec]] = MappingProxyType(
    {
        "BalanceAttachedNodeVolumes": ALPHA,
        "CSIMigration": BETA,
        "CSIMigrationAWS": BETA_OFF,
        "CSIMigrationAzureDisk": BETA_OFF,
        "CSIMigrationGCE": BETA_OFF,
        "CSIMigrationOpenStack": BETA_OFF,
        "DefaultPodTopologySpread": BETA,
    }
)
"""The gates of v1.20 that its scheduler asked; all of them switch something here."""

GATES_BY_GENERATION: Final[Mapping[str, Mapping[str, FeatureSpec]]] = MappingProxyType(
    {"v1.36": KUBERNETES_GATES, "v1.20": V1_20_GATES}
)

SWITCHED: Final = frozenset(
    {
        "DRAAdminAccess",
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaintRules",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
        "DRAResourceClaimDeviceStatus",
        "DRASchedulerFilterTimeout",
        "DynamicResourceAllocation",
        "GangScheduling",
        "GenericWorkload",
        "InPlacePodLevelResourcesVerticalScaling",
        "MatchLabelKeysInPodTopologySpread",
        "NodeDeclaredFeatures",
        "NominatedNodeNameForExpectation",
        "PodLevelResources",
        "SchedulerAsyncPreemption",
        "SchedulerPopFromBackoffQ",
        "StorageCapacityScoring",
        "TaintTolerationComparisonOperators",
        "TopologyAwareWorkloadScheduling",
        "VolumeLimitScaling",
        "WorkloadAwarePreemption",
    }
)
"""The gates of v1.36 that this scheduler asks; to set any other changes nothing here."""

_BUILT_IN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "OpportunisticBatching": "what pods of one kind have in common is worked out once and kept, always",
        "SchedulerAsyncAPICalls": "calls to the API server never hold up scheduling, and never did",
    }
)
"""Gates of the stock scheduler whose gain this one has built in, whatever they say; and how."""

_GROUPS: Final[Mapping[str, Stage]] = MappingProxyType({"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA})


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
        # Upstream takes `component:Name=value`; the only component here is the one called kube.
        component, colon, name = name.strip().rpartition(":")
        if colon and component != "kube":
            errors.append(f"--feature-gates: component is not registered: {component}; the only one is kube")
            continue
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
    """Report unknown names, and gates that can no longer be switched."""
    known = GATES_BY_GENERATION[generation]
    for name, value in settings.items():
        if name in _GROUPS:
            continue
        gate = known.get(name)
        if gate is None:
            hint = nearest(name, (*known, *_GROUPS)) or "; those that switch something are in `berth run --help`"
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
    """Report the gates that are on, by default too, while one that they depend on is off."""
    if gates.generation != "v1.36":  # dependencies are younger than the other generation
        return
    for name, needs in DEPENDENCIES.items():
        missing = [need for need in needs if not gates.enabled(need)]
        if missing and gates.enabled(name):
            also = ",".join(f"{need}=true" for need in missing)
            yield (
                f"--feature-gates: {name} is enabled, but depends on features that are disabled: "
                f"[{' '.join(missing)}]: add {also}, or {name}=false"
            )


def gate_warnings(gates: FeatureGates) -> Iterable[str]:
    """Yield a sentence for each gate that was set by name and switches nothing, or will soon not be there to set."""
    for name, value in gates.overrides.items():
        spec = GATES_BY_GENERATION[gates.generation].get(name)
        if spec is None:  # a group
            continue
        if name in _BUILT_IN:
            yield f"--feature-gates: {name} switches nothing in this scheduler, it is built in: {_BUILT_IN[name]}"
        elif gates.generation == "v1.36" and name not in SWITCHED:
            yield f"--feature-gates: {name} switches nothing in this scheduler"
        elif spec.stage in {Stage.GA, Stage.DEPRECATED}:
            told = f"the feature gate is {spec.stage}, and will be removed in a future release"
            yield f"--feature-gates: {name}={str(value).lower()}: {told}"


def parse_bool(text: str) -> bool | None:
    """The spellings of a bool that Go's flag parser takes."""
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    return False if text in {"0", "f", "F", "false", "FALSE", "False"} else None
