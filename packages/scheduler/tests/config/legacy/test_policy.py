"""Policies: which plugins they make, and what is said of wrong ones.

Sources: reference tables of release-1.20 (pkg/scheduler/framework/plugins/legacy_registry.go, factory.go) and its
compatibility tests.
"""

import json

import pytest

from berth.config.errors import ConfigError
from berth.config.feature_gates import feature_gates
from berth.config.legacy.construction import with_config_map
from berth.config.legacy.documents import AlgorithmSource
from berth.config.legacy.predicates import MANDATORY, PREDICATES
from berth.config.load import legacy_default_config, load_config, load_config_file
from berth.config.types import ExtensionPoint as Point


def policy(**fields):
    return {"apiVersion": "v1", "kind": "Policy", **fields}


def names(*given, **weights):
    return [{"name": name} for name in given] + [{"name": n, "weight": w} for n, w in weights.items()]


def made(document, **gates):
    config = load_config(document, "policy.json", feature_gates(gates, "v1.20") if gates else None)
    (profile,) = config.profiles
    return config, profile


def plugins(profile, point):
    return [plugin.name for plugin in profile.plugins.at(point).enabled]


def weights(profile):
    return {plugin.name: plugin.weight for plugin in profile.plugins.at(Point.SCORE).enabled}


def ratio(**arguments):
    return {"name": "Ratio", "weight": 1, "argument": {"requestedToCapacityRatioArguments": arguments}}


def presence(name, wanted):
    return {"name": name, "argument": {"labelsPresence": {"labels": ["rack"], "presence": wanted}}}


def preference(name, wanted):
    return {"name": name, "weight": 1, "argument": {"labelPreference": {"label": "rack", "presence": wanted}}}


def test_a_label_may_be_demanded_and_its_absence_preferred():
    """Only within demands, and within preferences, labels must not contradict (nodelabel/node_label.go)."""
    _, profile = made(policy(predicates=[presence("A", True)], priorities=[preference("B", False)]))
    assert profile.plugin_config["NodeLabel"] == {"presentLabels": ["rack"], "absentLabelsPreference": ["rack"]}


def test_a_name_of_ones_own_need_not_be_one_that_could_be_registered():
    """Up to v1.17 such a name had to be of letters, digits and dashes; in v1.20 any names what its argument says."""
    _, profile = made(policy(predicates=[presence("on a rack, please!", True)], priorities=[]))
    assert profile.plugin_config["NodeLabel"] == {"presentLabels": ["rack"]}
    with pytest.raises(ConfigError, match='Predicate type not found for "on a rack, please!"'):
        made(policy(predicates=names("on a rack, please!")))


def test_predicates_run_in_their_fixed_order_whatever_the_documents():
    given = names("MatchInterPodAffinity", "HostName", "NoDiskConflict", "GeneralPredicates")
    _, profile = made(policy(predicates=given, priorities=[]))
    assert plugins(profile, Point.FILTER) == [
        "NodeUnschedulable",
        "NodeResourcesFit",
        "NodeName",
        "NodePorts",
        "NodeAffinity",
        "VolumeRestrictions",
        "TaintToleration",
        "InterPodAffinity",
    ]
    assert plugins(profile, Point.PRE_FILTER) == ["NodeResourcesFit", "NodePorts", "InterPodAffinity"]
    assert plugins(profile, Point.SCORE) == []


def test_no_predicates_leave_the_mandatory_ones():
    _, profile = made(policy(predicates=[], priorities=[]))
    assert plugins(profile, Point.FILTER) == ["NodeUnschedulable", "TaintToleration"]


def test_what_is_not_given_has_its_defaults():
    config, profile = made(policy())
    assert plugins(profile, Point.FILTER) == [
        "NodeUnschedulable",
        "NodeResourcesFit",
        "NodeName",
        "NodePorts",
        "NodeAffinity",
        "VolumeRestrictions",
        "TaintToleration",
        "EBSLimits",
        "GCEPDLimits",
        "NodeVolumeLimits",
        "AzureDiskLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert weights(profile) == {
        "NodeResourcesBalancedAllocation": 1,
        "PodTopologySpread": 2,
        "ImageLocality": 1,
        "InterPodAffinity": 1,
        "NodeResourcesLeastAllocated": 1,
        "NodeAffinity": 1,
        "NodePreferAvoidPods": 10000,
        "TaintToleration": 1,
    }
    assert profile.plugin_config == {"PodTopologySpread": {"defaultingType": "System"}}
    assert plugins(profile, Point.RESERVE) == plugins(profile, Point.PRE_BIND) == ["VolumeBinding"]
    assert plugins(profile, Point.POST_FILTER) == ["DefaultPreemption"]
    assert config.generation == "v1.20"
    assert not config.checks_all_filters


