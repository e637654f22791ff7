"""A plugin is taken apart in one place: which of its forms count, and what contradicts itself there."""

import ast
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

import berth
from berth.config.types import ExtensionPoint
from berth.framework.interface import FilterPlugin
from berth.framework.loaded import FORMS, ContractError, LoadedPlugin, contradictions, forms_of, loaded
from berth.framework.promises import Dependency, Promises
from berth.plugins.legacy.registry import with_legacy_plugins
from berth.plugins.registry import in_tree_registry

SOURCES = Path(berth.__file__).parent

LOADERS = {f"framework/{name}.py" for name in ("guard", "loaded", "loader", "registry")}
TEMPLATES = {"cli/new_plugin.py", "testing/clocks.py"}
"""These look at a plugin's class to write another like it, or one whose calls are timed; no plugin is asked."""

NOT_ON_PLUGINS = {
    ("yaml_census.py", "yaml"),
    ("controller.py", "controller"),  # a status controller, which is no plugin
    ("scheduler_in_use.py", "error"),
    ("parts.py", "plugins"),  # the plugin sets of a configuration
    ("client.py", "cause"),
    ("functions.py", "version"),  # the field of a semantic version
    ("library.py", "cel.Type"),  # the type checker's types
    ("syntax.py", "const"),  # a constant in an expression
    ("cycle_state.py", "v"),
    ("result.py", "self"),  # the library's result, of which all is worked out when it is read
    ("__init__.py", "importlib.import_module(homes[name])"),
    ("bindings.py", "trouble"),
    ("logs.py", "record"),
    ("recorder.py", "behind"),
    ("read_only.py", "found"),  # an API object, field by field
    ("read_only.py", "kind"),
    ("several.py", "each"),  # an instrument
    ("faces.py", "kind"),  # a class of the scheduler's
    ("faces.py", "self._of"),  # an object of it
    ("lookups.py", "self._of"),  # what a handle gives out
    ("timed_runner.py", "result"),
    ("read_only.py", "kind"),  # a struct
    ("read_only.py", "found"),
}
"""File and first argument of every other look-up by name."""


class Base:
    name: ClassVar[str] = "Base"
    promises: ClassVar[Promises] = Promises(filter_depends_on=frozenset({Dependency.NODE}), filters_by_row=True)

    def filter(self, state, pod, node):
        """Plain."""

    def filter_columns(self, state, pod, table, rows):
        """By column."""

    def filter_row(self, state, pod, table, row):
        """By row."""


class Silent(Base):
    """Promises nothing."""


class Narrower(Base):
    promises: ClassVar[Promises] = msgspec.structs.replace(Base.promises, points=frozenset({ExtensionPoint.SCORE}))


def test_names_are_looked_up_on_plugins_in_the_loader_only():
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        where = path.relative_to(SOURCES).as_posix()
        if where in LOADERS or where in TEMPLATES or where.startswith("kube/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_call and node.func.id in ("getattr", "hasattr"):
                found.add((path.name, ast.unparse(node.args[0])))
    assert found == NOT_ON_PLUGINS


def test_every_form_has_its_place_in_the_record():
    fields = {field.name for field in msgspec.structs.fields(LoadedPlugin)}
    assert set(FORMS) == fields - {"name", "plugin", "promises"}
    assert all(form.methods for form in FORMS.values())


@pytest.mark.parametrize(
    ("kind", "counting"),
    [(Base, {"filter", "filter_columns", "filter_row"}), (Silent, {"filter", "filter_columns"}), (Narrower, set())],
)
def test_forms_count_with_their_promise_and_their_point(kind, counting):
    assert set(forms_of(kind)) == counting
    record = loaded(kind())
    assert {name for name in FORMS if getattr(record, name) is not None} == counting


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"promises": {}}, "has something else under the name of its promises"),
        ({"promises": Promises(filters_by_row=True)}, "promises filters_by_row, but has no method filter_row"),
        ({"promises": Promises(pre_score_has_version=True)}, "but has no method pre_score_version"),
        ({"reserve": print}, "has the method reserve but not unreserve"),
        ({"filter_columns": print}, "has the method filter_columns but not filter"),
        ({"normalize_score": print}, "has the method normalize_score but not score"),
        (
            {"pre_filter": print, "pre_filter_version": print},
            "pre_filter_version, which is not called as its own `promises` does not set pre_filter_has_version=True",
        ),
    ],
)
def test_what_contradicts_itself_is_told(members, fault):
    kind = type("Odd", (), {"name": "Odd", **members})
    (told,) = contradictions(kind)
    assert fault in told
    with pytest.raises(ContractError, match="Odd"):
        loaded(kind())


def test_a_class_that_answers_anew_does_not_go_on_answering_as_its_base_in_another_form():
    def answers(*_):
        """Answer otherwise."""

    by_node = type("ByNode", (Base,), {"filter": answers})
    (fault,) = contradictions(by_node)
    assert fault.startswith("has its own filter, but inherits filter_columns, which answers as its base class does")
    by_column = type("ByColumn", (Base,), {"filter": answers, "filter_columns": answers, "promises": Base.promises})
    assert ["inherits filter_row" in fault for fault in contradictions(by_column)] == [True]
    silent = type("Silent", (Base,), {"filter": answers, "filter_columns": answers})
    assert not list(contradictions(silent)), "what it inherits by row is not used: it does not promise it"


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_protocol_without_its_method_is_told_by_both_their_names(form):
    forgetful = type("Forgetful", (form.protocol,), {"name": "Forgetful"})
    assert list(contradictions(forgetful)) == [
        f"inherits {form.protocol.__name__}, but has no method {form.methods[0]}"
    ]
    assert not forms_of(forgetful)
    with pytest.raises(ContractError, match=f"Forgetful inherits {form.protocol.__name__}, but has no method"):
        loaded(forgetful())


def test_a_protocol_before_a_base_hides_the_methods_of_that_base():
    hides = type("Hides", (FilterPlugin, Base), {})
    assert "inherits FilterPlugin, but has no method filter" in contradictions(hides)
    shows = type("Shows", (Base, FilterPlugin), {})
    assert not list(contradictions(shows))
    assert set(forms_of(shows)) == {"filter", "filter_columns"}


def test_a_plugin_that_inherits_protocols_keeps_to_its_slots():
    bases = tuple(form.protocol for form in FORMS.values())
    slotted = type("Slotted", bases, {"name": "Slotted", "__slots__": ("_one",)})
    assert not hasattr(slotted(), "__dict__")


def test_a_column_form_of_scores_may_stand_alone():
    alone = type("Alone", (), {"name": "Alone", "score_columns": lambda self, state, pod, table, rows: None})
    assert not list(contradictions(alone))


def test_no_plugin_of_ours_contradicts_itself():
    todays = in_tree_registry()
    for registry in (todays, with_legacy_plugins(todays)):
        for name in registry.names:
            assert not list(contradictions(registry.factory(name))), name
