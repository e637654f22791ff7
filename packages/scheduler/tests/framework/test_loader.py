"""Plugins of other people: found, imported, and held against the contract, with messages that name all of it."""

import sys
from importlib.metadata import EntryPoint, PathDistribution
from types import ModuleType

import msgspec
import pytest

from berth.api.near_names import looks_like
from berth.framework.interface import PreFilterPlugin, ScorePlugin
from berth.framework.loader import contract, installed_plugins, misfits, plugins_given, plugins_named
from berth.framework.registry import METHODS, RegistryError
from berth.plugins.legacy.registry import legacy_registry
from berth.plugins.registry import in_tree_registry


class Gpu:
    name = "Gpu"

    def __init__(self, args, handle): ...

    def filter(self, state, pod, node): ...


class Tape:
    name = "Tape"

    class Args(msgspec.Struct):
        size: int = 1

    args_type = Args

    def __init__(self, args, handle): ...

    def score(self, state, pod, node): ...


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
    registry = installed_plugins([entry_of("Gpu", Gpu), entry_of("Tape", Tape, "tapes")])
    assert registry.names == ("Gpu", "Tape")
    assert registry.factory("Gpu") is Gpu
    assert registry.origin("Tape") == "the distribution tapes 1.2 (offered_tapes_tape:thing)"
    assert registry.unusable == {}


def test_where_nothing_is_installed_there_is_nothing():
    assert installed_plugins([]).names == ()


def test_one_that_cannot_be_used_does_not_stop_the_others(entry_of):
    registry = installed_plugins([entry_of("Gpu", "text"), entry_of("Tape", Tape, "tapes")])
    assert registry.names == ("Tape",)
    (told,) = registry.unusable["Gpu"].told("Gpu")
    assert told == (
        "plugin 'Gpu' of the distribution gpu-tools 1.2 (offered_gpu_tools_gpu:thing) is 'text' (of type str), not a "
        "class; tell the authors of gpu-tools, or uninstall it"
    )


def test_all_that_is_wrong_with_a_plugin_is_told_at_once(entry_of):
    class Wrong:
        name = "Worng"
        args_type = dict

        def __init__(self, args): ...

        def filter(self, state, pod): ...

        async def score(self, state, pod, node): ...

        def reserv(self, state, pod, node_name): ...

    registry = installed_plugins([entry_of("Wrong", Wrong)])
    told = registry.unusable["Wrong"].told("Wrong")
    assert [fault.split("_wrong:thing) ")[1].split(";")[0] for fault in told] == [
        "calls itself 'Worng'",
        "has a method reserv, which nobody calls",
        "has the method filter(self, state, pod), but it is called as filter(self, state, pod, node)",
        "has the method score as `async def`, but the framework does not await it",
        "cannot be made as Wrong(args, handle)",
        "has the args_type <class 'dict'>, which is not a msgspec.Struct",
    ]


