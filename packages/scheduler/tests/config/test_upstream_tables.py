"""Upstream's tables of configurations, row by row: what is accepted, what is refused and where, and the defaults.

The tables are those of v1.36 in pkg/scheduler/apis/config: validation/validation_test.go,
validation/validation_pluginargs_test.go, v1/defaults_test.go and scheme/scheme_test.go. A test is named after its table
and has the rows' names. What is compared is the verdict and the paths, not the wording.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from berth.config.decode import Decoder
from berth.config.document import parse_document
from berth.config.dump import dump_config
from berth.config.errors import ConfigError
from berth.config.feature_gates import FeatureGates, feature_gates
from berth.config.load import load_config
from berth.config.plugin_args import decode_plugin_args, decode_profile_args
from berth.config.types import Plugins, SchedulerConfiguration
from berth.config.validation import validate
from berth.plugins.registry import full_registry
from packages.scheduler.tests.config.documents import names, v1_document

ARGS_TYPES = full_registry().args_types()
REPLACE = msgspec.structs.replace


def paths(errors: Any) -> list[str]:
    """The fields that errors are about."""
    return [error.split(": ")[0] for error in errors]


def document(**changes: Any) -> dict[str, Any]:
    """The table's good configuration, with changes to it."""
    good: dict[str, Any] = {
        "parallelism": 8,
        "clientConnection": {
            "acceptContentTypes": "application/json",
            "contentType": "application/json",
            "qps": 10,
            "burst": 10,
        },
        "leaderElection": {
            "resourceLock": "leases",
            "leaderElect": True,
            "leaseDuration": "30s",
            "renewDeadline": "15s",
            "retryPeriod": "5s",
            "resourceNamespace": "name",
            "resourceName": "name",
        },
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": profiles(),
        "extenders": [{"prioritizeVerb": "prioritize", "weight": 1}],
    }
    return v1_document(**{**good, **changes})


def profiles(first: dict[str, Any] | None = None, second: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The table's two profiles, with changes to each."""
    sort = {"enabled": names("CustomSort")}
    preemption = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}
    me = {
        "schedulerName": "me",
        "percentageOfNodesToScore": 35,
        "plugins": {"queueSort": sort, "score": {"disabled": names("*")}},
        "pluginConfig": [{"name": "DefaultPreemption", "args": preemption}],
    }
    other = {
        "schedulerName": "other",
        "percentageOfNodesToScore": 35,
        "plugins": {"queueSort": sort, "bind": {"enabled": names("CustomBind")}},
    }
    return [{**me, **(first or {})}, {**other, **(second or {})}]


def sorting(name: str, plugin: str) -> dict[str, Any]:
    """A profile whose queue another plugin sorts."""
    return {
        "schedulerName": name,
        "plugins": {"queueSort": {"enabled": names(plugin)}},
        "pluginConfig": names(plugin),
    }


def faults_of(wanted: dict[str, Any]) -> list[str]:
    """Everything that `run` refuses a document for before it builds the plugins."""
    try:
        config = load_config(wanted)
        for index, profile in enumerate(config.profiles):
            decode_profile_args(profile, ARGS_TYPES, f"profiles[{index}]")
    except ConfigError as error:
        return list(error.errors)
    return []


