"""Feature gates: defaults of v1.36, the flag's syntax, groups, and what is refused."""

from pathlib import Path

import pytest

import berth
from berth.config.errors import ConfigError
from berth.config.feature_gates import (
    SWITCHED,
    FeatureGates,
    feature_gates,
    gate_warnings,
    parse_feature_gates,
)
from berth.config.kubernetes_gates import DEPENDENCIES, KUBERNETES_GATES, Stage

NAMESAKES = {
    "GangScheduling",
    "NodeDeclaredFeatures",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
}
"""Gates named like a plugin or like a feature that nodes declare; a text search cannot tell which is meant."""

OFF_BY_DEFAULT = {
    "DRADeviceTaintRules",
    "GangScheduling",
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
    "StorageCapacityScoring",
    "TaintTolerationComparisonOperators",
    "VolumeLimitScaling",
}


def test_defaults():
    gates = FeatureGates()
    assert {name for name in SWITCHED if not gates.enabled(name)} == OFF_BY_DEFAULT


def test_flag_sets_gates_and_the_last_wins():
    gates = parse_feature_gates(
        "GangScheduling=true, OpportunisticBatching=false,GangScheduling=F,kube:GenericWorkload=1"
    )
    assert not gates.enabled("GangScheduling")
    assert not gates.enabled("OpportunisticBatching")
    assert gates.enabled("GenericWorkload")
    assert gates.enabled("SchedulerQueueingHints")


def test_groups_move_their_stage_and_leave_what_is_set():
    alpha = parse_feature_gates("AllAlpha=true,GangScheduling=false,WorkloadAwarePreemption=false")
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
        ("Zzz=true", "unrecognized feature gate: Zzz; those that switch something are in"),
        ("GangScheduling", "missing bool value for GangScheduling"),
        ("GangScheduling=on", "invalid value of GangScheduling=on: 'on' is neither true nor false"),
        (
            "SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        ),
        (
            "GitRepoVolumeDriver=true",
            "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
        ),
        ("wardle:GangScheduling=true", "component is not registered: wardle"),
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


# The text: staging/src/k8s.io/component-base/featuregate/feature_gate.go; the needs: pkg/features/kube_features.go
@pytest.mark.parametrize(
    ("text", "name", "missing"),
    [
        ("GangScheduling=true", "GangScheduling", "GenericWorkload"),
        ("TopologyAwareWorkloadScheduling=true", "TopologyAwareWorkloadScheduling", "GenericWorkload"),
        ("WorkloadAwarePreemption=true,GenericWorkload=true", "WorkloadAwarePreemption", "GangScheduling"),
        ("NodeDeclaredFeatures=false", "InPlacePodVerticalScalingInitContainers", "NodeDeclaredFeatures"),
        ("PodLevelResources=false", "InPlacePodLevelResourcesVerticalScaling", "PodLevelResources"),
        ("DRAResourceClaimDeviceStatus=false", "DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
        ("DRADeviceTaints=false,AllBeta=true", "DRADeviceTaintRules", "DRADeviceTaints"),
        ("ClusterTrustBundleProjection=true", "ClusterTrustBundleProjection", "ClusterTrustBundle"),
        ("AllAlpha=true,AllBeta=false", "PodLevelResourceManagers", "PodLevelResources"),
        ("AllAlpha=true,GenericWorkload=false", "GangScheduling", "GenericWorkload"),
    ],
)
def test_a_gate_without_those_it_depends_on(text, name, missing):
    for check in (parse_feature_gates, lambda text: feature_gates(_mapping(text))):
        with pytest.raises(ConfigError) as caught:
            check(text)
        told = f"{name} is enabled, but depends on features that are disabled: [{missing}]"
        assert any(told in error for error in caught.value.errors)


def _mapping(text):
    return {name: value == "true" for name, _, value in (item.partition("=") for item in text.split(","))}


@pytest.mark.parametrize(
    "text",
    [
        "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true",
        "WorkloadAwarePreemption=true,GenericWorkload=true,GangScheduling=true",  # the order does not matter
        "AllAlpha=true",
        "AllBeta=false",
        "AllBeta=true",
        "AllAlpha=true,AllBeta=true",
        "GenericWorkload=false",
        "PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false",
    ],
)
def test_dependencies_are_looked_at_when_all_gates_are_set(text):
    parse_feature_gates(text)


def test_defaults_agree_with_the_dependencies():
    """As upstream demands of its table: what is on, or locked to it, depends on nothing that is less so."""
    for name, needs in DEPENDENCIES.items():
        gate = KUBERNETES_GATES[name]
        for need in (KUBERNETES_GATES[each] for each in needs):
            assert need.default or not gate.default
            assert need.locked or not (gate.locked and gate.default)
            assert need.stage in {gate.stage, Stage.GA} or gate.stage in {Stage.ALPHA, Stage.DEPRECATED}


# pkg/features/kube_features.go, staging/src/k8s.io/apiserver/pkg/features and component-base, v1.36
@pytest.mark.parametrize(
    "setting",
    [
        "KubeletInUserNamespace=true",  # kubelet
        "APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false",  # API server
        "WatchListClient=false",  # client-go
        "ContextualLogging=false",  # component-base
        "CloudControllerManagerWebhook=true",
        "ImageVolume=true",  # locked to what is asked for
        "KMSv1=true",  # deprecated
    ],
)
def test_gates_of_other_components_are_taken_and_told_to_switch_nothing(setting):
    gates = parse_feature_gates(setting)
    told = [
        f"--feature-gates: {item.partition('=')[0]} switches nothing in this scheduler" for item in setting.split(",")
    ]
    assert list(gate_warnings(gates)) == told


def test_only_what_was_set_by_name_is_told():
    assert list(gate_warnings(parse_feature_gates("AllAlpha=true,GenericWorkload=true"))) == []


def test_a_gate_near_its_end_is_told():
    (told,) = gate_warnings(parse_feature_gates("DRAPrioritizedList=false"))
    assert told.endswith("DRAPrioritizedList=false: the feature gate is GA, and will be removed in a future release")


@pytest.mark.parametrize("name", ["OpportunisticBatching", "SchedulerAsyncAPICalls"])
def test_a_gate_whose_gain_is_built_in_says_so(name):
    for value in ("true", "false"):
        (told,) = gate_warnings(parse_feature_gates(f"{name}={value}"))
        assert f"{name} switches nothing in this scheduler, it is built in: " in told


def test_switched_gates_are_those_that_the_sources_ask():
    sources = Path(berth.__file__).parent
    own = {"feature_gates.py", "kubernetes_gates.py", "flags.py"}  # flags that are ignored may still be refused
    text = "".join(path.read_text() for path in sources.rglob("*.py") if path.name not in own)
    assert {name for name in KUBERNETES_GATES if f'"{name}"' in text} - NAMESAKES == SWITCHED - NAMESAKES


def test_asking_for_an_unknown_gate_is_a_bug():
    with pytest.raises(KeyError):
        FeatureGates().enabled("Nope")