@pytest.mark.parametrize("name", PREDICATES)
def test_every_predicate_alone(name):
    _, profile = made(policy(predicates=names(name), priorities=[]))
    expected = {plugin for each in {name, *MANDATORY} for plugin, _ in PREDICATES[each]}
    assert set(plugins(profile, Point.FILTER)) == expected


def test_spreading_depends_on_its_gate():
    given = policy(predicates=[], priorities=names(SelectorSpreadPriority=3))
    _, with_gate = made(given)
    _, without = made(given, DefaultPodTopologySpread=False)
    assert weights(with_gate) == {"PodTopologySpread": 3}
    assert weights(without) == {"SelectorSpread": 3}
    _, even = made(policy(predicates=[], priorities=names(EvenPodsSpreadPriority=2)))
    assert even.plugin_config == {"PodTopologySpread": {"defaultingType": "List"}}


def test_the_first_weight_of_a_plugin_stays():
    """appendToPluginSet changes a copy; priorities come sorted by name."""
    _, profile = made(policy(priorities=names(SelectorSpreadPriority=9, EvenPodsSpreadPriority=1)))
    assert weights(profile)["PodTopologySpread"] == 1


@pytest.mark.parametrize(
    ("older", "plugin"),
    [("ServiceSpreadingPriority", {"PodTopologySpread": 4}), ("EqualPriority", {})],
)
def test_older_names_of_priorities(older, plugin):
    _, profile = made(policy(predicates=[], priorities=[{"name": older, "weight": 4}]))
    assert weights(profile) == plugin


def test_arguments_configure_their_plugins():
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    _, profile = made(
        policy(
            predicates=[
                {"name": "Racks", "argument": {"labelsPresence": {"labels": ["rack"], "presence": True}}},
                {"name": "NotOld", "argument": {"labelsPresence": {"labels": ["old"], "presence": False}}},
                {"name": "Together", "argument": {"serviceAffinity": {"labels": ["region"]}}},
            ],
            priorities=[
                {"name": "A", "weight": 2, "argument": {"labelPreference": {"label": "ssd", "presence": True}}},
                {"name": "B", "weight": 2, "argument": {"labelPreference": {"label": "hdd", "presence": False}}},
                {"name": "C", "weight": 3, "argument": {"serviceAntiAffinity": {"label": "zone"}}},
                {"name": "D", "weight": 5, "argument": {"requestedToCapacityRatioArguments": {"shape": shape}}},
                {"name": "InterPodAffinityPriority", "weight": 1},
            ],
            hardPodAffinitySymmetricWeight=7,
            alwaysCheckAllPredicates=True,
        )
    )
    assert profile.plugin_config == {
        "NodeLabel": {
            "presentLabels": ["rack"],
            "absentLabels": ["old"],
            "presentLabelsPreference": ["ssd"],
            "absentLabelsPreference": ["hdd"],
        },
        "ServiceAffinity": {"affinityLabels": ["region"], "antiAffinityLabelsPreference": ["zone"]},
        "RequestedToCapacityRatio": {"shape": shape, "resources": []},
        "InterPodAffinity": {"hardPodAffinityWeight": 7},
    }
    # The weights of several label preferences add up.
    assert weights(profile) == {
        "InterPodAffinity": 1,
        "NodeLabel": 4,
        "RequestedToCapacityRatio": 5,
        "ServiceAffinity": 3,
    }


def test_extenders_of_a_policy_and_what_they_take_over():
    extender = {
        "urlPrefix": "http://127.0.0.1:12345/x",
        "filterVerb": "filter",
        "enableHttps": False,
        "httpTimeout": 100000000,
        "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
    }
    config, profile = made(policy(extenders=[extender]))
    assert config.extenders[0].http_timeout_s == 0.1
    assert profile.plugin_config["NodeResourcesFit"] == {"ignoredResources": ["example.com/gpu"]}