PREEMPTION = "DefaultPreemption"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, [], id="good"),
        pytest.param({"parallelism": 0}, ["parallelism"], id="bad-parallelism-invalid-value"),
        pytest.param(
            {"percentageOfNodesToScore": 101}, ["percentageOfNodesToScore"], id="bad-percentage-of-nodes-to-score"
        ),
        pytest.param(
            {"percentageOfNodesToScore": -1}, ["percentageOfNodesToScore"], id="negative-percentage-of-nodes-to-score"
        ),
        pytest.param(
            {"leaderElection": {"resourceLock": "configmap"}},
            ["leaderElection.resourceLock"],
            id="bad-resource-lock-not-leases",
        ),
        pytest.param(
            {"profiles": profiles(None, {"schedulerName": ""})},
            ["profiles[1].schedulerName"],
            id="scheduler-name-not-set",
        ),
        pytest.param(
            {"profiles": profiles({"schedulerName": "other"})},
            ["profiles[1].schedulerName"],
            id="repeated-scheduler-name",
        ),
        pytest.param(
            {"profiles": profiles(None, {"percentageOfNodesToScore": 101})},
            ["profiles[1].percentageOfNodesToScore"],
            id="greater-than-100-profile-percentage-of-nodes-to-score",
        ),
        pytest.param(
            {"profiles": profiles(None, {"percentageOfNodesToScore": -1})},
            ["profiles[1].percentageOfNodesToScore"],
            id="negative-profile-percentage-of-nodes-to-score",
        ),
        pytest.param(
            {"profiles": profiles(None, {"plugins": {"queueSort": {"enabled": names("AnotherSort")}}})},
            ["profiles[1].plugins.queueSort"],
            id="different-queue-sort",
        ),
        pytest.param(
            {"extenders": [{"prioritizeVerb": "prioritize", "weight": -1}]},
            ["extenders[0].weight"],
            id="extender-negative-weight",
        ),
        pytest.param(
            {
                "extenders": [
                    {
                        "prioritizeVerb": "prioritize",
                        "weight": 1,
                        "managedResources": names("example.com/foo", "example.com/foo"),
                    }
                ]
            },
            ["extenders[0].managedResources[1].name"],
            id="extender-duplicate-managed-resources",
        ),
        pytest.param(
            {
                "extenders": [
                    {"prioritizeVerb": "prioritize", "weight": 1, "bindVerb": "foo"},
                    {"prioritizeVerb": "prioritize", "weight": 1, "bindVerb": "bar"},
                ]
            },
            ["extenders"],
            id="extender-duplicate-bind",
        ),
        pytest.param(
            {
                "profiles": profiles(
                    {"pluginConfig": [{"name": PREEMPTION, "args": {"minCandidateNodesPercentage": 200}}]}
                )
            },
            ["profiles[0].pluginConfig[0].args.minCandidateNodesPercentage"],
            id="invalid-node-percentage",
        ),
        pytest.param(
            {"profiles": profiles({"pluginConfig": [{"name": PREEMPTION, "args": {"kind": "InterPodAffinityArgs"}}]})},
            ["profiles[0].pluginConfig[0].args.kind"],
            id="invalid-plugin-args",
        ),
        pytest.param(
            {"profiles": profiles({"pluginConfig": names("config", "config")})},
            ["profiles[0].pluginConfig[1]"],
            id="duplicated-plugin-config",
        ),
        pytest.param(
            {"profiles": [sorting("me", "PrioritySort"), sorting("other", "CustomSort")]},
            ["profiles[1].plugins.queueSort"],
            id="mismatch-queue-sort",
        ),
        pytest.param(
            {
                "profiles": profiles(
                    {
                        "plugins": {
                            "queueSort": {"enabled": names("CustomSort")},
                            "score": {"enabled": [{"name": "PodTopologySpread", "weight": 2}], "disabled": names("*")},
                        }
                    }
                )
            },
            [],
            id="valid-plugins",
        ),
    ],
)
def test_validate_kube_scheduler_configuration_v1(changes, expected):
    assert paths(faults_of(document(**changes))) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            lambda config: REPLACE(config, leader_election=REPLACE(config.leader_election, resource_name="")),
            "leaderElection.resourceName: Invalid value",
            id="bad-resource-name-not-set",
        ),
        pytest.param(
            lambda config: REPLACE(config, leader_election=REPLACE(config.leader_election, resource_namespace="")),
            "leaderElection.resourceNamespace: Invalid value",
            id="bad-resource-namespace-not-set",
        ),
        pytest.param(
            lambda config: REPLACE(
                config, profiles=(REPLACE(config.profiles[0], plugins=Plugins()), *config.profiles[1:])
            ),
            "profiles[1].plugins.queueSort: Invalid value",
            id="one-empty-queue-sort",
        ),
    ],
)
def test_validate_kube_scheduler_configuration_v1_beyond_documents(
    change: Callable[[SchedulerConfiguration], SchedulerConfiguration], expected
):
    """Rows that no document leads to, since its defaults come first; flags do, and code does."""
    (fault,) = validate(change(load_config(document())))
    assert fault.startswith(expected)


def args_faults(name: str, raw: dict[str, Any], gates: FeatureGates) -> list[str]:
    """What a plugin's args are refused for, before defaults are filled in, as upstream's tables have it."""
    decoder = Decoder()
    args: Any = decoder.decode(raw, ARGS_TYPES[name])
    if args is None:
        return decoder.errors
    found = list(args.gate_faults("args", gates)) if hasattr(args, "gate_faults") else []
    return [*found, *args.validate("args")]


