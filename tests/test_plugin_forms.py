"""The page about the forms of a plugin: its blocks run, all forms say the same, and the promises count.

The tables of this page and of docs/plugins.md name what the code has.
"""

import inspect
import random
import re
from itertools import pairwise

import msgspec
import numpy as np
import pytest

import berth.plugin
import berth.plugin.advanced
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework import interface
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.loaded import FORMS, forms_of
from berth.framework.promises import IN_TREE_PROMISES, NO_PROMISES, Dependency, Promises, promises_of
from berth.framework.registry import METHODS
from packages.scheduler.tests.plugins.support import handle_of
from packages.scheduler.tests.support import document
from tests.guests import guests
from tests.paths import DOCS

PAGE = DOCS / "plugin-forms.md"
IN_TREE = {form.protocol for form in FORMS.values() if form.promise in IN_TREE_PROMISES}


def code_of_the_page():
    """All blocks together: one file."""
    return "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))


@pytest.fixture(scope="module")
def page():
    names = {}
    exec(compile(code_of_the_page(), str(PAGE), "exec"), names)
    return names


def crowded(seed):
    """Six nodes with pods of two tenants, more or less full."""
    rng = random.Random(seed)
    nodes = [make_node(f"n{i}").capacity(cpu=str(rng.randint(1, 4)), memory="8Gi", pods=20) for i in range(6)]
    pods = [
        make_pod(f"p{i}").request(cpu=f"{rng.randint(1, 12)}00m").node(f"n{rng.randrange(6)}").labels(whose(rng))
        for i in range(8)
    ]
    new = make_pod("new").request(cpu=f"{rng.randint(1, 20)}00m").labels(whose(rng)).info()
    return handle_of(*(each.build() for each in (*nodes, *pods))), new


def whose(rng):
    return {"example.com/tenant": rng.choice(["red", "blue"])}


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["ColumnHeadroom", "OneTenant"])
def test_all_forms_say_the_same(page, kind, seed):
    handle, pod = crowded(seed)
    plugin, table, state = page[kind](None, handle), handle.cache.table, CycleState()
    rows = table.rows()
    plain = [plugin.filter(state, pod, table.view(row)) for row in rows.tolist()]
    column = plugin.filter_columns(state, pod, table, rows)
    assert [column.describe(code) if code else None for code in column.codes.tolist()] == plain
    whole = plugin.filter_columns(state, pod, table, slice(None))
    assert whole.codes[rows].tolist() == column.codes.tolist()


def test_both_answers_occur(page):
    said = set()
    for seed in range(30):
        handle, pod = crowded(seed)
        for kind in ("ColumnHeadroom", "OneTenant"):
            codes = page[kind](None, handle).filter_columns(CycleState(), pod, handle.cache.table, slice(None)).codes
            said |= {(kind, bool(code)) for code in np.unique(codes).tolist()}
    assert len(said) == 4


def test_each_class_has_the_forms_that_it_is_said_to_add(page):
    steps = ["Headroom", "KeptHeadroom", "ColumnHeadroom"]
    forms = [set(forms_of(page[name])) for name in steps]
    assert forms[0] == {"filter"}
    added = [after - before for before, after in pairwise(forms)]
    assert added == [{"signature"}, {"filter_columns"}]
    assert set(forms_of(page["OneTenant"])) == {"filter", "filter_columns", "signature", "filter_by_pods"}


def test_a_subclass_without_promises_has_only_what_needs_none(page):
    silent = type("Silent", (page["OneTenant"],), {})
    assert set(forms_of(silent)) == {"filter", "filter_columns", "signature"}


@pytest.mark.parametrize("kind", ["Headroom", "KeptHeadroom", "ColumnHeadroom"])
def test_the_plugin_decides_the_same_in_every_form(page, kind):
    nodes = (make_node("n1").capacity(cpu="2", memory="8Gi", pods=20), make_node("n2").capacity(cpu="1", memory="8Gi"))
    found = VirtualCluster(*nodes, config=document("Headroom"), plugins={"Headroom": page[kind]})
    for number in range(4):
        found.put(make_pod(f"p{number}").request(cpu="600m"))
    found.run()
    assert [found.core.cache.table.requested[0, row].item() for row in (0, 1)] == [1800, 600]
    pending = found.core.queue.find("default/p3")
    assert pending is None or pending.unschedulable_plugins


def column(page, title, cell):
    """The cells of one column of the table in a section, without its head; what is empty is as in the row before."""
    section = (DOCS / page).read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    cells = []
    for line in re.findall(r"^\|.*\|$", section, re.MULTILINE)[2:]:
        cells.append(line.split("|")[cell].strip() or cells[-1])
    return cells


def test_the_contract_for_others_has_no_form_of_berth_s_own_plugins_and_its_guests_use_none():
    own = {kind.__name__ for kind in IN_TREE}
    assert "RowFilterPlugin" in own
    assert not own & {*berth.plugin.__all__, *berth.plugin.advanced.__all__}
    registry = guests()
    for name in registry.names:
        made = msgspec.structs.asdict(promises_of(registry.factory(name)))
        assert [each for each in IN_TREE_PROMISES if made[each] != getattr(NO_PROMISES, each)] == [], name


def test_the_table_of_extension_points_has_every_method_of_the_contract_with_its_parameters():
    signatures = {
        name: ", ".join([*inspect.signature(method).parameters][1:])
        for kind in vars(interface).values()
        if isinstance(kind, type) and interface.Plugin in kind.__mro__ and kind not in IN_TREE
        for name, method in vars(kind).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    points = column("plugins.md", "Extension points", 1)
    methods = [re.findall(r"`(\w+)\((.*?)\)`", each) for each in column("plugins.md", "Extension points", 2)]
    assert sorted(method for row in methods for method in row) == sorted(signatures.items())
    expected = {f"{point[0].upper()}{point[1:]}": names for point, names in METHODS.items()}
    assert list(dict.fromkeys(points)) == [*expected, "any"]
    there = {(point, name) for point, row in zip(points, methods, strict=True) for name, _ in row}
    assert {(point, name) for point, names in expected.items() for name in names} <= there


def test_the_tables_of_promises_and_dependencies_name_all_there_are():
    named = [
        name
        for cell in column("plugin-forms.md", "What each promise means", 1)
        for name in re.findall(r"`(\w+)`", cell)
    ]
    assert sorted(named) == sorted({*Promises.__struct_fields__} - IN_TREE_PROMISES)
    dependencies = column("plugins.md", "What the answers depend on", 1)
    assert [each for each in dependencies if "Objects" not in each] == [f"`{each}`" for each in Dependency]


@pytest.mark.parametrize("page", ["plugins.md", "plugins-cookbook.md"])
def test_what_the_pages_name_of_the_handle_is_there(page):
    named = set(re.findall(r"\bhandle\.(\w+)", (DOCS / page).read_text()))
    assert named
    assert named <= set(dir(Handle))
