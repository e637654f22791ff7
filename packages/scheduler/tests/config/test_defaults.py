"""The default profile, merging over it, and expansion per extension point: kube-scheduler's documented precedence."""

import pytest

from berth.config.defaults import default_plugins, merge_plugin_set, merge_plugins, resolve_plugins
from berth.config.errors import ConfigError
from berth.config.feature_gates import FeatureGates
from berth.config.types import ExtensionPoint, PluginRef, Plugins, PluginSet
from packages.scheduler.tests.config.documents import IN_TREE

POINT = ExtensionPoint


def refs(*plugins):
    """Plugins from names or (name, weight)."""
    return tuple(PluginRef(plugin) if isinstance(plugin, str) else PluginRef(*plugin) for plugin in plugins)


def plugin_set(enabled=(), disabled=()):
    return PluginSet(enabled=refs(*enabled), disabled=refs(*disabled))


def listed(plugin_set):
    return [(plugin.name, plugin.weight) for plugin in plugin_set.enabled]


def test_default_profile_expands_to_upstreams_order_and_weights():
    resolved = resolve_plugins(default_plugins(), IN_TREE)
    assert resolved[POINT.SCORE] == (
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    )
    assert [name for name, _ in resolved[POINT.FILTER]] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
    ]
    assert resolved[POINT.POST_FILTER] == (("DynamicResources", 0), ("DefaultPreemption", 0))
    assert resolved[POINT.QUEUE_SORT] == (("PrioritySort", 0),)
    assert resolved[POINT.BIND] == (("DefaultBinder", 0),)
    assert resolved[POINT.PERMIT] == ()
    assert set(resolved) == set(ExtensionPoint)


def test_default_profile_follows_the_gates():
    gates = FeatureGates(overrides={"NodeDeclaredFeatures": False})
    names = [plugin.name for plugin in default_plugins(gates).multi_point.enabled]
    assert "NodeDeclaredFeatures" not in names
    assert "DynamicResources" in names


@pytest.mark.parametrize(
    ("default", "custom", "enabled", "disabled"),
    [
        pytest.param((["A", "B"], []), ([], []), [("A", 0), ("B", 0)], [], id="nothing said"),
        pytest.param((["A", "B"], []), (["C"], []), [("A", 0), ("B", 0), ("C", 0)], [], id="appended"),
        pytest.param((["A", "B"], []), ([], ["A"]), [("B", 0)], ["A"], id="disabled"),
        pytest.param((["A", "B"], []), ([], ["*"]), [], ["*"], id="all disabled"),
        pytest.param((["A", "B"], []), (["B", "C"], ["*"]), [("B", 0), ("C", 0)], ["*"], id="all replaced"),
        pytest.param((["A", "B"], []), ([("A", 9)], []), [("A", 9), ("B", 0)], [], id="re-weighted in place"),
        pytest.param((["A", "B"], []), ([("A", 9)], ["A"]), [("B", 0), ("A", 9)], ["A"], id="moved to the end"),
        pytest.param(
            (["A", "B", "C"], []),
            (["D", "C", "A"], []),
            [("A", 0), ("B", 0), ("C", 0), ("D", 0)],
            [],
            id="own order lost",
        ),
        pytest.param(
            (["A"], []), ([("A", 1), ("A", 2)], []), [("A", 2), ("A", 1)], [], id="last of duplicates replaces"
        ),
        pytest.param((["A", "B"], ["B"]), ([], []), [("A", 0)], ["B"], id="disabled by default"),
    ],
)
def test_merge_one_set(default, custom, enabled, disabled):
    merged = merge_plugin_set(plugin_set(*default), plugin_set(*custom))
    assert listed(merged) == enabled
    assert [plugin.name for plugin in merged.disabled] == disabled


def test_merge_without_a_document_is_the_default():
    assert merge_plugins(default_plugins(), None) == default_plugins()


EXAMPLE = {
    "DefaultQueueSort": frozenset({POINT.QUEUE_SORT}),
    "CustomQueueSort": frozenset({POINT.QUEUE_SORT}),
    "DefaultPlugin1": frozenset({POINT.SCORE, POINT.FILTER}),
    "DefaultPlugin2": frozenset({POINT.SCORE}),
    "CustomPlugin1": frozenset({POINT.SCORE, POINT.FILTER}),
    "CustomPlugin2": frozenset({POINT.SCORE, POINT.FILTER}),
    "Binder": frozenset({POINT.BIND}),
}
EXAMPLE_DEFAULTS = Plugins(multi_point=plugin_set(["DefaultQueueSort", "DefaultPlugin1", "DefaultPlugin2", "Binder"]))


def resolve_example(multi_point=None, **points):
    """The documentation's example plugins with a document's sets over them."""
    sets = {POINT[name.upper()]: value for name, value in points.items()}
    custom = Plugins(multi_point=multi_point or PluginSet(), points=sets)
    merged = merge_plugins(EXAMPLE_DEFAULTS, custom)
    return resolve_plugins(merged, EXAMPLE)