def args_row(name: str, raw: dict[str, Any], *expected: str, gates: dict[str, bool] | None = None) -> None:
    """Hold one row: the fields that are refused, in order."""
    assert paths(args_faults(name, raw, feature_gates(gates or {}))) == [f"args.{path}" for path in expected]


PERCENTAGE, ABSOLUTE = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"


@pytest.mark.parametrize(
    ("percentage", "absolute", "expected"),
    [
        pytest.param(10, 100, [], id="valid args (default)"),
        pytest.param(-1, 100, [PERCENTAGE], id="negative minCandidateNodesPercentage"),
        pytest.param(900, 100, [PERCENTAGE], id="minCandidateNodesPercentage over 100"),
        pytest.param(20, -1, [ABSOLUTE], id="negative minCandidateNodesAbsolute"),
        pytest.param(0, 0, [PERCENTAGE, ABSOLUTE], id="all zero"),
        pytest.param(-1, -1, [PERCENTAGE, ABSOLUTE], id="both negative"),
    ],
)
def test_validate_default_preemption_args(percentage, absolute, expected):
    args_row(PREEMPTION, {PERCENTAGE: percentage, ABSOLUTE: absolute}, *expected)


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        pytest.param(10, [], id="valid args"),
        pytest.param(-1, ["hardPodAffinityWeight"], id="hardPodAffinityWeight less than min"),
        pytest.param(101, ["hardPodAffinityWeight"], id="hardPodAffinityWeight more than max"),
    ],
)
def test_validate_inter_pod_affinity_args(weight, expected):
    args_row("InterPodAffinity", {"hardPodAffinityWeight": weight}, *expected)


def spread(key: str = "node", skew: int = 1, action: str = "DoNotSchedule", **more: Any) -> dict[str, Any]:
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, **more}


@pytest.mark.parametrize(
    ("constraints", "defaulting", "expected"),
    [
        pytest.param([spread(), spread("zone", 2, "ScheduleAnyway")], "List", [], id="valid config"),
        pytest.param([spread(skew=-1)], "List", ["defaultConstraints[0].maxSkew"], id="maxSkew less than zero"),
        pytest.param([spread("")], "List", ["defaultConstraints[0].topologyKey"], id="empty topology key"),
        pytest.param(
            [spread(action="")], "List", ["defaultConstraints[0].whenUnsatisfiable"], id="whenUnsatisfiable is empty"
        ),
        pytest.param(
            [spread(action="unknown action")],
            "List",
            ["defaultConstraints[0].whenUnsatisfiable"],
            id="whenUnsatisfiable contains unsupported action",
        ),
        pytest.param([spread(), spread(skew=2)], "List", ["defaultConstraints[1]"], id="duplicated constraints"),
        pytest.param(
            [spread("key", labelSelector={"matchLabels": {"a": "b"}})],
            "List",
            ["defaultConstraints[0].labelSelector"],
            id="label selector present",
        ),
        pytest.param([], "List", [], id="list default constraints, no constraints"),
        pytest.param([], "System", [], id="system default constraints"),
        pytest.param([], "unknown", ["defaultingType"], id="wrong constraints"),
        pytest.param(
            [spread("key")], "System", ["defaultingType"], id="system default constraints, but has constraints"
        ),
    ],
)
def test_validate_pod_topology_spread_args(constraints, defaulting, expected):
    args_row("PodTopologySpread", {"defaultConstraints": constraints, "defaultingType": defaulting}, *expected)


def resources(*weights: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "weight": weight} for name, weight in weights]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(resources(("cpu", 1), ("memory", 1)), [], id="valid config"),
        pytest.param(resources(("cpu", 2), ("memory", 1)), ["resources[0].weight"], id="invalid config"),
        pytest.param(resources(("cpu", 1), ("cpu", 1)), ["resources[1].name"], id="repeated resources"),
    ],
)
def test_validate_node_resources_balanced_allocation_args(given, expected):
    args_row("NodeResourcesBalancedAllocation", {"resources": given}, *expected)


REQUIRED_AFFINITY = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_AFFINITY = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"


