"""NodeResourcesFit: filtering, strategies, args and hints, against the behaviour documented upstream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.codec import decode
from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_plugin_args
from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.status import Code, Status
from berth.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from packages.scheduler.tests.plugins.resource_support import (
    apply,
    big_cluster,
    changes,
    pods,
    same_scores,
    same_verdicts,
)
from packages.scheduler.tests.plugins.support import handle_of

GPU = "example.com/gpu"


def args_of(raw=None):
    return decode_plugin_args("NodeResourcesFit", raw, NodeResourcesFitArgs, "args")


def fit(handle=None, **raw):
    return NodeResourcesFit(args_of(raw), handle or handle_of())


def strategy(kind, *resources, shape=None):
    raw = {"type": kind, "resources": [{"name": name, "weight": weight} for name, weight in resources]}
    if shape is not None and kind == "RequestedToCapacityRatio":
        points = [{"utilization": utilization, "score": score} for utilization, score in shape]
        raw["requestedToCapacityRatio"] = {"shape": points}
    return raw


def device_class(name, extended_resource=None):
    spec = {"extendedResourceName": extended_resource} if extended_resource else {}
    return decode("DeviceClass", {"metadata": {"name": name}, "spec": spec})


NODE = make_node("n").capacity({"cpu": "10", "memory": "20Gi", "ephemeral-storage": "5Gi", GPU: "5", "pods": 2})
RUNNING = make_pod("running").request({"cpu": "8", "memory": "19Gi", GPU: "3"}).node("n")


def unschedulable(*reasons):
    return lacking(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons):
    return lacking(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def lacking(code, reasons):
    """What the filter answers: each reason names a resource, which the status carries as well."""
    named = ("pods" if reason == "Too many pods" else reason.removeprefix("Insufficient ") for reason in reasons)
    return Status(code, reasons, lacking=tuple(named))


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        (make_pod(), None),
        (make_pod().request(cpu="2", memory="1Gi"), None),
        (make_pod().request(cpu="2001m"), unschedulable("Insufficient cpu")),
        (make_pod().request(cpu="10"), unschedulable("Insufficient cpu")),
        (make_pod().request(cpu="10001m"), unresolvable("Insufficient cpu")),
        (make_pod().request(cpu="3", memory="2Gi"), unschedulable("Insufficient cpu", "Insufficient memory")),
        # One resource that the node could never give makes the whole status so.
        (make_pod().request(cpu="3", memory="21Gi"), unresolvable("Insufficient cpu", "Insufficient memory")),
        (make_pod().request({"ephemeral-storage": "6Gi"}), unresolvable("Insufficient ephemeral-storage")),
        (make_pod().request({GPU: "2"}), None),
        (make_pod().request({GPU: "3"}), unschedulable("Insufficient example.com/gpu")),
        (make_pod().request({"other.com/x": "1"}), unresolvable("Insufficient other.com/x")),
        (make_pod().request({"other.com/x": "0", "cpu": "0"}), None),
        (make_pod().request({"hugepages-2Mi": "2Mi"}), unresolvable("Insufficient hugepages-2Mi")),
        (make_pod().request(cpu="1").init_container(requests={"cpu": "3"}), unschedulable("Insufficient cpu")),
        (make_pod().request(cpu="2").overhead(cpu="1m"), unschedulable("Insufficient cpu")),
        (make_pod().request(cpu="9").pod_level(cpu="1"), None),
    ],
)
def test_filter(pod, status):
    handle = handle_of(NODE.build(), RUNNING.build())
    assert same_verdicts(fit(handle), pod.info(), handle.cache.table) == {"n": status}


def test_too_many_pods_is_said_first_and_can_be_cured():
    handle = handle_of(NODE.build(), RUNNING.build(), make_pod("second").node("n").build())
    verdicts = same_verdicts(fit(handle), make_pod().request(cpu="3").info(), handle.cache.table)
    assert verdicts == {"n": unschedulable("Too many pods", "Insufficient cpu")}


def test_a_node_that_allows_no_pods_takes_none():
    handle = handle_of(make_node("n").capacity(pods=0).build())
    assert same_verdicts(fit(handle), make_pod().info(), handle.cache.table) == {"n": unschedulable("Too many pods")}


def test_reasons_name_plain_resources_first_and_others_by_name():
    handle = handle_of(make_node("n").capacity().build())
    pod = make_pod().request({"z.com/a": "1", "a.com/z": "1", "ephemeral-storage": "1", "memory": "1", "cpu": "1"})
    status = same_verdicts(fit(handle), pod.info(), handle.cache.table)["n"]
    short = ("cpu", "memory", "ephemeral-storage", "a.com/z", "z.com/a")
    assert status == unresolvable(*(f"Insufficient {name}" for name in short))


@pytest.mark.parametrize(
    ("raw", "asked", "fits"),
    [
        ({"ignoredResources": ["other.com/x"]}, "other.com/x", True),
        ({"ignoredResources": ["other.com/x"]}, "other.com/y", False),
        ({"ignoredResourceGroups": ["other.com"]}, "other.com/y", True),
        ({"ignoredResourceGroups": ["example.com"]}, "other.com/y", False),
        # Only extended resources can be ignored.
        ({"ignoredResources": ["cpu"]}, "cpu", False),
        ({"ignoredResources": ["hugepages-2Mi"]}, "hugepages-2Mi", False),
        ({"ignoredResourceGroups": ["kubernetes.io"]}, "kubernetes.io/x", False),
    ],
)
def test_ignored_resources(raw, asked, fits):
    handle = handle_of(make_node("n").capacity().build())
    status = same_verdicts(fit(handle, **raw), make_pod().request({asked: "1"}).info(), handle.cache.table)["n"]
    assert (status is None) is fits


@pytest.mark.parametrize(
    ("offered", "asked", "fits"),
    [
        (device_class("gpus", GPU), GPU, {"without"}),
        (device_class("gpus", "example.com/other"), GPU, set()),
        (device_class("gpus"), "deviceclass.resource.kubernetes.io/gpus", {"with", "without"}),
        (device_class("gpus"), "deviceclass.resource.kubernetes.io/others", set()),
    ],
)
def test_devices_stand_in_on_nodes_that_have_none_of_the_resource(offered, asked, fits):
    handle = handle_of(make_node("with").capacity({GPU: "1"}).build(), make_node("without").capacity().build())
    plugin, pod = fit(handle), make_pod().request({asked: "2"}).info()
    assert all(status is not None for status in same_verdicts(plugin, pod, handle.cache.table).values())
    handle.objects.put("DeviceClass", offered)
    verdicts = same_verdicts(plugin, pod, handle.cache.table)
    assert {name for name, status in verdicts.items() if status is None} == fits


def test_devices_do_not_stand_in_with_the_feature_off():
    handle = handle_of(make_node("n").capacity().build(), gates={"DRAExtendedResource": False})
    handle.objects.put("DeviceClass", device_class("gpus", GPU))
    pod = make_pod().request({GPU: "1"}).info()
    assert same_verdicts(fit(handle), pod, handle.cache.table)["n"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_what_if_views_are_believed():
    handle = handle_of(NODE.build(), RUNNING.build())
    plugin, pod = fit(handle), make_pod().request(cpu="10").info()
    full = handle.cache.table.view(handle.cache.table.row_of["n"])
    assert plugin.filter(CycleState(), pod, full) == unschedulable("Insufficient cpu")
    assert plugin.filter(CycleState(), pod, full.without_pod(RUNNING.info())) is None


LEFT = make_node("left").capacity(cpu="4000m", memory="10000")
RIGHT = make_node("right").capacity(cpu="6000m", memory="10000")
ASKING = make_pod().request(cpu="1000m", memory="2000").request(cpu="2000m", memory="3000")


@pytest.mark.parametrize(
    ("scoring", "pod", "left", "right"),
    [
        # left: CPU 25 % and memory 50 % would be free; right: 50 % and 50 %.
        (strategy("LeastAllocated", ("cpu", 1), ("memory", 1)), ASKING, 37, 50),
        (strategy("LeastAllocated", ("cpu", 1)), ASKING, 25, 50),
        (strategy("LeastAllocated", ("cpu", 3), ("memory", 1)), ASKING, 31, 50),
        (strategy("LeastAllocated", ("cpu", 1), ("memory", 1)), make_pod().request(cpu="5", memory="0"), 50, 58),
        # Neither node has the resource, or the pod does not ask for it: it is left out of account.
        (strategy("LeastAllocated", ("cpu", 1), (GPU, 1)), ASKING, 25, 50),
        (strategy("LeastAllocated", (GPU, 1)), ASKING, 0, 0),
        (strategy("LeastAllocated", ("ephemeral-storage", 1), ("cpu", 1)), ASKING, 25, 50),
        (strategy("MostAllocated", ("cpu", 1), ("memory", 1)), ASKING, 62, 50),
        (strategy("MostAllocated", ("cpu", 1), ("memory", 2)), ASKING, 58, 50),
        (strategy("MostAllocated", ("cpu", 1)), make_pod().request(cpu="5", memory="0"), 100, 83),
        (strategy("RequestedToCapacityRatio", ("cpu", 1), ("memory", 1), shape=[(0, 0), (100, 10)]), ASKING, 63, 50),
        (strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(0, 10), (100, 0)]), ASKING, 25, 50),
        # A resource that scores 0 does not count in the mean.
        (
            strategy("RequestedToCapacityRatio", ("cpu", 1), ("memory", 1), shape=[(50, 0), (100, 10)]),
            ASKING,
            50,
            0,
        ),
    ],
)
def test_strategies(scoring, pod, left, right):
    handle = handle_of(LEFT.build(), RIGHT.build())
    scores = same_scores(fit(handle, scoringStrategy=scoring), pod.info(), handle.cache.table)
    assert scores == {"left": left, "right": right}


def test_the_bin_packing_example_of_the_documentation():
    # kubernetes.io, "Resource Bin Packing": utilizations of 75, 50 and 37 %, and of 50, 75 and 100 %.
    foo = "intel.com/foo"
    handle = handle_of(
        make_node("node1").capacity({foo: "4", "memory": "1Gi", "cpu": "8"}).build(),
        make_node("node2").capacity({foo: "8", "memory": "1Gi", "cpu": "8"}).build(),
        make_pod("used1").request({foo: "1", "memory": "256Mi", "cpu": "1"}).node("node1").build(),
        make_pod("used2").request({foo: "2", "memory": "512Mi", "cpu": "6"}).node("node2").build(),
    )
    scoring = strategy("RequestedToCapacityRatio", (foo, 5), ("memory", 1), ("cpu", 3), shape=[(0, 0), (100, 10)])
    pod = make_pod().request({foo: "2", "memory": "256Mi", "cpu": "2"}).info()
    scores = same_scores(fit(handle, scoringStrategy=scoring), pod, handle.cache.table)
    assert scores == {"node1": round((75 * 5 + 50 + 37 * 3) / 9), "node2": round((50 * 5 + 75 + 100 * 3) / 9)}


def test_containers_that_ask_for_nothing_count_by_default_amounts():
    handle = handle_of(make_node("n").capacity(cpu="1", memory="1000Mi").build())
    assert same_scores(fit(handle), make_pod().container().info(), handle.cache.table) == {"n": (90 + 80) // 2}


def test_the_pod_level_of_the_incoming_pod_is_not_scored_but_that_of_running_pods_is():
    handle = handle_of(make_node("n").capacity(cpu="10", memory="10Gi").build())
    pod = make_pod().request(cpu="1", memory="1Gi").pod_level(cpu="5", memory="5Gi")
    assert same_scores(fit(handle), pod.info(), handle.cache.table) == {"n": 90}
    handle.cache.add_pod(pod.copy().uid("running").node("n").info())
    assert same_scores(fit(handle), pod.info(), handle.cache.table) == {"n": 40}


@given(changes(), pods(), st.sampled_from(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")))
def test_both_forms_agree_whatever_happens_to_the_cluster(happening, pod, kind):
    handle = handle_of()
    resources = [("cpu", 2), ("memory", 1), (GPU, 3), ("ephemeral-storage", 1)]
    plugin = fit(handle, scoringStrategy=strategy(kind, *resources, shape=[(10, 9), (50, 0), (90, 4)]))
    default = fit(handle)
    for number, change in enumerate(happening):
        apply(handle.cache, number, change)
        same_verdicts(plugin, pod, handle.cache.table)
        same_scores(plugin, pod, handle.cache.table)
        same_scores(default, pod, handle.cache.table)


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
def test_both_forms_agree_on_many_nodes_and_after_many_changes(kind):
    handle = handle_of()
    pod = make_pod().request({"cpu": "50m", "memory": "100Mi", GPU: "1"}).info()
    plugin = fit(handle, scoringStrategy=strategy(kind, ("cpu", 2), ("memory", 1), (GPU, 3), shape=[(0, 1), (99, 8)]))
    seen = set()
    for seed in range(3):
        big_cluster(handle.cache, seed)
        seen |= set(same_verdicts(plugin, pod, handle.cache.table).values())
        seen |= set(same_scores(plugin, pod, handle.cache.table).values())
    assert len(seen) > 10


def test_equal_needs_have_equal_signatures_and_others_not():
    plugin = fit()
    of = plugin.signature
    assert of(make_pod("a").request(cpu="1", memory="1Gi").info()) == of(
        make_pod("b").request(cpu="1000m", memory="1Gi").info()
    )
    different = [make_pod(), make_pod().container(), make_pod().request(cpu="1"), make_pod().request({GPU: "1"})]
    assert len({of(pod.info()) for pod in different}) == len(different)


class TestArgs:
    """Defaults and validation."""

    def test_defaults(self):
        assert args_of() == args_of({"scoringStrategy": {"type": "LeastAllocated"}})
        assert [(spec.name, spec.weight) for spec in args_of().scoring_strategy.resources] == [
            ("cpu", 1),
            ("memory", 1),
        ]

    def test_a_weight_left_out_is_one(self):
        args = args_of({"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": GPU}]}})
        assert [(spec.name, spec.weight) for spec in args.scoring_strategy.resources] == [(GPU, 1)]

    @pytest.mark.parametrize(
        ("raw", "error"),
        [
            (
                {"scoringStrategy": {"type": "Emptiest"}},
                (
                    'args.scoringStrategy.type: Unsupported value: "Emptiest": supported values: '
                    '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
                ),
            ),
            (
                {"scoringStrategy": strategy("LeastAllocated", ("cpu", 101))},
                (
                    "args.scoringStrategy.resources[0].weight: Invalid value: 101: "
                    "resource weight of cpu not in valid range (0, 100]"
                ),
            ),
            (
                {"scoringStrategy": strategy("LeastAllocated", ("cpu", -1))},
                (
                    "args.scoringStrategy.resources[0].weight: Invalid value: -1: "
                    "resource weight of cpu not in valid range (0, 100]"
                ),
            ),
            (
                {"scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": {"shape": []}}},
                (
                    "args.scoringStrategy.requestedToCapacityRatio: Forbidden: "
                    "must be nil when type is not RequestedToCapacityRatio"
                ),
            ),
            (
                {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
                (
                    "args.scoringStrategy.requestedToCapacityRatio: Required value: "
                    "must be specified when type is RequestedToCapacityRatio"
                ),
            ),
            (
                {"scoringStrategy": strategy("RequestedToCapacityRatio", shape=[])},
                (
                    "args.scoringStrategy.requestedToCapacityRatio.shape: Required value: "
                    "at least one point must be specified"
                ),
            ),
            (
                {"scoringStrategy": strategy("RequestedToCapacityRatio", shape=[(50, 1), (50, 2)])},
                (
                    "args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50: "
                    "utilization values must be sorted in increasing order"
                ),
            ),
            (
                {"scoringStrategy": strategy("RequestedToCapacityRatio", shape=[(0, 11), (101, 0)])},
                (
                    "args.scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: "
                    "not in valid range [0, 10]"
                ),
            ),
            (
                {"ignoredResourceGroups": ["a/b"]},
                "args.ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
            ),
            ({"ignoredResources": ["-x"]}, 'args.ignoredResources[0]: Invalid value: "-x": name part must consist of'),
            ({"ignoredResource": ["x"]}, "args.ignoredResource"),
        ],
    )
    def test_what_is_wrong_is_said(self, raw, error):
        with pytest.raises(ConfigError) as raised:
            args_of(raw)
        assert raised.value.errors[0].startswith(error)
