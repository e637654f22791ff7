"""The Trimaran plugins in a scheduler; expectations from upstream's READMEs, counted by hand."""

import random
import time
from fractions import Fraction

import numpy as np
import pytest

from berth.testing import VirtualCluster, check_plugin, make_node, make_pod
from berth_plugins.trimaran.beta import fitted, largest_variance, probability_below
from berth_plugins.trimaran.exponential import exponential, fused
from berth_plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from berth_plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from berth_plugins.trimaran.metrics import INTERVAL_S, LOAD_WATCHER
from berth_plugins.trimaran.peaks import Figures, Peaks, raw_scores
from berth_plugins.trimaran.target_load_packing import TargetLoadPacking

WATCHER = {"watcherAddress": "http://watcher:2020"}
LONG_AGO, NEVER = 1_000_000_000, 4_000_000_000
POWERS = {"n0": {"k0": 400, "k1": -300, "k2": -0.07}, "n1": {"k0": 100, "k1": -50, "k2": -0.1}}
PEAKS = {"WatcherAddress": "http://watcher:2020", "NodePowerModel": POWERS}
PLUGINS = (TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment, Peaks)


def measured(end=NEVER, **nodes):
    """What the load watcher says: by node, figures such as `CPU_AVG=20`."""
    found = {}
    for name, figures in nodes.items():
        metrics = [dict(zip(("type", "operator"), key.split("_"), strict=True), value=v) for key, v in figures.items()]
        found[name] = {"metrics": metrics}
    return {"window": {"end": end}, "data": {"NodeMetricsMap": found}}


def cluster(config, plugin, load, args=WATCHER, cpu="10"):
    found = VirtualCluster(plugins={plugin.name: plugin}, config=config(plugin.name, args=args))
    for name in ("a", "b", "c"):
        found.put(make_node(name).capacity(cpu=cpu, memory="10Gi"))
    (resource,) = found.core.resources.polled
    if load is not None:
        found.put(resource.read(load))
    return found


def scores(found, pod):
    """The raw scores by node."""
    names = {plugin.name for plugin in PLUGINS}
    plugin = next(each.plugin for each in found.core.profiles["default-scheduler"].plugins if each.name in names)
    table = found.core.cache.table
    return {table.names[row]: plugin.score(None, pod.info(), table.view(row)) for row in table.rows().tolist()}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_each_keeps_its_contract_as_nodes_pods_and_loads_change(config, plugin):
    resource = cluster(config, plugin, None, PEAKS if plugin is Peaks else WATCHER).core.resources.polled

    def some_load(rng):
        kinds = [f"{kind}_{operator}" for kind in ("CPU", "Memory") for operator in ("AVG", "STD")]
        nodes = {f"n{number}": {kind: rng.uniform(0, 110) for kind in rng.sample(kinds, 3)} for number in range(3)}
        return [next(iter(resource)).read(measured(**nodes))]

    check_plugin(
        plugin,
        config=config(plugin.name, args=PEAKS if plugin is Peaks else WATCHER),
        objects=some_load,
        remembers=plugin is TargetLoadPacking,
    )


def test_every_plugin_asks_the_load_watcher_every_half_minute(config):
    for plugin in PLUGINS:
        args = {"WatcherAddress": "http://watcher:2020/", "NodePowerModel": {"a": {"k0": 1}}}
        found = cluster(config, plugin, None, args if plugin is Peaks else WATCHER)
        (resource,) = found.core.resources.polled
        assert (resource.name, resource.url) == (LOAD_WATCHER, "http://watcher:2020/watcher")
        assert resource.every_s == INTERVAL_S == 30


@pytest.mark.parametrize("plugin", PLUGINS)
def test_without_a_load_watcher_the_args_are_refused(config, plugin):
    with pytest.raises(ValueError, match="atcherAddress"):
        cluster(config, plugin, None, {})


