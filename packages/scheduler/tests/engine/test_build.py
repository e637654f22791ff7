"""Profiles are built, or everything that is wrong with their plugins is told, with where each comes from."""

import pytest

from berth.config.errors import ConfigError
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.events import NODE_ADD, Action, ClusterEvent, ClusterEventWithHint
from berth.framework.registry import Registry, Unusable
from berth.plugins.registry import in_tree_registry
from packages.scheduler.tests.support import BOOM, boom, cluster, document, plugin, with_profiles


def refused(config, *, plugins=None):
    with pytest.raises(ConfigError) as raised:
        cluster(config=config, plugins=plugins or {})
    return list(raised.value.errors)


def scoring(name, **more):
    return plugin(name, score=lambda *_: 1, **more)


def test_a_plugin_that_raises_while_it_is_made_is_told_with_file_and_line():
    class Broken:
        name = "Broken"

        def __init__(self, args, handle):
            boom()

        def score(self, state, pod, node): ...

    (told,) = refused(document("Broken"), plugins={"Broken": Broken})
    assert told == f"profiles[0]: plugin 'Broken' of a test: could not be made: {BOOM}"


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

    return build_core(load_config(config), in_tree_registry().merge(registry), rng=random.Random(0))


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