def affinity(key: str, *nodes: str) -> dict[str, Any]:
    def requirement(key: str, *values: str) -> dict[str, Any]:
        return {"key": key, "operator": "In", "values": list(values)}

    required = {"nodeSelectorTerms": [{"matchExpressions": [requirement(key, "label-1-val")]}]}
    preferred = [{"weight": 1, "preference": {"matchFields": [requirement("metadata.name", *nodes)]}}]
    during = "DuringSchedulingIgnoredDuringExecution"
    return {"addedAffinity": {f"required{during}": required, f"preferred{during}": preferred}}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param({}, [], id="empty"),
        pytest.param(affinity("label-1", "node-1"), [], id="valid added affinity"),
        pytest.param(
            affinity("invalid/label/key", "node-1", "node-2"),
            [
                f"{REQUIRED_AFFINITY}.nodeSelectorTerms[0].matchExpressions[0].key",
                f"{PREFERRED_AFFINITY}[0].matchFields[0].values",
            ],
            id="invalid added affinity",
        ),
    ],
)
def test_validate_node_affinity_args(args, expected):
    args_row("NodeAffinity", args, *expected)


def shape(*points: tuple[int, int]) -> list[dict[str, int]]:
    return [{"utilization": utilization, "score": score} for utilization, score in points]


@pytest.mark.parametrize(
    ("args", "is_on", "expected"),
    [
        pytest.param({"bindTimeoutSeconds": 0}, False, [], id="zero is a valid config"),
        pytest.param({"bindTimeoutSeconds": 10}, False, [], id="positive value is valid config"),
        pytest.param({"bindTimeoutSeconds": -10}, False, ["bindTimeoutSeconds"], id="negative value is invalid config"),
        pytest.param({"shape": None}, False, [], id="[off] shape should be nil when the feature is off"),
        pytest.param({"shape": shape((1, 1), (3, 3))}, False, ["shape"], id="[off] error if the shape is not nil"),
        pytest.param(
            {"shape": shape((3, 3), (1, 1))},
            True,
            ["shape[1].utilization"],
            id="[on] shape points must be sorted in increasing order",
        ),
        pytest.param(
            {"shape": shape((-1, 1), (10, -1), (20, 11), (101, 1))},
            True,
            ["shape[0].utilization", "shape[1].score", "shape[2].score", "shape[3].utilization"],
            id="[on] shape point: invalid utilization and score",
        ),
    ],
)
def test_validate_volume_binding_args(args, is_on, expected):
    args_row("VolumeBinding", args, *expected, gates={"StorageCapacityScoring": is_on})


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param(
            {"ignoredResources": ["longvalue" + "a" * 64]},
            ["ignoredResources[0]"],
            id="IgnoredResources: too long value",
        ),
        pytest.param(
            {"ignoredResources": ["example.com/"]}, ["ignoredResources[0]"], id="IgnoredResources: name is empty"
        ),
        pytest.param(
            {"ignoredResources": ["example.com/aaa/bbb"]},
            ["ignoredResources[0]"],
            id="IgnoredResources: name has too many slash",
        ),
        pytest.param({"ignoredResources": ["example.com"]}, [], id="IgnoredResources: valid args"),
        pytest.param({"ignoredResourceGroups": ["example.com"]}, [], id="IgnoredResourceGroups: valid args"),
        pytest.param(
            {"ignoredResourceGroups": ["example.com/"]},
            ["ignoredResourceGroups[0]"],
            id="IgnoredResourceGroups: illegal args",
        ),
        pytest.param(
            {"ignoredResourceGroups": ["a" * 64]},
            ["ignoredResourceGroups[0]"],
            id="IgnoredResourceGroups: name is too long",
        ),
        pytest.param(
            {"ignoredResourceGroups": ["example.com/aa"]},
            ["ignoredResourceGroups[0]"],
            id="IgnoredResourceGroups: name cannot be contain slash",
        ),
        pytest.param(
            {"scoringStrategy": {"type": "Invalid"}},
            ["scoringStrategy.type"],
            id="ScoringStrategy: type is unsupported",
        ),
        pytest.param(
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            ["scoringStrategy.requestedToCapacityRatio"],
            id="ScoringStrategy: requestedToCapacityRatio field is missing",
        ),
    ],
)
def test_validate_fit_args(args, expected):
    args_row("NodeResourcesFit", args, *expected)


WEIGHT = "scoringStrategy.resources[{}].weight"


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(None, [], id="default config"),
        pytest.param(resources(("cpu", 1), ("memory", 10)), [], id="multi valid resources"),
        pytest.param(resources(("cpu", 0)), [WEIGHT.format(0)], id="weight less than min"),
        pytest.param(resources(("cpu", 101)), [WEIGHT.format(0)], id="weight greater than max"),
        pytest.param(
            resources(("cpu", 0), ("memory", 101)), [WEIGHT.format(0), WEIGHT.format(1)], id="multi invalid resources"
        ),
    ],
)
def test_validate_least_and_most_allocated_scoring_strategy(strategy, given, expected):
    args_row("NodeResourcesFit", {"scoringStrategy": {"type": strategy, "resources": given}}, *expected)


SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"


@pytest.mark.parametrize(
    ("points", "given", "expected"),
    [
        pytest.param([], None, [SHAPE], id="no shapes"),
        pytest.param([(30, 3)], resources(("cpu", 101)), [WEIGHT.format(0)], id="weight greater than max"),
        pytest.param([(30, 3)], resources(("cpu", 0)), [WEIGHT.format(0)], id="weight less than min"),
        pytest.param([(30, 3)], None, [], id="valid shapes"),
        pytest.param([(-1, 3)], None, [f"{SHAPE}[0].utilization"], id="utilization less than min"),
        pytest.param([(101, 3)], None, [f"{SHAPE}[0].utilization"], id="utilization greater than max"),
        pytest.param([(10, 3), (10, 3)], None, [f"{SHAPE}[1].utilization"], id="duplicated utilization values"),
        pytest.param([(10, 3), (20, 3), (30, 3)], None, [], id="increasing utilization values"),
        pytest.param(
            [(10, 3), (20, 3), (15, 3)], None, [f"{SHAPE}[2].utilization"], id="non-increasing utilization values"
        ),
        pytest.param([(10, -1)], None, [f"{SHAPE}[0].score"], id="score less than min"),
        pytest.param([(10, 11)], None, [f"{SHAPE}[0].score"], id="score greater than max"),
    ],
)
def test_validate_requested_to_capacity_ratio_scoring_strategy(points, given, expected):
    ratio = {"shape": shape(*points)}
    strategy = {"type": "RequestedToCapacityRatio", "resources": given, "requestedToCapacityRatio": ratio}
    args_row("NodeResourcesFit", {"scoringStrategy": strategy}, *expected)


NO_TIMEOUT = {"DRASchedulerFilterTimeout": False}
NO_CONDITIONS = {"DRADeviceBindingConditions": False}
NO_STATUS = {
    "DRAResourceClaimDeviceStatus": False,
    "DRAResourceClaimGranularStatusAuthorization": False,
    **NO_CONDITIONS,
}


@pytest.mark.parametrize(
    ("args", "gates", "expected"),
    [
        pytest.param({"filterTimeout": "10s", "bindingTimeout": "10m"}, {}, [], id="valid args (default)"),
        pytest.param({}, {}, [], id="valid args (disabled)"),
        pytest.param({"filterTimeout": "-1s"}, {}, ["filterTimeout"], id="negative FilterTimeout"),
        pytest.param({"filterTimeout": "-1s"}, NO_TIMEOUT, ["filterTimeout"], id="negative FilterTimeout, disabled"),
        pytest.param({"bindingTimeout": "30s"}, {}, [], id="valid BindingTimeout"),
        pytest.param({"bindingTimeout": "0s"}, {}, ["bindingTimeout"], id="BindingTimeout < 1s (0s)"),
        pytest.param({"bindingTimeout": "-1s"}, {}, ["bindingTimeout"], id="BindingTimeout < 1s (negative)"),
        pytest.param(
            {"bindingTimeout": "1s"},
            NO_CONDITIONS,
            ["bindingTimeout"],
            id="BindingTimeout set but DRADeviceBindingConditions disabled",
        ),
        pytest.param(
            {"bindingTimeout": "1s"},
            NO_STATUS,
            ["bindingTimeout"],
            id="BindingTimeout set but DRAResourceClaimDeviceStatus disabled",
        ),
    ],
)
def test_validate_dynamic_resources_args(args, gates, expected):
    found = paths(args_faults("DynamicResources", args, feature_gates(gates)))
    assert sorted(set(found)) == [f"args.{path}" for path in expected]


DEFAULTS: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 16,
    "enableProfiling": True,
    "enableContentionProfiling": True,
    "leaderElection": {
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
        "resourceLock": "leases",
        "resourceNamespace": "kube-system",
        "resourceName": "kube-scheduler",
    },
    "clientConnection": {
        "kubeconfig": "",
        "acceptContentTypes": "",
        "contentType": "application/vnd.kubernetes.protobuf",
        "qps": 50,
        "burst": 100,
    },
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 10,
}
"""What an empty document means. Upstream writes `percentageOfNodesToScore: 0` besides; see docs/differences.md."""