def test_documented_example():
    resolved = resolve_example(
        multi_point=plugin_set(["CustomQueueSort", ("CustomPlugin1", 3), "CustomPlugin2"], ["DefaultQueueSort"]),
        filter=plugin_set([], ["DefaultPlugin1"]),
        score=plugin_set(["DefaultPlugin2"]),
    )
    assert resolved[POINT.QUEUE_SORT] == (("CustomQueueSort", 0),)
    assert resolved[POINT.FILTER] == (("CustomPlugin1", 0), ("CustomPlugin2", 0))
    assert resolved[POINT.SCORE] == (
        ("DefaultPlugin2", 1),
        ("DefaultPlugin1", 1),
        ("CustomPlugin1", 3),
        ("CustomPlugin2", 1),
    )


@pytest.mark.parametrize(
    ("multi_point", "score", "expected"),
    [
        pytest.param(
            plugin_set(),
            plugin_set([("DefaultPlugin2", 5)]),
            [("DefaultPlugin2", 5), ("DefaultPlugin1", 1)],
            id="reordered",
        ),
        pytest.param(
            plugin_set([("DefaultPlugin1", 7)]),
            plugin_set(),
            [("DefaultPlugin1", 7), ("DefaultPlugin2", 1)],
            id="multiPoint over default",
        ),
        pytest.param(
            plugin_set([("DefaultPlugin1", 7)]),
            plugin_set([("DefaultPlugin1", 2)]),
            [("DefaultPlugin1", 2), ("DefaultPlugin2", 1)],
            id="point over multiPoint",
        ),
        pytest.param(
            plugin_set([("DefaultPlugin1", 7)]),
            plugin_set(["DefaultPlugin1"]),
            [("DefaultPlugin1", 1), ("DefaultPlugin2", 1)],
            id="unset weight at the point is 1",
        ),
        pytest.param(
            plugin_set(),
            plugin_set(["CustomPlugin1"]),
            [("DefaultPlugin1", 1), ("DefaultPlugin2", 1), ("CustomPlugin1", 1)],
            id="only at the point comes last",
        ),
        pytest.param(
            plugin_set(),
            plugin_set([("DefaultPlugin1", 4)], ["DefaultPlugin1"]),
            [("DefaultPlugin2", 1), ("DefaultPlugin1", 4)],
            id="disabled and enabled at the point",
        ),
        pytest.param(plugin_set(), plugin_set(["CustomPlugin2"], ["*"]), [("CustomPlugin2", 1)], id="only these"),
        pytest.param(
            plugin_set(["CustomPlugin1"], ["DefaultPlugin1"]),
            plugin_set(),
            [("DefaultPlugin2", 1), ("CustomPlugin1", 1)],
            id="disabled everywhere",
        ),
    ],
)
def test_precedence(multi_point, score, expected):
    assert resolve_example(multi_point=multi_point, score=score)[POINT.SCORE] == tuple(expected)


@pytest.mark.parametrize(
    ("multi_point", "points", "message"),
    [
        (
            plugin_set(["CustomPlugin"]),
            {},
            'plugins.multiPoint.enabled: plugin "CustomPlugin" does not exist; did you mean',
        ),
        (plugin_set(), {"score": plugin_set(["Nope"])}, 'plugins.score.enabled: plugin "Nope" does not exist'),
        (
            plugin_set(),
            {"permit": plugin_set(["DefaultPlugin1"])},
            'plugin "DefaultPlugin1" does not extend PermitPlugin plugin; the points it implements: filter, score',
        ),
        (
            plugin_set(),
            {"score": plugin_set(["CustomPlugin1", "CustomPlugin1"])},
            'plugins.score.enabled: plugin "CustomPlugin1" already registered as "ScorePlugin"',
        ),
        (
            plugin_set(["CustomPlugin1", "CustomPlugin1"]),
            {},
            'plugins.multiPoint.enabled: plugin "CustomPlugin1" already registered as "FilterPlugin"',
        ),
        (
            plugin_set(["CustomQueueSort"]),
            {},
            "only one queue sort plugin required, but got 2 (DefaultQueueSort, CustomQueueSort)",
        ),
        (plugin_set([], ["DefaultQueueSort"]), {}, "only one queue sort plugin required, but got 0"),
        (plugin_set(), {"bind": plugin_set([], ["*"])}, "plugins.bind: at least one bind plugin is needed"),
        (plugin_set([("CustomPlugin1", 2**62)]), {}, "total score of Score plugins could overflow"),
    ],
)
def test_refuses(multi_point, points, message):
    with pytest.raises(ConfigError) as caught:
        resolve_example(multi_point=multi_point, **points)
    assert message in str(caught.value)


def test_reports_all_faults_of_a_profile():
    with pytest.raises(ConfigError) as caught:
        resolve_example(multi_point=plugin_set(["X"]), score=plugin_set(["Y"]), permit=plugin_set(["Binder"]))
    assert len(caught.value.errors) == 3