@pytest.mark.parametrize("plugin", PLUGINS[:3])
def test_nodes_that_are_not_measured_score_nothing(config, plugin):
    found = cluster(config, plugin, None)
    assert set(scores(found, make_pod("p").request(cpu="1")).values()) == {0}


def test_nodes_are_packed_up_to_the_target_and_spread_beyond(config):
    load = measured(a={"CPU_AVG": 10}, b={"CPU_AVG": 30}, c={"CPU_AVG": 70})
    found = cluster(config, TargetLoadPacking, load)
    pod = make_pod("p").request(cpu="1")  # predicted to use 1.5 of 10
    # 25 % → 60·25/40 + 40; 45 % → 40·55/60; 85 % → 40·15/60
    assert scores(found, pod) == {"a": 78, "b": 37, "c": 10}
    found.put(pod)
    assert found.run().nodes_of()["p"] == "a"


def test_pods_that_came_after_the_measurement_are_counted_in(config):
    found = cluster(config, TargetLoadPacking, measured(LONG_AGO, a={"CPU_AVG": 10}, b={"CPU_AVG": 10}))
    limited = make_pod("there").node("a")
    limited.spec["containers"] = [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]
    found.put(limited)
    pod = make_pod("p").request(cpu="1")
    assert scores(found, pod) == {"a": 93, "b": 78, "c": 0}
    found.delete("Pod", "default/there")
    assert scores(found, pod)["a"] == 78


def test_risk_is_mean_and_deviation(config):
    load = measured(
        a={"CPU_AVG": 20, "CPU_STD": 20, "Memory_AVG": 0},
        b={"CPU_AVG": 40, "CPU_STD": 0},
        c={"CPU_AVG": 40, "CPU_STD": 64},
    )
    found = cluster(config, LoadVariationRiskBalancing, load, {**WATCHER, "safeVarianceSensitivity": 2})
    # a: (0.3 + √0.2)/2 is the worse; b: 0.5/2; c: (0.5 + 0.8)/2
    assert scores(found, make_pod("p").request(cpu="1")) == {"a": 63, "b": 75, "c": 35}


def test_nodes_that_promise_more_than_they_have_are_avoided(config):
    found = cluster(config, LowRiskOverCommitment, measured(a={"CPU_AVG": 0}, b={"CPU_AVG": 0}, c={"CPU_AVG": 0}))
    for name, limit in (("a", "5"), ("b", "19")):
        pod = make_pod(f"on-{name}").node(name)
        pod.spec["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": limit}}}]
        found.put(pod)
    # on b 20 of 10 may be asked for, where 2 are requested: 10/18 of the way, and limits count half
    assert scores(found, make_pod("p").request(cpu="1")) == {"a": 100, "b": 72, "c": 100}
    assert set(scores(found, make_pod("nothing")).values()) == {0}


def test_the_least_power_is_best(config):
    models = {"a": {"k0": 100, "k1": -50, "k2": -0.1}, "b": {"k0": 100, "k1": -50, "k2": -0.01}}
    args = {"WatcherAddress": "http://watcher:2020", "NodePowerModel": models}
    found = cluster(config, Peaks, measured(a={"CPU_AVG": 50}, b={"CPU_AVG": 50}), args)
    raw = scores(found, make_pod("p").request(cpu="1"))
    assert raw["c"] == 0 < raw["a"] < raw["b"]
    found.delete("Node", "c")
    found.put(make_pod("p").request(cpu="1"))
    assert found.run().nodes_of() == {"p": "a"}


@pytest.mark.parametrize(
    ("mean", "deviation", "threshold", "expected"),
    [
        # alpha = beta = 1: uniform; alpha = beta = 1/2: arcsine; alpha = 2, beta = 1: x²
        (0.5, np.sqrt(1 / 12), 0.3, 0.3),
        (0.5, np.sqrt(1 / 8), 0.25, 1 / 3),
        (2 / 3, np.sqrt(1 / 18), 0.6, 0.36),
        (0.5, 0.001, 0.5, 0.5),
        (0.5, 0.001, 0.6, 1.0),
        (0.5, 0.1, 0.0, 0.0),
        (0.5, 0.1, 1.0, 1.0),
        (0.5, 0.6, 0.5, 0.0),  # no distribution varies so much
    ],
)
def test_the_beta_distribution_has_the_values_of_the_known_ones(mean, deviation, threshold, expected):
    distribution = fitted(np.array([mean]), np.array([deviation]))
    assert probability_below(np.array([threshold]), distribution) == pytest.approx([expected], abs=1e-9)


