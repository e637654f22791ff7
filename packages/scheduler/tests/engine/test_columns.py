"""Columns remember what they overwrite, and plans share those of plugins that read the same of their pods."""

import numpy as np
import pytest

from berth.core.builders import make_pod
from berth.engine.columns import JOURNAL_AT_MOST, ColumnSnapshot, DependencySet, PluginColumn, column_of
from berth.framework.promises import Dependency
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.views import Memory

SIZE = 400


class Asking:
    """A plugin's runner that reads the labels of pods, and nothing else."""

    row_form = None
    needs = DependencySet(frozenset({Dependency.NODE}), "Plugin")

    def signature(self, pod):
        return pod.label_key

    def snapshot(self, column, journal, repairs, extra):
        return ColumnSnapshot(column, journal, repairs)


def a_column():
    column = PluginColumn(Asking())
    column.set(np.zeros(SIZE, dtype=np.int64), None)
    return column


@pytest.mark.parametrize("rows_each", [1, 100])
def test_a_journal_is_never_much_larger_than_its_column_and_snapshots_stay(rows_each):
    column, taken = a_column(), []
    for number in range(1, 5 * JOURNAL_AT_MOST):
        taken.append((column.snapshot(), column.column.copy()))
        rows = np.arange(rows_each) + (number * rows_each) % SIZE
        column.repair(rows, np.full(rows_each, number), None)
        journal = column.snapshot().journal
        assert len(journal) <= JOURNAL_AT_MOST
        assert sum(len(changed) for changed, _ in journal) <= SIZE
    for snapshot, before in taken:
        assert (snapshot.values() == before).all()


def test_single_rows_are_noted_as_well_and_the_same_value_is_no_change():
    column, taken = a_column(), []
    for number in range(3 * JOURNAL_AT_MOST):
        taken.append((column.snapshot(), column.column.copy()))
        before = column.snapshot()
        assert column.repair_row(number % 7, number // 2) is bool(before.values()[number % 7] != number // 2)
        assert len(column.snapshot().journal) <= JOURNAL_AT_MOST
    for snapshot, before in taken:
        assert (snapshot.values() == before).all()


def test_a_snapshot_is_the_same_object_until_the_column_changes():
    column = a_column()
    first = column.snapshot()
    assert column.snapshot() is first
    assert not column.repair_row(3, 0) and column.snapshot() is first
    assert column.repair_row(3, 1) and column.snapshot() is not first


def test_pods_of_which_a_plugin_reads_the_same_share_a_column():
    memory, runner = Memory(Cache(), ObjectStore(), Nominator()), Asking()
    small, large, other = (
        make_pod().label("app", app).request(cpu=cpu).info() for app, cpu in (("a", "1"), ("a", "2"), ("b", "1"))
    )
    first = column_of(memory, runner, small)
    first.set(np.zeros(64, dtype=np.int64), None)
    first.changed_as_a_whole(memory)
    assert column_of(memory, runner, large) is first
    assert column_of(memory, runner, other) is not first
    assert column_of(memory, Asking(), small) is not first


def test_a_plugin_that_says_nothing_of_a_pod_is_asked_about_each():
    memory, runner = Memory(Cache(), ObjectStore(), Nominator()), Asking()
    runner.signature = lambda pod: None
    assert column_of(memory, runner, make_pod().info()) is None
    runner.signature = None
    assert column_of(memory, runner, make_pod().info()) is None