def test_a_module_that_breaks_while_it_is_imported_is_told_apart_from_one_that_is_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('no device found')\n")
    (tmp_path / "leaving_plugin.py").write_text("import sys\n\nsys.exit('bye')\n")
    (tmp_path / "odd_plugin.py").write_text("def f(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    modules = {"A": "broken_plugin", "B": "no_such_module", "C": "leaving_plugin", "D": "odd_plugin"}
    registry = installed_plugins(
        EntryPoint(name, f"{module}:{name}", "berth.plugins") for name, module in modules.items()
    )
    told = {name: unusable.faults[0] for name, unusable in registry.unusable.items()}
    assert told["A"].startswith(
        f"cannot be imported: RuntimeError: no device found ({tmp_path / 'broken_plugin.py'}:1); "
    )
    assert told["B"].startswith("cannot be imported: ModuleNotFoundError: No module named 'no_such_module'; ")
    assert told["C"].startswith(f"cannot be imported: SystemExit: bye ({tmp_path / 'leaving_plugin.py'}:3); ")
    assert told["D"].startswith("cannot be imported: SyntaxError in line 1: ")


# --- held against the contract ----------------------------------------------------------------------------------------


def plugin(*bases, **methods):
    return type("P", bases, {"name": "P", "__init__": lambda self, args, handle: None, **methods})


def test_the_contract_has_every_method_that_makes_a_plugin_part_of_a_point():
    assert {method for methods in METHODS.values() for method in methods} <= set(contract())
    assert list(contract()["pre_filter"].parameters) == ["self", "state", "pod"]
    assert PreFilterPlugin.pre_filter.__name__ in contract()


@pytest.mark.parametrize("registry", [in_tree_registry(), legacy_registry()], ids=["today", "v1.20"])
def test_the_plugins_of_berth_itself_have_no_faults(registry):
    faults = {name: misfits(registry.factory(name), name) for name in registry.names}
    assert {name: found for name, found in faults.items() if found} == {}


def gen(self, state, pod, node):
    yield


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (plugin(), "has the method of no extension point"),
        (plugin(reserve=lambda self, state, pod, node_name: None), "has the method reserve but not unreserve"),
        (plugin(filter_columns=lambda self, s, p, t, r: None), "has the method filter_columns but not filter"),
        (plugin(filter=None, score=3), "has score = 3, which is not a method"),
        (plugin(filter=gen), "has the method filter as a generator"),
        (plugin(filter=lambda self, *args: None), None),
        (plugin(filter=staticmethod(lambda state, pod, node: None)), None),
        (plugin(filter=staticmethod(lambda self, s, p, n: None)), "but it is called as filter(state, pod, node)"),
        (plugin(filter=lambda self, s, p, n, more: None), "has the method filter(self, s, p, n, more)"),
        (plugin(filter=lambda self, state, pod, node, more=1: None), None),
        (plugin(filter=lambda self, state, pod, *, node: None), "but it is called as filter(self, state, pod, node)"),
        (plugin(bind=gen), None),
        (plugin(bind=lambda self, state, pod: None), "but it is called as bind(self, state, pod, node_name)"),
        (plugin(score=lambda self, s, p, n: 1, pod_aded=lambda self, pod: None), "did you mean pod_added?"),
        (plugin(score=lambda self, s, p, n: 1, pod_remove=lambda self, pod: None), "did you mean pod_removed?"),
        (plugin(score=lambda self, s, p, n: 1, pod_added=lambda self, pod: None), "but not pod_removed, which goes"),
        (plugin(score=lambda self, s, p, n: 1, pod_updated=lambda self, a, b: None), "but not pod_added, which goes"),
        (plugin(score=lambda self, s, p, n: 1, pod_added=lambda self, pod, node: None, pod_removed=lambda self, p: 1),
         "has the method pod_added(self, pod, node), but it is called as pod_added(self, pod)"),
        (plugin(pod_added=lambda self, pod: 1, pod_removed=lambda self, p: 1), "has the method of no extension point"),
        (plugin(score=lambda self, s, p, n: 1, preFilter=lambda self: None), "has a method preFilter"),
        (plugin(score=lambda self, s, p, n: 1, fitler=lambda self: None), "did you mean filter?"),
        (plugin(score=lambda self, s, p, n: 1, _fitler=lambda self: None), None),
        (plugin(score=lambda self, s, p, n: 1, scores=lambda self: None), None),
        (plugin(score=lambda self, s, p, n: 1, find=lambda self: None), None),
        (plugin(score=lambda self, s, p, n: 1, arg_type=None), "did you mean args_type?"),
        (plugin(score=lambda self, s, p, n: 1, promise=None), "did you mean promises?"),
        (plugin(name=None, score=lambda self, s, p, n: 1), "has no name; write `name = 'P'`"),
        (plugin(ScorePlugin), "inherits ScorePlugin, but has no method score"),
        (plugin(ScorePlugin, soore=lambda self, s, p, n: 1), "did you mean score?"),
        (plugin(ScorePlugin, score=lambda self, s, p, n: 1), None),
        (type("P", (ScorePlugin,), {"name": "P", "score": lambda self, s, p, n: 1}), "cannot be made as P(args, "),
        (type("P", (ScorePlugin,), {"name": "P", "score": lambda self, s, p, n: 1,
                                    "__new__": lambda cls, args, handle: object.__new__(cls)}), None),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_class(made, said):
    faults = misfits(made)
    if said is None:
        assert faults == []
    else:
        assert any(said in fault for fault in faults)


def test_a_plugin_that_forgets_what_it_inherits_is_refused_with_its_name_and_that_of_the_method():
    class Forgetful(ScorePlugin):
        name = "Forgetful"

        def __init__(self, args, handle): ...

        def filter(self, state, pod, node): ...

    with pytest.raises(RegistryError) as refused:
        plugins_given([Forgetful])
    (told,) = refused.value.errors
    assert told.endswith("Forgetful inherits ScorePlugin, but has no method score")


@pytest.mark.parametrize("name", ["fiter", "filtre", "Filter", "filtter", "preFilter", "pre_filer", "normalise_score"])
def test_what_looks_like_a_method(name):
    assert any(looks_like(name, word) for word in contract())


@pytest.mark.parametrize("name", ["find", "kind", "lists", "submit", "alter", "nodes", "scoring_table", "state"])
def test_what_does_not_look_like_a_method(name):
    assert not any(looks_like(name, word) for word in contract())


# --- named on a command line ------------------------------------------------------------------------------------------

SOURCE = """
from beside import LIMIT


class Quiet:
    name = "Quiet"

    def __init__(self, args, handle): ...

    def score(self, state, pod, node):
        return LIMIT


class Loud:
    name = "Loud"

    def __init__(self, args, handle): ...

    def score(self, state, pod):
        return 1
"""


@pytest.fixture
def directory(tmp_path, monkeypatch):
    (tmp_path / "quiet_file.py").write_text(SOURCE)
    (tmp_path / "beside.py").write_text("LIMIT = 7\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    for module in ("quiet_file", "beside"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    yield tmp_path
    for module in ("quiet_file", "beside"):
        sys.modules.pop(module, None)


def test_a_plugin_is_loaded_from_a_file_and_finds_what_lies_beside_it(directory):
    registry = plugins_named([f"{directory}/quiet_file.py:Quiet"])
    assert registry.factory("Quiet")(None, None).score(None, None, None) == 7
    assert registry.origin("Quiet") == f"the file {directory}/quiet_file.py (Quiet)"


def test_a_plugin_is_loaded_from_a_module_in_the_current_directory(directory, monkeypatch):
    monkeypatch.chdir(directory)
    names = ["quiet_file:Quiet", "quiet_file:Quiet"]
    assert plugins_named(names).origin("Quiet") == "the module quiet_file (Quiet)"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Quiet", "'Quiet' is not of the form MODULE:CLASS or FILE.py:CLASS"),
        ("quiet_file:", "'quiet_file:' is not of the form"),
        ("{}/none.py:Quiet", "the file {}/none.py cannot be imported: FileNotFoundError: there is no such file"),
        ("no_such_thing:Quiet", "the module no_such_thing cannot be imported: ModuleNotFoundError"),
        ("{}/quiet_file.py:Quite", "the file {}/quiet_file.py has no class Quite; did you mean Quiet?"),
        ("{}/quiet_file.py:LIMIT", "plugin LIMIT of the file {}/quiet_file.py is 7 (of type int), not a class"),
        (
            "{}/quiet_file.py:Loud",
            "plugin Loud of the file {}/quiet_file.py has the method score(self, state, pod), but it is called ",
        ),
    ],
)
def test_what_cannot_be_loaded_by_name_is_told(directory, name, said):
    with pytest.raises(RegistryError) as raised:
        plugins_named([name.format(directory)])
    assert str(raised.value).startswith(said.format(directory))
