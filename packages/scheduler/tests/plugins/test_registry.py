"""The in-tree registry against the stock default profile, and the configurations of the recorded decisions."""

import gzip
import json

import pytest

from berth.config.dump import dump_config
from berth.config.feature_gates import feature_gates
from berth.config.load import default_config, load_config
from berth.config.plugin_args import decode_profile_args
from berth.config.profiles import resolve_profiles
from berth.config.types import ExtensionPoint as Point
from berth.framework.registry import points_of
from berth.plugins.registry import in_tree_registry
from tests.paths import ROOT

CONFORMANCE = ROOT / "tests/conformance/v1.36"
REGISTRY = in_tree_registry()

FILTERS = {Point.PRE_FILTER, Point.FILTER}
SCORES = {Point.PRE_SCORE, Point.SCORE}
BINDS = {Point.RESERVE, Point.PRE_BIND}


def test_the_plugins_of_the_default_profile_are_there_in_its_order():
    """There may be others beside them, which a configuration has to enable."""
    (profile,) = default_config(feature_gates({"AllAlpha": True})).profiles
    enabled = tuple(plugin.name for plugin in profile.plugins.multi_point.enabled)
    assert tuple(name for name in REGISTRY.names if name in enabled) == enabled
    assert all(REGISTRY.factory(name).name == name for name in REGISTRY.names)


# pkg/scheduler/apis/config/v1/default_plugins.go, applyFeatureGates
@pytest.mark.parametrize(
    ("gate", "plugins"),
    [
        ("GangScheduling", ["GangScheduling"]),
        ("TopologyAwareWorkloadScheduling", ["TopologyPlacementGenerator", "PodGroupPodsCount"]),
    ],
)
def test_plugins_of_pod_groups_come_last_and_only_with_their_gate(gate, plugins):
    (without,), (profile,) = (
        default_config(feature_gates({"GenericWorkload": True, **more})).profiles for more in ({}, {gate: True})
    )
    before, after = ([ref.name for ref in p.plugins.multi_point.enabled] for p in (without, profile))
    assert after == before + plugins
    assert [ref.weight for ref in profile.plugins.multi_point.enabled if ref.name == "PodGroupPodsCount"] in ([], [1])


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("SchedulingGates", {Point.PRE_ENQUEUE}),
        ("GangScheduling", {Point.PRE_ENQUEUE, Point.PERMIT}),
        ("TopologyPlacementGenerator", {Point.PLACEMENT_GENERATE}),
        ("PodGroupPodsCount", {Point.PLACEMENT_SCORE}),
        ("PrioritySort", {Point.QUEUE_SORT}),
        ("NodeUnschedulable", {Point.FILTER}),
        ("NodeName", FILTERS),
        ("TaintToleration", {Point.FILTER} | SCORES),
        ("NodeAffinity", FILTERS | SCORES),
        ("NodePorts", FILTERS),
        ("NodeResourcesFit", FILTERS | SCORES),
        ("VolumeRestrictions", FILTERS),
        ("NodeVolumeLimits", FILTERS),
        ("VolumeBinding", FILTERS | SCORES | BINDS),
        ("VolumeZone", FILTERS),
        ("PodTopologySpread", FILTERS | SCORES),
        ("InterPodAffinity", FILTERS | SCORES),
        ("DynamicResources", FILTERS | {Point.PRE_ENQUEUE, Point.POST_FILTER, Point.SCORE} | BINDS),
        ("DefaultPreemption", {Point.PRE_ENQUEUE, Point.POST_FILTER}),
        ("NodeResourcesBalancedAllocation", SCORES),
        ("ImageLocality", {Point.SCORE}),
        ("DefaultBinder", {Point.BIND}),
        ("NodeDeclaredFeatures", FILTERS),
    ],
)
def test_extension_points(name, points):
    assert REGISTRY.implements()[name] == points == points_of(REGISTRY.factory(name))


def args_of(kind, **fields):
    return {"args": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{kind}Args", **fields}, "name": kind}


def test_the_default_configuration_is_written_as_upstream_writes_it():
    resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    (profile,) = dump_config(default_config(), REGISTRY.args_types())["profiles"]
    assert profile["pluginConfig"] == [
        args_of("DefaultPreemption", minCandidateNodesAbsolute=100, minCandidateNodesPercentage=10),
        args_of("DynamicResources", bindingTimeout="10m0s", filterTimeout="10s"),
        args_of("InterPodAffinity", hardPodAffinityWeight=1, ignorePreferredTermsOfExistingPods=False),
        args_of("NodeAffinity"),
        args_of("NodeResourcesBalancedAllocation", resources=resources),
        args_of("NodeResourcesFit", scoringStrategy={"resources": resources, "type": "LeastAllocated"}),
        args_of("PodTopologySpread", defaultingType="System"),
        args_of("VolumeBinding", bindTimeoutSeconds=600),
    ]


def test_what_is_written_can_be_read_again():
    written = dump_config(default_config(), REGISTRY.args_types())
    again = load_config(written, "the dump")
    assert dump_config(again, REGISTRY.args_types()) == written


def recorded_configs():
    for path in sorted(CONFORMANCE.glob("*.jsonl.gz")):
        with gzip.open(path) as lines:
            cases = [json.loads(line) for line in lines]
        yield from ((case["name"], case["config"]) for case in cases if "config" in case)


def test_every_recorded_configuration_loads():
    loaded = 0
    for name, document in recorded_configs():
        config = load_config(document, name)
        resolved = resolve_profiles(config, REGISTRY.implements())
        for index, profile in enumerate(config.profiles):
            assert resolved[profile.scheduler_name][Point.BIND] == (("DefaultBinder", 0),)
            args = decode_profile_args(profile, REGISTRY.args_types(), f"profiles[{index}]")
            assert args.keys() >= REGISTRY.args_types().keys()
        loaded += 1
    assert loaded > 50
