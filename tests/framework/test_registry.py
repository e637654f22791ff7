"""Registries: what a plugin's methods say of it, merging, and plugins from installed distributions."""

import sys
from importlib.metadata import EntryPoint, PathDistribution
from types import ModuleType

import msgspec
import pytest

from berth.config.errors import ConfigError
from berth.config.types import ExtensionPoint as Point
from berth.framework.registry import METHODS, Registry, RegistryError, out_of_tree_plugins, points_of


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


@pytest.fixture
def entry_of(tmp_path, monkeypatch):
    """Makes an entry point of an installed distribution that offers `found` under `name`."""

    def make(name, found=None, distribution="gpu-tools", attribute="thing"):
        module = ModuleType(f"offered_{distribution.replace('-', '_')}_{name.lower()}")
        if found is not None:
            setattr(module, attribute, found)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        info = tmp_path / f"{distribution}-1.2.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        entry = EntryPoint(name, f"{module.__name__}:{attribute}", "berth.plugins")
        return entry._for(PathDistribution(info))

    return make


def test_plugins_of_distributions_are_loaded_and_remember_where_they_come_from(entry_of):
    registry = out_of_tree_plugins([entry_of("Gpu", Gpu), entry_of("Tape", Tape, "tapes")])
    assert registry.names == ("Gpu", "Tape")
    assert registry.factory("Gpu") is Gpu
    assert registry.origin("Tape") == "the distribution tapes 1.2 (offered_tapes_tape:thing)"


def test_where_nothing_is_installed_there_is_nothing():
    assert out_of_tree_plugins([]).names == ()


class Keeper:
    name = "Keeper"

    def reserve(self, state, pod, node_name): ...


class Columns:
    name = "Columns"

    def filter_columns(self, state, pod, table, rows): ...


class Idle:
    name = "Idle"


class Odd:
    name = "Odd"
    args_type = dict

    def filter(self, state, pod, node): ...


@pytest.mark.parametrize(
    ("name", "found", "said"),
    [
        ("Gpu", None, "cannot be imported: AttributeError"),
        ("Gpu", "text", "is 'text', not a class"),
        ("Card", Gpu, "calls itself 'Gpu'"),
        ("Idle", Idle, "has the method of no extension point"),
        ("Odd", Odd, "which is not a msgspec.Struct"),
        ("Keeper", Keeper, "has the method reserve but not unreserve"),
        ("Columns", Columns, "has the method filter_columns but not filter"),
    ],
)
def test_what_is_no_plugin_names_the_distribution_and_what_to_do(entry_of, name, found, said):
    with pytest.raises(RegistryError) as raised:
        out_of_tree_plugins([entry_of(name, found)])
    message = str(raised.value)
    assert said in message
    assert f"plugin {name!r} of the distribution gpu-tools 1.2" in message
    assert "uninstall it" in message


def test_a_module_that_breaks_while_it_is_imported_is_told_apart_from_one_that_is_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('no device found')\n")
    monkeypatch.syspath_prepend(tmp_path)
    entries = [
        EntryPoint("A", "broken_plugin:A", "berth.plugins"),
        EntryPoint("B", "no_such_module:B", "berth.plugins"),
    ]
    with pytest.raises(RegistryError) as raised:
        out_of_tree_plugins(entries)
    broken, missing = raised.value.errors
    assert "the entry point broken_plugin:A cannot be imported: RuntimeError: no device found" in broken
    assert "ModuleNotFoundError: No module named 'no_such_module'" in missing


def test_two_distributions_with_one_name_are_both_named(entry_of):
    with pytest.raises(RegistryError) as raised:
        out_of_tree_plugins([entry_of("Gpu", Gpu, "one"), entry_of("Gpu", Gpu, "two")])
    assert "the distribution one 1.2" in str(raised.value) and "the distribution two 1.2" in str(raised.value)
