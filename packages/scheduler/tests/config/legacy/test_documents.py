"""v1alpha1, v1alpha2 and v1beta1, their providers and profiles. Source: release-1.18 and release-1.20."""

import pytest

from berth.config.errors import ConfigError
from berth.config.feature_gates import FeatureGates, feature_gates
from berth.config.legacy.documents import AlgorithmSource
from berth.config.legacy.providers import PROVIDERS, provider_plugins
from berth.config.load import legacy_default_config, load_config
from berth.config.profiles import resolve_profiles
from berth.config.types import ExtensionPoint as Point
from berth.core.generation import GENERATIONS, generation_of
from berth.framework.registry import Registry
from berth.plugins.legacy.registry import legacy_registry
from berth.plugins.registry import in_tree_registry

GATES = FeatureGates(generation="v1.20")


def document(version, **fields):
    return {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": "KubeSchedulerConfiguration", **fields}


def enabled(config, point, index=0):
    return [plugin.name for plugin in config.profiles[index].plugins.at(point).enabled]


def names(*plugins):
    return [{"name": plugin} for plugin in plugins]


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1"])
def test_an_empty_document_is_the_default_provider(version):
    config = load_config(document(version))
    assert config.generation == "v1.20"
    assert config.profiles[0].scheduler_name == "default-scheduler"
    assert config.profiles[0].plugins == provider_plugins("DefaultProvider", GATES)
    assert generation_of(config).assumed_ttl_s == 30.0


def test_the_providers_expand_over_the_registry_of_the_time():
    for provider in PROVIDERS:
        config = legacy_default_config(source=AlgorithmSource(provider))
        points = resolve_profiles(config, legacy_registry().implements())["default-scheduler"]
        assert len(points[Point.FILTER]) == 15
        assert dict(points[Point.SCORE])["NodePreferAvoidPods"] == 10000
        assert points[Point.PRE_ENQUEUE] == ()


def test_the_default_providers_filters_and_weights():
    """getDefaultConfig: the filters of v1.18 with PodTopologySpread, and the weights of its scores."""
    points = resolve_profiles(legacy_default_config(), legacy_registry().implements())["default-scheduler"]
    assert {name for name, _ in points[Point.FILTER]} == {
        "NodeUnschedulable", "NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity", "VolumeRestrictions",
        "TaintToleration", "EBSLimits", "GCEPDLimits", "NodeVolumeLimits", "AzureDiskLimits", "VolumeBinding",
        "VolumeZone", "InterPodAffinity", "PodTopologySpread",
    }  # fmt: skip
    assert dict(points[Point.SCORE]) == {
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
        "InterPodAffinity": 1,
        "NodeResourcesLeastAllocated": 1,
        "NodeAffinity": 1,
        "NodePreferAvoidPods": 10000,
        "PodTopologySpread": 2,
        "TaintToleration": 1,
    }
    assert [name for name, _ in points[Point.QUEUE_SORT]] == ["PrioritySort"]
    assert [name for name, _ in points[Point.BIND]] == ["DefaultBinder"]


def test_without_its_gate_spreading_is_by_selectors():
    plugins = provider_plugins("DefaultProvider", feature_gates({"DefaultPodTopologySpread": False}, "v1.20"))
    assert [p.name for p in plugins.at(Point.PRE_SCORE).enabled][-1] == "SelectorSpread"
    assert plugins.at(Point.SCORE).enabled[-1].weight == 1


def test_an_unknown_provider_lists_the_known():
    given = document("v1alpha1", algorithmSource={"provider": "Fancy"})
    with pytest.raises(ConfigError) as caught:
        load_config(given, "config.yaml")
    text = str(caught.value)
    assert text.startswith("config.yaml: algorithmSource.provider")
    assert all(word in text for word in ("Fancy", "is not registered", *PROVIDERS))


def test_v1alpha1():
    config = load_config(
        document(
            "v1alpha1",
            schedulerName="mine",
            algorithmSource={"provider": "ClusterAutoscalerProvider"},
            hardPodAffinitySymmetricWeight=5,
            bindTimeoutSeconds=60,
            disablePreemption=True,
            healthzBindAddress="0.0.0.0:10251",
            leaderElection={"lockObjectName": "lock", "lockObjectNamespace": "there"},
            plugins={
                "postFilter": {"enabled": names("Prepares")},
                "unreserve": {"enabled": names("Undoes")},
                "filter": {"disabled": names("*"), "enabled": names("NodeName")},
            },
        )
    )
    assert config.profiles[0].scheduler_name == "mine"
    assert enabled(config, Point.PRE_SCORE)[-1] == "Prepares"
    assert enabled(config, Point.POST_FILTER) == []
    assert enabled(config, Point.FILTER) == ["NodeName"]
    assert enabled(config, Point.RESERVE) == ["VolumeBinding", "Undoes"]
    assert config.profiles[0].plugin_config == {
        "VolumeBinding": {"bindTimeoutSeconds": 60},
        "InterPodAffinity": {"hardPodAffinityWeight": 5},
    }
    assert config.healthz_bind_address == "0.0.0.0:10251"
    assert (config.leader_election.resource_namespace, config.leader_election.resource_name) == ("there", "lock")


def test_profiles_are_appended_to_the_provider():
    config = load_config(
        document(
            "v1beta1",
            parallelism=4,
            profiles=[
                {"schedulerName": "a", "plugins": {"score": {"enabled": [{"name": "NodeLabel", "weight": 3}]}}},
                {
                    "schedulerName": "b",
                    "plugins": {
                        "score": {
                            "disabled": names("ImageLocality"),
                            "enabled": [{"name": "ImageLocality", "weight": 9}],
                        }
                    },
                },
            ],
        )
    )
    assert enabled(config, Point.SCORE, 0)[-1] == "NodeLabel"
    assert enabled(config, Point.SCORE, 1)[-1] == "ImageLocality"
    assert enabled(config, Point.SCORE, 1).count("ImageLocality") == 1
    assert config.parallelism == 4


def test_a_plugin_that_the_provider_has_already_is_a_duplicate():
    given = document("v1beta1", profiles=[{"plugins": {"score": {"enabled": names("NodeLabel", "ImageLocality")}}}])
    with pytest.raises(ConfigError) as caught:
        load_config(given, "config.yaml")
    assert str(caught.value) == (
        'config.yaml: profiles[0].plugins.score.enabled[1]: plugin "ImageLocality" already registered as "ScorePlugin",'
        " by the provider: list it under disabled too, to enable it anew"
    )


@pytest.mark.parametrize(
    ("version", "fields", "words"),
    [
        ("v1beta1", {"algorithmSource": {}}, ("algorithmSource", "--policy-config-file")),
        ("v1beta1", {"disablePreemption": True}, ("disablePreemption", "DefaultPreemption")),
        ("v1alpha1", {"profiles": []}, ("profiles", "v1beta1")),
        ("v1alpha1", {"algorithmSource": {"policy": {}}}, ("algorithmSource", "policy.file, policy.configMap")),
        ("v1alpha2", {"profiles": [{"plugins": {"multiPoint": {}}}]}, ("multiPoint", "name the extension points")),
        ("v1beta1", {"percentageOfNodesToScore": 101}, ("percentageOfNodesToScore", "[0-100]")),
    ],
)
def test_what_a_version_does_not_have(version, fields, words):
    with pytest.raises(ConfigError) as caught:
        load_config(document(version, **fields), "config.yaml")
    assert str(caught.value).startswith("config.yaml: ")
    assert all(word in str(caught.value) for word in words)


def test_plugins_and_a_policy_do_not_go_together(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("{apiVersion: v1, kind: Policy}")
    given = document("v1beta1", profiles=[{"pluginConfig": [{"name": "NodeLabel"}]}])
    source = AlgorithmSource(policy_file=str(file))
    with pytest.raises(ConfigError, match="cannot set a Plugin config and Policy config"):
        load_config(given, "config.yaml", algorithm=source)
    assert (
        load_config(document("v1beta1", profiles=[{"schedulerName": "x"}]), algorithm=source).profiles[0].plugin_config
    )


def test_a_policy_file_named_by_the_document_is_read(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("{apiVersion: v1, kind: Policy, predicates: [], priorities: []}")
    source = {"policy": {"file": {"path": str(file)}}}
    config = load_config(document("v1alpha1", algorithmSource=source, disablePreemption=True))
    assert enabled(config, Point.FILTER) == ["NodeUnschedulable", "TaintToleration"]
    assert enabled(config, Point.POST_FILTER) == []
    source = {"policy": {"configMap": {"name": "mine"}}}
    assert load_config(document("v1alpha1", algorithmSource=source)).policy_config_map == ("kube-system", "mine")


def test_generations_bring_their_plugins_and_keep_those_of_others():
    class Own:
        name = "Own"

        def filter(self, state, pod, node):
            return None

    registry = in_tree_registry().merge(Registry({"Own": Own}, "somebody"))
    legacy = GENERATIONS["v1.20"].registry(registry)
    assert legacy.factory("Own") is Own
    assert "SelectorSpread" in legacy
    assert "DynamicResources" not in legacy
    assert GENERATIONS["v1.36"].registry(registry) is registry