def test_no_variance_exceeds_that_of_all_or_nothing():
    assert largest_variance(np.array([0.0, 0.25, 1.0])).tolist() == [0.0, 0.1875, 0.0]


GOS_EXPONENTIALS = {
    0.0: "0x1p+00",
    1.0: "0x1.5bf0a8b145769p+01",
    -1.0: "0x1.78b56362cef38p-02",
    -0.3: "0x1.7b4c869c37c05p-01",
    -9.37: "0x1.658964308ea2cp-14",
    12.5: "0x1.060c52565ba66p+18",
    1e-12: "0x1.0000000001198p+00",
    -700.0: "0x1.14f2b0fb9307fp-1010",
    700.0: "0x1.d945df4f8ec8ep+1009",
    0.5912065131387529: "0x1.ce60e98ddb621p+00",
    0.2989789211858809: "0x1.59361058119afp+00",
    3.696928436398219: "0x1.4296088d09eafp+05",
    -0.7186: "0x1.f321f285718d9p-02",
    -2.34: "0x1.8a8ed97e6a086p-04",
    4.5: "0x1.68118ade1deaap+06",
    709.7: "inf",
    800.0: "inf",
    -745.1: "0x1p-1074",
    -1000.0: "0x0p+00",
}
"""What `math.Exp` of Go 1.26 returned on an amd64 processor with FMA, as `%x` prints it."""


def test_the_exponential_is_gos_to_the_last_bit():
    found = exponential(np.array(list(GOS_EXPONENTIALS)))
    assert found.tolist() == [float.fromhex(each) for each in GOS_EXPONENTIALS.values()]


@pytest.mark.parametrize("seed", range(3))
def test_a_product_and_a_sum_are_rounded_once(seed):
    """Expected is what exact fractions, rounded once, come to."""
    rng = random.Random(seed)

    def some():
        scale = rng.choice([1.0, 2.0**-30, 2.0**-54, 2.0**40])
        return rng.choice([1.0, 1 + 2.0**-52, rng.random(), rng.randrange(99) / 8, -0.1]) * scale

    cases = [(some(), some(), some()) for _ in range(400)]
    cases += [(a, b, -a * b) for a, b, _ in cases]
    exact = [float(Fraction(a) * Fraction(b) + Fraction(c)) for a, b, c in cases]
    a, b, c = np.array(cases).T
    assert fused(a, b, c).tolist() == exact


def test_raw_scores_are_gos():
    """What Go makes of `int64(k1 * (math.Exp(k2*p) - math.Exp(k2*x)) * math.Pow(10, 15))`."""
    recorded = [
        (10, 250, -50, -0.1, 4068732215562612),
        (33, 1000, -91.5, -0.07186, 4378178686587659),
        (50, 1000, -91.5, -0.07186, 1290478155572185),
        (71.3, 1000, 0.3, 0.045, 4218344728918521),
        (33, 1000, 1, 0.1, 46587154778937888),
        (50, 250, 1, 0.1, 42153109356053392),
    ]
    used, asked, k1, k2, raw = np.array(recorded).T
    figures = Figures(np.full(len(raw), fill_value=True), used, np.full(len(raw), 10_000.0), k1, k2)
    assert [raw_scores(int(each), figures)[row] for row, each in enumerate(asked)] == [row[-1] for row in recorded]


def test_an_exponential_that_is_too_large_is_the_lowest_score(config):
    args = {"WatcherAddress": "http://watcher:2020", "NodePowerModel": {"a": {"k0": 1, "k1": 1, "k2": 20}}}
    found = cluster(config, Peaks, measured(a={"CPU_AVG": 50}), args)
    assert scores(found, make_pod("p").request(cpu="1"))["a"] == -(2**63)