PREDICATE = "Invalid configuration: Predicate type not found for"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            policy(predicates=names("HostName", "PodFitsHostPort")),
            (
                "predicates[1].name",
                f'{PREDICATE} "PodFitsHostPort"',
                "did you mean PodFitsHostPorts",
                "needs an argument",
            ),
        ),
        (
            policy(predicates=names("PodToleratesNodeNoExecuteTaints")),
            ("predicates[0].name", PREDICATE, "went with v1.17", "PodToleratesNodeTaints"),
        ),
        (
            policy(priorities=[{"name": "Quickest", "weight": 1}]),
            (
                "priorities[0].name",
                'Priority type not found for "Quickest"',
                "LeastRequestedPriority",
                "labelPreference",
            ),
        ),
        (
            policy(priorities=[{"name": "EqualPriority"}]),
            ("priorities[0].weight", "EqualPriority should have a positive weight"),
        ),
        (
            policy(predicates=[{"name": "X", "argument": {}}]),
            ("predicates[0].argument", "Exactly 1 predicate argument is required, numArgs: 0, Predicate: X"),
        ),
        (
            policy(
                priorities=[
                    {"name": "A", "weight": 1, "argument": {"labelPreference": {"label": "a", "presence": True}}},
                    {"name": "B", "weight": 2, "argument": {"labelPreference": {"label": "b", "presence": True}}},
                ]
            ),
            ("priorities[1].weight", '"B" has a different weight with "A"'),
        ),
        (
            policy(
                priorities=[
                    {"name": n, "weight": 1, "argument": {"requestedToCapacityRatioArguments": {"shape": []}}}
                    for n in ("A", "B")
                ]
            ),
            ("priorities[1]", 'redeclares custom priority "RequestedToCapacityRatio", from: "A"'),
        ),
        (  # noderesources/requested_to_capacity_ratio.go; apis/config/validation/validation_pluginargs.go
            policy(priorities=[ratio(shape=[{"utilization": 50, "score": 0}, {"utilization": 20, "score": 12}])]),
            (
                "priorities[0].argument.requestedToCapacityRatioArguments.shape[1].utilization: Invalid value: 20",
                "priorities[0].argument.requestedToCapacityRatioArguments.shape[1].score: Invalid value: 12",
                "not in valid range [0, 10]",
            ),
        ),
        (
            policy(priorities=[ratio(shape=[{}], resources=[{"name": "cpu", "weight": -1}])]),
            ("priorities[0].argument.requestedToCapacityRatioArguments.resources[0].weight", "must not be negative"),
        ),
        (  # nodelabel/node_label.go, validateNoConflict
            policy(predicates=[presence("A", True), presence("B", False)]),
            (
                'predicates[1].argument.labelsPresence.labels: Invalid value: "rack"',
                "predicates[0].argument.labelsPresence.labels asks for the contrary",
            ),
        ),
        (
            policy(priorities=[preference("A", False), preference("B", True)]),
            (
                'priorities[1].argument.labelPreference.label: Invalid value: "rack"',
                "priorities[0].argument.labelPreference.label asks for the contrary",
            ),
        ),
        (policy(hardPodAffinitySymmetricWeight=101), ("hardPodAffinitySymmetricWeight", "not in valid range [0-100]")),
        (policy(predicats=[]), ("invalid policy", "predicats", "did you mean predicates")),
    ],
)
def test_a_wrong_policy_is_told_with_file_entry_and_remedy(tmp_path, document, words):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(document))
    for load in (
        lambda: load_config_file(file),
        lambda: legacy_default_config(source=AlgorithmSource(policy_file=str(file))),
    ):
        with pytest.raises(ConfigError) as caught:
            load()
        assert str(caught.value).startswith(str(file))
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_files_that_are_no_policy(tmp_path):
    file = tmp_path / "policy.yaml"
    source = AlgorithmSource(policy_file=str(file))
    with pytest.raises(ConfigError, match=r"missing policy config file .*policy\.yaml"):
        legacy_default_config(source=source)
    file.write_text("predicates: [")
    with pytest.raises(ConfigError, match=r"policy\.yaml: line 2.*not readable"):
        legacy_default_config(source=source)
    file.write_text("apiVersion: v1\nkind: Pod\n")
    with pytest.raises(ConfigError, match=r"policy\.yaml: invalid policy: expected apiVersion: v1 and kind: Policy"):
        legacy_default_config(source=source)


def test_a_config_map():
    config = legacy_default_config(source=AlgorithmSource(policy_config_map=("kube-system", "mine")))
    assert config.policy_config_map == ("kube-system", "mine")
    found = with_config_map(config, {"policy.cfg": json.dumps(policy(predicates=[], priorities=[]))})
    assert found.policy_config_map is None
    assert plugins(found.profiles[0], Point.FILTER) == ["NodeUnschedulable", "TaintToleration"]
    with pytest.raises(ConfigError, match=r'kube-system/mine: missing policy config map value at key "policy\.cfg"'):
        with_config_map(config, {"policy": "{}"})
    with pytest.raises(ConfigError, match=r"ConfigMap kube-system/mine, policy\.cfg: predicates\[0\]\.name"):
        with_config_map(config, {"policy.cfg": json.dumps(policy(predicates=names("Nope")))})