CPU_AND_MEMORY = resources(("cpu", 1), ("memory", 1))

DEFAULT_ARGS: dict[str, dict[str, Any]] = {
    "DefaultPreemption": {PERCENTAGE: 10, ABSOLUTE: 100},
    "DynamicResources": {"filterTimeout": "10s", "bindingTimeout": "10m0s"},
    "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
    "NodeAffinity": {},
    "NodeResourcesBalancedAllocation": {"resources": CPU_AND_MEMORY},
    "NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": CPU_AND_MEMORY}},
    "PodTopologySpread": {"defaultingType": "System"},
    "VolumeBinding": {"bindTimeoutSeconds": 600},
}

DEFAULT_PLUGINS = [
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
]


def dumped(wanted: dict[str, Any], gates: dict[str, bool] | None = None) -> dict[str, Any]:
    """A document with all defaults written out."""
    return dump_config(load_config(wanted, gates=feature_gates(gates or {})), ARGS_TYPES)


def args_of(profile: dict[str, Any]) -> dict[str, Any]:
    """The args in a profile that was written out, by plugin, without version and kind."""
    type_meta = ("apiVersion", "kind")
    return {
        config["name"]: {key: value for key, value in (config["args"] or {}).items() if key not in type_meta}
        for config in profile["pluginConfig"]
    }


def names_in(plugins: list[dict[str, Any]]) -> list[str]:
    return [plugin["name"] for plugin in plugins]


def enabled(plugin_set: dict[str, Any]) -> list[tuple[str, int]]:
    return [(plugin["name"], plugin.get("weight", 0)) for plugin in plugin_set["enabled"]]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {}, id="empty config"),
        pytest.param({"profiles": [{}]}, {}, id="no scheduler name"),
        pytest.param({"parallelism": 16}, {"parallelism": 16}, id="Prallelism with no port"),
        pytest.param({"parallelism": 8}, {"parallelism": 8}, id="set non default parallelism"),
        pytest.param(
            {"delayCacheUntilActive": True}, {"delayCacheUntilActive": True}, id="set non default delayCacheUntilActive"
        ),
        pytest.param(
            {"percentageOfNodesToScore": 50},
            {"percentageOfNodesToScore": 50},
            id="set non default global percentageOfNodesToScore",
        ),
        pytest.param(
            {"profiles": [{"percentageOfNodesToScore": 50}]},
            {"in profile": 50},
            id="set non default profile percentageOfNodesToScore",
        ),
        pytest.param(
            {"percentageOfNodesToScore": 10, "profiles": [{"percentageOfNodesToScore": 50}]},
            {"percentageOfNodesToScore": 10, "in profile": 50},
            id="set non default global and profile percentageOfNodesToScore",
        ),
    ],
)
def test_scheduler_defaults(changes, expected):
    found = dumped(v1_document(**changes))
    (profile,) = found.pop("profiles")
    in_profile = expected.pop("in profile", None)
    assert found == {**DEFAULTS, **expected}
    assert (profile["schedulerName"], profile.get("percentageOfNodesToScore")) == ("default-scheduler", in_profile)
    assert enabled(profile["plugins"]["multiPoint"]) == DEFAULT_PLUGINS
    assert args_of(profile) == DEFAULT_ARGS


def test_scheduler_defaults_two_profiles():
    bar = {"enabled": names("BarPlugin"), "disabled": names("DefaultBinder")}
    first, second = dumped(
        v1_document(
            profiles=[
                {"schedulerName": "default-scheduler", "pluginConfig": names("FooPlugin")},
                {"schedulerName": "custom-scheduler", "plugins": {"bind": bar}},
            ]
        )
    )["profiles"]
    assert args_of(first) == {"FooPlugin": {}, **DEFAULT_ARGS}
    assert next(iter(args_of(first))) == "FooPlugin"
    assert args_of(second) == DEFAULT_ARGS
    for profile in (first, second):
        assert enabled(profile["plugins"]["multiPoint"]) == DEFAULT_PLUGINS
    assert {side: names_in(second["plugins"]["bind"][side]) for side in bar} == {
        "enabled": ["BarPlugin"],
        "disabled": ["DefaultBinder"],
    }
    assert first["plugins"]["bind"] == {}


SCALAR = "scalar.io/scalar1"
CONSTRAINT = spread("planet", 2)