def told(found, pod, name="a"):
    """What the plugin says of its score of a node."""
    plugins = found.core.profiles["default-scheduler"].plugins
    plugin = next(each.plugin for each in plugins if each.name in {p.name for p in PLUGINS})
    table = found.core.cache.table
    return plugin.explain_score(pod.info(), table.view(table.row_of[name]))


def a_minute_ago():
    return int(time.time()) - 60


def test_target_load_packing_says_what_is_measured_and_what_would_come_of_it(config):
    found = cluster(config, TargetLoadPacking, measured(LONG_AGO, a={"CPU_AVG": 10}))
    there, pod = make_pod("there").request(cpu="1").node("a"), make_pod("p").request(cpu="1").node("a")
    found.put(there)
    found.put(pod)  # it is there by now, and counts once
    load, outcome = told(found, pod)
    assert load.startswith("CPU 10 % of 10000 milli-CPU, measured until ") and load.endswith(" s ago")
    # 10 % and twice 1.5 of 10
    assert outcome == "1 pod(s) that came since will use 1500 milli-CPU, this one 1500: 40 %, where the target is 40 %"
    assert told(found, pod, "b") == ["the load watcher says nothing of this node"]


def test_load_variation_says_both_risks(config):
    found = cluster(
        config, LoadVariationRiskBalancing, measured(None, a={"CPU_AVG": 20, "CPU_STD": 20, "Memory_AVG": 50})
    )
    # (0.2 + 0.1 + 0.2) / 2, and 0.5 / 2
    assert told(found, make_pod("p").request(cpu="1")) == [
        "CPU 20 % ± 20 %, 30 % with the pod: a risk of 0.25",
        "Memory 50 % ± 0 %, 50 % with the pod: a risk of 0.25",
        "measured at a time that the load watcher does not say; the higher risk counts",
    ]
    assert told(found, make_pod("p"), "b") == ["the load watcher says nothing of this node"]


def test_low_risk_over_commitment_says_the_risk_of_limits_and_of_load(config):
    found = cluster(config, LowRiskOverCommitment, measured(a={"CPU_AVG": 30}))
    pod = make_pod("p").container(requests={"cpu": "1"}, limits={"cpu": "16"})
    found.put(make_pod("there").container(requests={"cpu": "1"}, limits={"cpu": "5"}).node("a"))
    cpu, memory, when = told(found, pod)
    # 11 of the 19 that limits go beyond requests are more than the node has; 10 % are requested there, 30 % used.
    assert cpu == "CPU 30 % ± 0 %: a risk of 0.58 by limits (weight 0.5) and 1.00 by load"
    assert memory == "Memory is not measured: a risk of 0.00 by limits (weight 0.5) and 0.00 by load"
    assert when.startswith("measured until ") and when.endswith(" s from now; the higher risk counts")
    assert told(found, make_pod("nothing")) == ["the pod asks for nothing, so all nodes are the same to it"]


def test_peaks_says_how_much_more_is_drawn(config):
    args = {"WatcherAddress": "http://watcher:2020", "NodePowerModel": {"a": {"k1": 1, "k2": 0.1}}}
    found = cluster(config, Peaks, measured(a_minute_ago(), a={"CPU_AVG": 10}, b={"CPU_AVG": 10}), args)
    # e^2 - e^1 = 4.671
    load, outcome = told(found, make_pod("p").request(cpu="1"))
    assert load.startswith("CPU 10 %, measured until 6") and outcome == "20 % with the pod, which draws 4.671 W more"
    assert told(found, make_pod("p").request(cpu="9500m"))[1].startswith(
        "105 % with the pod, which is more than there is"
    )
    assert told(found, make_pod("p"), "b")[1] == "no model says what this node draws"
    assert told(found, make_pod("p"), "c") == ["the load watcher says nothing of this node"]
