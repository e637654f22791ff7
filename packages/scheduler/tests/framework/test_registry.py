"""Registries: what a plugin's methods say of it, merging, and names that two plugins want."""

import msgspec
import pytest

from berth.config.errors import ConfigError
from berth.config.types import ExtensionPoint as Point
from berth.framework.interface import FilterPlugin, ScorePlugin
from berth.framework.registry import METHODS, Registry, RegistryError, Unusable, fills, points_of


class Gpu:
    name = "Gpu"

    def filter(self, state, pod, node): ...


class Tape:
    name = "Tape"

    class Args(msgspec.Struct):
        size: int = 1

    args_type = Args

    def score(self, state, pod, node): ...


def test_a_registry_is_a_value():
    registry = Registry({"Gpu": Gpu, "Tape": Tape})
    assert registry.names == ("Gpu", "Tape")
    assert len(registry) == 2 and "Gpu" in registry and "Disk" not in registry
    assert registry.factory("Gpu") is Gpu
    assert registry.args_types() == {"Tape": Tape.Args}
    assert registry.implements() == {"Gpu": {Point.FILTER}, "Tape": {Point.SCORE}}


@pytest.mark.parametrize(("point", "methods"), METHODS.items())
def test_any_method_of_a_point_makes_a_plugin_part_of_it(point, methods):
    for method in methods:
        plugin = type("Plugin", (), {"name": "Plugin", method: lambda self: None})
        assert points_of(plugin) == {point}


def test_a_method_that_a_protocol_only_declares_makes_a_plugin_part_of_nothing():
    plugin = type("Plugin", (FilterPlugin, ScorePlugin), {"name": "Plugin", "score": lambda self: None})
    assert points_of(plugin) == {Point.SCORE}
    assert fills(plugin, "score") and fills(type("Derived", (plugin,), {}), "score")
    assert not fills(plugin, "filter") and not fills(plugin, "permit")


def test_every_extension_point_has_its_methods():
    assert set(METHODS) == set(Point)


def test_merging_leaves_both_as_they_were():
    ours, theirs = Registry({"Gpu": Gpu}), Registry({"Tape": Tape}, "the distribution tapes 1.0")
    merged = ours.merge(theirs)
    assert merged.names == ("Gpu", "Tape")
    assert (merged.origin("Gpu"), merged.origin("Tape")) == ("Berth itself", "the distribution tapes 1.0")
    assert ours.names == ("Gpu",) and theirs.names == ("Tape",)


def test_a_name_taken_twice_is_an_error_that_names_both():
    with pytest.raises(RegistryError) as raised:
        Registry({"Gpu": Gpu}).merge(Registry({"Gpu": Tape}, "the distribution tapes 1.0"))
    message = str(raised.value)
    assert "'Gpu'" in message and "Berth itself" in message and "the distribution tapes 1.0" in message
    assert isinstance(raised.value, ConfigError)


def test_of_two_plugins_of_one_name_neither_can_be_used_and_both_are_named():
    one, two, three = (Registry({"Gpu": Gpu}, f"the distribution {name}") for name in ("one", "two", "three"))
    both = one.beside(two)
    assert "Gpu" not in both
    (told,) = both.unusable["Gpu"].told("Gpu")
    assert told == (
        "plugin 'Gpu' of the distribution one has the same name as a plugin of the distribution two; uninstall one of "
        "them"
    )
    assert "Gpu" not in both.beside(three)


def test_an_unusable_plugin_gives_way_to_a_usable_one_that_is_merged_in():
    broken = Registry.of({}, {"Gpu": Unusable("the distribution old", ("is broken",))})
    merged = broken.merge(Registry({"Gpu": Gpu}))
    assert merged.factory("Gpu") is Gpu
    assert merged.unusable == {}
