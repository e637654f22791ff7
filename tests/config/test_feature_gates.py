"""Feature gates: defaults of v1.36, the flag's syntax, groups, and what is refused."""

import pytest

from berth.config.errors import ConfigError
from berth.config.feature_gates import KNOWN_GATES, FeatureGates, feature_gates, parse_feature_gates

OFF_BY_DEFAULT = {
    "DRADeviceTaintRules",
    "GangScheduling",
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
    "StorageCapacityScoring",
    "SchedulerAsyncAPICalls",
    "TaintTolerationComparisonOperators",
    "VolumeLimitScaling",
}


def test_defaults():
    gates = FeatureGates()
    assert {name for name in KNOWN_GATES if not gates.enabled(name)} == OFF_BY_DEFAULT


def test_flag_sets_gates_and_the_last_wins():
    gates = parse_feature_gates(
        "GangScheduling=true, OpportunisticBatching=false,GangScheduling=F,kube:GenericWorkload=1"
    )
    assert not gates.enabled("GangScheduling")
    assert not gates.enabled("OpportunisticBatching")
    assert gates.enabled("GenericWorkload")
    assert gates.enabled("SchedulerQueueingHints")


def test_groups_move_their_stage_and_leave_what_is_set():
    alpha = parse_feature_gates("AllAlpha=true,GangScheduling=false")
    assert alpha.enabled("GenericWorkload")
    assert not alpha.enabled("GangScheduling")
    assert not alpha.enabled("SchedulerAsyncAPICalls")
    beta = parse_feature_gates("AllBeta=false,PodLevelResources=true")
    assert not beta.enabled("SchedulerAsyncPreemption")
    assert beta.enabled("PodLevelResources")
    assert beta.enabled("DynamicResourceAllocation")


def test_empty_flag_changes_nothing():
    assert parse_feature_gates("") == FeatureGates()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("GangSheduling=true", "unrecognized feature gate: GangSheduling; did you mean GangScheduling?"),
        ("Zzz=true", "unrecognized feature gate: Zzz; the known ones are in"),
        ("GangScheduling", "missing bool value for GangScheduling"),
        ("GangScheduling=on", "invalid value of GangScheduling=on: 'on' is neither true nor false"),
        (
            "SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        ),
    ],
)
def test_refuses(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(text)
    assert message in str(caught.value)


def test_mapping_is_checked_like_the_flag():
    assert feature_gates({"GenericWorkload": True, "GangScheduling": True}).enabled("GangScheduling")
    with pytest.raises(ConfigError, match="unrecognized feature gate"):
        feature_gates({"Nope": True})


# The text: staging/src/k8s.io/component-base/featuregate/feature_gate.go; the need: pkg/features/kube_features.go
@pytest.mark.parametrize("name", ["GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"])
def test_gates_of_pod_groups_need_the_pod_groups(name):
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(f"{name}=true")
    assert f"{name} is enabled, but depends on features that are disabled: [GenericWorkload]" in str(caught.value)
    assert parse_feature_gates(f"{name}=true,GenericWorkload=true").enabled(name)


def test_asking_for_an_unknown_gate_is_a_bug():
    with pytest.raises(KeyError):
        FeatureGates().enabled("Nope")