@pytest.mark.parametrize(
    ("name", "given", "gates", "expected"),
    [
        pytest.param(PREEMPTION, {}, {}, {PERCENTAGE: 10, ABSOLUTE: 100}, id="DefaultPreemptionArgs empty"),
        pytest.param(
            PREEMPTION, {PERCENTAGE: 50}, {}, {PERCENTAGE: 50, ABSOLUTE: 100}, id="DefaultPreemptionArgs with value"
        ),
        pytest.param("InterPodAffinity", {}, {}, {"hardPodAffinityWeight": 1}, id="InterPodAffinityArgs empty"),
        pytest.param(
            "InterPodAffinity",
            {"hardPodAffinityWeight": 0},
            {},
            {"hardPodAffinityWeight": 0},
            id="InterPodAffinityArgs explicit 0",
        ),
        pytest.param(
            "InterPodAffinity",
            {"hardPodAffinityWeight": 5},
            {},
            {"hardPodAffinityWeight": 5},
            id="InterPodAffinityArgs with value",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {},
            {},
            {"resources": CPU_AND_MEMORY},
            id="NodeResourcesBalancedAllocationArgs resources empty",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": resources((SCALAR, 1))},
            {},
            {"resources": resources((SCALAR, 1))},
            id="NodeResourcesBalancedAllocationArgs with scalar resource",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": resources(("cpu", 1), (SCALAR, 1))},
            {},
            {"resources": resources(("cpu", 1), (SCALAR, 1))},
            id="NodeResourcesBalancedAllocationArgs with mixed resources",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": [*names("cpu", "scalar.io/scalar0"), *resources((SCALAR, 1))]},
            {},
            {"resources": resources(("cpu", 1), ("scalar.io/scalar0", 1), (SCALAR, 1))},
            id="NodeResourcesBalancedAllocationArgs have resource no weight",
        ),
        pytest.param(
            "PodTopologySpread", {}, {}, {"defaultingType": "System"}, id="PodTopologySpreadArgs resources empty"
        ),
        pytest.param(
            "NodeResourcesFit",
            {},
            {},
            {"scoringStrategy": {"type": "LeastAllocated", "resources": CPU_AND_MEMORY}},
            id="NodeResourcesFitArgs not set",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated"}},
            {},
            {"scoringStrategy": {"type": "MostAllocated", "resources": CPU_AND_MEMORY}},
            id="NodeResourcesFitArgs Resources empty",
        ),
        pytest.param(
            "VolumeBinding",
            {},
            {"StorageCapacityScoring": False},
            {"bindTimeoutSeconds": 600},
            id="VolumeBindingArgs empty, StorageCapacityScoring disabled",
        ),
        pytest.param(
            "VolumeBinding",
            {},
            {"StorageCapacityScoring": True},
            {"bindTimeoutSeconds": 600, "shape": shape((0, 10), (100, 0))},
            id="VolumeBindingArgs empty, StorageCapacityScoring enabled",
        ),
        pytest.param(
            "DynamicResources",
            {},
            {},
            {"filterTimeout": "10s", "bindingTimeout": "10m0s"},
            id="DynamicResourcesArgs defaults, DRADeviceBindingConditions enabled",
        ),
    ],
)
def test_plugin_args_defaults(name, given, gates, expected):
    document = v1_document(profiles=[{"pluginConfig": [{"name": name, "args": given}]}])
    (profile,) = dumped(document, gates)["profiles"]
    found = args_of(profile)[name]
    found.pop("ignorePreferredTermsOfExistingPods", None)  # of which the rows say nothing
    assert found == expected


def test_plugin_args_defaults_of_pod_topology_spread_with_value():
    """The row `PodTopologySpreadArgs resources with value`: the type stays System, which validation then refuses."""
    with pytest.raises(ConfigError) as caught:
        decode_plugin_args(
            "PodTopologySpread", {"defaultConstraints": [CONSTRAINT]}, ARGS_TYPES["PodTopologySpread"], "args"
        )
    assert paths(caught.value.errors) == ["args.defaultingType"]


def test_an_empty_shape_is_the_default_one():
    """`[StorageCapacityScoring=on] shape should not be empty`: no document leads there, as the default comes first."""
    document = v1_document(profiles=[{"pluginConfig": [{"name": "VolumeBinding", "args": {"shape": []}}]}])
    (profile,) = dumped(document, {"StorageCapacityScoring": True})["profiles"]
    assert args_of(profile)["VolumeBinding"]["shape"] == shape((0, 10), (100, 0))


