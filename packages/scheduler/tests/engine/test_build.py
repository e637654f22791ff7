"""Profiles are built, or everything that is wrong with their plugins is told, with where each comes from."""

import pytest

from berth.config.errors import ConfigError
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.events import NODE_ADD, Action, ClusterEvent, ClusterEventWithHint
from berth.framework.registry import IN_TREE, Registry, Unusable
from berth.plugins.registry import in_tree_registry
from packages.scheduler.tests.support import BOOM, boom, cluster, document, plugin, with_profiles


def refused(config, *, plugins=None):
    with pytest.raises(ConfigError) as raised:
        cluster(config=config, plugins=plugins or {})
    return list(raised.value.errors)


def scoring(name, **more):
    return plugin(name, score=lambda *_: 1, **more)


def breaking(act):
    """A plugin that does this while it is made."""

    class Broken:
        name = "Broken"

        def __init__(self, args, handle):
            act()

        def score(self, state, pod, node): ...

    return Broken


def test_a_plugin_that_raises_while_it_is_made_is_told_with_file_and_line():
    (told,) = refused(document("Broken"), plugins={"Broken": breaking(boom)})
    assert told == f"profiles[0]: plugin 'Broken' of a test: could not be made: {BOOM}"


def no_number():
    raise ValueError("no number")


def test_a_value_error_is_the_refusal_of_args_only_where_berths_own_plugin_raises_it():
    """What other people's plugins raise may be any bug of theirs, and so may what is no refusal in one of ours."""
    line = no_number.__code__.co_firstlineno + 1
    place = f"ValueError: no number (packages/scheduler/tests/engine/test_build.py:{line})"
    config = document("Broken")
    assert refused(config, plugins={"Broken": breaking(no_number)}) == [
        f"profiles[0]: plugin 'Broken' of a test: could not be made: {place}"
    ]
    for act, told in (
        (no_number, "plugin 'Broken' could not be made: no number"),
        (boom, f"plugin 'Broken' of {IN_TREE}: could not be made: {BOOM}"),
    ):
        with pytest.raises(ConfigError) as raised:
            build(config, Registry({"Broken": breaking(act)}, IN_TREE))
        assert raised.value.errors == (f"profiles[0]: {told}",)


def test_the_health_of_optional_plugins_is_kept_by_profile():
    """Of other people's plugins that the cluster can do without, and of no others."""
    optional, needed = scoring("Optional", optional=True), scoring("Needed")
    config = with_profiles({"plugins": {"multiPoint": {"enabled": [{"name": "Optional"}, {"name": "Needed"}]}}})
    found = cluster(config=config, plugins={"Optional": optional, "Needed": needed})
    assert [(each.name, each.profile) for each in found.core.health] == [("Optional", "default-scheduler")]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (["Node"], "returned 'Node' (of type str) at [0], but a ClusterEventWithHint is expected"),
        ("Node", "returned 'Node' (of type str), but a sequence of ClusterEventWithHint is expected"),
        (None, "returned None, but a sequence of ClusterEventWithHint is expected"),
        ([NODE_ADD], f"returned {NODE_ADD!r} at [0], but a ClusterEventWithHint(event, hint) is expected"),
        (
            [ClusterEventWithHint(ClusterEvent("node", Action.ADD))],
            "names the kind 'node' at [0], of which there are no events; did you mean Node",
        ),
        ([ClusterEventWithHint(ClusterEvent("Node", "ADD"))], "names the action 'ADD' (of type str) at [0]"),
        ([ClusterEventWithHint(NODE_ADD, "wake")], "gives the hint 'wake' (of type str) at [0]"),
    ],
)
def test_nonsense_from_events_to_register_is_told(answer, fault):
    odd = scoring("Odd", events=answer)
    (told,) = refused(document("Odd"), plugins={"Odd": odd})
    assert told.startswith(f"profiles[0]: plugin 'Odd' of a test: Odd.events_to_register {fault}")


@pytest.mark.parametrize("name", ["quotas.v1.example.com", "pods.v1"])
def test_events_may_be_about_any_followed_resource(name):
    odd = scoring("Odd", events=[ClusterEventWithHint(ClusterEvent(name, Action.ALL))])
    assert VirtualCluster(plugins={"Odd": odd}, config=document("Odd")).core.profiles


def test_events_to_register_that_breaks_is_told():
    odd = scoring("Odd", events_to_register=boom)
    (told,) = refused(document("Odd"), plugins={"Odd": odd})
    assert told.startswith(
        "profiles[0]: plugin 'Odd' of a test: events_to_register failed: RuntimeError: boom (packages/scheduler/tests/"
    )


def test_args_that_no_plugin_takes_are_told_with_the_nearest_name():
    config = with_profiles({"pluginConfig": [{"name": "ImageLocalty", "args": {"x": 1}}]})
    assert refused(config) == [
        'profiles[0].pluginConfig[0].name: plugin "ImageLocalty" does not exist; did you mean ImageLocality?'
    ]


def test_args_for_a_plugin_that_takes_none_are_told():
    config = with_profiles({"pluginConfig": [{"name": "Plain", "args": {"x": 1}}]})
    assert refused(config, plugins={"Plain": scoring("Plain")}) == [
        'profiles[0].pluginConfig[0].args: plugin "Plain" takes no args (it has no args_type)'
    ]


def build(config, registry):
    import random

    from berth.config.load import load_config
    from berth.core.assembly import build_core
    from berth.core.options import CoreOptions

    return build_core(load_config(config), in_tree_registry().merge(registry), CoreOptions(rng=random.Random(0)))


def test_an_unusable_plugin_is_one_complaint_however_it_is_enabled():
    """It could be a second queue sort, for all that is known of it; but nobody asked for that."""
    broken = Registry.of({}, {"Gpu": Unusable("the distribution gpu 1", ("cannot be imported: E: x",))})
    with pytest.raises(ConfigError) as raised:
        build(document("Gpu"), broken)
    assert raised.value.errors == ("profiles[0]: plugin 'Gpu' of the distribution gpu 1 cannot be imported: E: x",)


def test_an_unusable_plugin_matters_to_profiles_that_enable_it_only():
    broken = Registry.of({}, {"Gpu": Unusable("the distribution gpu 1", ("cannot be imported: E: x", "and more"))})
    assert build(with_profiles({}), broken).profiles
    with pytest.raises(ConfigError) as raised:
        build(with_profiles({"plugins": {"score": {"enabled": [{"name": "Gpu"}, {"name": "Nope"}]}}}), broken)
    assert raised.value.errors == (
        "profiles[0]: plugin 'Gpu' of the distribution gpu 1 cannot be imported: E: x",
        "profiles[0]: plugin 'Gpu' of the distribution gpu 1 and more",
        'profiles[0].plugins.score.enabled: plugin "Nope" does not exist; `berth plugins` lists those that do',
    )
