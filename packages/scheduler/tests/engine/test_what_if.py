"""What-ifs by column: which filters allow them, and that limits, codes and the plain form draw the same line."""

import numpy as np
import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.engine.verdicts import FilterPlan, FilterRunner, rejected_rows
from berth.engine.what_if import WhatIf
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FilterColumn, RowLoad
from berth.framework.loaded import loaded
from berth.framework.promises import Dependency, Promises
from berth.framework.status import unschedulable
from berth.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.views import Memory
from packages.scheduler.tests.plugins.support import handle_of

GPU = "example.com/gpu"


def fit_over(*nodes):
    handle = handle_of(*nodes)
    claimable = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}}
    assert isinstance(handle.objects, ObjectStore)
    handle.objects.put("DeviceClass", decode("DeviceClass", claimable))
    return NodeResourcesFit(NodeResourcesFitArgs(), handle), handle.cache.table


@pytest.mark.parametrize("taken", [0, 1, 2, 3, 4])
def test_limits_codes_and_the_plain_form_agree(taken):
    sizes = [{"cpu": "4", "pods": "9", GPU: "3"}, {"cpu": "4", "pods": "3"}, {"cpu": "2", "pods": "9", GPU: "1"}]
    plugin, table = fit_over(*(make_node(f"n{i}").capacity(size).build() for i, size in enumerate(sizes)))
    pod = make_pod("new").request({"cpu": "2", GPU: "2"}).info()
    rows, state = table.rows(), CycleState()
    here = np.full(len(rows), taken, dtype=np.int64)
    load = RowLoad(here, {"cpu": 1000 * here, GPU: here})
    limits = plugin.load_limits(state, pod, table, rows)
    within = load.pods <= limits.pods
    for resource in plugin.resources_read(pod):
        within &= load.requested[resource] <= limits.requested[resource]
    column = plugin.filter_loaded_columns(state, pod, table, rows, load)
    plain = []
    for row in rows.tolist():
        view = table.view(row)
        for index in range(taken):
            view = view.with_pod(make_pod(f"o{index}").request({"cpu": "1", GPU: "1"}).info())
        plain.append(plugin.filter(state, pod, view))
    assert within.tolist() == [status is None for status in plain]
    assert [column.describe(code) if code else None for code in column.codes.tolist()] == plain


def test_no_filter_is_asked_once_all_rows_are_rejected():
    """Under a load each answer is worked out when its turn comes."""

    def said():
        for plugin, codes in (("First", [1, 0]), ("Second", [0, 2])):
            yield plugin, FilterColumn(np.array(codes, dtype=np.int32), lambda code: unschedulable(str(code)))
        raise AssertionError("nobody is left to ask about")

    found = rejected_rows(np.ones(2, dtype=np.bool_), said())
    assert [(status.plugin, status.reasons, rows.tolist()) for status, rows in found] == [
        ("First", ("1",), [0]), ("Second", ("2",), [1]),
    ]  # fmt: skip


def a_filter(promises, **members):
    column = lambda self, state, pod, table, rows: None  # noqa: E731
    return type("F", (), {"name": "F", "promises": promises, "filter": column, "filter_columns": column, **members})()


NODE_ONLY = Promises(filter_depends_on=frozenset({Dependency.NODE}))
FOLLOWS_PODS = dict.fromkeys(("pre_filter", "add_pod", "remove_pod"), lambda *_: None)
ANY_POD = frozenset({Dependency.PODS_ANYWHERE})


@pytest.mark.parametrize(
    ("promises", "members", "possible"),
    [
        (NODE_ONLY, {}, True),
        (Promises(filter_depends_on=frozenset({Dependency.NODE, Dependency.ALL_NODES})), {}, True),
        (Promises(filter_depends_on=frozenset({Dependency.PODS_ON_NODE})), {}, False),
        (Promises(filter_depends_on=ANY_POD), {}, False),
        (
            Promises(filter_depends_on=ANY_POD, filters_by_affecting_pods=True),
            {"is_affected_by": lambda self, s, p, o: False},
            True,
        ),
        (NODE_ONLY, FOLLOWS_PODS, False),
        (Promises(), {}, False),
    ],
)
def test_only_filters_that_say_how_they_look_at_pods_are_asked_by_column(promises, members, possible):
    info = make_pod().info()
    memory = Memory(Cache(), ObjectStore(), Nominator())
    plan = FilterPlan(memory, [FilterRunner(loaded(a_filter(promises, **members)))], frozenset(), info)
    assert WhatIf(plan, memory, CycleState(), info).is_possible is possible
    with memory.switched(on=False):
        assert not WhatIf(plan, memory, CycleState(), info).is_possible


@pytest.mark.parametrize(
    ("members", "depends_on", "possible"),
    [
        ({"signature": lambda self, pod: ()}, frozenset({Dependency.NODE}), True),
        ({"signature": lambda self, pod: ()}, frozenset({Dependency.NODE, Dependency.UNKNOWN}), False),
        ({}, frozenset(), False),
    ],
    ids=["kept", "never kept", "without a signature"],
)
def test_a_filter_without_columns_is_asked_by_column_where_its_answers_are_kept(members, depends_on, possible):
    promises = Promises(filter_depends_on=depends_on) if depends_on else Promises()
    plain = type("F", (), {"name": "F", "promises": promises, "filter": lambda *_: None, **members})()
    info = make_pod().info()
    memory = Memory(Cache(), ObjectStore(), Nominator())
    plan = FilterPlan(memory, [FilterRunner(loaded(plain))], frozenset(), info)
    what_if = WhatIf(plan, memory, CycleState(), info)
    assert what_if.is_possible is possible
    assert (what_if.answers_key is not None) is possible, "then two pods of one key are told the same"