ALL_ARGS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 50, minCandidateNodesAbsolute: 500}}
  - {name: DynamicResources, args: {filterTimeout: 10s, bindingTimeout: 10m0s}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}
  - {name: NodeResourcesFit, args: {ignoredResources: [foo]}}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 300}}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions: [{key: foo, operator: In, values: [bar]}]
  - name: NodeResourcesBalancedAllocation
    args:
      resources:
      - name: cpu
      - {name: memory, weight: 0}
      - {name: scalar0, weight: 1}
      - name: scalar1
      - {name: scalar2, weight: 0}
"""


def test_codecs_decode_plugin_config_v1_all_plugin_args_in_default_profile():
    """Upstream's row has constraints with system defaulting and a weight of 2 besides, which validation refuses."""
    (profile,) = dumped(parse_document(ALL_ARGS, "row"))["profiles"]
    scalars = resources(*((f"scalar{number}", 1) for number in range(3)))
    expected = {
        PREEMPTION: {PERCENTAGE: 50, ABSOLUTE: 500},
        "DynamicResources": DEFAULT_ARGS["DynamicResources"],
        "InterPodAffinity": {**DEFAULT_ARGS["InterPodAffinity"], "hardPodAffinityWeight": 5},
        "NodeResourcesFit": {"ignoredResources": ["foo"], **DEFAULT_ARGS["NodeResourcesFit"]},
        "VolumeBinding": {"bindTimeoutSeconds": 300},
        "NodeResourcesBalancedAllocation": {"resources": [*CPU_AND_MEMORY, *scalars]},
        "PodTopologySpread": {"defaultingType": "System"},
    }
    found = args_of(profile)
    required = found.pop("NodeAffinity")["addedAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "foo", "operator": "In", "values": ["bar"]}]
    assert found == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(
            {
                "name": PREEMPTION,
                "args": {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "DefaultPreemptionArgs",
                    PERCENTAGE: 50,
                },
            },
            {PREEMPTION: {PERCENTAGE: 50, ABSOLUTE: 100}},
            id="v1 plugins can include version and kind",
        ),
        pytest.param(
            {"name": "OutOfTreePlugin", "args": {"foo": "bar"}},
            {"OutOfTreePlugin": {"foo": "bar"}},
            id="out-of-tree plugin args",
        ),
        pytest.param(
            {"name": "InterPodAffinity", "args": {"ignorePreferredTermsOfExistingPods": True}},
            {"InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": True}},
            id="ignorePreferredTermsOfExistingPods is enabled",
        ),
    ],
)
def test_codecs_decode_plugin_config(config, expected):
    (profile,) = dumped(v1_document(profiles=[{"pluginConfig": [config]}]))["profiles"]
    assert args_of(profile) == {**DEFAULT_ARGS, **expected}
    assert next(iter(args_of(profile))) == config["name"], "what the document names comes first"


def test_codecs_decode_plugin_config_empty_and_no_plugin_args():
    configs = [
        *(
            {"name": name, "args": None}
            for name in (PREEMPTION, "DynamicResources", "OutOfTreePlugin", "VolumeBinding")
        ),
        *names("InterPodAffinity", "NodeResourcesFit", "PodTopologySpread", "NodeAffinity"),
        *names("NodeResourcesBalancedAllocation"),
    ]
    (profile,) = dumped(v1_document(profiles=[{"pluginConfig": configs}]))["profiles"]
    assert args_of(profile) == {**DEFAULT_ARGS, "OutOfTreePlugin": {}}


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        pytest.param(
            PREEMPTION,
            {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs"},
            ["kind"],
            id="plugin group and kind should match the type",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"requestedToCapacityRatio": {"shape": [{"Score": 2, "Utilization": 1}]}}},
            [f"{SHAPE}[0].Score", f"{SHAPE}[0].Utilization"],
            id="v1 NodResourcesFitArgs shape encoding is strict",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"Name": "cpu", "Weight": 1}]}},
            ["scoringStrategy.resources[0].Name", "scoringStrategy.resources[0].Weight"],
            id="v1 NodeResourcesFitArgs resources encoding is strict",
        ),
    ],
)
def test_codecs_decode_plugin_config_refuses(name, args, expected):
    found = paths(faults_of(v1_document(profiles=[{"pluginConfig": [{"name": name, "args": args}]}])))
    # Fields that are missing where their names are misspelt are told besides.
    assert set(found) >= {f"profiles[0].pluginConfig[0].args.{path}" for path in expected}
